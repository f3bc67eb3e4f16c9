"""One file per page: choose, stop early, load, derive, draw."""
