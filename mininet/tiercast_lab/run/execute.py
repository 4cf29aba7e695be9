"""Executes one experiment, from its description to its verdict: the run, its rows, its measures and
summary.json."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tiercast_lab.base import binaries, machine
from tiercast_lab.base.errors import LabError, writing
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.topology import Topology
from tiercast_lab.measures import Context, Rows, context_of
from tiercast_lab.results import storage
from tiercast_lab.results.judging import GROUNDS, Grounds, judgement, not_judged
from tiercast_lab.results.recorder import Recorder, finish_rows
from tiercast_lab.results.storage import RunFolder
from tiercast_lab.results.verdict import bounds_of
from tiercast_lab.run.capture_options import CaptureOptions
from tiercast_lab.run.captures import Captures
from tiercast_lab.run.controller_input import without_accounts
from tiercast_lab.run.network_summary import network_summary
from tiercast_lab.run.ns3.runtime import Ns3Run
from tiercast_lab.run.observed import traced_ports
from tiercast_lab.run.progress import Progress, View
from tiercast_lab.run.runtime import Run
from tiercast_lab.run.typed_changes import write_experiment

if TYPE_CHECKING:
    from tiercast_lab.run.mininet.devices import DevicesFile
    from tiercast_lab.run.mininet.lab import Lab
    from tiercast_lab.run.mininet.switches import SwitchKind


LIVED = "experiment.yaml"  # what a lab did, in its run's folder
NO_SESSION = "no session was started"


@dataclass(frozen=True)
class Options:
    seed: int
    runtime: str
    switch: str
    results: Path
    command: list[str]  # as the user typed it, for the report's "how to repeat"
    captures: CaptureOptions = CaptureOptions()
    devices: DevicesFile | None = None  # the switches that the lab does not start
    # One process with links in memory, or a process and a namespace for each switch.
    links: Literal["memory", "veth"] = "memory"
    threads: int = 1  # in virtual time; the run does not depend on it


@dataclass(frozen=True)
class ExecutedRun:
    folder: Path
    summary: dict[str, Any]  # the contents of the folder's summary.json


def execute(
    loaded: LoadedExperiment,
    options: Options,
    view: View,
    interrupt: Interrupt,
    lab: Lab | None = None,
) -> ExecutedRun:
    """Runs the experiment and returns its summary. With `lab` it goes on until that is left; if no
    session was started, its verdict is then `incomplete`.

    Raises LabError. If the run had already begun, everything recorded so far is kept.
    """
    folder = RunFolder(options.results, loaded.experiment.name)
    summary = _initial_summary(loaded, options, folder)
    run = _make_run(loaded, options, folder, view, context_of(summary), lab)
    run.check()
    locks = [binaries.P4_LOCK] if binaries.P4_JSON in run.files else []
    run.complaints += without_accounts(loaded)
    summary["files"] = machine.digests([*loaded.sources, *run.files, *locks])
    summary["sources"] = storage.kept(loaded.sources)
    folder.make(summary)
    try:
        run.captures.make_folder()
        folder.keep(loaded.sources)
        with run.recorder:
            run.execute(interrupt)
        _finish_captures(run, summary)
        if not _describe_lived(run, summary):
            _keep_unfinished(run, summary, NO_SESSION)
            return ExecutedRun(folder.path, summary)
        run.enter("judging and plotting")
        with writing(folder.path):
            rows = Rows(finish_rows(folder.rows))
        grounds = _grounds(run)
        try:
            summary |= judgement(rows, run.progress.context, run.loaded.experiment.expect, grounds)
        except Exception:  # whatever it is, the rows are whole, so the run can be judged later
            summary |= not_judged(grounds)
            raise
        with writing(folder.path):
            _write(run, summary)
    except BaseException as error:
        reason = str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError, LabError):
            _describe_lived(run, summary)
        _keep_unfinished(run, summary, reason)
        raise
    finally:
        folder.let_go()
    with writing(folder.path):
        if not folder.point_latest():
            run.view.say(f"note: {folder.path.parent} cannot have links, so it has no `latest`")
    return ExecutedRun(folder.path, summary)


def _initial_summary(
    loaded: LoadedExperiment, options: Options, folder: RunFolder
) -> dict[str, Any]:
    return {
        "format": storage.FORMAT,
        "run": folder.path.name,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": options.command,
        "file": loaded.file,
        "defaults": loaded.defaults,
        "seed": options.seed,
        "runtime": options.runtime,
        "switch": options.switch,
        **({"links": options.links} if options.runtime == "mininet" else {}),
        "versions": machine.versions(),
        "machine": machine.describe(),
        **_described(loaded),
    }


def _described(loaded: LoadedExperiment) -> dict[str, Any]:
    return {
        **_traced(loaded),
        "title": loaded.experiment.title,
        "experiment": loaded.data,
        "network": network_summary(loaded),
        "duration_s": loaded.experiment.duration / 1e9,
        **loaded.measured_over,
    }


def _traced(loaded: LoadedExperiment) -> dict[str, Any]:
    """Nothing of a run without a trace."""
    if not (traced := traced_ports(loaded)):
        return {}
    return {
        "traced": [one.described for one in traced],
        "flow_ports": {name: flow.port for name, flow in loaded.flows.items()},
    }


def _describe_lived(run: Run, summary: dict[str, Any]) -> bool:
    """Makes the summary that of the experiment as it was, and writes that, if it was not known
    before. Returns whether there is one."""
    lived = run.lived()
    if lived is None:
        return False
    if lived is not run.loaded:
        run.loaded = lived
        summary |= _described(lived)
        run.progress.context = context_of(summary)
        with writing(run.folder.path):
            write_experiment(
                lived, run.folder.path / LIVED, f"The lab {run.folder.path.name}, to be run again."
            )
    return True


def _grounds(run: Run) -> Grounds:
    bounds = None if run.progress.virtual else run.progress.bounds
    return Grounds(bounds, run.hidden_queues(), run.complaints)


def _finish_captures(run: Run, summary: dict[str, Any]) -> None:
    """Once: of a run that is broken off after that, its captures are there."""
    if run.captures.all and "captures" not in summary:
        with writing(run.folder.path):
            summary["captures"] = run.captures.finish(_times_of(run))


def _times_of(run: Run) -> str:
    if run.progress.virtual:
        return f"tiercast run {run.folder.path.name}: virtual time, 0 is the start of the run"
    return f"tiercast run {run.folder.path.name}"


def _write(run: Run, summary: dict[str, Any]) -> None:
    run.folder.release_reserve()
    run.folder.write("metadata.json", run.metadata)
    run.folder.write("summary.json", summary)


def _keep_unfinished(run: Run, summary: dict[str, Any], reason: str) -> None:
    """Keeps what there is of a run that was broken off. The disk may be full."""
    summary |= storage.unfinished(reason) | {"complaints": run.complaints}
    with contextlib.suppress(OSError, LabError):
        _finish_captures(run, summary)
    with contextlib.suppress(OSError):
        _write(run, summary)
    with contextlib.suppress(OSError, LabError):
        finish_rows(run.folder.rows)
    kept = binaries.from_here(run.folder.path)
    run.view.say(f"kept, without a verdict: {kept}")
    if GROUNDS in summary:
        run.view.say(f"judge it when the measure is mended: {binaries.COMMAND} report {kept}")


def _make_run(
    loaded: LoadedExperiment,
    options: Options,
    folder: RunFolder,
    view: View,
    context: Context,
    lab: Lab | None,
) -> Run:
    duration_s = loaded.experiment.duration / 1e9
    recorder, seed = Recorder(folder.rows), options.seed
    captures = Captures.of(loaded.topology, options.captures, folder.path)
    if options.runtime == "ns3":
        progress = Progress(context, duration_s, {}, virtual=True)
        return Ns3Run(
            loaded=loaded, folder=folder, seed=seed, view=view, progress=progress,
            recorder=recorder, captures=captures, threads=options.threads,
        )  # fmt: skip
    # Imported here because runs in virtual time do not need Mininet, whose import takes 0.2 s.
    from tiercast_lab.run.mininet.runtime import MininetRun

    switches = _switch_kind(options, loaded, captures)
    progress = Progress(context, duration_s, bounds_of(os.cpu_count() or 1, switches.bounds))
    given: dict[str, Any] = {
        "loaded": loaded, "folder": folder, "seed": seed, "view": view, "progress": progress,
        "recorder": recorder, "captures": captures, "switches": switches,
    }  # fmt: skip
    if lab is None:
        return MininetRun(**given)
    from tiercast_lab.run.mininet.lab import LabRun

    return LabRun(**given, lab=lab)


def _switch_kind(options: Options, loaded: LoadedExperiment, captures: Captures) -> SwitchKind:
    from tiercast_lab.run.mininet.bmv2 import Bmv2Switches
    from tiercast_lab.run.mininet.device_switches import DeviceSwitches
    from tiercast_lab.run.mininet.switches import TiercastSwitches

    manifests = {name: files.load().manifest for name, files in loaded.programs.items()}
    cpu_ports = {name: one.cpu_port for name, one in manifests.items()}
    depths = {name: one.depth_register for name, one in manifests.items()}
    if options.devices is not None:
        devices = options.devices.devices(loaded)
        return DeviceSwitches(devices, options.seed, cpu_ports, depths)
    if options.switch == "bmv2":
        return Bmv2Switches(loaded.packet_size_of, cpu_ports)
    in_memory = _in_memory(options, loaded.topology, captures)
    return TiercastSwitches(options.seed, cpu_ports, depths, in_memory)


def _in_memory(options: Options, topology: Topology, captures: Captures) -> frozenset[str]:
    """The links between switches that need no interfaces: nothing listens there."""
    captured = {one.link for one in captures.all}
    return frozenset(
        link.name
        for link in topology.links.values()
        if options.links == "memory"
        and {link.a, link.b} <= topology.switches.keys()
        and link.name not in captured
    )
