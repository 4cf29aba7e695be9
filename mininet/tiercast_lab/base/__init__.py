"""What every other part of the lab may use."""
