"""Runs an experiment in virtual time, in tiercast-ns3."""
