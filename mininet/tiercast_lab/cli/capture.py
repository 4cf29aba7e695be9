"""The options of `tiercast run` that capture links."""

from __future__ import annotations

from typing import Annotated

import typer
from tiercast_controller.base import units

from tiercast_lab.base.errors import InputError
from tiercast_lab.run.capture_options import MAX_BYTES, MIN_MAX_BYTES, SNAP_BYTES, CaptureOptions

Capture = Annotated[
    list[str] | None,
    typer.Option(
        "--capture",
        metavar="LINK",
        help="Capture a link, such as 1-3, into captures/1-3.pcapng; repeatable.",
    ),
]
CaptureBytes = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Most bytes captured of each direction, such as 10MB.  [100MB]"
    ),
]
CaptureSnaplen = Annotated[
    int | None,
    typer.Option(
        min=42, max=65535, help="Bytes kept of each frame.  [576, which holds every header]"
    ),
]


def capture_options(
    links: list[str] | None, max_bytes: str | None, snap_bytes: int | None
) -> CaptureOptions:
    """Raises InputError."""
    if not links:
        for name, given in (("--capture-bytes", max_bytes), ("--capture-snaplen", snap_bytes)):
            if given is not None:
                raise InputError(f"{name}: nothing is captured; valid: with --capture LINK")
        return CaptureOptions()
    try:
        size = MAX_BYTES if max_bytes is None else units.parse_size(max_bytes)
    except ValueError as error:
        raise InputError(f"--capture-bytes: {error}") from None
    if size < MIN_MAX_BYTES:
        raise InputError(f"--capture-bytes: {max_bytes}; valid: 1kB to 1000MB")
    return CaptureOptions(tuple(links), size, snap_bytes or SNAP_BYTES)
