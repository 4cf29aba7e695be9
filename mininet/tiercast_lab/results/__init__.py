"""What is kept of a run, how it is judged, and what it says."""
