"""A module for each scheme, by its name: `explanation`, a function from a Look to lines of text."""
