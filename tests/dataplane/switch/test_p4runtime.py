"""The P4Runtime server: arbitration, pipeline configs, batches, errors (no traffic)."""

import queue
from pathlib import Path

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4
from tiercast.v1 import lab_pb2, queue_pb2

from ...patience import wait_until

PORTS = ("--port", "1=p1", "--port", "2=p2")
SET = p4.SetForwardingPipelineConfigRequest
GET = p4.GetForwardingPipelineConfigRequest
MAC = bytes.fromhex("020000000002")

OK, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, ABORTED, UNIMPLEMENTED = 0, 5, 6, 7, 10, 12


@pytest.fixture
def switch(start):
    return start(*PORTS)


@pytest.fixture
def connect(switch, tools):
    made = []

    def make(*arguments, **options):
        made.append(tools.Controller(switch, *arguments, **options))
        return made[-1]

    yield make
    for controller in made:
        controller.close()


@pytest.fixture
def primary(connect):
    controller = connect(5)
    assert controller.arbitration_code() == OK
    return controller


def refused(code: grpc.StatusCode, work, *arguments) -> str:
    with pytest.raises(grpc.RpcError) as error:
        work(*arguments)
    assert error.value.code() == code, error.value.details()
    return error.value.details()


def stream_end(controller) -> grpc.StatusCode:
    error = controller.next()
    assert isinstance(error, grpc.RpcError), error
    return error.code()


def test_capabilities(switch):
    response = switch.p4runtime.Capabilities(p4.CapabilitiesRequest())
    assert response.p4runtime_api_version == "1.4.0"
    refused(grpc.StatusCode.NOT_FOUND, switch.p4runtime.Capabilities,
            p4.CapabilitiesRequest(device_id=9))  # fmt: skip


def test_primary_and_backup(primary, connect, p4info):
    backup = connect(4)
    assert backup.arbitration_code() == ALREADY_EXISTS
    text = refused(grpc.StatusCode.PERMISSION_DENIED, backup.write)
    assert "election_id (0, 4) is not the primary's" in text
    refused(grpc.StatusCode.PERMISSION_DENIED, backup.set_pipeline, SET.VERIFY, p4info.config())

    backup.outgoing.put(p4.StreamMessageRequest(packet=p4.PacketOut(payload=b"frame")))
    assert backup.next().error.canonical_code == PERMISSION_DENIED

    primary.close()
    assert backup.arbitration_code() == NOT_FOUND
    third = connect(6)
    assert third.arbitration_code() == OK
    assert backup.arbitration_code() == ALREADY_EXISTS


def test_a_higher_election_id_takes_over(primary, connect):
    other = connect(6)
    assert other.arbitration_code() == OK
    assert primary.arbitration_code() == ALREADY_EXISTS
    refused(grpc.StatusCode.PERMISSION_DENIED, primary.write)


def test_wrong_arbitrations_end_the_stream(primary, connect):
    assert stream_end(connect(5)) == grpc.StatusCode.INVALID_ARGUMENT
    assert stream_end(connect(7, device_id=2)) == grpc.StatusCode.NOT_FOUND
    primary.device_id = 2
    primary.arbitrate(primary.election_id)
    assert stream_end(primary) == grpc.StatusCode.FAILED_PRECONDITION


def test_before_a_pipeline_is_set(primary, switch):
    refused(grpc.StatusCode.FAILED_PRECONDITION, primary.write)
    refused(grpc.StatusCode.FAILED_PRECONDITION, primary.read)
    refused(grpc.StatusCode.FAILED_PRECONDITION,
            switch.p4runtime.GetForwardingPipelineConfig, GET(device_id=1))  # fmt: skip
    refused(grpc.StatusCode.NOT_FOUND, primary.set_pipeline, SET.COMMIT, None)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"rate_bps": 10**16}, "rate"), ({"delay_ns": 10**16}, "delay"),
     ({"wire": queue_pb2.Wire(duplicate=2)}, "wire: duplicate")],
)  # fmt: skip
def test_a_link_is_checked_before_there_is_a_pipeline(primary, switch, p4info, wrong, said):
    """Otherwise no program could be loaded."""
    set_link = lab_pb2.SetLinkRequest(port=1, **wrong)
    text = refused(grpc.StatusCode.INVALID_ARGUMENT, switch.lab.SetLink, set_link)
    assert text.startswith(f"port 1: {said}"), text
    primary.set_pipeline(SET.VERIFY_AND_SAVE, p4info.config())
    primary.set_pipeline(SET.COMMIT, None)
    primary.insert(p4info.host("10.0.2.2", 2, MAC))


def test_streams_are_limited_before_they_say_anything(primary, switch):
    silent = [switch.p4runtime.StreamChannel(iter(queue.SimpleQueue().get, None))
              for _ in range(63)]  # fmt: skip
    wait_until(lambda: threads(switch) > 2 * 63, "all streams are open")
    one_more = switch.p4runtime.StreamChannel(iter(queue.SimpleQueue().get, None))
    text = refused(grpc.StatusCode.RESOURCE_EXHAUSTED, next, one_more)
    assert text == "64 streams are open, which is the maximum"
    for stream in silent:
        stream.cancel()
    refused(grpc.StatusCode.FAILED_PRECONDITION, primary.read)  # it goes on

    def has_room() -> bool:
        stream = switch.p4runtime.StreamChannel(iter([p4.StreamMessageRequest()]))
        try:
            return next(stream).error.canonical_code == UNIMPLEMENTED
        except grpc.RpcError:
            return False

    wait_until(has_room, "ended streams make room")


def threads(switch) -> int:
    return len(list(Path(f"/proc/{switch.process.pid}/task").iterdir()))


def test_get_gives_back_what_was_set(primary, switch, p4info):
    config = p4info.config(cookie=77)
    primary.set_pipeline(SET.VERIFY_AND_COMMIT, config)
    get = switch.p4runtime.GetForwardingPipelineConfig
    assert get(GET(device_id=1)).config == config
    assert get(GET(device_id=1, response_type=GET.COOKIE_ONLY)).config == (
        p4.ForwardingPipelineConfig(cookie=config.cookie))  # fmt: skip
    assert get(GET(device_id=1, response_type=GET.P4INFO_AND_COOKIE)).config == (
        p4.ForwardingPipelineConfig(cookie=config.cookie, p4info=config.p4info))  # fmt: skip
    assert get(GET(device_id=1, response_type=GET.DEVICE_CONFIG_AND_COOKIE)).config == (
        p4.ForwardingPipelineConfig(cookie=config.cookie,
                                    p4_device_config=config.p4_device_config))  # fmt: skip
    refused(grpc.StatusCode.NOT_FOUND, get, GET(device_id=2))


def test_verify_changes_nothing(primary, p4info):
    primary.set_pipeline(SET.VERIFY, p4info.config())
    refused(grpc.StatusCode.FAILED_PRECONDITION, primary.write)


def test_wrong_configs_are_refused_and_the_old_one_stays(primary, p4info):
    primary.set_pipeline(SET.VERIFY_AND_COMMIT, p4info.config())
    primary.insert(p4info.host("10.0.2.2", 2, MAC))
    for config in (None, p4info.config(b"{"), p4info.config(b"not JSON"), p4info.config(b"{}")):
        refused(grpc.StatusCode.INVALID_ARGUMENT, primary.set_pipeline, SET.VERIFY_AND_COMMIT,
                config)  # fmt: skip
    assert len(primary.read(p4info.hosts())) == 1


def test_saved_state_is_carried_over_at_commit(primary, switch, p4info):
    primary.set_pipeline(SET.VERIFY_AND_COMMIT, p4info.config(cookie=1))
    primary.insert(p4info.host("10.0.2.2", 2, MAC))
    primary.set_pipeline(SET.VERIFY_AND_SAVE, p4info.config(cookie=2))
    assert primary.read(p4info.hosts()) == []
    saved = p4info.host("10.0.9.9", 1, MAC)
    primary.insert(saved)
    primary.set_pipeline(SET.COMMIT, None)
    assert primary.read(p4info.hosts()) == [saved]
    get = switch.p4runtime.GetForwardingPipelineConfig
    assert get(GET(device_id=1)).config.cookie.cookie == 2


def test_reconcile_keeps_the_forwarding_state(primary, p4info):
    primary.set_pipeline(SET.VERIFY_AND_COMMIT, p4info.config())
    host, group = p4info.host("10.0.2.2", 2, MAC), p4info.group(8, 1, 2)
    primary.insert(host, group)
    primary.modify(p4info.register("avg_queue", 1, b"\x05"))
    primary.set_pipeline(SET.RECONCILE_AND_COMMIT, p4info.config())
    assert primary.read(p4info.hosts()) == [host]
    wildcard = p4.Entity()
    wildcard.packet_replication_engine_entry.SetInParent()
    assert primary.read(wildcard) == [group]
    assert primary.read(p4info.register("avg_queue", 1))[0].register_entry.data.bitstring == b"\x05"
    primary.set_pipeline(SET.VERIFY_AND_COMMIT, p4info.config())
    assert primary.read(p4info.hosts()) == []


def test_a_batch_goes_on_after_an_error_and_reports_each(primary, p4info, tools):
    primary.set_pipeline(SET.VERIFY_AND_COMMIT, p4info.config())
    host = p4info.host("10.0.2.2", 2, MAC)
    other = p4info.host("10.0.2.3", 2, MAC)
    with pytest.raises(grpc.RpcError) as error:
        primary.insert(host, host, p4.Entity(), other)
    assert error.value.code() == grpc.StatusCode.UNKNOWN
    assert tools.batch_codes(error.value) == [OK, ALREADY_EXISTS, 3, OK]
    assert primary.read(host, other) == [host, other]
    with pytest.raises(grpc.RpcError) as error:
        primary.read(host, p4.Entity())
    assert tools.batch_codes(error.value) == [OK, 3]


def test_large_batches_and_reads(primary, p4info):
    primary.set_pipeline(SET.VERIFY_AND_COMMIT, p4info.config())
    hosts = [p4info.host(f"10.1.{n // 250}.{1 + n % 250}", 2, MAC) for n in range(2000)]
    primary.insert(*hosts)
    assert len(primary.read(p4info.hosts())) == 2000
    primary.write(*(p4.Update(type=p4.Update.DELETE, entity=host) for host in hosts))
    assert primary.read(p4info.hosts()) == []


ATOMICITIES = [p4.WriteRequest.ROLLBACK_ON_ERROR, p4.WriteRequest.DATAPLANE_ATOMIC]
WHOLE_STATE = ("table_entry", "counter_entry", "register_entry", "packet_replication_engine_entry")


def whole_state(controller):
    entities = [p4.Entity() for _ in WHOLE_STATE]
    for entity, kind in zip(entities, WHOLE_STATE, strict=True):
        getattr(entity, kind).SetInParent()
    return sorted(entity.SerializeToString() for entity in controller.read(*entities))


@pytest.mark.parametrize("atomicity", ATOMICITIES)
def test_a_batch_happens_as_a_whole_or_not_at_all(primary, p4info, switch, tools, atomicity):
    primary.set_pipeline(SET.VERIFY_AND_COMMIT, p4info.config())
    there, other = p4info.host("10.0.2.2", 2, MAC), p4info.host("10.0.2.3", 2, MAC)
    primary.insert(there, p4info.group(8, 1, 2), p4info.group(9, 3))
    primary.modify(p4info.register("avg_queue", 1, b"\x05"))
    before = whole_state(primary)
    updates = [
        p4.Update(type=p4.Update.INSERT, entity=other),
        p4.Update(type=p4.Update.MODIFY, entity=p4info.host("10.0.2.2", 1, MAC)),
        p4.Update(type=p4.Update.DELETE, entity=there),
        p4.Update(type=p4.Update.MODIFY, entity=p4info.group(8, 3)),
        p4.Update(type=p4.Update.DELETE, entity=p4info.group(9)),
        p4.Update(type=p4.Update.MODIFY, entity=p4info.register("avg_queue", 1, b"\x06")),
    ]
    failing = p4.Update(type=p4.Update.INSERT, entity=other)
    request = p4.WriteRequest(device_id=1, election_id=primary.election_id, atomicity=atomicity)
    request.updates.extend([*updates, failing, *updates])
    with pytest.raises(grpc.RpcError) as error:
        switch.p4runtime.Write(request)
    aborted = [ABORTED] * len(updates)
    assert tools.batch_codes(error.value) == [*aborted, ALREADY_EXISTS, *aborted]
    assert whole_state(primary) == before
    del request.updates[len(updates) :]
    switch.p4runtime.Write(request)
    assert primary.read(p4info.hosts()) == [other]


def test_an_unknown_atomicity_is_refused(primary, p4info, switch):
    primary.set_pipeline(SET.VERIFY_AND_COMMIT, p4info.config())
    request = p4.WriteRequest(device_id=1, election_id=primary.election_id, atomicity=9)
    text = refused(grpc.StatusCode.INVALID_ARGUMENT, switch.p4runtime.Write, request)
    assert "valid: CONTINUE_ON_ERROR, ROLLBACK_ON_ERROR, DATAPLANE_ATOMIC" in text


def test_a_program_from_the_command_line_serves_p4runtime(start, program, tools, p4info):
    switch = start(*PORTS, *program, device_id=4)
    controller = tools.Controller(switch, device_id=4)
    assert controller.arbitration_code() == OK
    controller.insert(p4info.host("10.0.2.2", 2, MAC))
    controller.close()
