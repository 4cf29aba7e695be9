"""Competing traffic: the programs at both ends of a `traffic` entry. They use only the standard
library, so that they start fast."""
