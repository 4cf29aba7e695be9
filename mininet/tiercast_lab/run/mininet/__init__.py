"""Runs an experiment in real time, in network namespaces."""
