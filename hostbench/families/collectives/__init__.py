"""collectives: what it costs to add up one buffer over ranks, each with a device of its own."""
