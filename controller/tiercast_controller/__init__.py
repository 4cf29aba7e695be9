"""The tiercast controller: programs every switch over P4Runtime, builds multicast trees from IGMP,
and serves the agents."""

import os

# Otherwise gRPC would report each connection that a switch, or a run at its end, closes.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
