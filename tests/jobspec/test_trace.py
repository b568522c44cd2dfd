import datetime
import time
import tomllib

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from job_strategies import ENTRIES, LIKELY_TOML, NEARLY_TOML, jobs

from jobspec import trace
from jobspec.parse import parse
from jobspec.spec import MAX_FILE_BYTES
from jobspec.write import write

AT = datetime.datetime(2026, 12, 1, 12, 0, 0, 5, tzinfo=datetime.UTC)
TEXT = b'# mine\ncommand = ["true"]\n'
ACCEPTED = {"step": "accepted", "at": AT, "from": "incoming/g52.toml", "uid": 1000}
STARTED = {"step": "started", "at": AT, "run": 3, "pid": 4711, "locks": {"gpu": ["0"]}, "waited_s": 12.5, "waited_for": "lock"}
ENDED = {"step": "ended", "at": AT, "run": 3, "outcome": "ok", "exit": 0, "leftover": [{"pid": 3}]}
ENTRY_LISTS = st.lists(ENTRIES, max_size=3)
USUAL_LISTS = st.lists(st.sampled_from([ACCEPTED, STARTED, ENDED, {"why": "x" * 200}, {}]), max_size=4)


def valid(text):
    """Is this a user's text that could have been accepted, as far as TOML goes?"""
    try:
        table = tomllib.loads(text.decode())
    except (ValueError, RecursionError):
        return False
    return "trace" not in table


@st.composite
def texts(draw):
    """Valid texts of users: with and without tables and newlines at their end."""
    text = draw(jobs().map(write) | NEARLY_TOML.map(str.encode) | LIKELY_TOML.map(str.encode))
    text = draw(st.sampled_from([text, text.rstrip(b"\n"), text + b"# comment", text.replace(b"\n", b"\r\n")]))
    assume(valid(text))
    assume(trace.split(text) == (text, b""))
    return text


@settings(deadline=None, max_examples=60)
@given(texts(), ENTRY_LISTS, ENTRY_LISTS)
def test_the_text_comes_back_byte_for_byte_and_so_do_the_entries(text, first, second):
    data = trace.append(trace.append(text, *first), *second)
    user, history = trace.split(data)
    assert user == text
    assert user + history == data
    assert trace.read(data) == (*first, *second)
    table = tomllib.loads(data.decode())
    assert table.pop("trace", []) == [*first, *second]
    assert repr(table) == repr(tomllib.loads(text.decode()))


@settings(deadline=None, max_examples=20)
@given(jobs(), USUAL_LISTS)
def test_a_job_is_the_same_with_a_history(job, entries):
    assert parse(trace.append(write(job), *entries)) == job


@given(st.binary(max_size=80))
@example(b"a = 1\r")
@example(b"")
@example(b'a = "')
def test_any_bytes_without_a_string_of_several_lines_come_back(text):
    assume(b'"""' not in text)
    assume(b"'''" not in text)
    assert trace.split(trace.append(text, ACCEPTED))[0] == text


def test_a_file_without_a_marker_has_no_history():
    assert trace.split(TEXT) == (TEXT, b"")
    assert trace.read(TEXT) == ()


def test_a_history_reads_well():
    assert trace.append(TEXT, ACCEPTED, {**STARTED, "signal": None}, ENDED).decode() == f"""\
# mine
command = ["true"]
{trace.MARKER}
[[trace]]
step = "accepted"
at = 2026-12-01 12:00:00.000005+00:00
from = "incoming/g52.toml"
uid = 1000

[[trace]]
step = "started"
at = 2026-12-01 12:00:00.000005+00:00
run = 3
pid = 4711
locks = {{ gpu = ["0"] }}
waited_s = 12.5
waited_for = "lock"

[[trace]]
step = "ended"
at = 2026-12-01 12:00:00.000005+00:00
run = 3
outcome = "ok"
exit = 0
leftover = [{{ pid = 3 }}]

{trace.END}
"""


@pytest.mark.parametrize("last", ["x = 1", "[env]\nA = '1'", "[[meta.list]]\nx = 1", "env.A = '1'", "[meta.a]", "# comment", 'note = """\nx"""'])
@pytest.mark.parametrize("newline", ["", "\n"])
def test_the_last_table_of_the_user_swallows_nothing(last, newline):
    text = f"{last}{newline}".encode()
    data = trace.append(text, ACCEPTED)
    assert tomllib.loads(data.decode()) == {**tomllib.loads(text.decode()), "trace": [ACCEPTED]}
    assert trace.split(data)[0] == text


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_a_marker_inside_a_string_of_the_user_is_text(quotes):
    text = f"note = {quotes}\n{trace.MARKER}\n[[trace]]\nstep = 1\n{quotes}\ncommand = ['true']\n".encode()
    assert trace.split(text) == (text, b"")
    data = trace.append(text, ACCEPTED)
    assert trace.split(data)[0] == text
    assert trace.read(data) == (ACCEPTED,)
    assert parse(data).note.startswith(trace.MARKER)


@pytest.mark.parametrize(
    "before", ["# don't\n", '# """\n', "a = 'it is \"\"\"'\n", 'a = "\\""\n', 'a = """x\\"""\n"""\n', "a = '''x''''\n", 'a = """x"""""\n', 'a = "x\n"""y"""\n']
)
def test_quotes_in_comments_and_strings_hide_no_marker(before):
    text = before.encode()
    assert trace.split(trace.append(text + b'b = """\n"""\n', ACCEPTED))[0] == text + b'b = """\n"""\n'


def test_the_marker_counts_only_as_a_whole_line():
    for text in (f"a = 1 {trace.MARKER}\n", f"{trace.MARKER}x\n", f" {trace.MARKER}\n"):
        assert trace.split(text.encode()) == (text.encode(), b"")


def test_an_editor_may_turn_every_line_end_into_cr_lf():
    for text in (b'command = ["true"]\nwall = 1', b'command = ["true"]\nwall = 1\n'):
        data = trace.append(text, ACCEPTED, STARTED).replace(b"\n", b"\r\n")
        assert trace.split(data)[0] == text.replace(b"\n", b"\r\n")
        assert trace.read(data) == (ACCEPTED, STARTED)
        assert trace.read(trace.append(data, ENDED)) == (ACCEPTED, STARTED, ENDED)
        assert parse(data).wall_s in (1.0,)


# damage


@settings(deadline=None)
@given(USUAL_LISTS, st.data())
def test_a_torn_history_gives_its_leading_entries_and_never_half_an_entry(entries, data):
    whole = trace.append(TEXT, *entries)
    torn = whole[: data.draw(st.integers(len(TEXT), len(whole)))]
    found = trace.read(torn)
    assert found == tuple(entries[: len(found)])
    mended = trace.append(torn, ACCEPTED)
    assert tomllib.loads(mended.decode())
    if trace.split(torn)[0] == TEXT:
        assert trace.read(mended) == (*found, ACCEPTED)
        assert trace.split(mended)[0] == TEXT


def test_a_number_that_is_cut_is_not_believed():
    data = trace.append(TEXT, ACCEPTED, {"step": "started", "pid": 1234})
    torn = data[: data.index(b"34\n")]
    assert torn.endswith(b"pid = 12")
    assert trace.read(torn) == (ACCEPTED,)


def test_what_was_damaged_is_kept_as_comments():
    data = trace.append(TEXT, ACCEPTED, STARTED, ENDED).replace(b"run = 3\npid", b"run = \xff\x1b\npid")
    assert trace.read(data) == (ACCEPTED,)
    mended = trace.append(data, ENDED)
    assert trace.read(mended) == (ACCEPTED, ENDED)
    assert b"# run = \\xff\\x1b\n# pid = 4711\n" in mended
    assert mended.count(b'# step = "ended"\n') == 1
    assert trace.append(mended, STARTED).count(b"# pid = 4711\n") == 1


@settings(deadline=None, max_examples=120)
@given(st.binary(max_size=40), st.data())
def test_no_damage_raises_or_spreads(junk, data):
    whole = trace.append(TEXT, ACCEPTED, STARTED, ENDED)
    start = data.draw(st.integers(len(TEXT) + len(trace.MARKER) + 1, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 60)))
    damaged = whole[:start] + junk + whole[stop:]
    before = whole[:start].count(b"\n[[trace]]") - 1
    assert trace.read(damaged)[: max(0, before)] == (ACCEPTED, STARTED, ENDED)[: max(0, before)]
    again = trace.append(damaged, ACCEPTED)
    assert trace.split(again)[0] == TEXT
    assert trace.read(again)[-1] == ACCEPTED
    assert tomllib.loads(again.decode())["command"] == ["true"]


@settings(deadline=None, max_examples=120)
@given(NEARLY_TOML)
def test_a_forged_history_never_raises_nor_changes_the_job(forged):
    data = TEXT + f"{trace.MARKER}\n{forged}".encode()
    entries = trace.read(data)
    mended = trace.append(data, ACCEPTED)
    assert trace.read(mended) == (*entries, ACCEPTED)
    table = tomllib.loads(mended.decode())
    assert table.keys() == {"command", "trace"}


@pytest.mark.parametrize(
    "history",
    [
        ".".join("a" * 30_000) + " = 1",
        "[[trace]]\n" + ".".join("a" * 30_000) + " = 1",
        "[[trace]]\na = " + "[" * 30_000,
        "[[trace]]\na = " + "9" * 5_000,
        "[[trace]]\n" * 6_500 + "!",
        "[[trace]]\n" + ".".join("a" * 40) + " = 1",
        "#" * 64_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_history_takes_long(history):
    data = TEXT + f"{trace.MARKER}\n{history}\n{trace.END}\n".encode()
    start = time.process_time()
    trace.read(data)
    mended = trace.append(data, ACCEPTED)
    assert time.process_time() - start < 4
    assert trace.read(mended)[-1] == ACCEPTED
    assert len(mended) <= MAX_FILE_BYTES


@pytest.mark.parametrize("text", ["'\n" * 30_000, '"""' * 20_000, '"""\\' * 15_000, "'''x" * 15_000, "\"'" * 30_000, "#\n" * 30_000])
def test_no_text_takes_long_to_split(text):
    start = time.process_time()
    trace.split(f"'''\n'''{text}\n{trace.MARKER}\n".encode())
    assert time.process_time() - start < 2


# size


def test_the_oldest_entries_make_room_and_are_counted():
    data = TEXT
    for run in range(30):
        data = trace.append(data, {"step": "started", "run": run}, limit=600)
        assert len(data) <= 600
        assert trace.split(data)[0] == TEXT
        assert tomllib.loads(data.decode())
    kept = [entry["run"] for entry in trace.read(data)]
    assert kept == list(range(30 - len(kept), 30))
    assert len(kept) > 2
    assert f"# {30 - len(kept)} older entries left out".encode() in data


def test_one_entry_that_is_left_out_is_one_entry():
    data = trace.append(TEXT, ACCEPTED)
    data = trace.append(data, ACCEPTED, limit=len(data) + 80)
    assert b"# 1 older entry left out" in data
    assert trace.read(data) == (ACCEPTED,)


@settings(deadline=None)
@given(USUAL_LISTS, USUAL_LISTS, st.integers(0, 1200))
def test_old_entries_go_as_far_as_they_must_and_new_ones_always_stay(old, new, limit):
    data = trace.append(trace.append(TEXT, *old), *new, limit=limit)
    kept = trace.read(data)
    assert trace.split(data)[0] == TEXT
    assert kept == tuple([*old, *new][len(old) + len(new) - len(kept) :])
    assert len(kept) >= len(new)
    if len(kept) > len(new):
        assert len(data) <= limit
    if len(kept) < len(old) + len(new):
        assert len(trace.append(trace.append(TEXT, *old), *new)) > limit


def test_a_text_of_the_greatest_size_has_a_history_too():
    text = TEXT.ljust(MAX_FILE_BYTES, b"#")
    data = trace.append(trace.append(text, ACCEPTED), STARTED, ENDED)
    assert trace.split(data)[0] == text
    assert trace.read(data) == (STARTED, ENDED)


# what nobody would read


def test_a_line_below_the_history_is_found():
    data = trace.append(TEXT, ACCEPTED)
    assert trace.stray_line(*trace.split(data)) is None
    assert trace.stray_line(*trace.split(data + b"\n# comment\n \n")) is None
    stray = data + b'\n# comment\nwall = "2h"\n'
    assert trace.stray_line(*trace.split(stray)) == stray.split(b"\n").index(b'wall = "2h"') + 1


def test_strings_that_toml_cannot_hold_are_written_all_the_same():
    data = trace.append(TEXT, {"step": "ended", "why": "a\udcff\n\x1b", "a b": True})
    assert trace.read(data) == ({"step": "ended", "why": "a?\n\x1b", "a b": True},)
