"""python -m tiercast_controller CONFIG: runs the controller against the switches in a YAML file."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiercast_controller.agents.lab import Agent
from tiercast_controller.agents.records import Record
from tiercast_controller.base.errors import ConfigurationError, ControllerError
from tiercast_controller.base.installation import VERSION
from tiercast_controller.base.tls import Access
from tiercast_controller.config import EXAMPLE, Config
from tiercast_controller.controller import Event

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tiercast_controller",
        description="Loads the P4 program and routes into every switch, grows multicast trees from "
        "IGMP reports, and serves agents. Events and telemetry go to standard output, one JSON "
        "object a line, until SIGINT or SIGTERM.",
        epilog=f"an example of CONFIG:\n\n{EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tiercast_controller {VERSION}")
    parser.add_argument("config", type=Path, metavar="CONFIG", help="YAML file")
    parser.add_argument(
        "--tls",
        type=Path,
        metavar="FOLDER",
        help="of `tiercast keys`: TLS for the lab's address and towards switches, if on TCP",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="serve the lab's address on TCP without TLS"
    )
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning"])
    options = parser.parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(levelname)s %(message)s")
    try:
        asyncio.run(_run(Config.load(options.config), Access(options.tls, options.insecure)))
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_INPUT
    except ControllerError as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    return 0


async def _run(config: Config, access: Access) -> None:
    controller = config.controller(_print_records, _print_event, access)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        await controller.start()
        controller.start_sessions()
        _print_event(Event(time.monotonic_ns(), "ready", {}))
        waiting: asyncio.Future[Any] = asyncio.create_task(ended.wait())
        await asyncio.wait({waiting, controller.failed}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if controller.failed.done():
            await controller.failed
    finally:
        await controller.stop()


def _print_event(event: Event) -> None:
    print(json.dumps({"time_ns": event.time_ns, "kind": event.kind, **event.fields}), flush=True)


async def _print_records(agent: Agent, records: Sequence[Record]) -> None:
    for r in records:
        line = {"time_ns": r.time_ns, "agent": agent.name, "kind": r.kind, **r.fields}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
