"""Runs one experiment, from its description to its verdict, in Mininet or in ns-3."""
