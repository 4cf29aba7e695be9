"""One end of the flows of a `traffic` entry, as a program."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from tiercast_lab.base.lengths import Length
from tiercast_lab.run.mininet.flows import tcp, udp
from tiercast_lab.run.mininet.flows.end import End


def main() -> None:
    ends: dict[tuple[str, str], type[End]] = {
        ("tcp", "send"): tcp.Sender,
        ("tcp", "receive"): tcp.Receiver,
        ("udp", "send"): udp.Sender,
        ("udp", "receive"): udp.Receiver,
    }
    parser = argparse.ArgumentParser(prog="flows", description=__doc__)
    parser.add_argument("kind", choices=("tcp", "udp"))
    parser.add_argument("role", choices=("send", "receive"))
    parser.add_argument("--name", required=True, help="of this program in its rows")
    parser.add_argument("--lab", required=True, help="the lab's Unix socket")
    parser.add_argument("--flow", nargs=2, metavar=("NAME", "PORT"), action="append", required=True)
    parser.add_argument("--address", required=True, help="of this host")
    parser.add_argument("--peer", help="address of the receiving host")
    parser.add_argument("--packet-size", type=int, default=1000, help="IP bytes of a full packet")
    parser.add_argument("--congestion-control", default="reno")
    parser.add_argument("--window", type=int, default=0, help="largest of TCP, packets; 0: none")
    parser.add_argument("--rate", type=int, default=0, help="of each UDP flow, IP bits/s")
    parser.add_argument("--ecn", type=int, default=0, help="codepoint of UDP's packets (RFC 3168)")
    parser.add_argument("--on", type=Length.parse, help="as Length.text writes it")
    parser.add_argument("--off", type=Length.parse)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=float, default=0.0, help="s after the run's start")
    parser.add_argument("--stop", type=float, required=True, help="s after the run's start")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not sys.exit: its exception would be ignored if the signal came inside a destructor.
        signal.signal(number, lambda *_: os._exit(0))
    try:
        ends[options.kind, options.role](options).run()
    except OSError as error:
        sys.exit(f"flows: {error}")
