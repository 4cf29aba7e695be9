"""A run in virtual time, in tiercast-ns3."""
