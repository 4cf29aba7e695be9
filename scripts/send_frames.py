"""Sends frames of 60 bytes from standard input out of an interface, on a schedule.

usage: send_frames.py INTERFACE FRAMES_PER_S < frames

It is a process of its own, so that it does not share Python's lock with what it measures. Prints
the rate that it kept.
"""

from __future__ import annotations

import socket
import sys
import time

SIZE = 60


def main(interface: str, per_s: float) -> None:
    data = sys.stdin.buffer.read()
    frames = [data[at : at + SIZE] for at in range(0, len(data), SIZE)]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((interface, 0))
        start = time.monotonic()
        for number, frame in enumerate(frames):
            ahead = start + number / per_s - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            raw.send(frame)
        print((len(frames) - 1) / (time.monotonic() - start))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
