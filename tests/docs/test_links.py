"""Links between documents lead to files and headings that are there."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from ..checkout import ROOT

PAGES = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT, capture_output=True, text=True, check=True,
).stdout.split()  # fmt: skip


def prose(page: Path) -> str:
    """Without fenced code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


@cache
def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings; a second one of a name would have a number."""
    text = prose(page)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    names = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", one) for one in headings)
    slugs = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in names}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    here = ROOT / page
    text = re.sub(r"`[^`\n]*`", "", prose(here))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (here.parent / name).resolve() if name else here
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), f"{target}; valid: {', '.join(sorted(anchors(there)))}"


def test_the_longest_page_names_each_of_its_sections_first() -> None:
    text = prose(ROOT / "docs/experiments.md")
    contents = text.partition("On this page:")[2].partition("\nThe commands:")[0]
    linked = re.findall(r"\]\(#([^)]+)\)", contents)
    assert len(set(linked)) == len(linked)
    assert set(linked) == anchors(ROOT / "docs/experiments.md") - {"experiments"}
