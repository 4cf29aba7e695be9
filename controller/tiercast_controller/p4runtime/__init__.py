"""A compiled program by its names, what is written to a switch, and a switch's client."""
