"""`tiercast controller CONFIG`: runs the controller against the switches in a YAML file. It needs
nothing of the lab: `python -m tiercast_controller` does the same where PYTHONPATH leads to it."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tiercast_controller.agents.records import Batch
from tiercast_controller.base.errors import ConfigurationError, ControllerError, NotPrimaryError
from tiercast_controller.base.installation import VERSION
from tiercast_controller.base.tls import Access
from tiercast_controller.config import EXAMPLE, Config
from tiercast_controller.controller import Controller, Event
from tiercast_controller.usage import EXAMPLES

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None, program: str = "tiercast_controller") -> int:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Loads the P4 program and routes into every switch, grows multicast trees from "
        "IGMP reports, and serves agents, until SIGINT or SIGTERM. Events go to standard output, "
        "one JSON object a line, and so does telemetry unless CONFIG names a file for it.",
        epilog="\n".join(["Examples:", *(f"  {program} {one}" for one in EXAMPLES)])
        + f"\n\nan example of CONFIG:\n\n{EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{program} {VERSION}")
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
    parser.add_argument(
        "--standby",
        action="store_true",
        help="wait until no switch has a primary, then take over; wait again if another controller "
        "takes over. Without it, this controller takes over at once",
    )
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning"])
    options = parser.parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(levelname)s %(message)s")
    try:
        access = Access(options.tls, options.insecure)
        asyncio.run(_run(Config.load(options.config), access, options.standby))
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_INPUT
    except ControllerError as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    return 0


async def _run(config: Config, access: Access, standby: bool) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    while not ended.is_set():
        try:
            await _serve(config, access, standby, ended)
        except NotPrimaryError as error:
            if not standby:
                raise
            logging.warning("%s", error)


async def _serve(config: Config, access: Access, standby: bool, ended: asyncio.Event) -> None:
    """Returns when `ended` is set. Raises NotPrimaryError if another controller takes over."""
    controller = config.controller(_print_records, _print_event, access)
    work = asyncio.create_task(_start(controller, standby))
    waiting = asyncio.create_task(ended.wait())
    was_told = False
    try:
        await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
            either: set[asyncio.Future[Any]] = {waiting, controller.failed}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if controller.failed.done():
                await controller.failed
        was_told = True
    finally:
        for task in (work, waiting):
            task.cancel()
        await asyncio.gather(work, waiting, return_exceptions=True)
        # Who is displaced, or fails, leaves the agents to the controller that comes.
        await controller.stop(ends_agents=was_told)


async def _start(controller: Controller, standby: bool) -> None:
    if standby:
        await controller.stand_by()
    await controller.start()
    controller.start_sessions()
    _print_event(Event(time.monotonic_ns(), "ready", {}))


def _print_event(event: Event) -> None:
    print(json.dumps({"time_ns": event.time_ns, "kind": event.kind, **event.fields}), flush=True)


async def _print_records(batch: Batch, written: Callable[[], None]) -> None:
    print(batch.lines().decode(), end="", flush=True)
    written()


if __name__ == "__main__":
    sys.exit(main())
