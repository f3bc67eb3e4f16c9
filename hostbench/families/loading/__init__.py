"""loading: is the device fed, or does it wait for data."""
