"""Ranks: one process per device, in lock step. The pool's parent decides, every rank obeys."""
