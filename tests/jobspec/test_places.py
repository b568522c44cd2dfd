import tomllib

import pytest
from hypothesis import given, settings
from job_strategies import LIKELY_TOML, NEARLY_TOML

from jobspec.places import MAX_DEPTH, find_places

TEXT = '''\
# a comment with key = "value" in it
command = [  # not here: wall = 1
  "a",
  "b # [",
]
env.A = "1"
env . "B.C" = { d = 1, 'e' = [1, [2, 3]] }
note = """
wall = 3
"""
[locks.gpu]
units = 2
[[list]]
x = 1
[[list]]
x = 2
[list.sub]
y = \'\'\'
z\'\'\'
'''


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("command",), (2, 1)),
        (("command", 0), (3, 3)),
        (("command", 1), (4, 3)),
        (("env",), (6, 1)),
        (("env", "A"), (6, 5)),
        (("env", "B.C"), (7, 7)),
        (("env", "B.C", "d"), (7, 17)),
        (("env", "B.C", "e"), (7, 24)),
        (("env", "B.C", "e", 1, 0), (7, 35)),
        (("note",), (8, 1)),
        (("locks", "gpu"), (11, 8)),
        (("locks", "gpu", "units"), (12, 1)),
        (("list",), (13, 3)),
        (("list", 0, "x"), (14, 1)),
        (("list", 1, "x"), (16, 1)),
        (("list", 1, "sub", "y"), (18, 1)),
    ],
)
def test_each_key_and_element_has_its_place(path, place):
    places = find_places(TEXT)
    assert places.stopped is None
    assert places.place(path) == place


def test_what_has_no_place_has_that_of_what_is_around_it():
    places = find_places("a = { b = 1 }")
    assert places.place(("a", "b", "c", 3)) == (1, 7)
    assert places.place(("c",)) is None


def test_escapes_in_keys_are_read():
    assert find_places('"a\\u00e9\\n\\"" = 1').place(('aé\n"',)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("a = 1\na = 2", [(("a",), 6)]),
        ("a.b = 1\na.b = 2\na.c = 3", [(("a", "b"), 10)]),
        ("[a]\n[b]\n[a]", [(("a",), 9)]),
        ("a = { b = 1, b = 2 }", [(("a", "b"), 13)]),
        ('a = 1\n"a" = 2', [(("a",), 6)]),
        ("a = 1\n[a]", [(("a",), 7)]),
        ("[[a]]\nx = 1\n[[a]]\nx = 1", []),
        ("[a.b]\n[a]", []),
        ("[[a]]\n[a.b]\n[[a]]\n[a.b]", []),
    ],
)
def test_keys_that_stand_twice_are_found(text, again):
    assert find_places(text).again == again


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 40 + "]" * 40,
        "a = " + "{ a = " * 40 + "1" + " }" * 40,
        ".".join("a" * 40) + " = 1",
        "[" + ".".join("a" * 40) + "]",
        "[" + ".".join("a" * 20) + "]\n" + ".".join("b" * 20) + " = 1",
        "a = " + "{ a.b.c.d = [" * 10 + "]}" * 10,
    ],
)
def test_what_goes_too_deep_is_found(text):
    places = find_places(text)
    assert places.too_deep is not None
    assert len(places.too_deep[0]) == MAX_DEPTH + 1
    assert places.stopped == places.too_deep[1]


def test_the_deepest_that_is_allowed_is_not_too_deep():
    assert find_places(".".join("a" * MAX_DEPTH) + " = 1").too_deep is None


def test_a_header_tells_its_keys_from_those_of_an_inline_table():
    places = find_places("env = { a = 1 }\n[b]\nc = 1\nd.e = 1\n[[f]]\ng = 1")
    assert places.in_header(("b", "c"))
    assert not places.in_header(("env", "a"))
    assert not places.in_header(("b", "d", "e"))


def _paths(value, above=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*above, key)
            yield from _paths(inner, (*above, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield (*above, index)
            yield from _paths(inner, (*above, index))


def _loads(text):
    try:
        return tomllib.loads(text)
    except ValueError:
        return None


@settings(deadline=None, max_examples=150)
@given(NEARLY_TOML | LIKELY_TOML)
def test_whatever_is_toml_is_read_to_its_end_with_a_place_for_each_key(text):
    text = text.replace("\r\n", "\n")
    table = _loads(text)
    places = find_places(text)
    if table is None or places.too_deep:
        return
    assert places.stopped is None
    assert places.again == []
    for path in _paths(table):
        assert path in places.keys
        name = path[-1]
        if isinstance(name, str) and name.isidentifier():
            offset = places.keys[path]
            assert text[offset:].startswith(name) or text[offset] in "\"'"


@settings(deadline=None, max_examples=150)
@given(NEARLY_TOML | LIKELY_TOML)
def test_the_tokenizer_stops_only_where_toml_stops_too(text):
    places = find_places(text.replace("\r\n", "\n"))
    if places.stopped is not None and places.too_deep is None:
        assert _loads(text) is None
