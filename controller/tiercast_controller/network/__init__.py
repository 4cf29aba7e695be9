"""The network as a run is told of it, and what follows from it alone for each switch. Pure."""
