"""A compiled program by its names, the entities written to a switch, and a client for it."""
