import datetime
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_strategies import NEARLY_TOML
from test_toml import BOMBS

from jobspec import trace
from jobspec.errors import JobSpecError
from jobspec.parse import FIELDS, parse
from jobspec.spec import MAX_FILE_BYTES, NO_LIMIT, Job, LockRequest, ModelSize, Retry, RetryOn, Share


def job(text):
    return parse(b'command = ["true"]\n' + text.encode())


def refusal(text):
    with pytest.raises(JobSpecError) as caught:
        parse(text if isinstance(text, bytes) else text.encode())
    return caught.value


def test_a_full_file_gives_every_field():
    assert parse(
        b"""\
command = ["./bench.sh", "--model", "q4"]
cwd = "~/work"
env = { OMP_NUM_THREADS = "8" }
stdin = "prompts.txt"
after = ["g50", "g51"]
after_ok = ["build"]
after_failed = "g5?"
lock = { gpu = 1, cpu = "all" }
memory = { model = "~/models/big.gguf", margin = "12%" }
wall = "12h"
grace = "30s"
nice = 10
not_before = 2026-12-02T22:00:00
give_up = "3d"
retry = { times = 2, delay = "5m", on = ["failed", "lost"] }
keep_awake = true
note = "what this is for"
meta = { ticket = 12 }
"""
    ) == Job(
        command=("./bench.sh", "--model", "q4"),
        cwd="~/work",
        env={"OMP_NUM_THREADS": "8"},
        stdin="prompts.txt",
        after=("g50", "g51"),
        after_ok=("build",),
        after_failed=("g5?",),
        lock=(LockRequest("gpu", 1), LockRequest("cpu", None)),
        memory=ModelSize("~/models/big.gguf", Share(12.0)),
        wall_s=43_200.0,
        grace_s=30.0,
        nice=10,
        not_before=datetime.datetime(2026, 12, 2, 22),
        give_up_s=259_200.0,
        retry=Retry(times=2, delay_s=300.0, on=frozenset({RetryOn.FAILED, RetryOn.LOST})),
        keep_awake=True,
        note="what this is for",
        meta={"ticket": 12},
    )


def test_every_key_of_the_file_becomes_a_field_of_the_job():
    assert {attribute for attribute, _ in FIELDS.values()} == set(Job.__dataclass_fields__)


def test_what_a_file_leaves_out_is_none():
    assert parse(b'script = "make"') == Job(script="make")


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("wall = 90", "wall_s", 90.0),
        ('wall = "none"', "wall_s", NO_LIMIT),
        ("grace = 0", "grace_s", 0.0),
        ('grace = "0s"', "grace_s", 0.0),
        ("lock = []", "lock", ()),
        ("lock = {}", "lock", ()),
        ('lock = "gpu"', "lock", (LockRequest("gpu"),)),
        ('lock = ["a", "b"]', "lock", (LockRequest("a"), LockRequest("b"))),
        ("memory = 0", "memory", 0),
        ('memory = "0%"', "memory", 0),
        ('memory = "1.5kB"', "memory", 1500),
        ('memory = "79%"', "memory", Share(79.0)),
        ('memory = { model = "m" }', "memory", ModelSize("m", 0)),
        ('memory = { model = "m", margin = 5 }', "memory", ModelSize("m", 5)),
        ("nice = -20", "nice", -20),
        ("nice = 20", "nice", 20),
        ('after = ["a", "b", "a"]', "after", ("a", "b")),
        ("after = []", "after", ()),
        ("retry.times = 1", "retry", Retry(times=1)),
        ("keep_awake = false", "keep_awake", False),
        ('note = ""', "note", ""),
        (
            "not_before = 2026-12-02T22:00:00-05:00",
            "not_before",
            datetime.datetime(2026, 12, 2, 22, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
        ),
        ('env = { wall = "2h" }', "env", {"wall": "2h"}),
        ('[env]\nA = "1"\n"B C" = ""', "env", {"A": "1", "B C": ""}),
        ("[meta.wall]\nnote = 1", "meta", {"wall": {"note": 1}}),
    ],
)
def test_a_value_is_read(text, field, value):
    assert getattr(job(text), field) == value


def test_everything_wrong_is_reported_at_once_in_the_order_of_the_file():
    error = refusal('comand = ["make"]\nwall = "0s"')
    assert str(error) == (
        "line 1: comand: unknown key, did you mean command?; line 2: wall: must be longer than zero; command or script is missing"
    )


def test_what_is_no_toml_and_what_is_no_job_is_reported_together():
    error = refusal('command = ["make"\nlock = 3')
    assert len(error.problems) == 1
    error = refusal('wall = 12h\nlok = "gpu"\nnice = 99\ncommand = make')
    assert [(problem.line, problem.key) for problem in error.problems] == [(1, "wall"), (2, "lok"), (3, "nice"), (4, "command")]


def test_a_fault_in_an_array_has_the_place_of_its_element():
    [problem] = refusal('script = "x"\nafter = [\n  "a",\n  "b c",\n]').problems
    assert (problem.line, problem.column, problem.key) == (4, 3, "after")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("comand", "command"),
        ("Command", "command"),
        ("cmd", "command"),
        ("timeout", "wall"),
        ("afterok", "after_ok"),
        ("after-failed", "after_failed"),
        ("keepawake", "keep_awake"),
        ("locks", "lock"),
        ("mem", "memory"),
        ("notbefore", "not_before"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_known_one(key, meant):
    [problem] = refusal(f'script = "x"\n{key} = 1').problems
    assert problem.text == f"unknown key, did you mean {meant}?"


def test_an_unknown_key_like_none_is_answered_with_all_of_them():
    [problem] = refusal('script = "x"\nzzz = 1').problems
    assert problem.text == f"unknown key; there are {', '.join(FIELDS)}"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[env]\nwall = "2h"', "env.wall"),
        ("[retry]\ntimes = 2\nwall = 3", "retry.wall"),
        ('[memory]\nmodel = "m"\nnote = "x"', "memory.note"),
        ("[lock]\ngpu = 1\nwall = '2h'", "lock.wall"),
    ],
)
def test_a_field_that_slipped_below_a_header_is_refused(text, key):
    [problem] = refusal(f'script = "x"\n{text}').problems
    assert problem.key == key


def test_text_of_a_file_is_escaped_and_shortened_in_its_refusal():
    error = refusal('script = "x"\n"\\u001b[31m\\u202e" = 1\nlock = "' + "é" * 500 + '"\nwall = "\\u0007"')
    assert str(error).isascii()
    assert str(error).isprintable()
    assert len(str(error)) < 800


def test_the_history_is_ignored_and_the_text_above_it_read():
    text = b'command = ["true"]'
    assert parse(trace.append(text, {"step": "ended", "command": ["false"]})) == parse(text)
    assert parse(text + f"\n{trace.MARKER}\ncommand = nonsense \xff [[[".encode("latin-1")) == parse(text)


def test_a_line_below_the_history_is_refused():
    data = trace.append(b'command = ["true"]\n', {"step": "accepted"})
    [problem] = refusal(data + b'wall = "2h"\n').problems
    assert problem.line == data.count(b"\n") + 1
    assert "below the history" in problem.text


def test_a_history_above_the_marker_is_refused():
    for text in ("trace = []", "[[trace]]\nstep = 'ended'", "[trace]", "trace.a = 1"):
        [problem] = refusal(f'script = "x"\n{text}').problems
        assert problem.key == "trace"


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_no_file_takes_long(text):
    start = time.process_time()
    refusal(text)
    assert time.process_time() - start < 6


def test_many_bad_values_take_no_longer_than_one():
    start = time.process_time()
    error = refusal("after = [" + "1," * 30_000 + "]")
    assert time.process_time() - start < 6
    assert error.problems[-1].text.startswith("and ")


def test_a_file_that_is_too_large_is_refused_and_the_largest_is_read():
    data = b'command = ["true"]\n'
    assert parse(data.ljust(MAX_FILE_BYTES, b"#")).command == ("true",)
    assert "65536 are the most" in str(refusal(data.ljust(MAX_FILE_BYTES + 1, b"#")))
    assert "65536 are the most" in str(refusal(b"x" * 3_000_000))


_LINES = st.sampled_from(
    [
        *('command = ["a"]', 'script = "x"', "wall = 1", 'wall = "1h"', "wall = x", "lock = []", 'lock = { a = 1, "b c" = 2 }'),
        *("memory = {}", "env = { A = 1 }", "[env]", "[retry]", "[meta]", "[[trace]]", 'on = ["lost", 1]', "times = 2"),
        *("not_before = 2026-12-02", "nice = 5", "a.b = 1", trace.MARKER, trace.END),
    ]
)


def outcome(data):
    try:
        return parse(data)
    except JobSpecError as error:
        return error


def check(outcome):
    if isinstance(outcome, JobSpecError):
        assert outcome.problems
        assert str(outcome).isascii()
        assert str(outcome).isprintable()
    else:
        assert isinstance(outcome, Job)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_job_or_an_error(data):
    check(outcome(data))


@settings(deadline=None, max_examples=200)
@given(NEARLY_TOML | st.lists(_LINES | NEARLY_TOML, max_size=8).map("\n".join))
def test_any_text_gives_a_job_or_an_error(text):
    check(outcome(text.encode()))
