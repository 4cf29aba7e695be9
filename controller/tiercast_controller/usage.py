"""Examples of the controller on its own, for its help and for that of `tiercast`."""

from __future__ import annotations

EXAMPLES = ("network.yaml", "network.yaml --tls lab-keys --standby")  # behind the command
