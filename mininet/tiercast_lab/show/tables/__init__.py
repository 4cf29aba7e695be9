"""Results as tables in the terminal."""
