"""tiercast_lab: experiments as data, run in Mininet, measured, judged, plotted and reported."""

__version__ = "0.1.0"
