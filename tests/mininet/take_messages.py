"""Takes from standard input what the lab tells a simulator first: the scenario and the switches'
first entries, each behind its length, and nothing more."""

import sys

MESSAGES = 2


def take(count: int) -> bytes:
    taken = sys.stdin.buffer.raw.read(count)
    while len(taken) < count:
        taken += sys.stdin.buffer.raw.read(count - len(taken)) or sys.exit("the lab is gone")
    return taken


for _ in range(MESSAGES):
    length = shift = 0
    more = True
    while more:
        (byte,) = take(1)
        length |= (byte & 127) << shift
        shift += 7
        more = byte > 127
    take(length)
