"""Explains why a receiver's rate was what it was."""
