"""The schemes of this repository, without those that this checkout was built with besides."""

from __future__ import annotations

from tiercast_lab.experiment.schemes import SchemeInfo, known_schemes

from ..checkout import ROOT


def our_schemes() -> dict[str, SchemeInfo]:
    lines = (ROOT / "protocols/schemes/schemes.txt").read_text().splitlines()
    names = {line.split()[1] for line in lines if line and not line.startswith("#")}
    return {name: scheme for name, scheme in known_schemes().items() if name in names}
