"""Manifests: what a program of any names gets for the controller's entries, and errors that name
their place."""

from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from tiercast_controller.base.errors import ConfigurationError, ParameterError
from tiercast_controller.multicast.trees import Upstream, from_entities, route
from tiercast_controller.network.marking.base import PortTraffic
from tiercast_controller.network.marking.of_program import kinds_of
from tiercast_controller.p4runtime import manifest
from tiercast_controller.p4runtime.entities import (
    Between,
    Masked,
    Op,
    RegisterCell,
    TableEntry,
    Update,
    entry,
)
from tiercast_controller.p4runtime.program import Program
from tiercast_controller.p4runtime.roles import Roles

# A table of each kind of match, and a register.
# ruff: noqa: E501 (a manifest, and a table)
P4INFO = """
tables {
  preamble { id: 1 name: "In.fib" }
  match_fields { id: 1 name: "h.ip.dst" bitwidth: 32 match_type: TERNARY }
  match_fields { id: 2 name: "h.ip.tos" bitwidth: 8 match_type: TERNARY }
  action_refs { id: 11 } action_refs { id: 12 }
}
tables {
  preamble { id: 2 name: "In.groups" }
  match_fields { id: 1 name: "h.ip.src" bitwidth: 32 match_type: OPTIONAL }
  match_fields { id: 2 name: "h.ip.dst" bitwidth: 32 match_type: LPM }
  match_fields { id: 3 name: "h.ip.ttl" bitwidth: 8 match_type: RANGE }
  action_refs { id: 13 }
}
tables {
  preamble { id: 3 name: "Out.ports" }
  match_fields { id: 1 name: "std.egress_port" bitwidth: 9 match_type: EXACT }
  action_refs { id: 14 }
}
actions {
  preamble { id: 11 name: "In.go" }
  params { id: 1 name: "to" bitwidth: 9 } params { id: 2 name: "src" bitwidth: 48 }
}
actions { preamble { id: 12 name: "In.punt" } }
actions { preamble { id: 13 name: "In.copy" } params { id: 1 name: "set" bitwidth: 16 } }
actions {
  preamble { id: 14 name: "Out.law" }
  params { id: 1 name: "wait" bitwidth: 32 } params { id: 2 name: "share" bitwidth: 16 }
}
registers {
  preamble { id: 21 name: "Out.limits" }
  type_spec { bitstring { bit { bitwidth: 19 } } } size: 512
}
controller_packet_metadata {
  preamble { id: 31 name: "packet_in" }
  metadata { id: 1 name: "came_by" bitwidth: 9 }
}
"""
GOOD = """\
unicast:
  table: In.fib
  key: {h.ip.dst: address}
  action: go
  parameters: {to: port, src: "02:00:00:00:00:01"}
multicast: {table: groups, key: {src: source, dst: group}, action: copy, parameters: {set: replication_group}}
igmp: {table: fib, key: {tos: "0xc0"}, action: punt}
packet_in: {ingress_port: came_by}
marking:
  late:
    table: ports
    key: {egress_port: port}
    action: law
    parameters: {wait: target, share: share}
    registers:
      - {register: limits, index: port, value: most}
    values:
      target: {type: time, in: us, min: 1ms, max: 1s, default: 5ms}
      share: {type: number, fraction_bits: 15, max: 1, default: 0.5}
      most: {type: packets, max: 1000}
"""
TRAFFIC = PortTraffic(2_000_000, 1000)


def described(tmp_path: Path, text: str = GOOD) -> Roles:
    info = text_format.Parse(P4INFO, p4info_pb2.P4Info())
    path = tmp_path / "my.manifest.yaml"
    path.write_text(text)
    return Roles(Program(info, b"{}", manifest.load(path)), {0xEFC00008: (0x0A000002, 0x0A000102)})


def test_our_own_manifest_changes_nothing(program: Program) -> None:
    roles = Roles(program)
    for item in (
        entry("ipv4_host", {"dst_addr": 7}, "forward", {"port": 1, "dst_mac": 2}),
        entry("ipv4_lpm", {"dst_addr": (256, 24)}, "forward", {"port": 1, "dst_mac": 2}),
        entry("port_marking", {"egress_port": 3}, "threshold_marking", {"threshold": 9}),
        route(manifest.IPv4Address("239.192.0.8"), 4),
        entry("source_guard", {"ingress_port": 3}, "only_from", {"address": 9}),
    ):
        assert roles.entries([item]) == [item]
        assert roles.is_of([item.table], item) and not roles.is_foreign(item)
    assert roles.has_accounts and roles.has_prefixes
    assert roles.igmp_meter == "igmp_meter"


def test_a_group_of_one_source_says_whence_its_packets_come(program: Program) -> None:
    roles = Roles(program)
    group = manifest.IPv4Address("239.192.0.8")
    own = route(group, 4, Upstream(0x0A000002, 3, 1))
    (made,) = roles.entries([own])
    assert made.action == "replicate_from" and made.match == own.match
    assert dict(made.params) == {"mgid": 4, "only_source": 0x0A000002, "port": 3, "former": 1}
    assert roles.own(["ipv4_multicast"], [made]) == [own]
    assert from_entities([own], {}).upstream == {group: Upstream(0x0A000002, 3, 1)}


def test_a_program_that_does_not_look_gets_the_same_route(tmp_path: Path) -> None:
    """And is read back without: the source in its key is no check that the controller knows."""
    roles = described(tmp_path)
    group = manifest.IPv4Address("239.192.0.8")
    plain = roles.entries([route(group, 4)])
    assert [dict(one.match)["src"] for one in plain] == [0x0A000002, 0x0A000102]
    (made,) = roles.entries([route(group, 4, Upstream(0x0A000002, 3, 3))])
    assert made == plain[0]
    assert roles.own(["ipv4_multicast"], [made]) == [route(group, 4)]


def test_a_program_that_always_looks_has_no_groups_of_any_source(program: Program) -> None:
    described = replace(
        manifest.own(),
        manifest=manifest.own().manifest.model_copy(
            update={"multicast": manifest.own().manifest.multicast[:1]}
        ),
    )
    roles = Roles(Program(program.p4info, b"{}", described))
    with pytest.raises(
        ConfigurationError, match="replicates by rpf_port alone, but a group of any"
    ):
        roles.entries([route(manifest.IPv4Address("239.192.0.8"), 4)])


def test_a_route_fills_a_ternary_key_by_its_prefix(tmp_path: Path) -> None:
    roles = described(tmp_path)
    prefix = entry("ipv4_lpm", {"dst_addr": (0x0A000100, 24)}, "forward", {"port": 5, "dst_mac": 2})
    host = entry("ipv4_host", {"dst_addr": 0x0A000102}, "forward", {"port": 6, "dst_mac": 2})
    shared, single = roles.entries([prefix, host])
    assert dict(shared.match) == {"dst": Masked(0x0A000100, 0xFFFFFF00), "tos": Masked(0, 0)}
    assert dict(shared.params) == {"to": 5, "src": 0x020000000001}
    assert dict(single.match)["dst"] == Masked(0x0A000102, 0xFFFFFFFF)
    assert single.priority > shared.priority > 0
    # As messages, and back: what matches everything is left out.
    message = roles.program.encode_entry(shared)
    assert len(message.match) == 1 and message.priority == shared.priority
    assert roles.program.decode_entry(message) == shared
    described_field = roles.program.describe_entry(shared).match
    assert described_field[0].mask == b"\xff\xff\xff\x00" and described_field[1].any


def test_a_group_has_an_entry_for_each_source_and_is_read_back_as_one(tmp_path: Path) -> None:
    roles = described(tmp_path)
    own = route(manifest.IPv4Address("239.192.0.8"), 4)
    made = roles.entries([own])
    assert [dict(item.match)["src"] for item in made] == [0x0A000002, 0x0A000102]
    assert dict(made[0].match)["dst"] == (0xEFC00008, 32)
    assert dict(made[0].match)["ttl"] == Between(0, 255)
    for item in made:
        assert roles.program.decode_entry(roles.program.encode_entry(item)) == item
    assert roles.own(["ipv4_multicast"], made) == [own]
    assert roles.updates([Update(Op.DELETE, own)]) == [Update(Op.DELETE, one) for one in made]


def test_what_the_program_does_not_have_is_not_written(tmp_path: Path) -> None:
    roles = described(tmp_path)
    top = entry("top_group", {"egress_port": 1, "session": 1}, "set_top_group", {"rank": 0})
    assert roles.entries([top]) == [] and not roles.has("top_group") and not roles.has_accounts


def test_an_entry_of_constants(tmp_path: Path) -> None:
    (punt,) = described(tmp_path).fixed
    assert punt.action == "punt"
    assert dict(punt.match) == {"dst": Masked(0, 0), "tos": Masked(0xC0, 0xFF)}


def test_a_law_fills_a_table_and_a_register(tmp_path: Path) -> None:
    roles = described(tmp_path)
    (kind,) = kinds_of(roles.program.described).values()
    own = kind(most=40).entry(3, TRAFFIC)
    (made,) = roles.entries([own])
    assert made == TableEntry(
        "ports", (("egress_port", 3),), "law", (("share", 1 << 14), ("wait", 5000))
    )
    assert roles.cells([own]) == [RegisterCell("limits", 3, 40)]
    assert roles.described(RegisterCell("limits", 3, 40)).array == "Out.limits"
    # A port that marks no more: there is no entry to a register that could be deleted.
    assert roles.updates([Update(Op.DELETE, own)]) == [Update(Op.DELETE, made)]
    roles.require_marking("late", own)
    with pytest.raises(ConfigurationError, match="no marking of kind red; it has: .*kind late"):
        roles.require_marking("red", entry("port_marking", {"egress_port": 1}, "red"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("In.fib", "In.lpm", r"my.manifest.yaml:2: unicast.0?.?table: table 'In.lpm' is not in the P4 program; "
                             "it has: fib, groups, ports"),
        ("h.ip.dst: address", "h.ip.dst: adress", r":3: unicast.key.h.ip.dst: 'adress' is no value; "
                                                  "valid: address, next_hop_mac, port"),
        ("h.ip.dst: address", "h.ip.to: address", r":3: unicast.key.h.ip.to: match field of table In.fib 'h.ip.to' "
                                                  "is not in the P4 program; it has: dst, tos"),
        ("action: go", "action: copy", ":4: unicast.action: table fib of the P4 program has no action 'copy'; "
                                       "it has: go, punt"),
        ("to: port, ", "", r":5: unicast.parameters: action go also has to; valid: what fills it"),
        ("to: port", "to: 512", r":5: unicast.parameters.to: 512 does not fit bit<9>; valid: 0..511"),
        ("{egress_port: port}", "{}", r":12: marking.late.key: table ports is also matched by std.egress_port, "
                                      "exactly; valid: what fills it"),
        ("{egress_port: port}", "{egress_port: any}", "any, but it is matched exactly"),
        ("came_by", "port", r":8: packet_in.ingress_port: field of packet_in 'port' is not in"),
        ("wait: target", "wait: limit", r":14: marking.late.parameters.wait: 'limit' is no value; valid: "
                                        "idle_us, most"),
        ("register: limits", "register: limit", r":16: marking.late.registers.0.register: register 'limit' is not"),
        ("unicast:", "unicats:", r":1: unicats: unknown key; valid: unicast, "),
        ("type: packets", "type: pakets", r":20: marking.late.values.most.type: 'pakets'; valid: 'packets'"),
        ("in: us", "in: bit/s", r":18: marking.late.values.target: in is bit/s; valid for time: ns, us, ms"),
        ("default: 5ms", "default: 5s", r":18: marking.late.values.target: default is 5s; valid: min to max"),
        ("min: 1ms", "min: 1", r":18: marking.late.values.target: min: .*1"),
        ("    table: ports\n", "", r"marking.late.table: this key is missing"),
        ("replication_group", "0", "multicast: nothing is filled with replication_group"),
        ("max: 1000", "max: least", r":10: marking.late: values.most.max: 'least'; valid: a bound, or the "
                                    "name of another value of type packets"),
        ("max: 1000", "max: share", r"values.most.max: 'share'; valid: a bound, or"),
        ("max: 1000", "max: most", r"values.most.max: 'most'; valid: a bound, or"),
        ("max: 1000}", "min: least, default: 4}\n      least: {type: packets, default: 5}",
         r":10: marking.late: defaults: least 5 and most 4: valid is least <= most"),
        ("marking:\n", "extends: tiercast\nmarking: [red]\nx:\n", r":10: marking: \['red'\]; valid: a mapping, by kind"),
        ("unicast:", "extends: other\nunicast:", r":1: extends: 'other'; valid: tiercast"),
        ("type: packets, max", "type: packets, most", r"marking.late.values.most.most: unknown key; valid: type"),
    ],
)  # fmt: skip
def test_an_error_names_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigurationError, match=said):
        roles = described(tmp_path, GOOD.replace(old, new))
        kinds_of(roles.program.described)


@pytest.mark.parametrize(
    ("target", "relation"),
    [("max: peak", "peak: {type: time}"), ("max: 1s", "peak: {type: time, min: target}")],
)
def test_a_value_may_be_a_bound_of_another(tmp_path: Path, target: str, relation: str) -> None:
    text = GOOD.replace("max: 1s", target) + f"      {relation}\n"
    (kind,) = kinds_of(described(tmp_path, text).program.described).values()
    equal = kind(target="8ms", peak="8ms", most=40).entry(3, TRAFFIC)
    assert dict(equal.params)["target"] == dict(equal.params)["peak"] == 8000
    with pytest.raises(ParameterError) as error:
        kind(target="8ms", peak="2.5ms", most=40).entry(3, TRAFFIC)
    assert str(error.value) == "target 8ms and peak 2.5ms: valid is target <= peak"
    assert error.value.parameters == ("target", "peak")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kind", "'kind' is taken; valid: another name"),
        ("port", "'port' is taken"),
        ("copy", "'copy' is taken"),
        ("class", "is a word of Python"),
    ],
)
def test_a_value_may_not_have_any_name(tmp_path: Path, name: str, said: str) -> None:
    text = GOOD.replace("most:", f"{name}:").replace("value: most", f"value: {name}")
    with pytest.raises(ConfigurationError, match=said):
        kinds_of(described(tmp_path, text).program.described)


def test_a_kind_of_ours_has_its_own_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="red is one of tiercast's kinds"):
        kinds_of(described(tmp_path, GOOD.replace("  late:", "  red:")).program.described)


def test_what_a_manifest_takes_from_ours(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "copy.manifest.yaml"
    path.write_text(
        "extends: tiercast\nmarking:\n  mine: {table: port_marking, key: {egress_port: port}, "
        "action: drop_tail, parameters: {limit: most}, values: {most: {type: packets}}}\n"
    )
    roles = Roles(Program(program.p4info, b"", manifest.load(path)))
    own = entry("port_marking", {"egress_port": 3}, "threshold_marking", {"threshold": 9})
    assert roles.entries([own]) == [own] and roles.has("aggregation")
    (kind,) = kinds_of(roles.program.described).values()
    (made,) = roles.entries([kind(most=5).entry(1, TRAFFIC)])
    assert (made.action, dict(made.params)) == ("drop_tail", {"limit": 5})
