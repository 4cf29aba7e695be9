"""tiercast_lab: experiments as data, run in Mininet, measured, judged, plotted and reported."""
