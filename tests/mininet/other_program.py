"""A program of other names: tiercast's own with its tables, actions and fields renamed, in p4c's
output. So tests have a third program where p4c is not installed."""

from __future__ import annotations

from pathlib import Path

from tiercast_lab.base import binaries

RENAMED = {
    "ipv4_host": "stations",
    "ipv4_lpm": "subnets",
    "ipv4_multicast": "trees",
    "port_marking": "laws",
    "group_columns": "columns",
    "top_group": "highest",
    "threshold_marking": "mark_above",
    "replicate": "spray",
    "forward": "towards",
    "dst_mac": "next_station",
    "mgid": "number_of_copies",
    "egress_fates": "what_left",
    "ingress_fates": "what_came",
}
MANIFEST = """\
unicast:
  - {table: stations, key: {hdr.ipv4.dst_addr: address}, action: towards,
     parameters: {port: port, next_station: next_hop_mac}}
multicast: {table: trees, key: {dst_addr: group}, action: spray,
  parameters: {number_of_copies: replication_group}}
packet_in: {ingress_port: ingress_port}
marking:
  above:
    table: laws
    key: {egress_port: port}
    action: mark_above
    parameters: {threshold: least}
    values: {least: {type: packets, max: 1000}, relax: {type: packets, max: least, default: 0}}
"""


def write(folder: Path, manifest: str = MANIFEST, name: str = "other") -> Path:
    """Writes the program with a manifest, and returns the JSON's path."""
    json, info = (path.read_text() for path in (binaries.P4_JSON, binaries.P4_INFO))
    for old, new in RENAMED.items():
        json, info = json.replace(f'"{old}"', f'"{new}"'), info.replace(f'"{old}"', f'"{new}"')
    # One table is matched in another way.
    (folder / f"{name}.json").write_text(json)
    (folder / f"{name}.p4info.txtpb").write_text(info)
    (folder / f"{name}.manifest.yaml").write_text(manifest)
    return folder / f"{name}.json"
