"""The records that a scheme's cores trace: by its sources, and by its page."""

from __future__ import annotations

import re

from ..checkout import ROOT

OF_EVERY_ROW = {"time_s", "agent"}


def traced_fields(scheme: str) -> dict[str, set[str]]:
    """The names of fields by the kind of record, as the sources in `protocols/schemes/<scheme>/`
    write them: a core names its fields in the function that traces them, before it does, and other
    quoted text is not an identifier."""
    found: dict[str, set[str]] = {}
    for source in sorted((ROOT / "protocols/schemes" / scheme).glob("*.cpp")):
        begun = re.compile(r"^}|sink\.trace\(", re.MULTILINE)
        text = source.read_text()
        for call in re.finditer(r'sink\.trace\(\s*"([\w.]+)"', text):
            start = max((one.end() for one in begun.finditer(text, 0, call.start())), default=0)
            names = re.findall(r'"([A-Za-z]\w*)"', text[start : call.start()])
            found.setdefault(call[1], set()).update(names)
    return found


def documented_fields(scheme: str) -> dict[str, set[str]]:
    """The same by the section "Trace" of docs/protocols/<scheme>.md, where `limit_1_Bps ..` stands
    for a field for each number."""
    page = (ROOT / f"docs/protocols/{scheme}.md").read_text()
    section = page.partition("\n## Trace\n")[2].partition("\n## ")[0]
    found: dict[str, set[str]] = {}
    for kind, fields in re.findall(rf"`({scheme}\.\w+)`\s*\{{([^}}]*)\}}", section):
        names = re.sub(r"\([^)]*\)", "", fields).replace(" ..", "").split(",")
        found.setdefault(kind, set()).update(name.strip() for name in names)
    return found


def one_number(name: str) -> str:
    """`limit_3_Bps` becomes `limit_1_Bps`, which stands for all of them in a page."""
    return re.sub(r"(?<=_)[2-9](?=_|$)", "1", name)
