"""docs/p4.md has the tables, registers and bits of p4src/compiled/tiercast.json."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tiercast_controller.network.marking import KINDS

from ..checkout import ROOT

PAGE = (ROOT / "docs/p4.md").read_text()
PROGRAM: dict[str, Any] = json.loads((ROOT / "p4src/compiled/tiercast.json").read_text())
REGISTERS: dict[str, tuple[int, int]] = {
    one["name"].removeprefix("TiercastIngress.aggregation."): (one["bitwidth"], one["size"])
    for one in PROGRAM["register_arrays"]
}
# p4c makes a table of each statement of an apply block, too.
TABLES: dict[str, dict[str, Any]] = {
    one["name"]: one
    for pipeline in PROGRAM["pipelines"]
    for one in pipeline["tables"]
    if not one["name"].startswith("tbl_")
}
# Kinds of marking that keep state, as the page calls them.
STATEFUL = {"red": "RED", "codel": "CoDel", "pie": "PIE", "pi2": "PI2", "dualpi2": "DualPI2"}


def rows(before: str) -> list[list[str]]:
    """The rows of the first table after some text, without its head."""
    table = re.search(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.partition(before)[2], re.M)
    assert table is not None, before
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()
    ]


def key_bits(table: dict[str, Any]) -> list[int]:
    types = {one["name"]: one for one in PROGRAM["header_types"]}
    found = []
    for key in table["key"]:
        header, field = key["target"]
        (of_type,) = (one["header_type"] for one in PROGRAM["headers"] if one["name"] == header)
        found += [one[1] for one in types[of_type]["fields"] if one[0] == field]
    return found


def action_bits(table: dict[str, Any]) -> dict[str, int]:
    data = {
        one["id"]: sum(value["bitwidth"] for value in one["runtime_data"])
        for one in PROGRAM["actions"]
    }
    return {
        name.split(".")[-1]: data[number]
        for name, number in zip(table["actions"], table["action_ids"], strict=True)
        if name != "NoAction"  # what a miss does
    }


def said_bits(text: str) -> int:
    """`port (9), dst_mac (48)`, `id, address (32 each), ecn (1)`, or `310 bits`."""
    if (whole := re.fullmatch(r" *(\d+) bits", text)) is not None:
        return int(whole[1])
    return sum(
        int(bits) * (len(names.strip(" ,").split(",")) if each else 1)
        for names, bits, each in re.findall(r"([^()]*)\((\d+)( each)?\)", text)
    )


def test_each_table_has_its_key_its_data_and_its_size() -> None:
    found = {row[0].strip("`"): row for row in rows("\n## Tables\n")}
    assert found.keys() == TABLES.keys()
    for name, (_, key, actions, _, entries, _) in found.items():
        table = TABLES[name]
        match, _, fields = key.partition(" ")
        of_page = [
            (match, field, int(bits)) for field, bits in re.findall(r"`([\w.]+)` \((\d+)\)", fields)
        ]
        assert of_page == [
            (one["match_type"], one["name"], bits)
            for one, bits in zip(table["key"], key_bits(table), strict=True)
        ]
        said = {}
        for part in actions.split(";"):
            names, _, data = part.partition(":")
            said |= dict.fromkeys(re.findall(r"`(\w+)`", names), said_bits(data))
        assert said == action_bits(table), name
        assert int(entries) == table["max_size"], name


def test_each_table_has_its_cost() -> None:
    """A key with a mask or a prefix has twice its bits; an entry has room for the widest action."""
    said: dict[str, tuple[int, int]] = {}
    for row in rows("\n## What each part costs\n"):
        for name, key, data in re.findall(r"`(\w+)` (\d+) \+ (\d+)", row[1]):
            said[name] = (int(key), int(data))
    assert said == {
        name: (
            sum(
                bits * (1 if key["match_type"] == "exact" else 2)
                for key, bits in zip(table["key"], key_bits(table), strict=True)
            ),
            max(action_bits(table).values()),
        )
        for name, table in TABLES.items()
    }


def test_each_register_is_there() -> None:
    named = {
        name
        for section in ("\n## Registers and counters\n", "\n## Feedback aggregation\n")
        for row in rows(section)
        for name in re.findall(r"`(\w+)`", f"{row[0]} {row[1]}")
    }
    assert {name for name in REGISTERS if "." not in name} <= named


@pytest.mark.parametrize("kind", STATEFUL)
def test_each_law_has_its_state_and_its_needs(kind: str) -> None:
    costs = {row[0].split(", ")[0]: row for row in rows("\n## What each part costs\n")}
    bits = sum(REGISTERS[name][0] for name in KINDS[kind].registers)
    assert re.match(rf"{bits} bits a port\b", costs[STATEFUL[kind]][3])
    needs = [name for row in rows("\nWhat hardware must provide:\n") for name in row[0].split(", ")]
    assert STATEFUL[kind] in needs


def test_no_other_law_keeps_state() -> None:
    """SIM's marking and those without any share the register of all policies."""
    others = {name for kind, one in KINDS.items() if kind not in STATEFUL for name in one.registers}
    assert others == {"avg_queue"}


def test_what_aggregation_takes_a_session() -> None:
    (row,) = (row for row in rows("\n## What each part costs\n") if row[0] == "aggregation")
    (sessions,) = {size for name, (_, size) in REGISTERS.items() if name.endswith(".reports")}
    of_ports = set().union(*(one.registers for one in KINDS.values()))
    bits = sum(
        width * size for name, (width, size) in REGISTERS.items() if name not in of_ports
    ) // sessions  # fmt: skip
    assert row[3].startswith(f"{bits} bits a session:")


def test_the_laws_that_multiply() -> None:
    """By a number that is not a constant, which would be shifts."""
    sentence = re.search(r"no loop; only (.*) and flows over equal paths multiply", PAGE)
    assert sentence is not None
    files = {
        path.stem
        for path in (ROOT / "p4src/lib").glob("*.p4")
        if path.stem != "fates" and re.search(r"^ +(?!//)[^/\n]* \* ", path.read_text(), re.M)
    }
    laws = {
        "red": {"RED"}, "red_average": {"RED"}, "red_idle_decay": {"RED"}, "codel": {"CoDel"},
        "pi": {"PIE", "PI2", "DualPI2"}, "dualpi2": {"DualPI2"}, "equal_paths": set(),
    }  # fmt: skip
    assert files == laws.keys()
    assert set(re.split(r",\s", sentence[1])) == set().union(*laws.values())
