"""Helpers that every other package of the lab may use."""
