"""Competing traffic: the programs of a run's TCP and UDP flows. They use only the standard library,
so that they start fast."""
