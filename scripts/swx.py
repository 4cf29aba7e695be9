"""Compiles the programs of dataplane/switch/bench/swx for DPDK's SWX pipeline.

SWX makes C code of a .spec file (rte_swx_pipeline_codegen), which includes two headers that Debian
does not install. They come from the source package of the installed DPDK, and are kept in
$TIERCAST_CACHE, $XDG_CACHE_HOME/tiercast or ~/.cache/tiercast. As a program, this only gets them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SPECS = ROOT / "dataplane/switch/bench/swx"
PACKAGE = "libdpdk-dev"
HEADERS = ("rte_swx_pipeline_internal.h", "rte_swx_pipeline_spec.h")  # of lib/pipeline
# Without -fno-strict-aliasing GCC 12 makes code that drops every packet.
FLAGS = ("-O3", "-fno-strict-aliasing", "-fPIC", "-shared", "-w", "-DALLOW_EXPERIMENTAL_API")
DOWNLOAD_S = 300  # at most


class SwxUnavailable(Exception):
    """SWX's programs cannot be compiled here; the text says why."""


def command(*words: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=cwd, timeout=DOWNLOAD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SwxUnavailable(f"{words[0]}: {error}") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise SwxUnavailable(f"{' '.join(words[:2])}: {last}")
    return done.stdout


def cache() -> Path:
    base = os.environ.get("TIERCAST_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tiercast"


def source_lists(folder: Path) -> list[str]:
    """apt's sources of this machine as sources of source packages, and the options that use them.
    What the system itself uses does not change."""
    parts = folder / "sources"
    parts.mkdir()
    (folder / "lists/partial").mkdir(parents=True)
    apt = Path("/etc/apt")
    for path in sorted([*apt.glob("sources.list"), *apt.glob("sources.list.d/*")]):
        if path.suffix == ".sources":
            text = path.read_text().replace("Types: deb\n", "Types: deb-src\n")
        elif path.suffix == ".list":
            lines = path.read_text().splitlines()
            text = "".join(f"deb-src{x[3:]}\n" for x in lines if x.startswith(("deb ", "deb\t")))
        else:
            continue
        (parts / path.name).write_text(text)
    return ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}",
            "-o", f"Dir::State::lists={folder / 'lists'}"]  # fmt: skip


def headers(may_download: bool = True) -> Path:
    """A folder with SWX's own headers, of the installed version of DPDK."""
    version = command("dpkg-query", "-W", "-f", "${source:Version}", PACKAGE)
    folder = cache() / f"swx-{version}"
    if all((folder / name).exists() for name in HEADERS):
        return folder
    if not may_download:
        raise SwxUnavailable(f"{folder} lacks SWX's headers, which scripts/swx.py gets")
    with tempfile.TemporaryDirectory(prefix="tiercast-swx-") as temporary:
        work = Path(temporary)
        options = source_lists(work)
        command("apt-get", *options, "-q", "update")
        command("apt-get", *options, "-q", "source", "--download-only", f"dpdk={version}", cwd=work)
        archives = list(work.glob("dpdk_*.orig.tar.*"))
        if len(archives) != 1:
            raise SwxUnavailable(f"the source package dpdk {version} has {len(archives)} archives")
        made = work / "headers"
        made.mkdir()
        with tarfile.open(archives[0]) as archive:
            for member in archive:
                name = Path(member.name).name
                if name not in HEADERS or Path(member.name).parent.name != "pipeline":
                    continue
                content = archive.extractfile(member)
                if content is not None:
                    (made / name).write_bytes(content.read())
        missing = [name for name in HEADERS if not (made / name).exists()]
        if missing:
            raise SwxUnavailable(f"the source of dpdk {version} lacks {', '.join(missing)}")
        folder.mkdir(parents=True, exist_ok=True)
        for name in HEADERS:
            shutil.copy(made / name, folder / name)
    return folder


def compile_programs(bench: Path, into: Path, may_download: bool = True) -> None:
    """Makes a shared object, into/NAME.so, of each NAME.spec. `bench`: tiercast-swx-bench. Raises
    SwxUnavailable."""
    if not bench.exists():
        raise SwxUnavailable(f"{bench.name} was not built (TIERCAST_WITH_DPDK)")
    compiler = next((c for c in ("gcc", "cc") if shutil.which(c)), None)
    if compiler is None:
        raise SwxUnavailable("no C compiler (gcc, cc)")
    includes = headers(may_download)
    dpdk = command("pkg-config", "--cflags", "libdpdk").split()
    for spec in sorted(SPECS.glob("*.spec")):
        code = into / f"{spec.stem}.c"
        command(str(bench), "generate", str(spec), str(code))
        command(compiler, *FLAGS, *dpdk, "-I", str(includes), str(code),
                "-o", str(into / f"{spec.stem}.so"))  # fmt: skip


def measure(bench: Path, programs: Path, how: Sequence[str]) -> dict[str, Any]:
    """The figures of tiercast-swx-bench as "cases", or as "unavailable" why there are none.

    `programs` has P4 programs' JSON; `how` are words that start a program.
    """
    with tempfile.TemporaryDirectory(prefix="tiercast-swx-") as folder:
        try:
            compile_programs(bench, Path(folder))
        except SwxUnavailable as reason:
            return {"unavailable": str(reason)}
        words = [*how, str(bench), "run", "--libraries", folder, "--programs", str(programs)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench-switch: {bench.name}: {done.stderr.strip()}")
        return {"cases": json.loads(done.stdout)}


if __name__ == "__main__":
    try:
        print(headers())
    except SwxUnavailable as reason:
        raise SystemExit(f"swx: {reason}") from None
