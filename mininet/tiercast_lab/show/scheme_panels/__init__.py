"""One module for each scheme with panels of its own, found by its name. Its `main_panels` takes a
stored run."""
