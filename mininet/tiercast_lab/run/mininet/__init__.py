"""A run in real time, in network namespaces."""
