"""Writes the table of messages.py into tiercast.lua: python -m tiercast_wire.lua (a test compares
the two)."""

from pathlib import Path

from tiercast_wire.messages import MESSAGES, SCHEMES, Field, Message

DISSECTOR = Path(__file__).resolve().parents[1] / "tiercast.lua"
BEGIN = "-- The table of messages, made by `python -m tiercast_wire.lua` from messages.py.\n"
END = "-- End of the table.\n"


def _field(field: Field) -> str:
    if field.most is None:
        return f'{{ "{field.name}", {field.bytes} }}'
    return f'{{ "{field.name}", {field.bytes}, {field.least}, {field.most}, "{field.error}" }}'


def _fields(name: str, fields: tuple[Field, ...]) -> list[str]:
    return [
        f"        {name} = {{",
        *(f"            {_field(one)}," for one in fields),
        "        },",
    ]


def _message(message: Message) -> list[str]:
    head = f'name = "{message.name}", scheme = {message.scheme}, type = {message.type}'
    lines = ["    {", f"        {head},"]
    if message.kind is not None:
        lines.append(f"        kind = {message.kind},")
    lines += _fields("fields", message.fields)
    if message.record:
        lines += _fields("record", message.record)
    for name, rule in (("rule", message.rule), ("record_rule", message.record_rule)):
        if rule:
            lines.append(f"        {name} = function(r, previous, m) return {rule} end,")
    if message.late_kind:
        lines.append("        late_kind = true,")
    if message.payload_length:
        lines.append(f'        payload_length = "{message.payload_length}",')
    return [*lines, "    },"]


def table() -> str:
    names = ", ".join(f'[{number}] = "{name}"' for number, name in SCHEMES.items())
    lines = [f"local SCHEMES = {{ {names} }}", "local MESSAGES = {"]
    for message in MESSAGES:
        lines += _message(message)
    return BEGIN + "\n".join([*lines, "}"]) + "\n" + END


def with_table(text: str) -> str:
    """The dissector's text with the current table in it."""
    before, rest = text.split(BEGIN)
    return before + table() + rest.split(END)[1]


if __name__ == "__main__":
    DISSECTOR.write_text(with_table(DISSECTOR.read_text()))
