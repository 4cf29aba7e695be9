"""What a controller may ask of a switch, wrong things above all, and the code of the answer.

One table for tiercast-switch and, where it is installed, for bmv2's simple_switch_grpc. A case in
which they differ says what bmv2 answers and why we do otherwise (docs/switch.md lists these).
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from google.protobuf import text_format
from google.rpc import code_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4

PROGRAM = Path(__file__).resolve().parents[2] / "data/p4/control"
SWITCHES = ["tiercast"] + (["bmv2"] if shutil.which("simple_switch_grpc") else [])
SET = p4.SetForwardingPipelineConfigRequest


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[str, ...]  # VERB entity; all but the last must succeed
    answer: str  # to the last step: a code, or for READ how many entities
    bmv2: str = ""  # its answer, where it is another
    why: str = ""


def case(name: str, *steps: str, answer: str, bmv2: str = "", why: str = "") -> Case:
    return Case(name, steps, answer, bmv2, why)


EXACT_KEY = (
    r'match { field_id: 1 exact { value: "\n" } } match { field_id: 2 exact { value: "\001" } }'
)
SEND = r'action { action { action_id: $send params { param_id: 1 value: "\002" } params { param_id: 2 value: "\003" } } }'
DROP = "action { action { action_id: $drop } }"


def exact(key: str = EXACT_KEY, action: str = SEND, more: str = "") -> str:
    return f"table_entry {{ table_id: $exact_one {key} {action} {more} }}"


def prefix(value: str = r"\n\000\000\000", length: int = 8, more: str = "") -> str:
    return (f'table_entry {{ table_id: $prefix match {{ field_id: 1 lpm {{ value: "{value}" '
            f"prefix_len: {length} }} }} {DROP} {more} }}")  # fmt: skip


D = r'match { field_id: 4 exact { value: "\001" } }'


def ternary(match: str = "", priority: int | None = 5, action: str = DROP, d: str = D) -> str:
    level = "" if priority is None else f"priority: {priority}"
    return f"table_entry {{ table_id: $ternary_one {match} {d} {level} {action} }}"


def group(number: int = 8, replicas: str = "replicas { egress_port: 1 instance: 1 }") -> str:
    return (f"packet_replication_engine_entry {{ multicast_group_entry {{ "
            f"multicast_group_id: {number} {replicas} }} }}")  # fmt: skip


def session(number: int = 5, replicas: str = "replicas { egress_port: 1 instance: 1 }") -> str:
    return (f"packet_replication_engine_entry {{ clone_session_entry {{ session_id: {number} "
            f"{replicas} }} }}")  # fmt: skip


# fmt: off
# ruff: noqa: E501 (a table)
OK, INVALID, NOT_FOUND, EXISTS = "OK", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS"
RANGE, DENIED, FULL, PRECONDITION = (
    "OUT_OF_RANGE", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION")  # fmt: skip
UNIMPLEMENTED, UNKNOWN = "UNIMPLEMENTED", "UNKNOWN"

# Why we do not answer as bmv2 does. In quotes: sections of the P4Runtime specification 1.4.
BYTES = '"Bytestrings": what does not fit, or is empty, is OUT_OF_RANGE'
DONT_CARE = '"Match Format": a range of every value is written by leaving the field out'
LAX = '"Action Specification": one value for each parameter'
CONSTANT = '"Constant Tables": PERMISSION_DENIED; is_const must be false in a write'
SIZE = '"TableEntry": RESOURCE_EXHAUSTED when the table is full'
NO_ENTRY = '"DirectCounterEntry": NOT_FOUND'
ARRAYS = '"CounterEntry": MODIFY only, all cells if there is no index, OUT_OF_RANGE beyond the last'
REGISTERS = '"RegisterEntry": bmv2 serves none'
PORTS = '"MulticastGroupEntry": instances and ports that the target has'
CLASS = '"CloneSessionEntry": an unknown class of service is INVALID_ARGUMENT'
TRUNCATION = '"CloneSessionEntry": packet_length_bytes; bmv2 serves none'
FILTERS = '"Wildcard Reads": priority and metadata select'

VAGUE = "UNKNOWN does not say what is wrong"

CASES = [
    # --- Entries: life ---
    case("insert", "INSERT " + exact(), answer=OK),
    case("insert twice", "INSERT " + exact(), "INSERT " + exact(), answer=EXISTS),
    case("modify", "INSERT " + exact(), "MODIFY " + exact(action=DROP), answer=OK),
    case("modify what is not there", "MODIFY " + exact(), answer=NOT_FOUND),
    case("delete", "INSERT " + exact(), "DELETE " + exact(action=""), answer=OK),
    case("delete what is not there", "DELETE " + exact(action=""), answer=NOT_FOUND),
    case("delete with another action", "INSERT " + exact(), "DELETE " + exact(action=DROP), answer=OK),
    case("update type missing", "UNSPECIFIED " + exact(), answer=INVALID),
    case("no entity", "INSERT ", answer=INVALID, bmv2=UNKNOWN, why=VAGUE),
    # --- Ids ---
    case("table 0", "INSERT table_entry { }", answer=INVALID),
    case("unknown table", "INSERT table_entry { table_id: 1 }", answer=INVALID),
    case("an action's id as a table", "INSERT table_entry { table_id: $drop }", answer=INVALID),
    case("unknown action", "INSERT " + exact(action="action { action { action_id: 9 } }"), answer=INVALID),
    case("another table's action", "INSERT " + exact(action="action { action { action_id: $elsewhere } }"), answer=INVALID),
    case("no action", "INSERT " + exact(action=""), answer=INVALID),
    case("default-only action in an entry", "INSERT " + exact(action="action { action { action_id: $NoAction } }"), answer=DENIED),
    case("action profile member in a plain table", "INSERT " + exact(action="action { action_profile_member_id: 1 }"), answer=INVALID),
    case("action set in a plain table", "INSERT " + exact(action="action { action_profile_action_set { } }"), answer=INVALID),
    # --- Keys ---
    case("no key", "INSERT " + exact(""), answer=INVALID),
    case("half a key", r'INSERT ' + exact(r'match { field_id: 1 exact { value: "\n" } }'), answer=INVALID),
    case("a field too much", r'INSERT ' + exact(EXACT_KEY + r'match { field_id: 3 exact { value: "\n" } }'), answer=INVALID),
    case("a field twice", r'INSERT ' + exact(EXACT_KEY + r'match { field_id: 1 exact { value: "\n" } }'), answer=INVALID),
    case("unknown field instead", r'INSERT ' + exact(r'match { field_id: 1 exact { value: "\n" } } match { field_id: 9 exact { value: "\n" } }'), answer=INVALID),
    case("field without a value", r'INSERT ' + exact(r'match { field_id: 1 } match { field_id: 2 exact { value: "\n" } }'), answer=INVALID),
    case("lpm for exact", r'INSERT ' + exact(r'match { field_id: 1 lpm { value: "\n" prefix_len: 32 } } match { field_id: 2 exact { value: "\n" } }'), answer=INVALID),
    case("ternary for exact", r'INSERT ' + exact(r'match { field_id: 1 ternary { value: "\n" mask: "\377" } } match { field_id: 2 exact { value: "\n" } }'), answer=INVALID),
    case("exact for lpm", r'INSERT table_entry { table_id: $prefix match { field_id: 1 exact { value: "\n" } } ' + DROP + " }", answer=INVALID),
    case("value of more bytes", r'INSERT ' + exact(r'match { field_id: 1 exact { value: "\001\000\000\000\000" } } match { field_id: 2 exact { value: "\n" } }'), answer=RANGE, bmv2=INVALID, why=BYTES),
    case("value of more bits", r'INSERT ' + exact(r'match { field_id: 1 exact { value: "\n" } } match { field_id: 2 exact { value: "\020\000" } }'), answer=RANGE, bmv2=INVALID, why=BYTES),
    case("value with leading zeros", r'INSERT ' + exact(r'match { field_id: 1 exact { value: "\000\000\000\000\000\n" } } match { field_id: 2 exact { value: "\n" } }'), answer=OK),
    case("empty value", r'INSERT ' + exact(r'match { field_id: 1 exact { value: "" } } match { field_id: 2 exact { value: "\n" } }'), answer=RANGE, bmv2=OK, why=BYTES),
    case("same key, other spelling", "INSERT " + exact(), "INSERT " + exact(EXACT_KEY.replace(r'\001', r'\000\001')), answer=EXISTS),
    case("priority in an exact table", "INSERT " + exact(more="priority: 1"), answer=INVALID),
    case("priority in an lpm table", "INSERT " + prefix(more="priority: 1"), answer=INVALID),
    # --- lpm ---
    case("prefix", "INSERT " + prefix(), answer=OK),
    case("prefix 0", "INSERT " + prefix(r"\000", 0), answer=INVALID),
    case("prefix below 0", "INSERT " + prefix(r"\000", -1), answer=INVALID),
    case("prefix too long", "INSERT " + prefix(length=33), answer=INVALID),
    case("bits behind the prefix", "INSERT " + prefix(r"\n\000\000\001"), answer=INVALID),
    case("any prefix", "INSERT table_entry { table_id: $prefix " + DROP + " }", answer=OK),
    # --- ternary, range, optional ---
    case("ternary", r'INSERT ' + ternary(r'match { field_id: 1 ternary { value: "\n" mask: "\017" } }'), answer=OK),
    case("all don't care", "INSERT " + ternary(), answer=OK),
    case("no priority", "INSERT " + ternary(priority=None), answer=INVALID),
    case("priority below 0", "INSERT " + ternary(priority=-3), answer=INVALID, bmv2=UNKNOWN, why=VAGUE),
    case("mask 0", r'INSERT ' + ternary(r'match { field_id: 1 ternary { value: "\000" mask: "\000" } }'), answer=INVALID),
    case("bits outside the mask", r'INSERT ' + ternary(r'match { field_id: 1 ternary { value: "\n" mask: "\001" } }'), answer=INVALID),
    case("mask too wide", r'INSERT ' + ternary(r'match { field_id: 1 ternary { value: "\n" mask: "\001\000\000\000\017" } }'), answer=RANGE, bmv2=INVALID, why=BYTES),
    case("range", r'INSERT ' + ternary(r'match { field_id: 2 range { low: "\002" high: "\005" } }'), answer=OK),
    case("range upside down", r'INSERT ' + ternary(r'match { field_id: 2 range { low: "\005" high: "\002" } }'), answer=INVALID),
    case("range of everything", r'INSERT ' + ternary(r'match { field_id: 2 range { low: "\000" high: "\377\377" } }'), answer=INVALID, bmv2=OK, why=DONT_CARE),
    case("range too wide", r'INSERT ' + ternary(r'match { field_id: 2 range { low: "\002" high: "\001\000\000" } }'), answer=RANGE, bmv2=INVALID, why=BYTES),
    case("optional", r'INSERT ' + ternary(r'match { field_id: 3 optional { value: "\002" } }'), answer=OK),
    case("optional too wide", r'INSERT ' + ternary(r'match { field_id: 3 optional { value: "\020\000" } }'), answer=RANGE, bmv2=INVALID, why=BYTES),
    case("exact field missing beside ternary", "INSERT " + ternary(d=""), answer=INVALID),
    case("same match, other priority", "INSERT " + ternary(), "INSERT " + ternary(priority=6), answer=OK),
    case("same match, same priority", "INSERT " + ternary(), "INSERT " + ternary(), answer=EXISTS),
    case("delete at another priority", "INSERT " + ternary(), "DELETE " + ternary(priority=6), answer=NOT_FOUND),
    # --- Action parameters ---
    case("parameter missing", r'INSERT ' + exact(action=r'action { action { action_id: $send params { param_id: 1 value: "\001" } } }'), answer=INVALID),
    case("unknown parameter", r'INSERT ' + exact(action=r'action { action { action_id: $send params { param_id: 1 value: "\001" } params { param_id: 7 value: "\001" } } }'), answer=INVALID),
    case("parameter twice", r'INSERT ' + exact(action=r'action { action { action_id: $send params { param_id: 1 value: "\001" } params { param_id: 1 value: "\001" } } }'), answer=INVALID, bmv2=OK, why=LAX),
    case("parameter too much", r'INSERT ' + exact(action=r'action { action { action_id: $drop params { param_id: 1 value: "\001" } } }'), answer=INVALID),
    case("parameter too wide", r'INSERT ' + exact(action=r'action { action { action_id: $send params { param_id: 1 value: "\004\000" } params { param_id: 2 value: "\001" } } }'), answer=RANGE, bmv2=INVALID, why=BYTES),
    case("parameter empty", r'INSERT ' + exact(action=r'action { action { action_id: $send params { param_id: 1 value: "" } params { param_id: 2 value: "\001" } } }'), answer=RANGE, bmv2=OK, why=BYTES),
    # --- Constant tables, default actions, sizes ---
    case("insert into a const table", r'INSERT table_entry { table_id: $fixed match { field_id: 1 exact { value: "\003" } } ' + DROP + " }", answer=DENIED, bmv2=UNKNOWN, why=CONSTANT),
    case("modify a const entry", r'MODIFY table_entry { table_id: $fixed match { field_id: 1 exact { value: "\001" } } ' + DROP + " }", answer=DENIED, bmv2=NOT_FOUND, why=CONSTANT),
    case("delete a const entry", r'DELETE table_entry { table_id: $fixed match { field_id: 1 exact { value: "\001" } } }', answer=DENIED, bmv2=NOT_FOUND, why=CONSTANT),
    case("read const entries", "READ table_entry { table_id: $fixed }", answer="2"),
    case("is_const set", "INSERT " + exact(more="is_const: true"), answer=INVALID, bmv2=OK, why=CONSTANT),
    case("default action", f"MODIFY table_entry {{ table_id: $keyless is_default_action: true {SEND} }}", answer=OK),
    case("default action reset", "MODIFY table_entry { table_id: $keyless is_default_action: true }", answer=OK),
    case("insert a default action", f"INSERT table_entry {{ table_id: $keyless is_default_action: true {SEND} }}", answer=INVALID),
    case("delete a default action", "DELETE table_entry { table_id: $keyless is_default_action: true }", answer=INVALID),
    case("constant default action", f"MODIFY table_entry {{ table_id: $fixed_default is_default_action: true {DROP} }}", answer=DENIED),
    case("default action with a key", "MODIFY " + exact(action=DROP, more="is_default_action: true"), answer=INVALID),
    case("default action with a priority", f"MODIFY table_entry {{ table_id: $keyless is_default_action: true priority: 1 {SEND} }}", answer=INVALID),
    case("table-only action as default", r'MODIFY table_entry { table_id: $exact_one is_default_action: true action { action { action_id: $count params { param_id: 1 value: "\001" } } } }', answer=DENIED),
    case("default action of another table", "MODIFY table_entry { table_id: $keyless is_default_action: true action { action { action_id: $elsewhere } } }", answer=INVALID),
    case("read a default action", "READ table_entry { table_id: $keyless is_default_action: true }", answer="1"),
    case("entry in a keyless table", f"INSERT table_entry {{ table_id: $keyless {DROP} }}", answer=INVALID, bmv2=UNKNOWN, why=VAGUE),
    case("table full", *("INSERT " + exact(EXACT_KEY.replace(r"\001", rf"\00{n}")) for n in range(1, 6)), answer=FULL, bmv2=UNKNOWN, why=SIZE),
    # --- Direct resources, time-outs ---
    case("counter data with an entry", "INSERT " + exact(more="counter_data { packet_count: 5 }"), answer=OK),
    case("counter data without a counter", "INSERT " + prefix(more="counter_data { packet_count: 5 }"), answer=INVALID),
    case("meter config without a meter", "INSERT " + prefix(more="meter_config { cir: 1 cburst: 1 pir: 1 pburst: 1 }"), answer=INVALID),
    case("time-out where none is supported", "INSERT " + prefix(more="idle_timeout_ns: 1000000000"), answer=INVALID),
    case("direct counter written", "INSERT " + exact(), "MODIFY direct_counter_entry { " + exact(action="") + " data { packet_count: 3 } }", answer=OK),
    case("direct counter inserted", "INSERT " + exact(), "INSERT direct_counter_entry { " + exact(action="") + " data { packet_count: 3 } }", answer=INVALID),
    case("direct counter of no entry", "MODIFY direct_counter_entry { " + exact(action="") + " data { packet_count: 3 } }", answer=NOT_FOUND, bmv2=INVALID, why=NO_ENTRY),
    case("direct counter of a table without", "INSERT " + prefix(), "MODIFY direct_counter_entry { " + prefix() + " data { packet_count: 3 } }", answer=INVALID),
    case("direct counter read", "INSERT " + exact(), "READ direct_counter_entry { " + exact(action="") + " }", answer="1"),
    case("direct counters of a table", "INSERT " + exact(), "READ direct_counter_entry { table_entry { table_id: $exact_one } }", answer="1"),
    case("direct counter read of no entry", "READ direct_counter_entry { " + exact(action="") + " }", answer=NOT_FOUND, bmv2=INVALID, why=NO_ENTRY),
    case("direct counters of a table without", "READ direct_counter_entry { table_entry { table_id: $prefix } }", answer=INVALID),
    # --- Counters ---
    case("counter written", "MODIFY counter_entry { counter_id: $cells index { index: 3 } data { packet_count: 7 byte_count: 9 } }", answer=OK),
    case("counter inserted", "INSERT counter_entry { counter_id: $cells index { index: 3 } data { packet_count: 7 } }", answer=INVALID),
    case("counter deleted", "DELETE counter_entry { counter_id: $cells index { index: 3 } }", answer=INVALID, bmv2=OK, why=ARRAYS),
    case("unknown counter", "MODIFY counter_entry { counter_id: 3 index { index: 3 } data { packet_count: 7 } }", answer=INVALID),
    case("counter index too large", "MODIFY counter_entry { counter_id: $cells index { index: 16 } data { packet_count: 7 } }", answer=RANGE, bmv2=UNKNOWN, why=ARRAYS),
    case("counter index below 0", "MODIFY counter_entry { counter_id: $cells index { index: -1 } data { packet_count: 7 } }", answer=INVALID),
    case("counter without data", "MODIFY counter_entry { counter_id: $cells index { index: 3 } }", answer=OK),
    case("all cells written", "MODIFY counter_entry { counter_id: $cells data { packet_count: 7 } }", answer=OK, bmv2=UNIMPLEMENTED, why=ARRAYS),
    case("counter read", "READ counter_entry { counter_id: $cells index { index: 3 } }", answer="1"),
    case("all cells read", "READ counter_entry { counter_id: $cells }", answer="16"),
    case("all counters read", "READ counter_entry { }", answer="16"),
    case("unknown counter read", "READ counter_entry { counter_id: 3 }", answer=INVALID),
    case("counter read outside", "READ counter_entry { counter_id: $cells index { index: 16 } }", answer=RANGE, bmv2=UNKNOWN, why=ARRAYS),
    case("counter read below 0", "READ counter_entry { counter_id: $cells index { index: -1 } }", answer=INVALID),
    # --- Registers ---
    case("register written", r'MODIFY register_entry { register_id: $memory index { index: 2 } data { bitstring: "\007" } }', answer=OK, bmv2=UNIMPLEMENTED, why=REGISTERS),
    case("register read", "READ register_entry { register_id: $memory index { index: 2 } }", answer="1", bmv2=UNIMPLEMENTED, why=REGISTERS),
    case("register too wide", r'MODIFY register_entry { register_id: $memory index { index: 2 } data { bitstring: "\020\000\000" } }', answer=RANGE, bmv2=UNIMPLEMENTED, why=REGISTERS),
    case("register inserted", r'INSERT register_entry { register_id: $memory index { index: 2 } data { bitstring: "\007" } }', answer=INVALID, bmv2=UNIMPLEMENTED, why=REGISTERS),
    case("register read outside", "READ register_entry { register_id: $memory index { index: 8 } }", answer=RANGE, bmv2=UNIMPLEMENTED, why=REGISTERS),
    # --- Multicast groups, clone sessions ---
    case("group", "INSERT " + group(), answer=OK),
    case("group twice", "INSERT " + group(), "INSERT " + group(), answer=EXISTS),
    case("group 0", "INSERT " + group(0), answer=INVALID),
    case("group above 65535", "INSERT " + group(65536), answer=RANGE),
    case("empty group", "INSERT " + group(replicas=""), answer=OK),
    case("replica twice", "INSERT " + group(replicas="replicas { egress_port: 1 } replicas { egress_port: 1 }"), answer=INVALID),
    case("two instances on a port", "INSERT " + group(replicas="replicas { egress_port: 1 instance: 1 } replicas { egress_port: 1 instance: 2 }"), answer=OK),
    case("replica on a port that is not there", "INSERT " + group(replicas="replicas { egress_port: 77 }"), answer=OK),
    case("replica on a port above 511", "INSERT " + group(replicas="replicas { egress_port: 512 }"), answer=INVALID, bmv2=OK, why=PORTS),
    case("instance above 65535", "INSERT " + group(replicas="replicas { egress_port: 1 instance: 65536 }"), answer=INVALID, bmv2=OK, why=PORTS),
    case("replica without a port", "INSERT " + group(replicas="replicas { instance: 1 }"), answer=INVALID),
    case("port as bytes", "INSERT " + group(replicas=r'replicas { port: "\001" instance: 1 }'), answer=OK),
    case("group modified", "INSERT " + group(), "MODIFY " + group(replicas="replicas { egress_port: 2 }"), answer=OK),
    case("group modified that is not there", "MODIFY " + group(), answer=NOT_FOUND),
    case("group deleted", "INSERT " + group(), "DELETE " + group(replicas=""), answer=OK),
    case("group deleted that is not there", "DELETE " + group(), answer=NOT_FOUND),
    case("groups read", "INSERT " + group(8), "INSERT " + group(9), "READ packet_replication_engine_entry { multicast_group_entry { } }", answer="2"),
    case("group read", "INSERT " + group(8), "INSERT " + group(9), "READ " + group(9, ""), answer="1"),
    case("group read that is not there", "READ " + group(9, ""), answer=NOT_FOUND),
    case("clone session read that is not there", "READ " + session(9, ""), answer=NOT_FOUND),
    case("clone session", "INSERT " + session(), answer=OK),
    case("clone session twice", "INSERT " + session(), "INSERT " + session(), answer=EXISTS),
    case("clone session 0", "INSERT " + session(0), answer=INVALID),
    case("clone session above 32767", "INSERT " + session(32768), answer=INVALID),
    case("clone session deleted that is not there", "DELETE " + session(), answer=NOT_FOUND),
    case("clone session modified that is not there", "MODIFY " + session(), answer=NOT_FOUND),
    case("class of service", "INSERT " + session(replicas="class_of_service: 9"), answer=INVALID, bmv2=UNIMPLEMENTED, why=CLASS),
    case("truncated clone session", "INSERT " + session(replicas="replicas { egress_port: 1 } packet_length_bytes: 64"), answer=OK, bmv2=UNKNOWN, why=TRUNCATION),
    case("replication of nothing", "INSERT packet_replication_engine_entry { }", answer=INVALID),
    # --- Reads with wildcards ---
    case("all entries of a table", "INSERT " + exact(), "INSERT " + exact(EXACT_KEY.replace(r"\001", r"\002")), "READ table_entry { table_id: $exact_one }", answer="2"),
    case("all entries", "INSERT " + exact(), "INSERT " + prefix(), "READ table_entry { }", answer="4"),
    case("one entry", "INSERT " + exact(), "INSERT " + exact(EXACT_KEY.replace(r"\001", r"\002")), "READ " + exact(action=""), answer="1"),
    case("an entry that is not there", "READ " + exact(action=""), answer="0"),
    case("entries of one priority", "INSERT " + ternary(), "INSERT " + ternary(priority=6), "READ table_entry { table_id: $ternary_one priority: 6 }", answer="1", bmv2="2", why=FILTERS),
    case("entries by metadata", 'INSERT ' + exact(more='metadata: "x"'), "INSERT " + exact(EXACT_KEY.replace(r"\001", r"\002")), 'READ table_entry { table_id: $exact_one metadata: "x" }', answer="1", bmv2="2", why=FILTERS),
    case("entries of an unknown table", "READ table_entry { table_id: 1 }", answer=INVALID),
    case("wildcard default actions", "READ table_entry { is_default_action: true }", answer="6"),
    case("read of nothing", "READ ", answer=INVALID, bmv2=UNKNOWN, why=VAGUE),
    case("entry read with a wrong key", r'READ ' + exact(r'match { field_id: 9 exact { value: "\n" } }', ""), answer=INVALID),
    # --- What the program does not have ---
    case("unknown extern", "INSERT extern_entry { extern_type_id: 1 }", answer=UNIMPLEMENTED),
]
# fmt: on


class Peer:
    """A switch with the program, and its primary."""

    def __init__(self, process, tools, election_id: int, program: Path = PROGRAM) -> None:
        self.tools = tools
        self.stub = process.p4runtime
        self.controller = tools.Controller(process, election_id)
        assert self.controller.arbitration_code() == 0
        text = program.with_suffix(".p4info.txtpb").read_text()
        self.config = p4.ForwardingPipelineConfig(
            p4info=text_format.Parse(text, p4info_pb2.P4Info()),
            p4_device_config=program.with_suffix(".json").read_bytes(),
        )
        self.ids = {
            item.preamble.alias: item.preamble.id
            for field, kind in self.config.p4info.ListFields()
            if "preamble" in field.message_type.fields_by_name
            for item in kind
        }
        self.controller.set_pipeline(SET.VERIFY_AND_COMMIT, self.config)

    def close(self) -> None:
        # bmv2 keeps groups and sessions over a new pipeline config.
        for kind in ("multicast_group_entry", "clone_session_entry"):
            found = self.controller.read(
                self.entity(f"packet_replication_engine_entry {{ {kind} {{ }} }}")
            )
            self.controller.write(
                *(p4.Update(type=p4.Update.DELETE, entity=each) for each in found)
            )
        self.controller.close()

    def entity(self, text: str) -> p4.Entity:
        with_ids = re.sub(r"\$(\w+)", lambda match: str(self.ids[match[1]]), text)
        return text_format.Parse(with_ids, p4.Entity())

    def do(self, step: str) -> str:
        verb, _, text = step.partition(" ")
        try:
            if verb == "READ":
                return str(len(self.controller.read(self.entity(text))))
            update = p4.Update(type=getattr(p4.Update, verb), entity=self.entity(text))
            self.controller.write(update)
        except grpc.RpcError as error:
            return code_of(error, self.tools)
        return OK


def code_of(error: grpc.RpcError, tools) -> str:
    """Of the one update or entity, wherever it stands."""
    codes = batch_codes(error, tools)
    return codes[0] if codes else error.code().name


def batch_codes(error: grpc.RpcError, tools) -> list[str]:
    """Of each update or entity; none if the request was refused as a whole."""
    if "grpc-status-details-bin" not in dict(error.trailing_metadata()):
        return []
    return [code_pb2.Code.Name(code) for code in tools.batch_codes(error)]


_election_ids = iter(range(1, 1 << 30))


@pytest.fixture(scope="module", params=SWITCHES)
def process(request, network, tmp_path_factory, tools):
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "bmv2":
        arguments = ("-i", "1@p1", "-i", "2@p2")
        started = tools.SwitchProcess(network, directory, *arguments, command=tools.bmv2_command)
    else:
        arguments = ("--port", "1=p1", "--port", "2=p2")
        started = tools.SwitchProcess(network, directory, *arguments)
    started.kind = request.param
    yield started
    started.stop()


@pytest.fixture
def peer(process, tools):
    made = Peer(process, tools, next(_election_ids))
    yield made
    made.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer(peer, process, case):
    for step in case.steps[:-1]:
        assert peer.do(step) == OK, step
    expected = case.bmv2 if process.kind == "bmv2" and case.bmv2 else case.answer
    assert peer.do(case.steps[-1]) == expected
