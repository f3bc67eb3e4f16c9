"""The decorator of a workload, and how one case is measured in one launch."""
