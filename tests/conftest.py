"""Settings for all tests, and their order."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import tiercast_controller  # noqa: F401 (gRPC is to report errors alone)
from hypothesis import HealthCheck, settings

# A shell that puts the tests into the background has its programs ignore Ctrl-C, which tests send.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example that takes long on a busy machine is no failure. The default deadline is 200 ms.
settings.register_profile("tiercast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tiercast")

# What a test says whose run was invalid, and where pytest's cache has the names of such tests.
KEPT_UP_NOT = "the machine could not keep up"
CROWDED = "tiercast/crowded"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--crowded", action="store_true",
        help="only tests whose real run was invalid the last time: others may have run beside it",
    )  # fmt: skip


@pytest.hookimpl(trylast=True)  # after -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("crowded"):
        crowded = config.cache.get(CROWDED, [])
        others = [one for one in items if one.nodeid not in crowded]
        items[:] = [one for one in items if one.nodeid in crowded]
        config.hook.pytest_deselected(items=others)
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = deal(items, workers)


def deal(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in the order in which xdist gives each worker its share (a stretch of them): slow
    ones first, as many to each worker, so that none waits for another's last one. Those that share
    a module's fixture stay together."""
    slow: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "slow" in item.keywords:
            together = item.nodeid if shares_nothing(item) else str(item.path)
            slow.setdefault(together, []).append(item)
    hands: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for group in slow.values():
        min(hands, key=len).extend(group)
    quick = [item for item in items if "slow" not in item.keywords]
    dealt: list[pytest.Item] = []
    for left in range(workers, 0, -1):
        share = (len(items) - len(dealt)) // left
        hand = hands.pop()
        dealt += hand
        dealt += quick[: max(0, share - len(hand))]
        del quick[: max(0, share - len(hand))]
    return dealt + quick


def shares_nothing(item: pytest.Item) -> bool:
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009
    return all(one.scope not in {"module", "class"} for defs in fixtures for one in defs)


class Crowded:
    """Remembers which real runs were invalid."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.found = config, list[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and KEPT_UP_NOT in str(report.longrepr):
            self.found.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.config.cache.set(CROWDED, self.found)


def pytest_configure(config: pytest.Config) -> None:
    # xdist's workers report to the first process.
    if not hasattr(config, "workerinput") and config.pluginmanager.has_plugin("cacheprovider"):
        config.pluginmanager.register(Crowded(config))


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `tiercast keys`."""
    from tiercast_lab.base.certificates import make_keys

    folder = tmp_path_factory.mktemp("authority") / "keys"
    make_keys(folder, ["lab.example"], days=2)
    return folder
