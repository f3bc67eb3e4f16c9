"""asv's results tree and the run archive as one tidy frame. Sole owner of asv's file format."""

TRIAGE_STATES = ("accepted", "expected", "noise", "investigating")
"""What people say of an event. Here, for the command line imports nothing that reads files."""
