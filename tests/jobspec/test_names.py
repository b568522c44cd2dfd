import os
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobspec.names import (
    MAX_FILE_NAME,
    BadNameError,
    FileName,
    is_candidate,
    next_file,
    numbered,
    parse_file_name,
    safe_entry,
    show,
    stem,
    suggest,
)

ENTRIES = st.binary(min_size=1, max_size=255).map(os.fsdecode) | st.text(min_size=1, max_size=80)
NEAR_NAMES = st.text(string.ascii_letters + string.digits + "._+@-" + " /ü", max_size=230).map(lambda name: f"{name}.toml")


@pytest.mark.parametrize(
    ("file", "digits", "name", "seq"),
    [
        ("0050-g52.toml", "0050", "g52", 50),
        ("g52.toml", None, "g52", None),
        ("0-a.toml", "0", "a", 0),
        ("12.toml", None, "12", None),
        ("12-34.toml", "12", "34", 12),
        ("2026-12-02-run.toml", "2026", "12-02-run", 2026),
        ("5-a.toml.toml", "5", "a.toml", 5),
        ("7-A+b@c_d.e-f.toml", "7", "A+b@c_d.e-f", 7),
        ("999999999999999999-z.toml", "9" * 18, "z", 10**18 - 1),
    ],
)
def test_a_file_name_has_a_number_and_a_name(file, digits, name, seq):
    parsed = parse_file_name(file)
    assert parsed == FileName(digits, name)
    assert (parsed.seq, parsed.file) == (seq, file)
    assert parsed.job == file.removesuffix(".toml")


@pytest.mark.parametrize(
    ("file", "text", "suggestion"),
    [
        ("my job.toml", '"my job.toml" has a character that a NAME cannot have: " "', "my-job.toml"),
        ("0050-.toml", '"0050-.toml" has no NAME after 0050-', "0050-job.toml"),
        ("0050--x.toml", 'the NAME in "0050--x.toml" starts with "-", and it must start with a letter or a digit', "0050-x.toml"),
        ("-x.toml", 'the NAME in "-x.toml" starts with "-", and it must start with a letter or a digit', "x.toml"),
        ("größe.toml", '"gr\\xf6\\xdfe.toml" has a character that a NAME cannot have: "\\xf6"', "gro-e.toml"),
        ("a\x1b[31m.toml", '"a\\x1b[31m.toml" has a character that a NAME cannot have: "\\x1b"', "a-31m.toml"),
        ("a/b.toml", '"a/b.toml" has a character that a NAME cannot have: "/"', "a-b.toml"),
        (".toml", '".toml" has no NAME', "job.toml"),
        ("g52.txt", '"g52.txt" does not end in .toml', "g52.txt.toml"),
        ("1" * 19 + "-x.toml", f'the number in "{"1" * 19}-x.toml" has 19 digits, and 18 are the most', "1" * 18 + "-x.toml"),
        ("0" * 30 + "7-x.toml", f'the number in "{"0" * 30}7-x.toml" has 31 digits, and 18 are the most', "0007-x.toml"),
        ("\udcff.toml", '"\\xff.toml" has a character that a NAME cannot have: "\\xff"', "job.toml"),
        ("١-x.toml", '"\\u0661-x.toml" has a character that a NAME cannot have: "\\u0661"', "x.toml"),
    ],
)
def test_a_bad_name_is_refused_with_a_name_that_would_do(file, text, suggestion):
    with pytest.raises(BadNameError) as caught:
        parse_file_name(file)
    assert caught.value.text == text
    assert caught.value.suggestion == suggestion
    assert str(caught.value) == f"{text}; {suggestion} would do"
    assert parse_file_name(suggestion).file == suggestion


def test_a_file_name_has_at_most_200_bytes():
    fits = "0010-" + "a" * (MAX_FILE_NAME - 10) + ".toml"
    assert parse_file_name(fits).file == fits
    with pytest.raises(BadNameError, match="is 201 bytes long, and 200 are the most"):
        parse_file_name("0" + fits)


def test_a_file_without_a_number_leaves_room_for_any_number():
    longest = "a" * 176 + ".toml"
    assert len(next_file(parse_file_name(longest).name, 10**18).file) <= MAX_FILE_NAME
    with pytest.raises(BadNameError, match="is 182 bytes long, and 181 are the most before it has a number"):
        parse_file_name("a" + longest)


@given(ENTRIES | NEAR_NAMES)
def test_every_suggestion_is_a_good_name(entry):
    suggestion = suggest(entry)
    assert parse_file_name(suggestion).file == suggestion


@given(st.from_regex(r"([0-9]{1,18}-)?[A-Za-z0-9][A-Za-z0-9._+@-]{0,50}\.toml", fullmatch=True))
@example("A0-0.toml")
def test_a_good_name_is_suggested_as_it_is(file):
    try:
        parse_file_name(file)
    except BadNameError:
        return  # digits, a dash and no NAME behind them
    assert suggest(file).rstrip("-") == file or file.removesuffix(".toml").endswith("-")


def test_files_are_ordered_by_number_then_name_and_those_without_a_number_come_last():
    files = ["a.toml", "0010-b.toml", "9-z.toml", "0010-a.toml", "100-a.toml", "999999999999999999-a.toml"]
    in_order = sorted(files, key=lambda file: parse_file_name(file).key)
    assert in_order == ["9-z.toml", "0010-a.toml", "0010-b.toml", "100-a.toml", "999999999999999999-a.toml", "a.toml"]


@pytest.mark.parametrize(
    ("last", "file"),
    [(None, "0010-g.toml"), (0, "0010-g.toml"), (9, "0010-g.toml"), (10, "0020-g.toml"), (205, "0210-g.toml"), (9990, "10000-g.toml")],
)
def test_the_next_file_gets_the_next_multiple_of_ten(last, file):
    assert next_file("g", last).file == file


@given(st.none() | st.integers(0, 10**18 - 1), st.sampled_from(["a", "g52", "0050"]))
def test_the_next_file_is_a_good_name_and_never_placed_before_the_last(last, name):
    file = next_file(name, last)
    assert parse_file_name(file.file) == file
    assert last is None or file.seq > last or file.seq == 10**18 - 1


def test_a_taken_name_is_numbered_before_the_suffix():
    assert numbered(parse_file_name("0050-g52.toml"), 2) == "0050-g52.2.toml"
    assert numbered(parse_file_name("g52.toml"), 13) == "g52.13.toml"


@pytest.mark.parametrize(
    ("entry", "candidate"),
    [("a.toml", True), ("bad name.toml", True), (".toml", False), (".a.toml", False), ("._a.toml", False), ("a.toml.swp", False), ("a.TOML", False)],
)
def test_a_candidate_ends_in_toml_and_is_no_dot_file(entry, candidate):
    assert is_candidate(entry) is candidate


def test_a_stem_is_the_entry_without_its_suffix():
    assert stem("0050-g52.toml") == "0050-g52"
    assert stem("0050-g52.why") == "0050-g52.why"


@pytest.mark.parametrize("entry", ["0050-g52.toml", "my job.toml", "a'b\"c$d;e.toml", "x%20y.toml", "a" * 195 + ".toml"])
def test_an_entry_of_visible_ascii_stays_as_it_is(entry):
    assert safe_entry(entry) == entry


@pytest.mark.parametrize(
    ("entry", "safe"),
    [
        ("a\nb.toml", "a%0Ab.toml"),
        ("größe.toml", "gr%C3%B6%C3%9Fe.toml"),
        ("\udcff\x1b.toml", "%FF%1B.toml"),
        ("-rf.toml", "%2Drf.toml"),
        ("..", "%2E."),
        ("a/../b", "a%2F..%2Fb"),
        (" x", "%20x"),
        ("x ", "x%20"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_an_entry_of_other_bytes_is_escaped(entry, safe):
    assert safe_entry(entry) == safe


@given(ENTRIES)
@example("")
@example("." * 300)
def test_a_safe_entry_is_a_file_name_anywhere_and_stays_as_it_is(entry):
    safe = safe_entry(entry)
    assert 0 < len(safe) <= MAX_FILE_NAME
    assert safe.isascii()
    assert safe.isprintable()
    assert "/" not in safe
    assert safe[0] not in ".- "
    assert safe_entry(safe) == safe


def test_long_entries_stay_apart_and_keep_their_suffix():
    one, other = safe_entry("a" * 230 + "1.toml"), safe_entry("a" * 230 + "2.toml")
    assert one != other
    assert one.endswith(".toml")
    assert len(one) == MAX_FILE_NAME


@given(st.text(max_size=300) | ENTRIES, st.integers(4, 250))
def test_what_is_shown_is_one_short_line_of_ascii(text, limit):
    shown = show(text, limit)
    assert len(shown) <= limit
    assert shown.isascii()
    assert shown.isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \\ text", "plain \\ text"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31m\x7f\x9b", "\\x1b[31m\\x7f\\x9b"),
        ("\udce9t\u00e9", "\\xe9t\\xe9"),
        ("\u202egnp", "\\u202egnp"),
        ("\U0001f600", "\\U0001f600"),
    ],
)
def test_what_could_act_on_a_terminal_is_escaped(text, shown):
    assert show(text) == shown


def test_long_text_is_cut_with_dots():
    assert show("a" * 300, 10) == "aaaaaaa..."
    assert show("a" * 10, 10) == "a" * 10


@settings(deadline=None)
@given(st.text(max_size=100))
def test_showing_twice_changes_nothing(text):
    assert show(show(text)) == show(text)
