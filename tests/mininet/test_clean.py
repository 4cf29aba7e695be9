"""`tiercast clean` removes what ended labs left, and nothing of a run that is alive.

Each test has process ids, a network and a temporary folder of its own, so that it sees nothing of
other runs on the machine, and they nothing of it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from ..checkout import ROOT

ALONE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


def alone(tmp_path: Path, script: str) -> list[str]:
    """The lines that a shell script prints, with $tiercast as the command."""
    # bash says on standard error that a job of its own was killed.
    script = f"exec 3>&2 2> {tmp_path}.bash\n{textwrap.dedent(script)}".replace(
        "$tiercast", "2>&3 $tiercast"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "tiercast": str(ROOT / "tiercast")}
    done = subprocess.run(
        [*ALONE, "bash", "-e", "-c", script],
        env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def folder(tmp_path: Path, name: str) -> Path:
    """A temporary folder of a lab, with a socket's name in it, old enough to be an orphan."""
    path = tmp_path / f"tiercast-scratch-{name}"
    path.mkdir()
    (path / "lab.sock").touch()
    os.utime(path, (time.time() - 60,) * 2)
    return path


# A shell of a node in a namespace of its own, whose parent is not a lab; $! is its id.
ORPHAN = """
    unshare --net bash -c 'sleep 1000 & while true; do sleep 1000; done' mininet:{run}-{node} &
    until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
    """


@pytest.mark.parametrize("node", ["h3", "switches"])  # of one host, of all switches
def test_what_an_ended_lab_left_is_named_and_removed(tmp_path: Path, node: str) -> None:
    left = folder(tmp_path, "ab12-x1y2z3a4")
    said = alone(
        tmp_path,
        ORPHAN.format(run="ab12", node=node)
        + """
    ip link add ab12-s0p1 type veth peer name ab12-h3p1
    ip link add mine type veth peer name ab12-mine
    $tiercast clean --dry-run
    ls $TMPDIR; ip -o link | awk -F '[ @:]+' '{print $2}' | sort; kill -0 $!
    echo --
    $tiercast clean
    ls $TMPDIR; ip -o link | awk -F '[ @:]+' '{print $2}' | sort; ! wait $!
    echo --
    $tiercast clean
    """,
    )
    first, second, third = "\n".join(said).split("\n--\n")
    named = [f"the namespace of mininet:ab12-{node}, with 3 processes", "interface ab12-s0p1"]
    named += ["interface ab12-h3p1", str(left)]
    links = ["ab12-mine", "lo", "mine"]  # of other names
    there = sorted([*links, "ab12-h3p1", "ab12-s0p1"])
    would, *rest = first.splitlines()[: len(named)], *first.splitlines()[len(named) :]
    assert sorted(would) == sorted(f"would remove: {one}" for one in named)
    assert rest == [left.name, *there]
    removed, *rest = second.splitlines()[: len(named)], *second.splitlines()[len(named) :]
    assert sorted(removed) == sorted(f"removed: {one}" for one in named)
    assert rest == links
    assert third == "nothing to remove"


def test_nothing_of_a_run_that_is_alive_is_touched(tmp_path: Path) -> None:
    locked, young = folder(tmp_path, "cd34-x1y2z3a4"), tmp_path / "tiercast-scratch-abcdefgh"
    young.mkdir()
    os.utime(young, (time.time() + 3600,) * 2)  # young however slow the machine is
    (tmp_path / "other").mkdir()
    lock = os.open(locked, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        said = alone(
            tmp_path,
            ORPHAN.format(run="cd34", node="s0")
            + """
    python3 -c 'import subprocess
    subprocess.run(["bash", "-c", "while true; do sleep 1000; done", "mininet:ef56-h1"])' &
    until pgrep -f mininet:ef56-h1$ > /dev/null; do :; done
    ip link add cd34-s0p1 type veth peer name ef56-h1p1
    $tiercast clean
    ls $TMPDIR; ip -o link | awk -F '[ @:]+' '{print $2}' | sort
    pgrep -cf 'mininet:(cd34-s0|ef56-h1)$'
    """.replace("\n    subprocess", "\nsubprocess"),
        )
    finally:
        os.close(lock)
    assert said == [
        "left alone: run cd34, which is alive",
        "left alone: run ef56, which is alive",
        "nothing to remove",
        *sorted(["other", locked.name, young.name]),
        *("cd34-s0p1", "ef56-h1p1", "lo", "2"),
    ]


@pytest.mark.parametrize(
    "impostor",
    [
        "setpriv --reuid=65534 --clear-groups bash -c 'sleep 1000; true' mininet:ab12-h3",
        "tail -f /dev/null mininet:ab12-h3",  # as a program of root that anyone may start
    ],
)
def test_a_name_of_a_node_that_is_no_shell_of_this_user_ends_nothing(
    tmp_path: Path, impostor: str
) -> None:
    said = alone(
        tmp_path,
        f"""
    unshare --net bash -c '
        sleep 1001 & exec "$@"' - {impostor} > /dev/null 2>&1 &
    until pgrep -f 'mininet:ab12-h3$' > /dev/null && pgrep -x sleep > /dev/null; do :; done
    sleep 0.3
    $tiercast clean
    pgrep -cf '^sleep 1001'
    """,
    )
    assert said == ["nothing to remove", "1"]
