"""Reads and checks an experiment's YAML, and builds the network that it describes."""
