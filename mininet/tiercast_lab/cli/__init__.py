"""The commands of `tiercast`."""
