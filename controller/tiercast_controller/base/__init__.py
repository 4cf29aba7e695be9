"""Helpers that any part of the controller, and the lab, may use."""
