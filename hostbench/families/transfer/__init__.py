"""transfer: what one copy between host and device costs, and whether the call waits for it."""
