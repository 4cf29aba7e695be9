"""Benchmarks of devices by RFC 2544 and RFC 3918: `tiercast bench`."""
