import time
import tomllib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_strategies import LIKELY_TOML, NEARLY_TOML

from jobspec import toml
from jobspec.spec import MAX_FILE_BYTES


def problems(data):
    return [str(problem) for problem in toml.read(data if isinstance(data, bytes) else data.encode()).problems]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("wall = 12h", 'line 1: wall: text needs quotes: "12h"'),
        ("wall = 12h # x", 'line 1: wall: text needs quotes: "12h"'),
        ("lock = gpu", 'line 1: lock: text needs quotes: "gpu"'),
        ("cwd = ~/work", 'line 1: cwd: text needs quotes: "~/work"'),
        ("a = [b]", 'line 1: a: text needs quotes: "b"'),
        ("a = True", "line 1: a: say true, in small letters"),
        ("a = 010", "line 1: a: 010 is no number: it starts with a zero"),
        ("a = .5", "line 1: a: .5 is no number; text needs quotes"),
        ("a = +x", "line 1: a: +x is no number; text needs quotes"),
        ("a =", "line 1: a: there is no value"),
        ("a = 1 2", "line 1: a: there is more in this line than one key and one value; text needs quotes"),
        ("[a] b", "line 1: a: there is more in this line than a header"),
        ("a", "line 1: a: there is no = after the key"),
        ("= 1", "line 1: = cannot start a key"),
        ("a. = 1", "line 1: = cannot start a key"),
        ("a.", "line 1: there is no key"),
        ('a = "b', "line 1: a: the string that starts here is not closed"),
        ('a = "b\nc = 1', 'line 1: a: a string ends in the line where it starts; one of several lines stands between """ and """'),
        ('a = """b\nc = 1', "line 1: a: the string that starts here is not closed"),
        ("x = 1\na = '''b\nc = 1", "line 2: a: the string that starts here is not closed"),
        ('a = "\x01"', "line 1: a: the character \\x01 cannot stand here: in a string between double quotes say \\u0001"),
        ("a = 1 # \x01", "line 1: a: the character \\x01 cannot stand here: in a string between double quotes say \\u0001"),
        ('a = "\\q"', "line 1: a: a \\ between double quotes starts an escape: say \\\\, or put the text between single quotes"),
        ('a = "\\u12"', "line 1: a: there are hexadecimal digits missing after the \\u or \\U"),
        ('a = "\\ud800"', "line 1: a: there is no such character in Unicode"),
        ("a = [1, 2", "line 1: a: a comma or the closing ] of the array is missing"),
        ("a = { b = 1 ", "line 1: a: a comma or the closing } of the table is missing; it has to stand in one line"),
        ("[a", "line 1: the closing bracket of the header is missing"),
        ("a = 2026-02-30T00:00:00", "line 1: a: there is no such date or time"),
        ("a = 1\na = 2", "line 2: a: this stands a second time, the first is in line 1"),
        ("[a]\nb = 1\n[a]", "line 3: a: this stands a second time, the first is in line 1"),
        ("a.b = 1\n[a]", "line 2: a: this was already given in another form, and what stands in the file twice has no meaning"),
        ("a = { b = 1, b = 2 }", "line 1: a.b: this stands a second time, the first is in line 1"),
        ('a."b c"."é" = 1\na."b c"."é" = 2', 'line 2: a."b c"."\\xe9": this stands a second time, the first is in line 1'),
        ("a = " + "9" * 5000, "line 1: a: a number of 5000 digits"),
    ],
)
def test_what_is_no_toml_is_said_in_plain_words(text, problem):
    assert problems(text) == [problem]


def test_a_message_of_tomllib_that_nobody_knows_is_shown_as_it_is(monkeypatch):
    def loads(text):
        if text.strip():
            raise tomllib.TOMLDecodeError("Something new about \x1b (at line 1, column 3)")
        return {}

    monkeypatch.setattr(tomllib, "loads", loads)
    [problem] = toml.read(b'a = "\\n"').problems
    assert (problem.line, problem.column) == (1, 3)
    assert problem.text == "this is no TOML: Something new about \\x1b"


def test_the_rest_is_read_when_one_line_is_no_toml():
    document = toml.read(b'wall = 12h\nnote = "open\nlock = [gpu]\na.b = 1\nc = 1\nc = 2\n[env]\nX = "1"\n')
    assert document.readable
    assert document.table == {"a": {"b": 1}, "c": 1, "env": {"X": "1"}}
    assert document.lost == {"wall", "note", "lock", "c"}
    assert sorted(problem.line for problem in document.problems) == [1, 2, 3, 6]
    assert document.places.place(("env", "X")) == (8, 1)


@pytest.mark.parametrize("text", ["a = [b,\nc = 1\nd = 2", 'a = """b\nc = 1', "[a\nb = 1\nc = x", "[a]\n[a]\nb = x", "a = { b = [\n x"])
def test_nothing_more_is_said_when_a_fault_may_reach_further(text):
    document = toml.read(text.encode())
    assert not document.readable
    assert len(document.problems) == 1


@pytest.mark.parametrize(
    ("data", "place", "text"),
    [
        ("a = 'é'\nb = 'é".encode() + b"\xff'", (2, 7), "the byte 0xff is no UTF-8; save the file as UTF-8"),
        ("a = 1".encode("utf-16"), (1, 1), "the file is UTF-16; save it as UTF-8"),
        (b"a = 1\nb\x00", (2, 2), "there is a NUL byte: this is no text, or it is UTF-16; save it as UTF-8"),
        (b"a = 1\r\nb = 2\rc = 3", (2, 6), "a carriage return stands alone: lines end in LF or CR LF"),
        (b"\xef\xbb\xbfa = 1\rb = 2", (1, 6), "a carriage return stands alone: lines end in LF or CR LF"),
        (b"#" * (MAX_FILE_BYTES + 1), (None, None), "the file has 65537 bytes, and 65536 are the most"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(data, place, text):
    document = toml.read(data)
    [problem] = document.problems
    assert not document.readable
    assert (problem.line, problem.column) == place
    assert problem.text == text


def test_a_byte_order_mark_and_carriage_returns_before_newlines_are_accepted():
    assert toml.read(b'\xef\xbb\xbfa = 1\r\nb = """x\r\ny"""\r\n').table == {"a": 1, "b": "x\ny"}


def test_a_file_of_the_largest_size_is_read():
    data = b"a = 1\n".ljust(MAX_FILE_BYTES, b"#")
    assert toml.read(data).table == {"a": 1}


BOMBS = {
    "arrays in arrays": "a = " + "[" * 65_000,
    "closed arrays in arrays": "a = " + "[" * 32_000 + "]" * 32_000,
    "tables in tables": "a = " + "{a=" * 21_000,
    "dotted key": ".".join("a" * 30_000) + " = 1",
    "dotted quoted key": ".".join(['""'] * 20_000) + " = 1",
    "dotted header": "[" + ".".join("a" * 30_000) + "]",
    "dotted key after a fault": "x = y\n" + ".".join("a" * 30_000) + " = 1",
    "dotted key after an open string": 'x = "\n' + ".".join("a" * 30_000) + " = 1",
    "dotted key in an inline table": "a = { " + ".".join("a" * 30_000) + " = 1 }",
    "dotted key after a comment with quotes": '# """\n' + ".".join("a" * 30_000) + " = 1",
    "many headers of many parts": "\n".join("[" + ".".join(["a"] * 30 + [f"b{n}"]) + "]" for n in range(950)),
    "many keys of many parts": "\n".join(".".join(["a"] * 30 + [f"b{n}"]) + "=1" for n in range(950)),
    "many keys of many parts below a header": "[" + ".".join("a" * 15) + "]\n" + "\n".join(".".join(["a"] * 16 + [f"b{n}"]) + "=1" for n in range(1500)),
    "integer": "a = " + "9" * 5_000,
    "integer of the size of the file": "a = " + "9" * 65_000,
    "hexadecimal": "a = 0x" + "f" * 65_000,
    "float": "a = 0." + "1" * 65_000,
    "exponent": "a = 1e" + "9" * 65_000,
    "faults": "a=b\n" * 16_000,
    "different faults": "\n".join(f"a{n}=b" for n in range(8_000)),
    "repeats": "a=1\n" * 16_000,
    "quotes": '"' * 65_000,
    "escaped quotes": '"\\' * 32_000,
    "open strings of several lines": '"""\\' * 16_000,
    "open literals": "'" * 65_000,
    "apostrophes and newlines": "'\n" * 32_000,
    "escapes": 'a = "' + "\\n" * 32_000 + '"',
    "empty tables": "a = [" + "{}," * 21_000 + "]",
    "tables of an array": "[[a]]\n" * 10_000,
    "keys": "\n".join(f"k{n}=1" for n in range(7_000)),
    "open brackets in comments": "#[\n" * 21_000,
    "spaces": " " * 65_000 + "!",
    "one line of faults": "a = [" + "b, " * 21_000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_no_text_takes_long(text):
    data = text.encode()
    assert len(data) <= MAX_FILE_BYTES
    start = time.process_time()
    document = toml.read(data)
    assert document.problems or document.table or text.startswith("#")
    assert time.process_time() - start < 4


@pytest.mark.parametrize("name", ["arrays in arrays", "dotted key", "faults", "escaped quotes", "keys", "float"])
def test_no_text_takes_much_memory(name):
    data = BOMBS[name].encode()
    tracemalloc.start()
    try:
        toml.read(data)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    finally:
        tracemalloc.stop()


@settings(deadline=None, max_examples=250)
@given(NEARLY_TOML | LIKELY_TOML)
def test_a_table_or_a_problem_as_tomllib_says(text):
    document = toml.read(text.encode())
    try:
        expected = tomllib.loads(text.removeprefix("\ufeff"))
    except ValueError:
        assert document.problems
    else:
        if document.problems:
            assert "levels deep" in document.problems[0].text
        else:
            assert repr(document.table) == repr(expected)


@settings(deadline=None, max_examples=120)
@given(st.binary(max_size=60) | NEARLY_TOML.map(str.encode))
def test_every_problem_can_be_printed_and_lies_in_the_file(data):
    lines = data.count(b"\n") + 1
    for problem in toml.read(data).problems:
        assert str(problem).isascii()
        assert str(problem).isprintable()
        assert problem.line is None or 1 <= problem.line <= lines
        assert problem.column is None or problem.column >= 1
