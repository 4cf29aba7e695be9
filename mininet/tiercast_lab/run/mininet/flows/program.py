"""The ends of a run's flows, as a program: all that send, or all that receive.

One program has the ends of all hosts, with sockets in their namespaces: a program for each would
cost memory, and CPU that the emulation needs, even while it waits.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
from pathlib import Path

from tiercast_lab.run.mininet.flows import tcp, udp
from tiercast_lab.run.mininet.flows.end import End, Options
from tiercast_lab.run.mininet.flows.loop import Loop

ENDS: dict[tuple[str, str], type[End]] = {
    ("tcp", "send"): tcp.Sender,
    ("tcp", "receive"): tcp.Receiver,
    ("udp", "send"): udp.Sender,
    ("udp", "receive"): udp.Receiver,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="flows", description=__doc__)
    parser.add_argument("name", help="of this program in its rows")
    parser.add_argument("lab", help="the lab's Unix socket")
    parser.add_argument("ends", type=Path, help="JSON, as Options.write writes it")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not sys.exit: its exception would be ignored if the signal came inside a destructor.
        signal.signal(number, lambda *_: os._exit(0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a socket for each flow
    try:
        loop = Loop(arguments.name, arguments.lab)
        for one in json.loads(arguments.ends.read_text()):
            options = Options.read(one)
            ENDS[options.kind, options.role](options, loop)
        loop.run()
    except OSError as error:
        sys.exit(f"flows: {error}")
