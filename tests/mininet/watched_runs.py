"""Runs whose rows are known and come when a test says so, and a server of `tiercast watch`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.results import storage
from tiercast_lab.results.recorder import Recorder, finish_rows
from tiercast_lab.results.storage import RunFolder
from tiercast_lab.watch import server

from ..patience import wait_until
from .conftest import begun, record_port

IP_BYTES, ETHERNET = 1000, 14
PACKETS = {"0>1": 250, "1>3": 125, "1>4": 125}  # a second, which is 2, 1 and 1 Mbit/s
RATES = {3: 1e6, 4: 1e6}  # bit/s received, by node


class KnownRun:
    """A run of conftest's SMALL: in every second 1>3, which has 1 Mbit/s, is full, its longest
    queue is 20 packets and one more each second, and it marks 7 packets and drops 3."""

    def __init__(self, results: Path, loaded: LoadedExperiment) -> None:
        self.folder = RunFolder(results, loaded.experiment.name)
        self.summary = begun(loaded, self.folder.path)
        self.folder.make(self.summary)
        self.folder.let_go()
        self.recorder = Recorder(self.folder.rows)

    @property
    def name(self) -> str:
        return self.folder.path.name

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        self.folder.hold()
        try:
            yield
        finally:
            self.folder.let_go()

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """The run is under way while this is entered, and then ends."""
        with self.under_way():
            with self.recorder:
                yield
            finish_rows(self.folder.rows)
            end = {"verdict": "met", "reasons": [], "complaints": []}
            self.folder.write("summary.json", self.summary | storage.unfinished("") | end)

    def second(self, end: int) -> None:
        """Adds the rows of the second that ends then."""
        for tick in range(1, 6):
            t = end - 1 + tick / 5
            for node, rate in RATES.items():
                octets = rate / 8 * t
                counts = {"packets": octets / IP_BYTES, "lost": 0.0, "marked": 0.0}
                self.recorder.add("received", t, f"h{node}", {"bytes": octets, **counts})
            for rank in range(2):
                sent = {"rank": rank, "rate_Bps": 125_000.0, "sent_bytes": 125_000.0 * t}
                self.recorder.add("layer", t, "h0", sent)
        if end == 1:
            for node in (3, 4, 5, 6):
                self.recorder.add("subscription", 0.1, f"h{node}", {"top": 0})
        if end == 5:
            self.recorder.add("subscription", 4.5, "h4", {"top": 1})
        for link, packets in PACKETS.items():
            counts = {"left": packets * end}
            if link == "1>3":
                counts |= {"marked": 7 * end, "queue_drops": 3 * end}
            octets = (IP_BYTES + ETHERNET) * packets * end
            longest = 20.0 + end if link == "1>3" else 0.0
            more = {"tx_bytes": octets, "max_queue_packets": longest}
            record_port(self.recorder, float(end), link, {(1, 0): counts}, **more)

    def seconds(self, first: int, last: int) -> None:
        for end in range(first, last + 1):
            self.second(end)


@contextlib.contextmanager
def serving(results: Path, named: str = "127.0.0.1") -> Iterator[str]:
    """Serves the runs in a folder on the loopback device, for requests as if it listened at
    `named`, and gives the address."""
    with server.listening("127.0.0.1", 0) as place:
        served = server.server_of(server.application(results, server.hosts_of(named)))
        thread = threading.Thread(target=served.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        wait_until(lambda: served.started, "the server has started")
        try:
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            served.should_exit = True
            thread.join()
