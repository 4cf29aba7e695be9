"""Stores runs, judges them and explains them."""
