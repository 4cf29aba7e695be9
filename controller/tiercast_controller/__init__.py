"""The tiercast controller: P4Runtime to every switch, multicast trees from IGMP, agents' server."""
