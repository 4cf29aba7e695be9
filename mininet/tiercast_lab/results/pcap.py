"""Captures: reads pcap files, of one direction of a link each, and joins those of a link into a
pcapng file with an interface for each direction, named as in rows of ports ("1>3").

The formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng."""

from __future__ import annotations

import heapq
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

ETHERNET = 1  # LINKTYPE_ETHERNET
FILE_HEADER = struct.Struct("<IHHiIII")
RECORD_HEADER = struct.Struct("<IIII")
FRACTION_NS = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}  # the unit of a time's fraction, by magic number


@dataclass(frozen=True, order=True)
class Frame:
    time_ns: int  # since the epoch, or in virtual time since the start of the run
    data: bytes = field(compare=False)  # from the Ethernet header on; possibly cut
    size: int = field(compare=False)  # bytes of the whole frame


def read_frames(path: Path) -> Iterator[Frame]:
    """The frames of a little-endian pcap file. It may still be being written: a frame whose end is
    not there is left out. Raises ValueError if it is no such file."""
    with path.open("rb") as file:
        header = file.read(FILE_HEADER.size)
        if len(header) < FILE_HEADER.size:
            return
        magic, *_, link_type = FILE_HEADER.unpack(header)
        if magic not in FRACTION_NS or link_type != ETHERNET:
            raise ValueError(f"{path}: no capture of Ethernet frames in little-endian pcap")
        while len(record := file.read(RECORD_HEADER.size)) == RECORD_HEADER.size:
            seconds, fraction, kept, size = RECORD_HEADER.unpack(record)
            data = file.read(kept)
            if len(data) < kept:
                return
            yield Frame(seconds * 10**9 + fraction * FRACTION_NS[magic], data, size)


class FrameCounter:
    """Counts the frames of a pcap file while it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = FILE_HEADER.size
        self._frames = 0

    def count(self) -> int:
        """The frames that are there by now."""
        with self._path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            while self._offset + RECORD_HEADER.size <= end:
                file.seek(self._offset)
                kept = RECORD_HEADER.unpack(file.read(RECORD_HEADER.size))[2]
                if self._offset + RECORD_HEADER.size + kept > end:
                    break
                self._offset += RECORD_HEADER.size + kept
                self._frames += 1
        return self._frames


def join(parts: Mapping[str, Path], snap_bytes: int, comment: str, to: Path) -> dict[str, int]:
    """Writes the frames of all parts, in the order of time, into one pcapng file. `parts` are pcap
    files by the name of their interface. Returns the number of frames of each. After an OSError
    there is no such file.

    If two frames have the same time, that of the first part is first."""
    counts = dict.fromkeys(parts, 0)
    try:
        with to.open("wb") as file:
            _write_head(file, list(parts), snap_bytes, comment)
            streams = [
                _of_interface(number, name, path)
                for number, (name, path) in enumerate(parts.items())
            ]
            for frame, number, name in heapq.merge(*streams):
                counts[name] += 1
                _write_frame(file, number, frame)
    except OSError:
        to.unlink(missing_ok=True)
        raise
    return counts


def _of_interface(number: int, name: str, path: Path) -> Iterator[tuple[Frame, int, str]]:
    for frame in read_frames(path):
        yield frame, number, name


# Types of blocks and options
SECTION, INTERFACE, FRAME = 0x0A0D0D0A, 1, 6
END_OF_OPTIONS, COMMENT, IF_NAME, IF_TSRESOL = 0, 1, 2, 9
NANOSECONDS = bytes([9])


def _write_head(file: BinaryIO, interfaces: list[str], snap_bytes: int, comment: str) -> None:
    unknown_length = -1
    options = _option(COMMENT, comment.encode()) + _option(END_OF_OPTIONS)
    _write_block(file, SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, unknown_length) + options)
    for name in interfaces:
        options = _option(IF_NAME, name.encode()) + _option(IF_TSRESOL, NANOSECONDS)
        body = struct.pack("<HHI", ETHERNET, 0, snap_bytes) + options + _option(END_OF_OPTIONS)
        _write_block(file, INTERFACE, body)


def _write_frame(file: BinaryIO, interface: int, frame: Frame) -> None:
    high, low = frame.time_ns >> 32, frame.time_ns & 0xFFFFFFFF
    head = struct.pack("<IIIII", interface, high, low, len(frame.data), frame.size)
    _write_block(file, FRAME, head + _padded(frame.data))


def _write_block(file: BinaryIO, kind: int, body: bytes) -> None:
    size = struct.pack("<I", 12 + len(body))
    file.write(struct.pack("<I", kind) + size + body + size)


def _option(code: int, value: bytes = b"") -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)
