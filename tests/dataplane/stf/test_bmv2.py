"""Random packets through bmv2's simple_switch and through the engine: the same must come out.

Runs if simple_switch is installed. What bmv2 sends becomes the expectations of a script for
tiercast-stf, so that both get the same program, the same order of packets and the same ports.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from ...checkout import BUILD, ROOT
from ...free_port import free_port
from ...patience import PATIENCE_S, wait_until
from ...pcap import read_pcap, write_pcap

PROGRAMS = ROOT / "tests/data/p4"
TIERCAST_STF = BUILD / "dataplane/stf/tiercast-stf"
PORTS = (1, 2, 3, 4)
PACKETS = 60  # they arrive at once, and bmv2's queues hold 64
SEED = 20

# The bytes of which a program's packets consist, and its shortest packet. bmv2 finds values of an
# earlier packet in the fields of an invalid header, and crashes if a stack's index is out of range.
PACKETS_OF = {
    "hash": (bytes(range(256)), 9),
    "loop": (bytes(range(256)), 3),
    "matching": (bytes([0, 1, 2, 5, 10, 100, 200, 255]), 21),
    "stack": (bytes([0, 1, 2]), 2),
    "union": (bytes([1, 2, 3, 200]), 1),
    "varbit": (bytes([0, 1, 3, 7, 8, 9]), 1),
    "verify": (bytes([0, 1, 2, 255]), 1),
}

pytestmark = pytest.mark.skipif(
    shutil.which("simple_switch") is None, reason="bmv2 (simple_switch) is not installed"
)


def run_bmv2(program: Path, frames: list[bytes], folder: Path) -> dict[int, list[bytes]]:
    """The frames that leave each port when all of `frames` arrive on port 1."""
    for port in PORTS:
        write_pcap(folder / f"p{port}_in.pcap", frames if port == 1 else [])
    interfaces = [part for port in PORTS for part in ("-i", f"{port}@{folder}/p{port}")]
    switch = subprocess.Popen(
        ["simple_switch", "--use-files", "0", "--thrift-port", str(free_port()), *interfaces]
        + ["--notifications-addr", "ipc://notifications.ipc", str(program)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    try:
        # Done when something has arrived, and then nothing for a while in which it used no CPU.
        seen = quiet = 0

        def done() -> bool:
            nonlocal seen, quiet
            assert switch.poll() is None, f"simple_switch ended with {switch.returncode}"
            sent = sum(len(read_pcap(folder / f"p{port}_out.pcap")) for port in PORTS)
            quiet = quiet + 1 if sent == seen > 0 and sleeps(switch.pid) else 0
            seen = sent
            return quiet == 50

        wait_until(done, "all frames leave")
    finally:
        switch.terminate()
        switch.wait(PATIENCE_S)
    return {port: read_pcap(folder / f"p{port}_out.pcap") for port in PORTS}


def sleeps(pid: int) -> bool:
    """Whether no thread of the process runs or waits for a CPU."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(stat.read_text().rpartition(")")[2].split()[0] == "S" for stat in threads)


@pytest.mark.parametrize("name", sorted(PACKETS_OF))
def test_engine_does_what_bmv2_does(name: str, tmp_path: Path) -> None:
    source = random.Random(SEED)
    alphabet, shortest = PACKETS_OF[name]
    frames = [
        bytes(source.choice(alphabet) for _ in range(source.randint(shortest, 40)))
        for _ in range(PACKETS)
    ]
    program = PROGRAMS / f"{name}.json"
    from_bmv2 = run_bmv2(program, frames, tmp_path)
    assert any(from_bmv2.values()), "bmv2 sent nothing: the comparison would be empty"

    script = tmp_path / f"{name}.stf"
    lines = [f"packet 1 {frame.hex()}" for frame in frames]
    for port, sent in from_bmv2.items():
        lines += [f"expect {port} {frame.hex()}$" for frame in sent]
    script.write_text("\n".join(lines) + "\n")
    result = subprocess.run(
        [TIERCAST_STF, script, "--json", program], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
