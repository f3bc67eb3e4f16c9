"""asv's results tree and the run archive as one tidy frame. Sole owner of asv's file format."""
