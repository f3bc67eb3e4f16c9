"""The detector of changes. Frozen: the figures in docs/judgement.md are those of this code."""
