"""Each scheme's page has its table of parameters as the programs report them."""

from __future__ import annotations

import pytest
from tiercast_lab.show.tables.schemes import parameters_markdown

from ..checkout import ROOT
from .schemes import our_schemes

PAGES = sorted(path.stem for path in (ROOT / "docs/protocols").glob("*.md"))


def test_every_scheme_has_a_page() -> None:
    assert sorted(our_schemes()) == PAGES


@pytest.mark.parametrize("scheme", PAGES)
def test_its_page_has_its_parameters(scheme: str) -> None:
    page = (ROOT / f"docs/protocols/{scheme}.md").read_text()
    table = parameters_markdown(our_schemes()[scheme])
    assert page.count(table) == 1, f"rewrite it: tiercast schemes {scheme} --markdown"
    rest = page.replace(table, "")
    assert f"\n| {scheme}." not in rest, "parameters stand in that table alone"
