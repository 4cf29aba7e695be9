"""Requests of a controller to a switch, especially wrong ones, and the code of each answer.

One table serves tiercast-switch and, if it is installed, bmv2's simple_switch_grpc. A case in which
they differ gives bmv2's answer and the reason why ours is different (docs/switch.md lists these).
"""

from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[str, ...]  # VERB entity; all but the last must succeed
    answer: str  # to the last step: a code, or for READ the number of entities
    bmv2: str = ""  # bmv2's answer, if it differs
    why: str = ""
    program: str = "control"


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

# Why our answers differ from bmv2's. Quoted titles are sections of the P4Runtime specification 1.4.
BYTES = '"Bytestrings": what does not fit, or is empty, is OUT_OF_RANGE'
DONT_CARE = '"Match Format": a range of every value is written by leaving the field out'
LAX = '"Action Specification": one value for each parameter'
CONSTANT = '"Constant Tables": PERMISSION_DENIED; is_const must be false in a write'
SIZE = '"TableEntry": RESOURCE_EXHAUSTED when the table is full'
NO_ENTRY = '"DirectCounterEntry", "DirectMeterEntry": NOT_FOUND'
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


# --- externs.p4 ---


def extern(name: str, *steps: str, answer: str, bmv2: str = "", why: str = "") -> Case:
    return Case(name, steps, answer, bmv2, why, "externs")


def forward(port: int = 1) -> str:
    return f'action {{ action_id: $forward params {{ param_id: 1 value: "\\00{port}" }} }}'


def keyed(table: str, action: str = "", key: int = 1, more: str = "") -> str:
    key_match = f'match {{ field_id: 1 exact {{ value: "\\00{key}" }} }}'
    action = action and f"action {{ {action} }}"
    return f"table_entry {{ table_id: ${table} {key_match} {action} {more} }}"


def policed(more: str = "", key: int = 1, action: str = "action { action_id: $mark }") -> str:
    return keyed("policed", action, key, more)


def aged(more: str = "", action: str = "action { action_id: $drop }", key: int = 1) -> str:
    return keyed("aged", action, key, "priority: 1 " + more)


def member(number: int = 1, action: str | None = None, profile: str = "paths") -> str:
    action = forward() if action is None else action
    return (f"action_profile_member {{ action_profile_id: ${profile} member_id: {number} "
            f"{action} }}")  # fmt: skip


def members(*numbers: int, weight: int = 1) -> str:
    return " ".join(f"members {{ member_id: {n} weight: {weight} }}" for n in numbers)


def action_group(who: str = members(1), number: int = 7, profile: str = "paths") -> str:
    return (f"action_profile_group {{ action_profile_id: ${profile} group_id: {number} "
            f"{who} }}")  # fmt: skip


def choice(port: int = 1, more: str = "weight: 1") -> str:
    return f"action_profile_actions {{ {forward(port)} {more} }}"


def action_set(*choices: str) -> str:
    return f"action_profile_action_set {{ {' '.join(choices or (choice(),))} }}"


def one_shot(*choices: str, key: int = 1, table: str = "balance") -> str:
    return keyed(table, action_set(*choices), key)


def meter(
    index: int | None = 1, config: str = "cir: 1 cburst: 2 pir: 3 pburst: 4", more: str = ""
) -> str:
    place = "" if index is None else f"index {{ index: {index} }}"
    config = config and f"config {{ {config} }}"
    return f"meter_entry {{ meter_id: $cells {place} {config} {more} }}"


def direct_meter(
    entry: str | None = None, config: str = "cir: 1 cburst: 2 pir: 3 pburst: 4", more: str = ""
) -> str:
    config = config and f"config {{ {config} }}"
    return (
        f"direct_meter_entry {{ {policed(action='') if entry is None else entry} {config} {more} }}"
    )


def digest(
    config: str = "max_list_size: 3 max_timeout_ns: 1000000", number: str = "$learnt_t"
) -> str:
    return f"digest_entry {{ digest_id: {number} config {{ {config} }} }}"


def types(*values: str) -> str:
    each = " ".join(
        f'members {{ match {{ field_id: 1 exact {{ value: "{v}" }} }} }}' for v in values
    )
    return f"value_set_entry {{ value_set_id: $types {each} }}"


# fmt: off
MEMBERS = '"Member Programming": ids are not 0; FAILED_PRECONDITION while it is used'
SCOPE = '"Action Specification": the scope of an action is that of its tables'
GROUPS = '"Group Programming": ids are not 0, a selector, empty groups; FAILED_PRECONDITION while used'
MAX_SIZE = '"Rules on Setting max_size": above 0 where there is a max_group_size'
SELECTOR_SIZE = '"ActionProfile": size and max_group_size of the P4Info'
ONE_SHOT = '"One Shot Action Selector Programming": INVALID_ARGUMENT above max_group_size; empty sets'
INDIRECT = '"Action Specification": NOT_FOUND'
INDIRECT_DEFAULT = '"Default Entry": constant in tables with an action profile'
WATCH = '"Group Programming": a watch_port is a port of the device'
METERS = '"MeterEntry": all cells if there is no index, OUT_OF_RANGE beyond the last; bursts'
METER_TYPE = '"MeterEntry & DirectMeterEntry": what a meter of its type accepts'
METER_COUNTERS = '"MeterCounterData": UNIMPLEMENTED where meters do not count'
DIGESTS = '"DigestEntry": wildcard reads, and times that are times'
IDLE = '"Idle-timeout": INVALID_ARGUMENT for default actions'
VALUE_SETS = '"ValueSetEntry": bmv2 serves none'

EXTERN_CASES = [
    # --- Members ---
    extern("member", "INSERT " + member(), answer=OK),
    extern("member twice", "INSERT " + member(), "INSERT " + member(), answer=EXISTS),
    extern("member modified", "INSERT " + member(), "MODIFY " + member(action=forward(2)), answer=OK),
    extern("member modified that is not there", "MODIFY " + member(), answer=NOT_FOUND),
    extern("member deleted", "INSERT " + member(), "DELETE " + member(action=""), answer=OK),
    extern("member deleted that is not there", "DELETE " + member(action=""), answer=NOT_FOUND),
    extern("member 0", "INSERT " + member(0), answer=INVALID, bmv2=OK, why=MEMBERS),
    extern("member without an action", "INSERT " + member(action=""), answer=INVALID),
    extern("member modified to no action", "INSERT " + member(), "MODIFY " + member(action=""), answer=INVALID),
    extern("member with an action of no such table", "INSERT " + member(action="action { action_id: $elsewhere }"), answer=INVALID),
    extern("member with an unknown action", "INSERT " + member(action="action { action_id: 9 }"), answer=INVALID),
    extern("member with the default-only action", "INSERT " + member(action="action { action_id: $NoAction }"), answer=DENIED, bmv2=OK, why=SCOPE),
    extern("member with a parameter missing", "INSERT " + member(action="action { action_id: $forward }"), answer=INVALID),
    extern("member with a parameter too wide", "INSERT " + member(action=r'action { action_id: $forward params { param_id: 1 value: "\002\000" } }'), answer=RANGE, bmv2=INVALID, why=BYTES),
    extern("member of profile 0", "INSERT action_profile_member { member_id: 1 }", answer=INVALID),
    extern("member of an unknown profile", "INSERT action_profile_member { action_profile_id: 9 member_id: 1 }", answer=INVALID),
    extern("member of a table", "INSERT " + member(profile="balance"), answer=INVALID),
    extern("members full", *("INSERT " + member(n, profile="next_hops") for n in range(1, 6)), answer=FULL, bmv2=OK, why=SELECTOR_SIZE),
    extern("member deleted of a group", "INSERT " + member(), "INSERT " + action_group(), "DELETE " + member(action=""), answer=PRECONDITION, bmv2=UNKNOWN, why=MEMBERS),
    extern("member deleted of an entry", "INSERT " + member(), "INSERT " + keyed("balance", "action_profile_member_id: 1"), "DELETE " + member(action=""), answer=PRECONDITION, bmv2=UNKNOWN, why=MEMBERS),
    extern("member read", "INSERT " + member(), "INSERT " + member(2), "READ " + member(2, ""), answer="1"),
    extern("member read that is not there", "READ " + member(2, ""), answer="0"),
    extern("members of a profile", "INSERT " + member(), "INSERT " + member(2), "INSERT " + member(3, profile="next_hops"), "READ action_profile_member { action_profile_id: $paths }", answer="2"),
    extern("members of all profiles", "INSERT " + member(), "INSERT " + member(2), "INSERT " + member(3, profile="next_hops"), "READ action_profile_member { }", answer="3"),
    extern("members of an unknown profile", "READ action_profile_member { action_profile_id: 9 }", answer=INVALID),
    # --- Groups ---
    extern("action group", "INSERT " + member(), "INSERT " + action_group(), answer=OK),
    extern("action group twice", "INSERT " + member(), "INSERT " + action_group(), "INSERT " + action_group(), answer=EXISTS),
    extern("action group 0", "INSERT " + action_group("", 0), answer=INVALID, bmv2=OK, why=GROUPS),
    extern("action group without members", "INSERT " + action_group(""), answer=OK),
    extern("member and group of one number", "INSERT " + member(7), "INSERT " + action_group(members(7)), answer=OK),
    extern("action group of a member that is not there", "INSERT " + action_group(), answer=NOT_FOUND),
    extern("action group with a member twice", "INSERT " + member(), "INSERT " + action_group(members(1, 1)), answer=INVALID),
    extern("action group with a weight", "INSERT " + member(), "INSERT " + action_group(members(1, weight=5)), answer=OK),
    extern("action group with weight 0", "INSERT " + member(), "INSERT " + action_group(members(1, weight=0)), answer=INVALID),
    extern("action group with a weight below 0", "INSERT " + member(), "INSERT " + action_group(members(1, weight=-1)), answer=INVALID),
    extern("action group of different actions", "INSERT " + member(), "INSERT " + member(2, "action { action_id: $drop }"), "INSERT " + action_group(members(1, 2)), answer=OK),
    extern("action group modified", "INSERT " + member(), "INSERT " + member(2), "INSERT " + action_group(), "MODIFY " + action_group(members(1, 2)), answer=OK),
    extern("action group modified that is not there", "INSERT " + member(), "MODIFY " + action_group(), answer=NOT_FOUND),
    extern("action group modified to a member that is not there", "INSERT " + member(), "INSERT " + action_group(), "MODIFY " + action_group(members(1, 2)), answer=NOT_FOUND),
    extern("action group modified to another max_size", "INSERT " + action_group("max_size: 2"), "MODIFY " + action_group("max_size: 3"), answer=INVALID),
    extern("action group deleted", "INSERT " + action_group(""), "DELETE " + action_group(""), answer=OK),
    extern("action group deleted with other members", "INSERT " + action_group(""), "DELETE " + action_group(members(4)), answer=OK),
    extern("action group deleted that is not there", "DELETE " + action_group(""), answer=NOT_FOUND),
    extern("action group deleted of an entry", "INSERT " + member(), "INSERT " + action_group(), "INSERT " + keyed("balance", "action_profile_group_id: 7"), "DELETE " + action_group(""), answer=PRECONDITION, bmv2=UNKNOWN, why=GROUPS),
    extern("action group in a profile without a selector", "INSERT " + action_group("", profile="next_hops"), answer=INVALID, bmv2=OK, why=GROUPS),
    extern("action group of an unknown profile", "INSERT action_profile_group { action_profile_id: 9 group_id: 7 }", answer=INVALID),
    extern("action group beyond its max_size", "INSERT " + member(), "INSERT " + action_group(members(1, weight=3) + " max_size: 2"), answer=FULL),
    extern("action group up to its max_size", "INSERT " + member(), "INSERT " + action_group(members(1, weight=2) + " max_size: 2"), answer=OK),
    extern("max_size below 0", "INSERT " + action_group("max_size: -1"), answer=INVALID),
    extern("max_size above max_group_size", "INSERT " + action_group("max_size: 5", profile="limited_paths"), answer=INVALID),
    extern("max_size missing where there is a max_group_size", "INSERT " + action_group("", profile="limited_paths"), answer=INVALID, bmv2=OK, why=MAX_SIZE),
    extern("action groups beyond the selector's size", "INSERT " + member(), "INSERT " + action_group(members(1, weight=10)), "INSERT " + action_group(members(1, weight=7), 8), answer=FULL, bmv2=OK, why=SELECTOR_SIZE),
    extern("watch_port", "INSERT " + member(), "INSERT " + action_group(r'members { member_id: 1 weight: 1 watch_port: "\001" }'), answer=OK),
    extern("watch_port that is not there", "INSERT " + member(), "INSERT " + action_group(r'members { member_id: 1 weight: 1 watch_port: "\115" }'), answer=INVALID, bmv2=OK, why=WATCH),
    extern("watch_port empty", "INSERT " + member(), "INSERT " + action_group('members { member_id: 1 weight: 1 watch_port: "" }'), answer=OK),
    extern("action group read", "INSERT " + action_group(""), "INSERT " + action_group("", 8), "READ " + action_group("", 8), answer="1"),
    extern("action group read that is not there", "READ " + action_group(""), answer="0"),
    extern("action groups of a profile", "INSERT " + action_group(""), "INSERT " + action_group("max_size: 1", profile="limited_paths"), "READ action_profile_group { action_profile_id: $paths }", answer="1"),
    extern("action groups of all profiles", "INSERT " + action_group(""), "INSERT " + action_group("max_size: 1", profile="limited_paths"), "READ action_profile_group { }", answer="2"),
    extern("action groups of an unknown profile", "READ action_profile_group { action_profile_id: 9 }", answer=INVALID),
    # --- Entries of tables with an action profile ---
    extern("entry with a member", "INSERT " + member(), "INSERT " + keyed("balance", "action_profile_member_id: 1"), answer=OK),
    extern("entry with a group", "INSERT " + member(), "INSERT " + action_group(), "INSERT " + keyed("balance", "action_profile_group_id: 7"), answer=OK),
    extern("entry with a group without members", "INSERT " + action_group(""), "INSERT " + keyed("balance", "action_profile_group_id: 7"), answer=OK, bmv2=UNKNOWN, why=GROUPS),
    extern("entry with a member that is not there", "INSERT " + keyed("balance", "action_profile_member_id: 1"), answer=NOT_FOUND, bmv2=INVALID, why=INDIRECT),
    extern("entry with a group that is not there", "INSERT " + keyed("balance", "action_profile_group_id: 1"), answer=NOT_FOUND, bmv2=INVALID, why=INDIRECT),
    extern("entry with an action of its own", "INSERT " + keyed("balance", forward()), answer=INVALID),
    extern("entry with a group in a table without a selector", "INSERT " + keyed("indirect", "action_profile_group_id: 1"), answer=INVALID),
    extern("entry with a member of another profile", "INSERT " + member(), "INSERT " + keyed("indirect", "action_profile_member_id: 1"), answer=NOT_FOUND, bmv2=INVALID, why=INDIRECT),
    extern("entry modified from member to group", "INSERT " + member(), "INSERT " + action_group(), "INSERT " + keyed("balance", "action_profile_member_id: 1"), "MODIFY " + keyed("balance", "action_profile_group_id: 7"), answer=OK),
    extern("member free after its entry", "INSERT " + member(), "INSERT " + keyed("balance", "action_profile_member_id: 1"), "DELETE " + keyed("balance"), "DELETE " + member(), answer=OK),
    extern("default action of a table with an action profile", f"MODIFY table_entry {{ table_id: $balance is_default_action: true action {{ {forward()} }} }}", answer=DENIED, bmv2=INVALID, why=INDIRECT_DEFAULT),
    extern("default action read of a table with an action profile", "READ table_entry { table_id: $balance is_default_action: true }", answer="1"),
    # --- One shots ---
    extern("action set", "INSERT " + one_shot(choice(1), choice(2, "weight: 2")), answer=OK),
    extern("action set modified", "INSERT " + one_shot(), "MODIFY " + one_shot(choice(2)), answer=OK),
    extern("action set deleted", "INSERT " + one_shot(), "DELETE " + keyed("balance"), answer=OK),
    extern("action set read", "INSERT " + one_shot(), "READ table_entry { table_id: $balance }", answer="1"),
    extern("action set with an action twice", "INSERT " + one_shot(choice(1), choice(1)), answer=OK),
    extern("action set without actions", "INSERT " + keyed("balance", "action_profile_action_set { }"), answer=OK, bmv2=UNIMPLEMENTED, why=ONE_SHOT),
    extern("action set with weight 0", "INSERT " + one_shot(choice(1, "")), answer=INVALID),
    extern("action set with a weight below 0", "INSERT " + one_shot(choice(1, "weight: -1")), answer=INVALID),
    extern("action set with an unknown action", "INSERT " + one_shot("action_profile_actions { action { action_id: 9 } weight: 1 }"), answer=INVALID),
    extern("action set with an action of no such table", "INSERT " + one_shot("action_profile_actions { action { action_id: $elsewhere } weight: 1 }"), answer=INVALID),
    extern("action set with a parameter too wide", "INSERT " + one_shot(r'action_profile_actions { action { action_id: $forward params { param_id: 1 value: "\002\000" } } weight: 1 }'), answer=RANGE, bmv2=INVALID, why=BYTES),
    extern("action set in a table without a selector", "INSERT " + one_shot(table="indirect"), answer=INVALID, bmv2=UNKNOWN, why=VAGUE),
    extern("action set beyond max_group_size", "INSERT " + one_shot(choice(1, "weight: 5"), table="limited"), answer=INVALID, bmv2=FULL, why=ONE_SHOT),
    extern("action sets beyond the selector's size", "INSERT " + one_shot(choice(1, "weight: 10")), "INSERT " + one_shot(choice(1, "weight: 7"), key=2), answer=FULL, bmv2=OK, why=SELECTOR_SIZE),
    extern("action set with a port that is not there", "INSERT " + one_shot(choice(1, r'weight: 1 watch_port: "\115"')), answer=INVALID, bmv2=OK, why=WATCH),
    extern("action set beside members", "INSERT " + member(), "INSERT " + one_shot(), answer=INVALID),
    extern("member beside action sets", "INSERT " + one_shot(), "INSERT " + member(), answer=INVALID),
    extern("action group beside action sets", "INSERT " + one_shot(), "INSERT " + action_group(""), answer=INVALID),
    extern("member entry beside action sets", "INSERT " + one_shot(), "INSERT " + keyed("balance", "action_profile_member_id: 1", 2), answer=INVALID),
    extern("members after the last action set", "INSERT " + one_shot(), "DELETE " + keyed("balance"), "INSERT " + member(), answer=OK),
    # --- Meters ---
    extern("meter", "MODIFY " + meter(), answer=OK),
    extern("meter inserted", "INSERT " + meter(), answer=INVALID),
    extern("meter deleted", "DELETE " + meter(), answer=INVALID),
    extern("meter reset", "MODIFY " + meter(), "MODIFY " + meter(config=""), answer=OK),
    extern("all cells of a meter", "MODIFY " + meter(None), answer=OK, bmv2=UNIMPLEMENTED, why=METERS),
    extern("all cells of a meter reset", "MODIFY " + meter(None, ""), answer=OK, bmv2=UNIMPLEMENTED, why=METERS),
    extern("meter index too large", "MODIFY " + meter(4), answer=RANGE, bmv2=UNKNOWN, why=METERS),
    extern("meter index below 0", "MODIFY " + meter(-1), answer=INVALID),
    extern("unknown meter", "MODIFY meter_entry { meter_id: 9 index { index: 1 } }", answer=INVALID),
    extern("a direct meter as an indirect one", "MODIFY meter_entry { meter_id: $police index { index: 1 } }", answer=INVALID),
    extern("meter rate below 0", "MODIFY " + meter(config="cir: -1 cburst: 1 pir: 1 pburst: 1"), answer=INVALID, bmv2=UNKNOWN, why=VAGUE),
    extern("meter burst below 0", "MODIFY " + meter(config="cir: 1 cburst: -1 pir: 1 pburst: 1"), answer=INVALID, bmv2=OK, why=METERS),
    extern("meter peak below committed", "MODIFY " + meter(config="cir: 4 cburst: 1 pir: 3 pburst: 1"), answer=INVALID, bmv2=UNKNOWN, why=VAGUE),
    extern("meter excess burst with two rates", "MODIFY " + meter(config="cir: 1 cburst: 1 pir: 1 pburst: 1 eburst: 1"), answer=INVALID, bmv2=OK, why=METER_TYPE),
    extern("meter counters", "MODIFY " + meter(more="counter_data { }"), answer=UNIMPLEMENTED, bmv2=OK, why=METER_COUNTERS),
    extern("meter read", "READ " + meter(1, ""), answer="1"),
    extern("cells of a meter read", "READ " + meter(None, ""), answer="4"),
    extern("cells of all meters read", "READ meter_entry { }", answer="6"),
    extern("meter read outside", "READ " + meter(4, ""), answer=RANGE, bmv2=UNKNOWN, why=METERS),
    extern("meter read below 0", "READ " + meter(-1, ""), answer=INVALID),
    extern("unknown meter read", "READ meter_entry { meter_id: 9 }", answer=INVALID),
    extern("meter counters read", "READ " + meter(1, "", "counter_data { }"), answer=UNIMPLEMENTED, bmv2="1", why=METER_COUNTERS),
    # --- Direct meters ---
    extern("meter config with an entry", "INSERT " + policed("meter_config { cir: 1 cburst: 2 pir: 3 pburst: 4 }"), answer=OK),
    extern("meter config of an entry wrong", "INSERT " + policed("meter_config { cir: 4 cburst: 2 pir: 3 pburst: 4 }"), answer=INVALID, bmv2=UNKNOWN, why=VAGUE),
    extern("meter counters with an entry", "INSERT " + policed("meter_counter_data { }"), answer=UNIMPLEMENTED, bmv2=OK, why=METER_COUNTERS),
    extern("meter config where there is no meter", "INSERT " + aged("meter_config { cir: 1 cburst: 2 pir: 3 pburst: 4 }"), answer=INVALID),
    extern("direct meter", "INSERT " + policed(), "MODIFY " + direct_meter(), answer=OK),
    extern("direct meter reset", "INSERT " + policed(), "MODIFY " + direct_meter(config=""), answer=OK),
    extern("direct meter inserted", "INSERT " + policed(), "INSERT " + direct_meter(), answer=INVALID),
    extern("direct meter deleted", "INSERT " + policed(), "DELETE " + direct_meter(), answer=INVALID),
    extern("direct meter of no entry", "MODIFY " + direct_meter(), answer=NOT_FOUND, bmv2=INVALID, why=NO_ENTRY),
    extern("direct meter of a table without", "INSERT " + aged(), "MODIFY " + direct_meter(aged(action="")), answer=INVALID),
    extern("direct meter of no table", "MODIFY direct_meter_entry { }", answer=INVALID),
    extern("direct meter peak below committed", "INSERT " + policed(), "MODIFY " + direct_meter(config="cir: 4 cburst: 1 pir: 3 pburst: 1"), answer=INVALID, bmv2=UNKNOWN, why=VAGUE),
    extern("direct meter counters", "INSERT " + policed(), "MODIFY " + direct_meter(more="counter_data { }"), answer=UNIMPLEMENTED, bmv2=OK, why=METER_COUNTERS),
    extern("direct meter read", "INSERT " + policed(), "READ " + direct_meter(config=""), answer="1"),
    extern("direct meters of a table", "INSERT " + policed(), "INSERT " + policed(key=2), "READ direct_meter_entry { table_entry { table_id: $policed } }", answer="2"),
    extern("direct meters of all tables", "INSERT " + policed(), "READ direct_meter_entry { table_entry { } }", answer="1", bmv2=UNIMPLEMENTED, why=METERS),
    extern("direct meter read of no entry", "READ " + direct_meter(config=""), answer=NOT_FOUND, bmv2=INVALID, why=NO_ENTRY),
    extern("direct meters of a table without", "READ direct_meter_entry { table_entry { table_id: $aged } }", answer=INVALID),
    # --- Digests ---
    extern("digest", "INSERT " + digest(), answer=OK),
    extern("digest without a config", "INSERT digest_entry { digest_id: $learnt_t }", answer=OK),
    extern("digest twice", "INSERT " + digest(), "INSERT " + digest(), answer=EXISTS),
    extern("digest modified", "INSERT " + digest(), "MODIFY " + digest("max_list_size: 4"), answer=OK),
    extern("digest modified that is not there", "MODIFY " + digest(), answer=NOT_FOUND),
    extern("digest deleted", "INSERT " + digest(), "DELETE " + digest(), answer=OK),
    extern("digest deleted that is not there", "DELETE " + digest(), answer=NOT_FOUND),
    extern("unknown digest", "INSERT " + digest(number="9"), answer=NOT_FOUND),
    extern("digest with a time below 0", "INSERT " + digest("max_timeout_ns: -1"), answer=INVALID, bmv2=OK, why=DIGESTS),
    extern("digest with a size below 0", "INSERT " + digest("max_list_size: -1"), answer=INVALID, bmv2=OK, why=DIGESTS),
    extern("digest with an acknowledgement time below 0", "INSERT " + digest("ack_timeout_ns: -1"), answer=INVALID, bmv2=OK, why=DIGESTS),
    extern("digest read", "INSERT " + digest(), "READ digest_entry { digest_id: $learnt_t }", answer="1"),
    extern("digests read", "INSERT " + digest(), "READ digest_entry { }", answer="1", bmv2=UNIMPLEMENTED, why=DIGESTS),
    extern("digests read where none is configured", "READ digest_entry { }", answer="0", bmv2=UNIMPLEMENTED, why=DIGESTS),
    extern("digest read that is not there", "READ digest_entry { digest_id: $learnt_t }", answer=NOT_FOUND),
    extern("unknown digest read", "READ digest_entry { digest_id: 9 }", answer=NOT_FOUND),
    # --- Value sets ---
    extern("value set", "MODIFY " + types(r"\010\000", r"\206\335"), answer=OK, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set emptied", "MODIFY " + types(), answer=OK, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set inserted", "INSERT " + types(r"\010\000"), answer=INVALID, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set deleted", "DELETE " + types(), answer=INVALID, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("unknown value set", "MODIFY value_set_entry { value_set_id: 9 }", answer=INVALID, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set full", "MODIFY " + types(*(rf"\00{n}" for n in range(1, 6))), answer=FULL, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set with a member twice", "MODIFY " + types(r"\001", r"\000\001"), answer=EXISTS, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set with a value too wide", "MODIFY " + types(r"\001\000\000"), answer=RANGE, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set with an empty member", "MODIFY value_set_entry { value_set_id: $types members { } }", answer=INVALID, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set with an unknown field", r'MODIFY value_set_entry { value_set_id: $types members { match { field_id: 2 exact { value: "\001" } } } }', answer=INVALID, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set with another match kind", r'MODIFY value_set_entry { value_set_id: $types members { match { field_id: 1 lpm { value: "\001" prefix_len: 16 } } } }', answer=INVALID, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set of two fields", r'MODIFY value_set_entry { value_set_id: $flows members { match { field_id: 1 exact { value: "\001" } } match { field_id: 2 ternary { value: "\001" mask: "\003" } } } }', answer=OK, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set with a field left out", r'MODIFY value_set_entry { value_set_id: $flows members { match { field_id: 1 exact { value: "\001" } } } }', answer=OK, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value set read", "READ value_set_entry { value_set_id: $types }", answer="1", bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("value sets read", "READ value_set_entry { }", answer="2", bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    extern("unknown value set read", "READ value_set_entry { value_set_id: 9 }", answer=INVALID, bmv2=UNIMPLEMENTED, why=VALUE_SETS),
    # --- Idle timeouts ---
    extern("time-out", "INSERT " + aged("idle_timeout_ns: 1000000000"), answer=OK),
    extern("time-out modified", "INSERT " + aged(), "MODIFY " + aged("idle_timeout_ns: 1000000000"), answer=OK),
    extern("time-out below 0", "INSERT " + aged("idle_timeout_ns: -1"), answer=INVALID),
    extern("time-out in another table", "INSERT " + policed("idle_timeout_ns: 1000000000"), answer=INVALID),
    extern("time-out of a default action", "MODIFY table_entry { table_id: $aged is_default_action: true idle_timeout_ns: 1 action { action { action_id: $drop } } }", answer=INVALID, bmv2=OK, why=IDLE),
    extern("time since the last hit written", "INSERT " + aged("time_since_last_hit { }"), answer=INVALID),
    extern("time since the last hit read", "INSERT " + aged("idle_timeout_ns: 1000000000"), "READ table_entry { table_id: $aged time_since_last_hit { } }", answer="1"),
    extern("time since the last hit read in another table", "INSERT " + policed(), "READ table_entry { table_id: $policed time_since_last_hit { } }", answer=INVALID),
    extern("time since the last hit of a default action", "READ table_entry { table_id: $aged is_default_action: true time_since_last_hit { } }", answer=INVALID),
]
# fmt: on


@pytest.fixture
def peer(make_peer, case):
    return make_peer(case.program)


@pytest.mark.parametrize("case", CASES + EXTERN_CASES, ids=lambda case: case.name)
def test_answer(peer, process, case):
    for step in case.steps[:-1]:
        assert peer.do(step) == OK, step
    expected = case.bmv2 if process.kind == "bmv2" and case.bmv2 else case.answer
    assert peer.do(case.steps[-1]) == expected
