"""A module for each scheme, by its name: `explanation` turns a Snapshot into lines of text."""
