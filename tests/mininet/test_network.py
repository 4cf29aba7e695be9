"""Namespaces and processes of a run are made, watched, and gone afterwards (root)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiercast_controller.base.units import Queue
from tiercast_lab.base.errors import Interrupted, RunFailed
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.topology import LinkParameters, Topology, tree_links
from tiercast_lab.run.mininet.network import NamespaceNode, Network, hidden_queues
from tiercast_lab.run.mininet.processes import Children

from ..checkout import ROOT
from ..patience import wait_until

# Runs that only this process uses: other tests may run on the same machine.
RUN, OTHER, DIES = (f"{letter}{os.getpid() % 1000:03d}" for letter in "tod")
TOPOLOGY = Topology(
    dict.fromkeys(tree_links(1, 2), LinkParameters(10**6, 0, Queue(10))), [0], [1, 2]
)


@pytest.fixture
def network():
    network = Network(TOPOLOGY, RUN)
    try:
        network.build(lambda: None)
        yield network
    finally:
        network.remove()


def shells(run: str) -> str:
    return subprocess.run(
        ["pgrep", "-fa", f"mininet:{run}-"], capture_output=True, text=True
    ).stdout


def test_nodes_are_configured(network: Network) -> None:
    described = network.describe()
    assert sorted(described) == ["h0", "h1", "h2", "s0"]
    assert hidden_queues(described) == []
    assert list(described["s0"]["interfaces"]) == [f"{RUN}-s0p{port}" for port in (1, 2, 3)]
    for facts in described.values():
        assert not {"tcp-segmentation-offload", "generic-receive-offload"} & set(
            facts["offloads_on"]
        )
        assert facts["sysctls"]["net.ipv6.conf.all.disable_ipv6"] == "1"
    neighbours = network.nodes["h1"].run("ip", "neighbour", "show", "nud", "permanent")
    assert f"10.0.1.1 dev {RUN}-h1p1 lladdr 02:00:00:01:00:01" in neighbours


def test_switches_of_one_process_share_a_namespace() -> None:
    """A link in memory has no interfaces; one that is listened to keeps its own."""
    links = dict.fromkeys([(0, 1), (1, 2), (2, 3)], LinkParameters(10**6, 0, Queue(10)))
    network = Network(Topology(links, [0], [3]), RUN, in_memory=["0-1"])
    try:
        network.build(lambda: None)
        assert network.nodes["s0"] is network.nodes["s1"] is network.nodes["s2"]
        described = network.describe()
        assert sorted(described) == ["h0", "h3", "switches"]
        ends = [f"{RUN}-{name}" for name in ("s0p2", "s1p2", "s2p1", "s2p2")]
        assert sorted(described["switches"]["interfaces"]) == ends
        assert hidden_queues(described) == []
        network.nodes["s2"].run("ip", "link", "delete", f"{RUN}-s2p2")
        with pytest.raises(RunFailed, match=f"{RUN}-s2p2 of s2, {RUN}-h3p1 of h3"):
            network.check()
    finally:
        network.remove()
    assert shells(RUN) == ""


def test_a_second_queue_is_seen(network: Network) -> None:
    network.nodes["s0"].run("tc", "qdisc", "add", "dev", f"{RUN}-s0p1", "root", "pfifo")
    assert network.hidden_queues() == [f"s0: {RUN}-s0p1 has qdisc pfifo"]


def test_only_what_was_made_is_removed() -> None:
    other = Network(TOPOLOGY, OTHER)
    network = Network(TOPOLOGY, RUN)
    try:
        other.build(lambda: None)
        network.build(lambda: None)
        network.remove()
        assert shells(RUN) == ""
        assert len(shells(OTHER).splitlines()) == 4
        assert f"{OTHER}-s0p1" in other.nodes["s0"].run("ip", "link", "show")
    finally:
        network.remove()
        other.remove()
    assert shells(OTHER) == ""


def test_a_node_costs_two_programs_and_a_link_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """So 70 hosts start and stop in seconds (docs/performance.md). What the programs start is not
    counted: `ip` and `sysctl` once for each node, `ethtool` once for each interface."""
    started = []

    class Counted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: object, **options: object) -> None:
            started.append(arguments)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", Counted)
    monkeypatch.setattr("mininet.node.Popen", Counted)
    topology = Topology(
        dict.fromkeys(tree_links(2, 4), LinkParameters(10**6, 0, Queue(10))), [0], range(5, 21)
    )
    nodes = len(topology.switches) + len(topology.hosts)
    network = Network(topology, RUN)
    try:
        network.build(lambda: None)
        assert len(started) == 2 * nodes == 44
    finally:
        network.remove()
    assert len(started) == 2 * nodes + len(topology.links) == 65
    assert shells(RUN) == ""


def test_interrupted_build_leaves_nothing() -> None:
    network = Network(TOPOLOGY, RUN)
    calls = 0
    with Interrupt() as interrupt:

        def checkpoint() -> None:
            nonlocal calls
            calls += 1
            if calls == 6:  # in the middle of the links
                os.kill(os.getpid(), signal.SIGTERM)
            interrupt.check()

        with pytest.raises(Interrupted, match="SIGTERM"):
            try:
                network.build(checkpoint)
            finally:
                network.remove()
    assert shells(RUN) == ""


def test_a_shell_that_a_signal_ends_at_its_start_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C reaches it, too, before it has left the terminal. SIGKILL is what nobody ignores."""
    popen = NamespaceNode._popen

    def hit(node: NamespaceNode, command: list[str], **options: object) -> subprocess.Popen[bytes]:
        return popen(node, ["sh", "-c", "kill -KILL $$"], **options)

    monkeypatch.setattr(NamespaceNode, "_popen", hit)
    network = Network(TOPOLOGY, RUN)
    try:
        with pytest.raises(RunFailed, match=f"{RUN}-s0: the namespace's shell .* -9$"):
            network.build(lambda: None)
    finally:
        network.remove()


def test_a_crash_is_named_with_its_log(network: Network, tmp_path: Path) -> None:
    children = Children(tmp_path)
    command = ["sh", "-c", "echo about to fail; sleep 0.1; exit 7"]
    children.start(network.nodes["h1"], "program h1", command, "h1")
    with pytest.raises(RunFailed) as error:
        wait_until(lambda: children.check() or False, "the crash is seen")
    assert "program h1 ended with exit status 7" in str(error.value)
    assert "about to fail" in str(error.value)
    assert error.value.exit_status == 4
    children.stop()


def test_a_child_that_ignores_sigterm_is_killed_with_its_own(network, tmp_path) -> None:
    children = Children(tmp_path)
    script = "trap '' TERM; sleep 300 & echo $!; wait"
    child = children.start(network.nodes["h1"], "stubborn", ["bash", "-c", script], "h1")
    while not child.log.read_text().strip():
        time.sleep(0.02)
    grandchild = int(child.log.read_text())
    assert children.stop(grace_s=0.3) == ["stubborn did not end within 0.3 s of SIGTERM"]
    for pid in (child.process.pid, grandchild):
        assert not running(pid)


def test_children_end_with_a_lab_that_is_killed(tmp_path: Path) -> None:
    """Even SIGKILL to the lab leaves no program and no namespace behind."""
    script = tmp_path / "lab.py"
    script.write_text(
        "import time\n"
        "from pathlib import Path\n"
        "from tests.mininet.test_network import TOPOLOGY\n"
        "from tiercast_lab.run.mininet.network import Network\n"
        "from tiercast_lab.run.mininet.processes import Children\n"
        f"network = Network(TOPOLOGY, {DIES!r})\n"
        "network.build(lambda: None)\n"
        f"children = Children(Path({str(tmp_path)!r}))\n"
        "child = children.start(network.nodes['h1'], 'sleep', ['sleep', '300'], 'h1')\n"
        "print(child.process.pid, flush=True)\n"
        "time.sleep(300)\n"
    )
    path = os.pathsep.join([*sys.path, str(ROOT)])
    lab = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        pid = int(lab.stdout.readline())
        # Until setpriv has become the program, the kernel does not know whose death it should
        # report.
        while Path(f"/proc/{pid}/comm").read_text() != "sleep\n":
            time.sleep(0.01)
    finally:
        lab.kill()
        lab.wait()
    wait_until(lambda: not running(pid), "the program ends")
    wait_until(lambda: shells(DIES) == "", "the namespaces' shells end")


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
