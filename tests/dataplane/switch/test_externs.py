"""What externs do to packets after a controller has programmed them, and what they report to it.

The tests run on tiercast-switch and, if it is installed, on bmv2. Where bmv2 differs, the test says
how.
"""

import contextlib
import queue
import time

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4

from ...patience import PATIENCE_S

pytestmark = pytest.mark.slow

BALANCE, LIMITED, INDIRECT, POLICE, MEASURE, LEARN, AGE, UNUSED = 1, 2, 3, 4, 5, 6, 7, 8
SET = p4.SetForwardingPipelineConfigRequest
MS = 1_000_000
PERMISSION_DENIED, INVALID_ARGUMENT = 7, 3


def packet(
    kind: int, key: int = 1, flow: int = 0, ethertype: int = 0x88B5, source: int = 9
) -> bytes:
    return (b"\x02" + bytes(5) + source.to_bytes(6, "big") + ethertype.to_bytes(2, "big")
            + bytes([kind, key, flow, 77]) + bytes(42))  # fmt: skip


@pytest.fixture
def peer(make_peer):
    return make_peer("externs")


@pytest.fixture
def ports(network):
    for port in network.ports.values():
        port.drain()
    return network.ports


def answer(ports, *arguments, **options) -> int | None:
    """The field that shows what an extern did to a packet from port 1 to port 2."""
    ports[1].send(packet(*arguments, **options))
    frames = ports[2].receive(1)
    return frames[0].data[17] if frames else None


def write(peer, verb: str, text: str) -> None:
    assert peer.do(f"{verb} {text}") == "OK", text


def forward(port: int) -> str:
    return f'action {{ action_id: $forward params {{ param_id: 1 value: "\\00{port}" }} }}'


def key(number: int = 1) -> str:
    return f'match {{ field_id: 1 exact {{ value: "\\00{number}" }} }}'


@pytest.fixture
def leaves_by(ports, tools):
    """leaves_by(kind, key, flow) sends a packet into port 1 and returns the port where it
    leaves."""

    def of(kind: int, key: int, flow: int) -> int:
        ports[1].send(packet(kind, key, flow))
        [number] = tools.receive_anywhere({n: ports[n] for n in (1, 2)}, 1)
        return number

    return of


# --- Meters ---

MISSES = {"cir": 1, "cburst": 1, "pir": 1, "pburst": 2}  # green, yellow, red within a second


def config(name: str = "config", values: dict = MISSES) -> str:
    return f"{name} {{ {' '.join(f'{field}: {value}' for field, value in values.items())} }}"


def test_a_meter_marks_until_it_is_reset(peer, ports):
    write(peer, "MODIFY", f"meter_entry {{ meter_id: $cells index {{ index: 2 }} {config()} }}")
    assert [answer(ports, MEASURE, 2) for _ in range(4)] == [0, 1, 2, 2]
    assert answer(ports, MEASURE, 1) == 0  # another cell
    write(peer, "MODIFY", "meter_entry { meter_id: $cells index { index: 2 } }")
    assert [answer(ports, MEASURE, 2) for _ in range(4)] == [0, 0, 0, 0]


def test_a_direct_meter_marks_what_hits_its_entry(peer, ports):
    entry = f"table_id: $policed {key()}"
    mark = "action { action { action_id: $mark } }"
    write(peer, "INSERT", f"table_entry {{ {entry} {mark} {config('meter_config')} }}")
    assert [answer(ports, POLICE) for _ in range(4)] == [0, 1, 2, 2]
    assert answer(ports, POLICE, 2) == 0  # a miss
    write(peer, "MODIFY", f"direct_meter_entry {{ table_entry {{ {entry} }} }}")
    assert [answer(ports, POLICE) for _ in range(4)] == [0, 0, 0, 0]
    write(peer, "MODIFY", f"direct_meter_entry {{ table_entry {{ {entry} }} {config()} }}")
    assert [answer(ports, POLICE) for _ in range(4)] == [0, 1, 2, 2]
    # "Direct Resources": a MODIFY of the entry without a config resets it.
    write(peer, "MODIFY", f"table_entry {{ {entry} {mark} }}")
    colours = [answer(ports, POLICE) for _ in range(3)]
    assert colours == ([2, 2, 2] if peer.kind == "bmv2" else [0, 0, 0])


# --- Action profiles ---


def test_members_and_groups_choose_a_packets_way(peer, leaves_by):
    for member in (1, 2):
        write(peer, "INSERT", f"action_profile_member {{ action_profile_id: $paths "
                              f"member_id: {member} {forward(member)} }}")  # fmt: skip
    both = "members { member_id: 1 weight: 1 } members { member_id: 2 weight: 3 }"
    write(
        peer, "INSERT", f"action_profile_group {{ action_profile_id: $paths group_id: 7 {both} }}"
    )
    write(peer, "INSERT", f"table_entry {{ table_id: $balance {key(1)} "
                          "action { action_profile_member_id: 1 } }")  # fmt: skip
    write(peer, "INSERT", f"table_entry {{ table_id: $balance {key(2)} "
                          "action { action_profile_group_id: 7 } }")  # fmt: skip
    assert [leaves_by(BALANCE, 1, flow) for flow in range(3)] == [1, 1, 1]
    ways = [leaves_by(BALANCE, 2, flow) for flow in range(4)]
    assert sorted(ways) == [1, 2, 2, 2]
    assert [leaves_by(BALANCE, 2, flow) for flow in range(4)] == ways  # each flow keeps its way
    # When a member changes, it changes in its group, too.
    write(
        peer,
        "MODIFY",
        f"action_profile_member {{ action_profile_id: $paths member_id: 1 {forward(2)} }}",
    )
    assert [leaves_by(BALANCE, 2, flow) for flow in range(4)] == [2, 2, 2, 2]
    assert leaves_by(BALANCE, 3, 0) == 2  # a miss does nothing


def test_an_action_set_chooses_a_packets_way(peer, leaves_by):
    def entry(*weights: int) -> str:
        choices = " ".join(f"action_profile_actions {{ {forward(port)} weight: {weight} }}"
                           for port, weight in enumerate(weights, 1))  # fmt: skip
        return (f"table_entry {{ table_id: $balance {key()} "
                f"action {{ action_profile_action_set {{ {choices} }} }} }}")  # fmt: skip

    write(peer, "INSERT", entry(3, 1))
    assert sorted(leaves_by(BALANCE, 1, flow) for flow in range(4)) == [1, 1, 1, 2]
    assert peer.controller.read(peer.entity("table_entry { table_id: $balance }")) == [
        peer.entity(entry(3, 1))
    ]
    write(peer, "MODIFY", entry(1, 3))
    assert sorted(leaves_by(BALANCE, 1, flow) for flow in range(4)) == [1, 2, 2, 2]


# --- Digests ---


def digest(peer) -> p4.DigestList:
    message = peer.controller.next()
    assert message.HasField("digest"), message
    return message.digest


def acknowledge(peer, digest_id: int, list_id: int, controller=None) -> None:
    ack = p4.DigestListAck(digest_id=digest_id, list_id=list_id)
    (controller or peer.controller).outgoing.put(p4.StreamMessageRequest(digest_ack=ack))


def learnt(message: p4.DigestList) -> list[list[bytes]]:
    return [[member.bitstring for member in data.struct.members] for data in message.data]


def no_message(controller, timeout: float = 0.3) -> None:
    with pytest.raises(queue.Empty):
        controller.next(timeout)


def configure(peer, verb: str = "INSERT", **values: int) -> None:
    text = " ".join(f"{name}: {value}" for name, value in values.items())
    write(peer, verb, f"digest_entry {{ digest_id: $learnt_t config {{ {text} }} }}")


def test_digests_come_in_lists_once(peer, ports, process, tools):
    backup = tools.Controller(process, None)
    assert backup.arbitration_code() == 6  # ALREADY_EXISTS: it is not the primary
    if peer.kind == "tiercast":  # bmv2 keeps what nobody has asked for yet
        ports[1].send(packet(LEARN))
    configure(peer, max_list_size=2, max_timeout_ns=1000 * MS, ack_timeout_ns=60_000 * MS)
    before = time.time_ns()
    for flow in (1, 1, 2):
        ports[1].send(packet(LEARN, flow=flow))
    full = digest(peer)
    assert full.digest_id == peer.ids["learnt_t"]
    assert learnt(full) == [[b"\x09", b"\x01", b"\x01"], [b"\x09", b"\x02", b"\x01"]]
    if peer.kind == "tiercast":  # bmv2's clock starts with the machine
        assert before <= full.timestamp <= time.time_ns()
    ports[1].send(packet(LEARN, flow=3, source=0x1234))
    old_enough = digest(peer)
    assert learnt(old_enough) == [[b"\x12\x34", b"\x03", b"\x01"]]
    assert old_enough.list_id != full.list_id
    for flow in (1, 2):  # sent but not acknowledged
        ports[1].send(packet(LEARN, flow=flow))
    no_message(peer.controller, 1.2)
    acknowledge(peer, full.digest_id, full.list_id)
    if peer.kind == "tiercast":  # the stream's next message is handled after it
        peer.controller.arbitrate(peer.controller.election_id)
        assert (peer.controller.arbitration_code(), backup.arbitration_code()) == (0, 6)
    else:  # bmv2 does not answer a second arbitration
        time.sleep(0.3)
    for flow in (1, 2):
        ports[1].send(packet(LEARN, flow=flow))
    assert learnt(digest(peer)) == learnt(full)
    no_message(backup)
    backup.close()
    write(peer, "DELETE", "digest_entry { digest_id: $learnt_t }")
    ports[1].send(packet(LEARN, flow=9))
    no_message(peer.controller)


def test_an_overdue_acknowledgement_lets_digests_come_again(peer, ports):
    configure(peer, max_list_size=1, ack_timeout_ns=1000 * MS)
    sent = time.monotonic()
    ports[1].send(packet(LEARN))
    first = digest(peer)
    again = None
    while again is None:
        assert time.monotonic() - sent < PATIENCE_S
        ports[1].send(packet(LEARN))
        with contextlib.suppress(queue.Empty):
            again = peer.controller.next(0.1)
    assert learnt(again.digest) == learnt(first)
    assert time.monotonic() - sent > 1


def test_wrong_acknowledgements(peer, ports, process, tools):
    if peer.kind == "bmv2":
        pytest.skip("bmv2 ignores them")
    configure(peer, max_list_size=1, ack_timeout_ns=60_000 * MS)
    ports[1].send(packet(LEARN))
    number = digest(peer).digest_id
    acknowledge(peer, 9, 1)
    error = peer.controller.next().error
    assert error.canonical_code == INVALID_ARGUMENT
    assert error.digest_list_ack.digest_list_ack == p4.DigestListAck(digest_id=9, list_id=1)
    acknowledge(peer, number, 12345)  # no such list, so no effect
    backup = tools.Controller(process, None)
    assert backup.arbitration_code() == 6
    acknowledge(peer, number, 1, backup)
    assert backup.next().error.canonical_code == PERMISSION_DENIED
    backup.close()
    ports[1].send(packet(LEARN))
    no_message(peer.controller)


def test_digests_go_to_the_primary_of_each_role(peer, ports, process, tools):
    if peer.kind == "bmv2":
        pytest.skip("bmv2 knows one role")
    other = tools.Controller(process, 1, role="learner")
    assert other.arbitration_code() == 0
    configure(peer, max_list_size=1)
    ports[1].send(packet(LEARN))
    assert learnt(digest(peer)) == learnt(other.next().digest)
    other.close()


# --- Idle timeouts ---


def aged(more: str = "", flow: int = 5) -> str:
    return (f"table_entry {{ table_id: $aged {key()} priority: {flow} {more} "
            f"{'action { action { action_id: $NoAction } }' if more else ''} }}")  # fmt: skip


def notification(peer) -> p4.IdleTimeoutNotification:
    message = peer.controller.next()
    assert message.HasField("idle_timeout_notification"), message
    return message.idle_timeout_notification


def test_idle_entries_are_reported_to_the_primary(peer, ports, process, tools):
    backup = tools.Controller(process, None)
    assert backup.arbitration_code() == 6
    write(peer, "INSERT", aged("idle_timeout_ns: 1000000000 controller_metadata: 5"))
    begin, before_ns = time.monotonic(), time.time_ns()
    message = notification(peer)  # bmv2 looks every second
    assert time.monotonic() - begin > 0.9
    assert len(message.table_entry) == 1
    entry = message.table_entry[0]
    expected = peer.entity(aged("idle_timeout_ns: 1000000000 controller_metadata: 5")).table_entry
    assert (entry.table_id, list(entry.match), entry.priority) == (
        expected.table_id, list(expected.match), expected.priority)  # fmt: skip
    assert (entry.controller_metadata, entry.idle_timeout_ns) == (5, 1_000_000_000)
    if peer.kind == "tiercast":
        assert before_ns <= message.timestamp <= time.time_ns()
        # bmv2 reports an entry once, until it is hit.
        assert list(notification(peer).table_entry) == list(message.table_entry)
    no_message(backup)
    backup.close()


def test_a_hit_puts_the_report_off(peer, ports):
    """With a time-out of 5 s, ten times the pause between two hits."""
    write(peer, "INSERT", aged("idle_timeout_ns: 5000000000"))
    for _ in range(11):
        time.sleep(0.5)
        ports[1].send(packet(AGE))
    no_message(peer.controller, 0.1)
    query = aged().replace("priority: 5", "priority: 5 time_since_last_hit { }")
    [entity] = peer.controller.read(peer.entity(query))
    assert entity.table_entry.time_since_last_hit.elapsed_ns < 5000 * MS
    notification(peer)


def test_idle_time_is_read(peer, ports):
    if peer.kind == "bmv2":
        pytest.skip("bmv2 answers with other times: 56 s after half a second")
    write(peer, "INSERT", aged("idle_timeout_ns: 60000000000"))
    time.sleep(0.3)
    before = time.monotonic_ns()
    ports[1].send(packet(AGE))
    after = time.monotonic_ns()
    time.sleep(0.5)
    query = aged().replace("priority: 5", "priority: 5 time_since_last_hit { }")
    asked = time.monotonic_ns()
    [entity] = peer.controller.read(peer.entity(query))
    idle = entity.table_entry.time_since_last_hit.elapsed_ns
    # The kernel's stamps use another clock, and reading both may be interrupted.
    slack = 100 * MS
    assert asked - after - slack <= idle <= time.monotonic_ns() - before + slack
    [plain] = peer.controller.read(peer.entity(aged()))
    assert not plain.table_entry.HasField("time_since_last_hit")


# --- Value sets ---


def test_value_sets_decide_in_the_parser(peer, ports):
    if peer.kind == "bmv2":
        pytest.skip("bmv2 serves no value sets")
    in_set = r'members { match { field_id: 1 exact { value: "\210\265" } } }'
    assert answer(ports, UNUSED) == 0
    write(peer, "MODIFY", f"value_set_entry {{ value_set_id: $types {in_set} }}")
    assert answer(ports, UNUSED) == 1
    assert answer(ports, UNUSED, ethertype=0x88B6) == 0
    write(peer, "MODIFY", "value_set_entry { value_set_id: $types }")
    assert answer(ports, UNUSED) == 0
    two = (r'members { match { field_id: 1 exact { value: "\003" } } '
           r'match { field_id: 2 ternary { value: "\001" mask: "\003" } } }')  # fmt: skip
    write(peer, "MODIFY", f"value_set_entry {{ value_set_id: $flows {two} }}")
    assert [answer(ports, UNUSED, 3, flow) for flow in (0, 1, 5, 6)] == [0, 1, 1, 0]
    assert answer(ports, UNUSED, 4, 1) == 0


# --- Pipeline configs ---

KINDS = ("table_entry", "action_profile_member", "action_profile_group", "meter_entry",
         "digest_entry", "value_set_entry")  # fmt: skip


def state(peer) -> list[bytes]:
    """Everything that a controller wrote, and nothing else."""
    found = []
    for kind in KINDS:
        query = peer.entity(f"{kind} {{ }}")
        if kind == "table_entry":
            query.table_entry.meter_config.SetInParent()
        for entity in peer.controller.read(query):
            if not (kind == "meter_entry" and not entity.meter_entry.HasField("config")) and not (
                kind == "value_set_entry" and not entity.value_set_entry.members
            ):
                found.append(entity.SerializeToString(deterministic=True))
    return sorted(found)


def test_a_pipeline_config_clears_all_and_a_reconciled_one_keeps_all(peer, ports):
    if peer.kind == "bmv2":
        pytest.skip("bmv2 has no RECONCILE_AND_COMMIT, and cannot read all of it")
    empty = state(peer)
    assert empty == []
    member = "action_profile_member { action_profile_id: $next_hops member_id: 3 "
    watching = r'members { member_id: 1 weight: 1 watch_port: "\001" }'
    for text in (
        f"{member} {forward(2)} }}",
        f"action_profile_member {{ action_profile_id: $paths member_id: 1 {forward(1)} }}",
        f"action_profile_group {{ action_profile_id: $paths group_id: 1 {watching} }}",
        f"table_entry {{ table_id: $balance {key()} action {{ action_profile_group_id: 1 }} }}",
        f"table_entry {{ table_id: $limited {key()} action {{ action_profile_action_set {{ "
        f"action_profile_actions {{ {forward(1)} weight: 2 }} }} }} }}",
        f"table_entry {{ table_id: $policed {key()} action {{ action {{ action_id: $mark }} }} "
        f"{config('meter_config')} }}",
        aged("idle_timeout_ns: 60000000000"),
        "digest_entry { digest_id: $learnt_t config { max_list_size: 1 } }",
    ):
        write(peer, "INSERT", text)
    write(peer, "MODIFY", f"meter_entry {{ meter_id: $cells index {{ index: 2 }} {config()} }}")
    write(peer, "MODIFY", r"value_set_entry { value_set_id: $types members { match { "
                          r'field_id: 1 exact { value: "\010\000" } } } }')  # fmt: skip
    before = state(peer)
    assert len(before) == 10
    peer.controller.set_pipeline(SET.RECONCILE_AND_COMMIT, peer.config)
    assert state(peer) == before
    ports[1].send(packet(LEARN))
    assert len(digest(peer).data) == 1
    peer.controller.set_pipeline(SET.VERIFY_AND_SAVE, peer.config)
    assert state(peer) == []
    write(peer, "INSERT", f"{member} {forward(1)} }}")
    peer.controller.set_pipeline(SET.COMMIT, None)
    assert len(state(peer)) == 1
    peer.controller.set_pipeline(SET.VERIFY_AND_COMMIT, peer.config)
    assert state(peer) == []
    assert answer(ports, MEASURE, 2) == 0
    ports[1].send(packet(LEARN))
    no_message(peer.controller)


@pytest.mark.parametrize(
    "atomicity", [p4.WriteRequest.ROLLBACK_ON_ERROR, p4.WriteRequest.DATAPLANE_ATOMIC]
)
def test_a_failed_batch_leaves_no_trace(peer, ports, leaves_by, atomicity):
    if peer.kind == "bmv2":
        pytest.skip("bmv2 has no atomic batches")

    def update(verb: str, text: str) -> p4.Update:
        return p4.Update(type=getattr(p4.Update, verb), entity=peer.entity(text))

    member = "action_profile_member { action_profile_id: $paths member_id:"
    group = "action_profile_group { action_profile_id: $paths group_id: 1 members { member_id:"
    entry = f"table_entry {{ table_id: $balance {key()} action"
    policed = (
        f"table_entry {{ table_id: $policed {key()} action {{ action {{ action_id: $mark }} }}"
    )
    learn = "digest_entry { digest_id: $learnt_t config { max_list_size:"
    value = "value_set_entry { value_set_id: $types members { match { field_id: 1 exact { value:"
    before = (
        f"{member} 1 {forward(1)} }}",
        f"{group} 1 weight: 2 }} }}",
        f"{entry} {{ action_profile_group_id: 1 }} }}",
        f"{policed} {config('meter_config')} }}",
        f"{learn} 1 }} }}",
        aged("idle_timeout_ns: 60000000000"),
    )
    for text in before:
        write(peer, "INSERT", text)
    there = state(peer)
    cell = f"meter_entry {{ meter_id: $cells index {{ index: 1 }} {config()} }}"
    updates = [
        update("INSERT", f"{member} 2 {forward(2)} }}"),
        update("MODIFY", f"{group} 2 weight: 1 }} }}"),
        update("MODIFY", f"{entry} {{ action_profile_member_id: 2 }} }}"),
        update("DELETE", f"{group} 2 weight: 1 }} }}"),
        update("DELETE", f"{member} 1 }}"),
        update("MODIFY", cell),
        update("MODIFY", f"direct_meter_entry {{ {policed} }} }}"),
        update("MODIFY", f"{learn} 2 }} }}"),
        update("DELETE", f"{learn} 2 }} }}"),
        update("MODIFY", rf'{value} "\001" }} }} }} }}'),
        update("MODIFY", aged("idle_timeout_ns: 1")),
        update("DELETE", aged()),
    ]
    request = p4.WriteRequest(device_id=1, election_id=peer.controller.election_id,
                              atomicity=atomicity, updates=updates)  # fmt: skip
    request.updates.add(type=p4.Update.INSERT).entity.SetInParent()
    with pytest.raises(grpc.RpcError):
        peer.stub.Write(request)
    assert state(peer) == there
    assert {leaves_by(BALANCE, 1, flow) for flow in range(3)} == {1}
    ports[1].send(packet(LEARN))
    assert len(digest(peer).data) == 1
    del request.updates[len(updates) :]
    peer.stub.Write(request)
    assert state(peer) != there
    assert {leaves_by(BALANCE, 1, flow) for flow in range(3)} == {2}
