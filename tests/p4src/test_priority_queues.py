"""Two queues of a port by strict priority: tiercast-switch beside bmv2's priority queues.

bmv2 gives each queue a rate of its own, so that two of them send twice the link's. What can be
compared exactly is a port that stands still until all packets have arrived, and then lets them go:
their order, and how many each found waiting, which threshold marking shows.
"""

import random
from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from tiercast.v1 import lab_pb2, queue_pb2

from .. import bmv2
from ..patience import PATIENCE_S, wait_until
from .conftest import SLOW_PORT, RunningSwitch, cli, require_root
from .test_switches import unicast

pytestmark = pytest.mark.slow

CLASSIC, L4S, CE = 2, 1, 3  # ECN fields: ECT(0), ECT(1)
PRIMERS = 12  # of each queue of bmv2, which sends one a second of each
GROUP = 10  # frames that bmv2 takes at once
THRESHOLD = 18  # packets
PACKETS = 60
PRIMER = 60_000  # the identification of a primer
TRIALS = 5


@pytest.fixture(scope="module", params=["tiercast-switch", "bmv2"])
def two_queues(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[RunningSwitch]:
    require_root()
    is_bmv2 = request.param == "bmv2"
    folder = tmp_path_factory.mktemp("two_queues")
    options = ["--priority-queues", "2"] if is_bmv2 else []
    switch = RunningSwitch(request.param, folder, options=options)
    try:
        if not is_bmv2:
            strict = queue_pb2.PriorityQueues(queues=2, low_share=0)
            link = lab_pb2.SetLinkRequest(port=SLOW_PORT, priority_queues=strict)
            switch.lab.SetLink(link, timeout=PATIENCE_S)
        switch.insert("ipv4_host", {"hdr.ipv4.dst_addr": 0x0A000102}, "forward",
                      {"port": SLOW_PORT, "dst_mac": 0x020000000102})  # fmt: skip
        for ecn in (L4S, CE):
            switch.insert("queue_class", {"ecn": ecn}, "set_priority", {"queue_priority": 1})
        yield switch
    finally:
        switch.close()


def departures(switch: RunningSwitch, classes: list[int]) -> tuple[int, list[tuple[int, int]]]:
    """Sends packets of these ECN fields while the port stands still. Returns how many primers
    waited in each queue before them, and the number and ECN field of each packet in the order in
    which they left."""
    frames = [unicast(number, ecn) for number, ecn in enumerate(classes)]
    primers = [unicast(PRIMER, ecn) for ecn in (L4S, CLASSIC)]
    if switch.kind == "bmv2":
        for _ in range(TRIALS):
            waiting = _send_to_bmv2(switch, PRIMERS * primers, frames)
            left = switch.receive(SLOW_PORT, 2 * PRIMERS + len(frames), timeout=2)
            if waiting is not None:
                break
        assert waiting is not None, f"in {TRIALS} trials a primer left while frames arrived"
    else:
        waiting = 1
        switch.burst([primers[0], *primers, *frames])  # the first one is being sent
        left = switch.receive(SLOW_PORT, 3 + len(frames))
    packets = [Ether(frame)[IP] for frame in left]
    return waiting, [(packet.id, packet.tos & 3) for packet in packets if packet.id != PRIMER]


def _send_to_bmv2(switch: RunningSwitch, primers: list[bytes], frames: list[bytes]) -> int | None:
    """bmv2 sets a packet's departure when it enters a queue: 1/rate after the one before it, or now
    if that is later. At a rate without limit all leave with the last primer. Returns how many
    primers of each queue waited from the first frame to the last; None if one left meanwhile."""
    cli(switch, bmv2.CLI, f"set_queue_rate 1 {SLOW_PORT}\n")
    arrived, left = sum(switch.ingress(2)), sum(switch.egress(SLOW_PORT))
    switch.send(2, *primers)
    cli(switch, bmv2.CLI, f"set_queue_rate 0 {SLOW_PORT}\n")
    before = sum(switch.egress(SLOW_PORT)) - left
    arrived += len(primers)
    for first in range(0, len(frames), GROUP):
        group = frames[first : first + GROUP]
        switch.send(2, *group)
        arrived += len(group)
        wait_until(lambda n=arrived: sum(switch.ingress(2)) == n, "all have come")
    after = sum(switch.egress(SLOW_PORT)) - left
    return (len(primers) - before) // 2 if before == after < len(primers) else None


def test_strict_priority_and_own_depths_are_as_bmv2s(two_queues: RunningSwitch) -> None:
    """RFC 9332's L4S packets leave first, each queue in the order of arrival. A packet finds those
    of its own queue waiting, and is marked if they are more than the threshold."""
    draw = random.Random(9332)
    classes = [draw.choice((CLASSIC, L4S)) for _ in range(PACKETS)]
    with two_queues.policy("threshold_marking", threshold=THRESHOLD):
        waiting, left = departures(two_queues, classes)
    expected = []
    for of_queue in (L4S, CLASSIC):
        numbers = [number for number, ecn in enumerate(classes) if ecn == of_queue]
        expected += [
            (number, CE if found > THRESHOLD else of_queue)
            for found, number in enumerate(numbers, waiting)
        ]
    assert left == expected
