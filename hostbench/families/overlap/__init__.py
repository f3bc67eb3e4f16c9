"""overlap: does copying hide behind computing, and by how much."""
