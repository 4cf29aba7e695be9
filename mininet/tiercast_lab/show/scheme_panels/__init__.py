"""A module for each scheme with panels of its own, by its name: `main_panels` of a stored run."""
