"""The tiercast controller: programs every switch over P4Runtime, builds multicast trees from IGMP,
and serves the agents."""
