"""`tiercast doctor --dpdk` on artificial machines: trees of files like /proc, /sys and /usr."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from tiercast_lab.cli import doctor_dpdk
from tiercast_lab.cli.doctor import Finding

from .test_cli import tiercast

PMDS = "usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0"
HOST_BRIDGE, ETHERNET = "0x060000", "0x020000"


def put(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def driver(name: str, kmod: str, *ids: tuple[int, int]) -> bytes:
    info = {"name": name, "kmod": kmod, "pci_ids": [[*one, 65535, 65535] for one in ids]}
    return b"\x7fELF\0PMD_INFO_STRING= " + json.dumps(info).encode() + b"\0rest"


def pci(root: Path, address: str, ids: tuple[int, int], bound: str = "", **files: str) -> None:
    device = f"sys/bus/pci/devices/{address}"
    put(root, {f"{device}/class": files.pop("kind", ETHERNET) + "\n"})
    put(root, {f"{device}/vendor": f"{ids[0]:#06x}\n", f"{device}/device": f"{ids[1]:#06x}\n"})
    put(root, {f"{device}/{name}": content for name, content in files.items()})
    if bound:
        target = root / "sys/bus/pci/drivers" / bound
        target.mkdir(parents=True, exist_ok=True)
        (root / device / "driver").symlink_to(target)


def clock(step: int):
    """Reads cost 41 to 73 ns in turn; the clock shows multiples of `step`."""
    times = itertools.accumulate(itertools.cycle((41, 47, 53, 59, 61, 73, 44, 42)))
    return lambda: next(times) // step * step


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """A machine on which nothing needs to be done."""
    put(
        tmp_path,
        {
            "proc/cpuinfo": "model name\t: x\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n",
            "proc/mounts": "none /dev/hugepages hugetlbfs rw 0 0\n",
            "proc/stat": "cpu  10 0 10 80 0 0 0 0 0 0\n",
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "512\n",
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "500\n",
            "sys/kernel/iommu_groups/0/type": "DMA\n",
            "sys/devices/system/cpu/isolated": "2-3\n",
            "sys/devices/system/cpu/online": "0-3\n",
            "sys/devices/system/cpu/nohz_full": "2-3\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
            "sys/devices/system/node/node0/cpulist": "0-3\n",
            f"{PMDS}/librte_net_ixgbe.so": driver(
                "net_ixgbe", "* igb_uio | vfio-pci", (0x8086, 0x10FB)
            ),
            f"{PMDS}/librte_net_mlx5.so": driver(
                "mlx5_eth", "* ib_uverbs & mlx5_core & mlx5_ib", (0x15B3, 0x1017)
            ),
        },
    )
    pci(tmp_path, "0000:00:00.0", (0x8086, 0x0D57), kind=HOST_BRIDGE)
    pci(tmp_path, "0000:03:00.0", (0x8086, 0x10FB), "vfio-pci", numa_node="1\n")
    return tmp_path


def examine(root: Path, step: int = 1) -> dict[str, Finding]:
    return {finding.name: finding for finding in doctor_dpdk.examine(root, clock(step))}


def test_a_tuned_machine_lacks_nothing(tuned: Path) -> None:
    findings = examine(tuned)
    assert {name for name, finding in findings.items() if not finding.ok} == set()
    assert findings["huge pages"].seen == "500 free of 512 of 2048 kB, hugetlbfs is mounted"
    assert findings["NIC"].seen == (
        "0000:03:00.0 8086:10fb, driver vfio-pci, node 1, DPDK's net_ixgbe"
    )
    assert findings["NUMA"].seen == "node0 has CPUs 0-3"


@pytest.mark.parametrize(
    ("name", "files", "seen"),
    [
        ("huge pages", {"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "127"}, "127"),
        ("isolated CPUs", {"sys/devices/system/cpu/isolated": "\n"}, "none of 0-3"),
        ("tickless CPUs", {"sys/devices/system/cpu/nohz_full": "(null)\n"}, "nohz_full is empty"),
        (
            "governor",
            {"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave"},
            "performance, powersave",
        ),
        ("TSC", {"proc/cpuinfo": "flags : constant_tsc\n"}, "the CPU lacks nonstop_tsc"),
        (
            "TSC",
            {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
            "clock source hpet",
        ),
        (
            "hardware",
            {
                "proc/cpuinfo": "flags : hypervisor constant_tsc nonstop_tsc\n",
                "proc/stat": "cpu 10 0 10 75 0 0 0 5 0 0\n",
            },
            "5.00 % of its time was stolen",
        ),
    ],
)
def test_what_is_missing(tuned: Path, name: str, files: dict[str, str], seen: str) -> None:
    put(tuned, files)
    findings = examine(tuned)
    assert [n for n, finding in findings.items() if not finding.ok] == [name]
    assert seen in findings[name].seen
    assert findings[name].follows and findings[name].do


def test_an_empty_machine_is_no_error(tmp_path: Path) -> None:
    findings = examine(tmp_path)
    assert {name for name, finding in findings.items() if finding.ok} == {
        *("governor", "clock step", "hardware", "NUMA")
    }
    assert "no network device" in findings["NIC"].seen


def test_noiommu_counts_as_an_iommu(tuned: Path) -> None:
    (tuned / "sys/kernel/iommu_groups/0/type").unlink()
    (tuned / "sys/kernel/iommu_groups/0").rmdir()
    assert not examine(tuned)["IOMMU"].ok
    put(tuned, {"sys/module/vfio/parameters/enable_unsafe_noiommu_mode": "Y\n"})
    assert examine(tuned)["IOMMU"].ok


@pytest.mark.parametrize("step", [1, 10, 26])
def test_step_of_the_clock(step: int) -> None:
    assert doctor_dpdk.clock_step_ns(clock(step)) == step


def test_nics_say_how_dpdk_gets_them(tuned: Path) -> None:
    pci(tuned, "0000:04:00.0", (0x8086, 0x10FB), "ixgbe", **{"net/eth1/mtu": "1500"})
    put(tuned, {"sys/class/net/eth1/operstate": "up\n"})
    pci(tuned, "0000:05:00.0", (0x15B3, 0x1017), "mlx5_core", **{"net/eth2/mtu": "1500"})
    pci(tuned, "0000:06:00.0", (0x1234, 0x5678), "oddnic", **{"net/eth3/mtu": "1500"})
    pci(tuned, "0000:07:00.0", (0x8086, 0x10FB))
    nics = [f for f in doctor_dpdk.examine(tuned, clock(1)) if f.name == "NIC"]
    assert [nic.ok for nic in nics] == [True, False, True, False, False]
    _, kernels, beside, unknown, unbound = nics
    assert kernels.do == (
        "ip link set eth1 down; dpdk-devbind.py -b vfio-pci 0000:04:00.0 "
        "(it cuts off what eth1 carries, which is up)"
    )
    assert "DPDK's mlx5_eth" in beside.seen
    assert "unknown to this DPDK" in unknown.seen and "net_af_packet" in unknown.follows
    assert unbound.do == "dpdk-devbind.py -b vfio-pci 0000:07:00.0"


def test_command_line_on_this_machine() -> None:
    result = tiercast("doctor", "--dpdk")
    assert result.returncode == 0, result.stderr
    for name in ("huge pages", "IOMMU", "vfio-pci", "isolated CPUs", "TSC", "clock step", "NIC"):
        assert name in result.stdout
