"""Cases in fresh worker processes: launches, deadlines, crash isolation, progress, records."""
