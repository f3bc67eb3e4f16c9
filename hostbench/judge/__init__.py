"""Judging: pure functions on numbers. Compare, changes, causes."""
