"""An experiment as data: what a YAML may say, read and checked, and the network it asks for."""
