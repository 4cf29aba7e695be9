"""YAML within limits and with JSON's types: what is accepted, what is refused, and the line that is
named."""

import math
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiercast_controller.base import bounded_yaml
from tiercast_controller.base.bounded_yaml import MAX_BYTES, MAX_DEPTH, MAX_NODES, YamlError

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc-. "), inner),
    max_leaves=20,
)


def read(text: str):
    return bounded_yaml.parse(text, "x.yaml").plain()


def refusal(text: str) -> str:
    with pytest.raises(YamlError) as error:
        read(text)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a:", {"a": None}),
        ("a: ~", {"a": None}),
        ("a: true", {"a": True}),
        ("a: -3", {"a": -3}),
        ("a: 1e5", {"a": 1e5}),  # text in YAML 1.1, a number in JSON
        ("a: .5", {"a": 0.5}),
        ("a: 18446744073709551615", {"a": 2**64 - 1}),
        ("a: 'yes'", {"a": "yes"}),
        ("a: '010'", {"a": "010"}),
        ("a: 2024-01-01", {"a": "2024-01-01"}),  # a date in YAML 1.1
        ("a: 5Mbit/s", {"a": "5Mbit/s"}),
        ("1-3: {16: 2}", {"1-3": {"16": 2}}),  # keys are text
        ("on: no-op", {"on": "no-op"}),
        ("a: &x [1, {b: 2}]\nc: *x", {"a": [1, {"b": 2}], "c": [1, {"b": 2}]}),
        ("a: {b, c}", {"a": {"b": None, "c": None}}),
    ],
)
def test_values_are_jsons(text: str, value: object) -> None:
    assert read(text) == value
    assert repr(read(text)) == repr(value)  # 1 is neither True nor 1.0


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a:\n  b: yes", 2, "'yes' is true to some and text to others; valid: true, or quotes"),
        ("a: Off", 1, "'Off' is false"),
        ("a: 010", 1, "octal to some and decimal"),
        ("a: 0x1F", 1, "valid: a decimal one"),
        ("a: 0o17", 1, "valid: a decimal one"),
        ("a: 1_000", 1, "no underscore"),
        ("a: 1:30", 1, "base 60"),
        ("a: .nan", 1, "'.nan' is not a JSON number; valid: a finite one"),
        ("a: -.inf", 1, "finite"),
        ("a: 1e999", 1, "finite"),
        ("a: 18446744073709551616", 1, "more than 64 bits"),
        ("a: " + "9" * 5000, 1, "more than 64 bits"),
        ("a: !!str 5", 1, "the tag 'tag:yaml.org,2002:str'"),
        ("a: !!python/object:os.system x", 1, "the tag"),
        ("%TAG ! x\n---\na: 1", 1, "a directive"),
        ("a: 1\n---\nb: 2", 2, "a second document"),
        ("a: 1\nb: 2\na: 3", 3, "key 'a' is given twice"),
        ("? [a]\n: 1", 1, "a key must be plain text"),
        ("*a : 1", 1, "a key must be plain text"),
        ("a: &a [1, *a]", 1, "anchor 'a' contains itself"),
        ("a: *b", 1, "no anchor 'b'"),
        ('a: "\\0"', 1, r"the control character '\x00'"),
        ('a:\n- "\\e[2J"', 2, r"the control character '\x1b'"),
        ("a: \x07", 1, "control characters are not allowed"),
        ("a: \ud800", 1, "is not a character"),
        ("a: [1\nb: 2", 2, "expected"),
        ("\n\n\t- a", 3, "a tab; valid: spaces"),
        ("a:\n  b: 1\n c: 2", 3, "expected key (is the line indented as those beside it?)"),
        ("a: {b: 1,\n\nc: 2\nd: 3", 4, "expected ',' or '}', for the bracket in line 1"),
        ("a: [1, 2\nb: 3", 2, "expected ',' or ']', for the bracket in line 1"),
        ("a:\n  b: 1\n\tc: 2", 3, "a tab; valid: spaces"),
        ("a: @b", 1, "'@' begins no value; valid: quotes around the text"),
    ],
)
def test_the_rest_is_refused_in_its_line(text: str, line: int, said: str) -> None:
    assert refusal(text).startswith(f"x.yaml:{line}: ")
    assert said in refusal(text)


@given(JSON)
def test_what_json_writes_is_read_back(value: object) -> None:
    import json

    text = json.dumps(value, ensure_ascii=False)
    read_back = read(text)
    assert read_back == value and json.dumps(read_back, ensure_ascii=False) == text


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_read_or_refused_in_a_line(text: str) -> None:
    try:
        read(text)
    except YamlError as error:
        assert str(error).startswith("x.yaml:")


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "[{a: "])
def test_brackets_without_end_take_no_stack(opening: str) -> None:
    assert "nested more than 64 deep" in refusal(opening * 300_000)


def test_depth_is_bounded_through_aliases_too() -> None:
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    assert "nested more than" in refusal("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    # Three aliases, each half as deep as allowed.
    half = "[" * 31 + "{}" + "]" * 31
    text = f"a: &a {half}\nb: &b {half.replace('{}', '*a')}\n"
    assert read(text)["b"] is not None
    assert "nested more than" in refusal(f"{text}c: {half.replace('{}', '*b')}")


def test_an_alias_counts_as_all_that_it_stands_for() -> None:
    tenfold = "".join(f"k{n + 1}: &k{n + 1} [{', '.join([f'*k{n}'] * 10)}]\n" for n in range(30))
    # 10 + 100 + ... + 10,000 values fit, 100,000 more do not. The rest is never read.
    assert refusal(f"k0: &k0 x\n{tenfold}").startswith("x.yaml:6: more than 100000 values")
    fitting = "- a\n" * (MAX_NODES - 1)
    assert len(read(fitting)) == MAX_NODES - 1
    assert "more than 100000 values" in refusal(f"{fitting}- a\n")


def test_a_file_is_text_of_a_mebibyte_at_most(tmp_path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: '" + b"x" * (MAX_BYTES - 5) + b"'")
    assert len(bounded_yaml.read(path).plain()["a"]) == MAX_BYTES - 5
    for content, said in [
        (b"#" * (MAX_BYTES + 1), f"{path}: more than {MAX_BYTES} bytes"),
        (b"a: 1\nb: \xff", f"{path}:2: not a text file; valid: UTF-8"),
        (b"- a", f"{path}:1: the file is not a mapping; valid: lines of `key: value`"),
    ]:
        path.write_bytes(content)
        with pytest.raises(YamlError, match=said):
            bounded_yaml.read(path)


def test_what_is_no_file_is_answered_at_once(tmp_path) -> None:
    fifo, listening, folder = tmp_path / "fifo", tmp_path / "socket", tmp_path / "folder"
    os.mkfifo(fifo)
    folder.mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(listening))
        for path, said in [
            (fifo, "a FIFO; valid: a file"),
            (listening, "a socket; valid: a file"),
            (folder, "a directory; valid: a file"),
            ("/dev/zero", "a device; valid: a file"),
            (tmp_path / "loop", "symbolic links"),
            (tmp_path / "none", "No such file"),
            (tmp_path / ("x" * 300), "too long"),
            ("\0", "null byte"),
        ]:
            with pytest.raises(YamlError, match=said):
                bounded_yaml.read_text(path)


def test_numbers_of_keys() -> None:
    assert bounded_yaml.number_of("16") == 16
    assert bounded_yaml.number_of("0.5") == 0.5
    assert bounded_yaml.number_of("1e999") == math.inf
    for text in ("", "nan", "inf", "0x1", "010", "1_0", "x"):
        assert bounded_yaml.number_of(text) is None
