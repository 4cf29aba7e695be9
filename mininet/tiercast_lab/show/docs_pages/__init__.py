"""Pages of docs/ that are written from stored runs."""
