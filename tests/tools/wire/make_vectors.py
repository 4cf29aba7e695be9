"""Writes tests/data/wire/<scheme>.json: python tests/tools/wire/make_vectors.py [folder].

The samples of each message have values that are chosen here. Their bytes follow from the offsets in
the tables. Errors are made on purpose and named here, without asking a reader: the readers (C++,
Python, Lua) are what these files test.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "wire"))

from tiercast_wire.messages import (  # noqa: E402
    COMMON_BYTES,
    DATA,
    MESSAGES,
    RECORD_COUNT,
    SCHEMES,
    Field,
    Message,
    messages_of,
)

BIG = 2**32 - 1
Values = dict[str, int]
Sample = tuple[str, Values, list[Values], str]  # text, fields, records, payload in hexadecimal

# Samples. Fields that are left out have their default. The errors are made from the first sample;
# it has two records if there may be two.
SAMPLES: dict[str, list[Sample]] = {
    "ErmccData": [
        (
            "in mid-session, 4 bytes of payload",
            dict(cr_valid=1, seq=1234567, cr=7, mu_hat=125000, sigma_hat=4000),
            [],
            "deadbeef",
        ),
        (
            "no CR, a tenth of the circle is asked",
            dict(seq=BIG, ask_from=0xF0000000, ask_share=429496729),
            [],
            "",
        ),
    ],
    "ErmccFeedback": [
        (
            "congestion",
            dict(kind=1, source=7, seq=1234567, omega=120000, mu=125000, sigma=4000),
            [],
            "",
        ),
        ("leave", dict(kind=2, source=BIG, seq=0), [], ""),
    ],
    "RlaData": [
        (
            "a retransmission in mid-object, 4 bytes of payload and 2 of padding",
            dict(flags=1, payload_length=4, seq=70, tx_time_us=90000001, base=68, offset_low=65216),
            [],
            "deadbeef0000",
        ),
        ("a stream", dict(seq=5, base=5, tx_time_us=BIG), [], "00"),
        (
            "last, above 4 GiB, the base before the wrap",
            dict(flags=2, payload_length=1, seq=2, base=0xFFFFFFF0, offset_high=1, offset_low=7),
            [],
            "ff",
        ),
        ("the base as far behind as can be", dict(flags=4, seq=2**31 - 1, base=0), [], ""),
    ],
    "RlaAck": [
        (
            "two runs after a hole",
            dict(rwnd=100, source=7, cum_ack=60, echo_time_us=90000001),
            [dict(sack_start=70, sack_end=72), dict(sack_start=62, sack_end=63)],
            "",
        ),
        ("no run, all flags", dict(flags=15, rwnd=65535, source=BIG, cum_ack=BIG), [], ""),
        (
            "three runs over the wrap",
            dict(cum_ack=0xFFFFFFFE),
            [
                dict(sack_start=BIG, sack_end=0),
                dict(sack_start=4, sack_end=5),
                dict(sack_start=8, sack_end=20),
            ],
            "",
        ),
    ],
    "MldaData": [
        (
            "second of a pair, 4 bytes of payload",
            dict(rank=3, pair=2, seq=1234567, tx_time_us=90000001),
            [],
            "deadbeef",
        ),
        ("largest rank and numbers", dict(rank=7, pair=1, seq=BIG, tx_time_us=BIG), [], ""),
    ],
    "MldaSenderReport": [
        (
            "two layers",
            dict(sr_seq=42, tx_time_us=90000001, max_rtt_us=150000),
            [dict(rate=25000), dict(rate=50000)],
            "",
        ),
        ("one layer, no round-trip time yet", dict(sr_seq=BIG), [dict(rate=1)], ""),
        ("eight layers", dict(tx_time_us=BIG, max_rtt_us=BIG), [dict(rate=BIG)] * 8, ""),
    ],
    "MldaReceiverReport": [
        (
            "with a round-trip time",
            dict(
                rank=2,
                source=7,
                sr_seq=42,
                rate=75000,
                loss=42949672,
                rtt_us=80000,
                rx_time_us=70000002,
            ),
            [],
            "",
        ),
        ("asks for one", dict(rank=7, asks_rtt=1, source=BIG, loss=BIG), [], ""),
    ],
    "MldaReflection": [
        (
            "of a report",
            dict(
                rank=2,
                asks_rtt=1,
                source=7,
                sr_seq=42,
                rate=75000,
                rx_time_us=70000002,
                tx_time_us=90000001,
            ),
            [],
            "",
        ),
        (
            "largest numbers",
            dict(rank=7, source=BIG, sr_seq=BIG, rate=BIG, rx_time_us=BIG, tx_time_us=BIG),
            [],
            "",
        ),
    ],
    "MdpccData": [
        (
            "a segment, 4 bytes of payload and 2 of padding",
            dict(
                object_id=513,
                segment_size=944,
                seq=1234567,
                segment=3,
                segment_count=4,
                payload_length=4,
            ),
            [],
            "deadbeef0000",
        ),
        ("a stream", dict(object_id=65535, seq=BIG), [], ""),
    ],
    "MdpccProbe": [
        (
            "two representatives",
            dict(
                probe_seq=770,
                tx_time_us=90000001,
                grtt_us=125000,
                tx_rate=50000,
                group_size=100,
                backoff=4,
                object_id=513,
                segment_size=944,
                segment_count=318,
                next_segment=17,
            ),
            [
                dict(receiver=7, rtt_us=110000, rate=50000, flags=3),
                dict(receiver=9, rtt_us=80000, rate=70000, flags=6),
            ],
            "",
        ),
        ("of a stream, nobody known", dict(probe_seq=65535, grtt_us=500000, tx_rate=2000), [], ""),
        (
            "five representatives, largest numbers",
            dict(
                tx_time_us=BIG,
                grtt_us=BIG,
                tx_rate=BIG,
                group_size=65535,
                backoff=255,
                segment_count=BIG,
                next_segment=BIG,
            ),
            [dict(receiver=BIG, rtt_us=BIG, rate=BIG, flags=255)] * 5,
            "",
        ),
    ],
    "MdpccReport": [
        (
            "of a representative",
            dict(
                flags=2,
                probe_seq=770,
                source=7,
                response_us=90012345,
                loss=42949672,
                rate=50000,
                received_rate=48000,
                rtt_us=110000,
            ),
            [],
            "",
        ),
        ("goodbye in slow start", dict(flags=20, probe_seq=65535, source=BIG, rate=BIG), [], ""),
    ],
    "MdpccReportReflection": [
        (
            "of a report",
            dict(
                flags=4,
                probe_seq=770,
                source=7,
                response_us=90012345,
                rate=50000,
                received_rate=25000,
                rtt_us=500000,
            ),
            [],
            "",
        ),
    ],
    "MdpccNack": [
        (
            "two ranges",
            dict(object_id=513, source=7),
            [dict(first=3, count=1), dict(first=4, count=100)],
            "",
        ),
        ("no range", dict(object_id=65535, source=BIG), [], ""),
        ("the largest range", dict(object_id=1), [dict(first=0, count=BIG)], ""),
        ("the last number there is", dict(object_id=1), [dict(first=BIG - 1, count=1)], ""),
        ("64 ranges", dict(object_id=2), [dict(first=3 * i, count=2) for i in range(64)], ""),
    ],
    "MdpccNackReflection": [
        (
            "two ranges",
            dict(object_id=513, source=7),
            [dict(first=3, count=1), dict(first=40, count=2)],
            "",
        ),
    ],
    "TfmccData": [
        (
            "in mid-session, 4 bytes of payload",
            dict(
                echo_valid=1,
                is_clr=1,
                seq=1234567,
                tx_time_us=90000001,
                fb_round=258,
                supp_rate=100000,
                max_rtt_us=150000,
                echo_source=9,
                echo_time_us=70000002,
            ),
            [],
            "deadbeef",
        ),
        (
            "the first, nobody is known",
            dict(seq=BIG, fb_round=65535, max_rtt_us=500000),
            [],
            "",
        ),
    ],
    "TfmccFeedback": [
        (
            "a report with RTT and loss",
            dict(
                have_rtt=1,
                have_loss=1,
                source=7,
                fb_round=258,
                rate=100000,
                time_us=70000002,
                echo_time_us=90000001,
            ),
            [],
            "",
        ),
        ("the CLR leaves", dict(leave=1, source=BIG, fb_round=65535, rate=BIG), [], ""),
    ],
    "PgmccData": [
        (
            "in mid-session, 4 bytes of payload",
            dict(has_acker=1, seq=1234567, tx_time_us=90000001, acker=7),
            [],
            "deadbeef",
        ),
        ("no acker", dict(seq=BIG, tx_time_us=BIG), [], ""),
    ],
    "PgmccFeedback": [
        (
            "an acknowledgement",
            dict(
                kind=1,
                source=7,
                rx_max=1234567,
                bitmap=0xFFFFFFEF,
                echo_time_us=90000001,
                hold_us=300,
                loss=42949672,
            ),
            [],
            "",
        ),
        ("a NAK", dict(kind=2, source=BIG, rx_max=3, bitmap=0xF, missing=BIG), [], ""),
        ("a dummy NAK", dict(kind=3, source=1), [], ""),
        ("the acker leaves", dict(kind=4, source=1, rx_max=BIG, loss=BIG), [], ""),
    ],
    "PgmccConfirmation": [
        ("of a NAK", dict(source=7, missing=1234567), [], ""),
        ("largest numbers", dict(source=BIG, missing=BIG), [], ""),
    ],
    "RlmData": [
        ("in mid-session, 4 bytes of payload", dict(rank=3, seq=1234567), [], "deadbeef"),
        ("largest rank and number", dict(rank=7, seq=BIG), [], ""),
    ],
    "RlmAnnouncement": [("of layer 3", dict(rank=3, source=7), [], "")],
    "RlmAnnouncementReflection": [("of layer 7", dict(rank=7, source=BIG), [], "")],
    "RlcData": [
        ("in mid-session, 4 bytes of payload", dict(rank=3, seq=1234567), [], "deadbeef"),
        ("a synchronization point", dict(rank=7, sync_point=1, seq=BIG), [], ""),
    ],
    "PlmData": [
        ("the first of a pair, 4 bytes of payload", dict(rank=3, pair=1, seq=12), [], "deadbeef"),
        ("the second", dict(rank=7, pair=2, seq=BIG), [], ""),
    ],
}

# Values that contradict each other: changes of the first sample, and of its second record.
CONTRADICTIONS: dict[str, list[tuple[str, Values, Values]]] = {
    "RlaData": [
        ("base after seq", dict(base=71), {}),
        ("base as far ahead of seq as can be", dict(base=70 + 2**31 - 1), {}),
        ("an offset without payload", dict(payload_length=0), {}),
        ("a high offset without payload", dict(payload_length=0, offset_low=0, offset_high=1), {}),
        ("last without payload", dict(payload_length=0, offset_low=0, flags=2), {}),
    ],
    "RlaAck": [
        ("an empty run", {}, dict(sack_end=62)),
        ("a run that ends before it starts", {}, dict(sack_end=61)),
        ("a run that starts at cum_ack", {}, dict(sack_start=60)),
        ("a run before cum_ack", {}, dict(sack_start=59)),
        ("a run around all numbers", {}, dict(sack_start=60 + 2**31 - 1, sack_end=58)),
    ],
    "MldaSenderReport": [("a layer without rate", {}, dict(rate=0))],
    "MdpccNack": [
        ("an empty range", {}, dict(count=0)),
        ("a range that overlaps the one before", {}, dict(first=3)),
        ("ranges that descend", {}, dict(first=1)),
        ("a range beyond the numbers", {}, dict(count=BIG)),
    ],
    "MdpccNackReflection": [("an empty range", {}, dict(count=0))],
    "PgmccFeedback": [
        ("a missing packet in an acknowledgement", dict(missing=1), {}),
        ("a missing packet in a dummy NAK", dict(kind=3, missing=1), {}),
        ("a missing packet of one that leaves", dict(kind=4, missing=BIG), {}),
    ],
}


def pack(fields: tuple[Field, ...], values: Values) -> bytes:
    return b"".join(
        values.get(field.name, field.default).to_bytes(field.bytes, "big") for field in fields
    )


def filled(fields: tuple[Field, ...], values: Values) -> Values:
    return {
        field.name: values.get(field.name, field.default)
        for field in fields
        if not field.is_reserved
    }


def build(message: Message, sample: Sample, session: int = 1) -> tuple[bytes, dict[str, Any]]:
    _, values, records, payload = sample
    unknown = values.keys() - {field.name for field in message.fields}
    assert not unknown, (message.name, unknown)
    if message.record:
        values = {**values, RECORD_COUNT: len(records)}
    length = message.fixed_bytes + message.record_bytes * len(records)
    common = dict(
        version=1,
        type=message.type,
        scheme=message.scheme,
        flags=0,
        header_length=length,
        session=session,
    )
    head = bytes([1, message.type, message.scheme, 0]) + length.to_bytes(2, "big")
    body = pack(message.fields, values) + b"".join(pack(message.record, one) for one in records)
    described: dict[str, Any] = {"common": common, "fields": filled(message.fields, values)}
    if message.record:
        described["records"] = [filled(message.record, one) for one in records]
    if message.type == DATA:
        described["payload"] = payload
    return head + session.to_bytes(2, "big") + body + bytes.fromhex(payload), described


def put(message: bytes, offset: int, value: int, size: int = 1) -> bytes:
    return message[:offset] + value.to_bytes(size, "big") + message[offset + size :]


def places(fields: tuple[Field, ...], start: int) -> list[tuple[Field, int]]:
    found = []
    for field in fields:
        found.append((field, start))
        start += field.bytes
    return found


def wrong(layout: Message) -> list[tuple[str, bytes, str]]:
    """The broken messages made from a layout: name, message and error."""
    sample = SAMPLES[layout.name][0]
    right, described = build(layout, sample)
    records = len(described.get("records", []))
    length = described["common"]["header_length"]
    needed = length + described["fields"].get(layout.payload_length, 0)
    fixed = places(layout.fields, COMMON_BYTES)
    first_record = places(layout.record, layout.fixed_bytes) if records else []
    last_record = places(layout.record, length - layout.record_bytes) if records else []
    cases: list[tuple[str, bytes, str]] = []

    ends = {0, 1, 7, 8, 9, length - 1, needed - 1}
    ends |= {place for _, place in [*fixed, *first_record, *last_record]}
    cases += [(f"cut to {end} bytes", right[:end], "short") for end in sorted(ends) if end < needed]
    for offset, error, values in (
        (0, "version", (0, 2)),
        (1, "type", (0, 4, 255)),
        (2, "scheme", (0, 11, 254, layout.scheme % 10 + 1)),
        (3, "flags", (1, 128)),
    ):
        cases += [(f"{error} {value}", put(right, offset, value), error) for value in values]
    missing = [one for one in (1, 2, 3) if not messages_of(layout.scheme, one)]
    cases += [
        (f"type {one}, which the scheme lacks", put(right, 1, one), "type") for one in missing
    ]
    cases.append(("session 32768", put(right, 6, 32768, 2), "session"))
    cases += [
        (f"header_length {value}", put(right, 4, value, 2), "length")
        for value in (0, 8, length - 1, length + 1, 65535)
    ]
    if layout.type != DATA:
        cases.append(("a byte after the end", right + b"\0", "length"))
    for field, place in fixed:
        if field.is_reserved:
            cases += [
                (f"reserved byte {place + i}", put(right, place + i, 1), "reserved")
                for i in range(field.bytes)
            ]
        elif field.most is not None:
            values = {field.most + 1, 255} | ({field.least - 1} if field.least else set())
            if layout.kind is not None and field.name == "kind":
                values -= {one.kind for one in messages_of(layout.scheme, layout.type)}
            cases += [
                (f"{field.name} {value}", put(right, place, value), field.error)
                for value in sorted(values)
            ]
        if field.name == RECORD_COUNT and records > 0:
            cases.append(("a record that is not counted", put(right, place, records - 1), "length"))
            if records < (field.most or 0):
                cases.append(
                    ("a record more than there is", put(right, place, records + 1), "length")
                )
    for place_name, located in (("first", first_record), ("last", last_record)):
        for field, place in located:
            if field.is_reserved:
                cases += [
                    (
                        f"reserved byte {i} of the {place_name} record",
                        put(right, place + i, 1),
                        "reserved",
                    )
                    for i in range(field.bytes)
                ]
    for text, change, record_change in CONTRADICTIONS.get(layout.name, []):
        kept = [dict(one) for one in sample[2]]
        if record_change:
            kept[1] |= record_change
        changed, _ = build(layout, ("", sample[1] | change, kept, sample[3]))
        cases.append((text, changed, "record"))
    cases.append(("version is judged before type", put(put(right, 0, 2), 1, 9), "version"))
    cases.append(
        ("session is judged before length", put(put(right, 6, 65535, 2), 4, 0, 2), "session")
    )
    guarded = next((place for field, place in fixed if field.error == "reserved"), None)
    if guarded is not None:
        cases.append(
            ("length is judged before reserved", put(put(right, guarded, 255), 4, 0, 2), "length")
        )
    judged = next((place for field, place in fixed if field.error == "type"), None)
    if judged is not None:
        both = put(put(right, judged, 255), 4, 0, 2)
        cases.append(
            ("length is judged before the kind", both, "length")
            if layout.late_kind
            else ("the kind is judged before length", both, "type")
        )
    return cases


def vectors(layout: Message) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for session, sample in enumerate(SAMPLES[layout.name], 1):
        message, described = build(layout, sample, session)
        made.append(
            {
                "name": f"{layout.name}: {sample[0]}",
                "message": layout.name,
                "hex": message.hex(),
                **described,
            }
        )
    message, described = build(layout, SAMPLES[layout.name][0], 32767)
    made.append(
        {
            "name": f"{layout.name}: session 32767",
            "message": layout.name,
            "hex": message.hex(),
            **described,
        }
    )
    for text, message, error in wrong(layout):
        made.append(
            {
                "name": f"{layout.name}: {text}",
                "message": layout.name,
                "hex": message.hex(),
                "error": error,
            }
        )
    return made


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in SCHEMES.items():
        layouts = [one for one in MESSAGES if one.scheme == number and one.name in SAMPLES]
        if not layouts:
            continue
        lines = [json.dumps(one) for layout in layouts for one in vectors(layout)]
        text = '{\n "format": "docs/wire-format.md, version 1",\n "vectors": [\n  '
        (folder / f"{name}.json").write_text(text + ",\n  ".join(lines) + "\n ]\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "data" / "wire")
