"""Checks what keeps this machine from driving a DPDK NIC at line rate: `tiercast doctor --dpdk`.

Everything is read below a root folder, so that a tree of files can stand in for a machine.
docs/dpdk.md explains each finding.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tiercast_lab.cli.doctor import Finding

ROOT = Path("/")
NETWORK_CLASS = 0x02  # PCI base class
WANTED_HUGE_BYTES = 256 << 20  # enough for 100,000 layers
USERSPACE_DRIVERS = ("vfio-pci", "igb_uio", "uio_pci_generic")
ANY_ID = 0xFFFF
_PMD_INFO = re.compile(rb"PMD_INFO_STRING= (\{[^\0]*\})")
_CLOCK_READS = 20_000


def examine(
    root: Path = ROOT, read_clock: Callable[[], int] = time.perf_counter_ns
) -> list[Finding]:
    return [
        _huge_pages(root),
        _iommu(root),
        _vfio(root),
        _isolated(root),
        _tickless(root),
        _governor(root),
        _tsc(root),
        _clock_step(read_clock),
        _hypervisor(root),
        _numa(root),
        *_nics(root),
    ]


def _text(path: Path) -> str:
    """The file's text; empty if the kernel has no such file or does not let us read it."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _text(path)
    return int(text, 0) if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text) else 0


def _cpu_flags(root: Path) -> set[str]:
    match = re.search(r"^flags\s*:(.*)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return set(match[1].split()) if match else set()


def _huge_pages(root: Path) -> Finding:
    pools = []
    free = 0
    for pool in sorted((root / "sys/kernel/mm/hugepages").glob("hugepages-*kB")):
        kilobytes = int(re.sub(r"\D", "", pool.name))
        count = _number(pool / "free_hugepages")
        free += count * kilobytes << 10
        pools.append(f"{count} free of {_number(pool / 'nr_hugepages')} of {kilobytes} kB")
    mounted = " hugetlbfs " in _text(root / "proc/mounts")
    seen = "; ".join(pools) or "the kernel has none (CONFIG_HUGETLBFS)"
    return Finding(
        "huge pages",
        free >= WANTED_HUGE_BYTES,
        seen + (", hugetlbfs is mounted" if mounted else ", hugetlbfs is not mounted"),
        "a NIC's driver cannot reach its buffers; --no-huge works for devices without hardware",
        "echo 256 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    )


def _iommu(root: Path) -> Finding:
    groups = len(list((root / "sys/kernel/iommu_groups").glob("*")))
    unsafe = _text(root / "sys/module/vfio/parameters/enable_unsafe_noiommu_mode") in ("Y", "1")
    seen = f"{groups} IOMMU groups" + (", unsafe mode without an IOMMU is on" if unsafe else "")
    return Finding(
        "IOMMU",
        groups > 0 or unsafe,
        seen,
        "vfio-pci takes no NIC",
        "switch VT-d or AMD-Vi on in the firmware and boot with intel_iommu=on iommu=pt (AMD: "
        "iommu=pt); in a virtual machine without one: echo 1 > "
        "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
    )


def _vfio(root: Path) -> Finding:
    present = (root / "sys/bus/pci/drivers/vfio-pci").is_dir()
    return Finding(
        "vfio-pci",
        present,
        "the driver is loaded" if present else "the driver is not loaded",
        "DPDK gets no NIC except those whose kernel driver stays (mlx4, mlx5, mana)",
        "modprobe vfio-pci; a kernel without it needs CONFIG_VFIO_PCI",
    )


def _isolated(root: Path) -> Finding:
    cpus = _text(root / "sys/devices/system/cpu/isolated")
    online = _text(root / "sys/devices/system/cpu/online")
    return Finding(
        "isolated CPUs",
        bool(cpus),
        f"{cpus or 'none'} of {online}",
        "other work is scheduled onto the sender's core: departures are late by whole time slices",
        "boot with isolcpus=managed_irq,domain,2-3 (the CPUs that -l will name)",
    )


def _tickless(root: Path) -> Finding:
    cpus = _text(root / "sys/devices/system/cpu/nohz_full").replace("(null)", "")
    return Finding(
        "tickless CPUs",
        bool(cpus),
        f"nohz_full is {cpus or 'empty'}",
        "the timer interrupts the sender's core 100 to 1000 times a second, some microseconds each",
        "boot with nohz_full=2-3 rcu_nocbs=2-3 (a kernel with CONFIG_NO_HZ_FULL)",
    )


def _governor(root: Path) -> Finding:
    cpus = root / "sys/devices/system/cpu"
    governors = {_text(path) for path in cpus.glob("cpu*/cpufreq/scaling_governor")}
    return Finding(
        "governor",
        governors <= {"performance"},
        ", ".join(sorted(governors)) or "none: firmware or hypervisor sets the cores' frequency",
        "a core changes its frequency while it sends, and departures move",
        "cpupower frequency-set -g performance",
    )


def _tsc(root: Path) -> Finding:
    flags = _cpu_flags(root)
    source = _text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    missing = [flag for flag in ("constant_tsc", "nonstop_tsc") if flag not in flags]
    flaws = f"the CPU lacks {', '.join(missing)}" if missing else "constant_tsc, nonstop_tsc"
    return Finding(
        "TSC",
        not missing and source == "tsc",
        f"clock source {source or 'unknown'}; {flaws}",
        "the TSC that paces departures does not tell time: rates are wrong",
        "boot with clocksource=tsc tsc=reliable if the hardware allows it; else another machine",
    )


def clock_step_ns(read: Callable[[], int]) -> int:
    """The step in which the clock advances, in ns: 1 if it is finer than a nanosecond.

    Differences between successive readings are multiples of the step. It is therefore the least
    distance between two differences that occur often (one in 200), not counting those that rounding
    turned into a neighbour.
    """
    readings = [read() for _ in range(_CLOCK_READS)]
    seen = Counter(b - a for a, b in zip(readings, readings[1:], strict=False))
    often = sorted(
        difference
        for difference, count in seen.items()
        if difference > 0
        and count * 200 >= len(readings)
        and count * 5 >= max(seen[difference - 1], seen[difference + 1])
    )
    if len(often) < 2:
        return often[0] if often else 1
    return min(b - a for a, b in zip(often, often[1:], strict=False))


def _clock_step(read_clock: Callable[[], int]) -> Finding:
    step = clock_step_ns(read_clock)
    return Finding(
        "clock step",
        step <= 2,
        f"{step} ns",
        "no gap is resolved more finely than that: errors of departures are multiples of it",
        "nothing in this machine; hypervisors do it, hardware seldom does",
    )


def _hypervisor(root: Path) -> Finding:
    virtual = "hypervisor" in _cpu_flags(root)
    cpu = _text(root / "proc/stat").partition("\n")[0].split()
    ticks = [int(value) for value in cpu[1:9]]
    total = sum(ticks)
    stolen = 100 * ticks[7] / total if len(ticks) == 8 and total else 0.0
    return Finding(
        "hardware",
        not virtual,
        f"a virtual machine; {stolen:.2f} % of its time was stolen since boot"
        if virtual
        else "no hypervisor",
        "the longest gaps are the hypervisor's: judge p50 and p99, never the maximum",
        "run on hardware, or have the virtual CPUs pinned to cores of their own",
    )


def _numa(root: Path) -> Finding:
    nodes = sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
    cpus = "; ".join(f"{node.name} has CPUs {_text(node / 'cpulist')}" for node in nodes)
    return Finding(
        "NUMA",
        True,
        cpus or "the kernel names no node",
    )


@dataclass(frozen=True)
class PollModeDriver:
    name: str
    kernel: str  # the kernel drivers that it works with: "* igb_uio | uio_pci_generic | vfio-pci"
    ids: frozenset[tuple[int, int]] = field(repr=False)  # (vendor, device)


def poll_mode_drivers(root: Path) -> Iterator[PollModeDriver]:
    """The drivers of the installed DPDK, from the description in each driver's library."""
    for library in sorted((root / "usr").glob("lib*/*/dpdk/pmds-*/librte_net_*.so")):
        try:
            content = library.read_bytes()
        except OSError:
            continue
        for match in _PMD_INFO.finditer(content):
            try:
                info = json.loads(match[1])
                ids = frozenset((vendor, device) for vendor, device, *_ in info["pci_ids"])
                yield PollModeDriver(info["name"], info.get("kmod", ""), ids)
            except (ValueError, KeyError, TypeError):
                continue  # not a description after all


def _nics(root: Path) -> list[Finding]:
    devices = [
        device
        for device in sorted((root / "sys/bus/pci/devices").glob("*"))
        if _number(device / "class") >> 16 == NETWORK_CLASS
    ]
    if not devices:
        return [
            Finding(
                "NIC",
                False,
                "no network device on the PCI bus",
                "no NIC can be driven; net_af_packet reaches any interface of the kernel",
                "put one in, or give the virtual machine one",
            )
        ]
    drivers = list(poll_mode_drivers(root))
    return [_nic(root, device, drivers) for device in devices]


def _nic(root: Path, device: Path, drivers: list[PollModeDriver]) -> Finding:
    vendor, product = _number(device / "vendor"), _number(device / "device")
    bound = (device / "driver").resolve().name if (device / "driver").exists() else ""
    # A virtio device has its interface one level further down.
    interfaces = sorted({p.name for p in (*device.glob("net/*"), *device.glob("virtio*/net/*"))})
    taking = next(
        (d for d in drivers if (vendor, product) in d.ids or (vendor, ANY_ID) in d.ids), None
    )
    node = _text(device / "numa_node") or "-1"
    seen = [
        f"{device.name} {vendor:04x}:{product:04x}",
        f"driver {bound}" if bound else "no driver",
        f"interface {', '.join(interfaces)}" if interfaces else "",
        f"node {node}" if node != "-1" else "",
        f"DPDK's {taking.name}" if taking else "unknown to this DPDK",
    ]
    up = [name for name in interfaces if _text(root / "sys/class/net" / name / "operstate") == "up"]
    keeps_kernel = taking is not None and "vfio-pci" not in taking.kernel
    if taking is None:
        follows = "DPDK cannot drive it; net_af_packet can use its interface, far below line rate"
        do = "use one of the NICs that DPDK's guide lists"
    elif keeps_kernel:
        follows = f"it is driven beside the kernel, which needs {taking.kernel.strip('* ')}"
        do = "load the kernel's modules; no binding is needed"
    else:
        follows = "DPDK cannot take it while the kernel has it"
        do = f"ip link set {interfaces[0]} down; " if interfaces else ""
        do += f"dpdk-devbind.py -b vfio-pci {device.name}"
        if up:
            do += f" (it cuts off what {', '.join(up)} carries, which is up)"
    ready = taking is not None and (bool(bound) if keeps_kernel else bound in USERSPACE_DRIVERS)
    return Finding("NIC", ready, ", ".join(filter(None, seen)), follows, do)
