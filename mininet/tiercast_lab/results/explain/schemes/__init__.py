"""One module per scheme, found by its name. Its `explanation` turns a Snapshot into lines of
text."""
