import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobspec.spec import NO_LIMIT, Share
from spoold.settings import KEYS, Durability, LockUnits, Order, Settings, SettingsError, default_settings_text, parse_settings


def refusal(text):
    with pytest.raises(SettingsError) as caught:
        parse_settings(text if isinstance(text, bytes) else text.encode())
    return caught.value


def test_an_empty_file_gives_the_defaults():
    assert parse_settings(b"") == Settings()
    assert Settings() == Settings(
        default_lock="box",
        default_wall_s=86_400.0,
        cwd="~",
        shell=("/bin/sh",),
        umask=0o022,
        durability=Durability.FULL,
        env={},
        locks={},
        order=Order.BACKFILL,
        memory_floor=Share(4.0),
        guard=True,
        patience_s=5.0,
        unknown_memory=0,
        disk_floor=1_000_000_000,
        keep_done_s=None,
        keep_refused_s=None,
        keep_log_s=None,
        log_limit=None,
        shared=False,
    )


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ('default_lock = "gpu"', "default_lock", "gpu"),
        ('default_wall = "12h"', "default_wall_s", 43_200.0),
        ("default_wall = 60", "default_wall_s", 60.0),
        ('default_wall = "none"', "default_wall_s", NO_LIMIT),
        ('cwd = "/srv"', "cwd", "/srv"),
        ('shell = "/bin/bash"', "shell", ("/bin/bash",)),
        ('shell = ["/bin/bash", "-e"]', "shell", ("/bin/bash", "-e")),
        ('umask = "077"', "umask", 0o077),
        ('umask = "0027"', "umask", 0o027),
        ('durability = "fast"', "durability", Durability.FAST),
        ('[env]\nA = "1"', "env", {"A": "1"}),
        ("locks.gpu = 2", "locks", {"gpu": LockUnits(("0", "1"))}),
        ('locks.gpu = ["a", "GPU-8932/1"]', "locks", {"gpu": LockUnits(("a", "GPU-8932/1"))}),
        (
            '[locks.gpu]\nunits = ["0", "1"]\nenv = "CUDA_VISIBLE_DEVICES"',
            "locks",
            {"gpu": LockUnits(("0", "1"), "CUDA_VISIBLE_DEVICES")},
        ),
        ('[locks]\ngpu.env = "X"\ncpu = { units = 3 }', "locks", {"gpu": LockUnits(("0",), "X"), "cpu": LockUnits(("0", "1", "2"))}),
        ('order.policy = "strict"', "order", Order.STRICT),
        ('memory.floor = "2GB"', "memory_floor", 2_000_000_000),
        ("memory.floor = 0", "memory_floor", 0),
        ("memory.guard = false", "guard", False),
        ("memory.patience = 0", "patience_s", 0.0),
        ('memory.unknown = "10%"', "unknown_memory", Share(10.0)),
        ("disk.floor = 0", "disk_floor", 0),
        ('keep.done = "90d"', "keep_done_s", 7_776_000.0),
        ('keep.refused = "1d"', "keep_refused_s", 86_400.0),
        ('keep.log = "none"', "keep_log_s", None),
        ('log.limit = "1GB"', "log_limit", 1_000_000_000),
        ('log.limit = "none"', "log_limit", None),
        ("spool.shared = true", "shared", True),
    ],
)
def test_a_key_sets_its_field_and_nothing_else(text, field, value):
    said = parse_settings(text.encode())
    assert getattr(said, field) == value
    assert [name for name in Settings.__slots__ if getattr(said, name) != getattr(Settings(), name)] in ([field, "sources"], ["sources"])


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("umask = 22", ['line 1: umask: must be three octal digits in quotes, such as "022", not 22']),
        ('umask = "099"', ['line 1: umask: must be three octal digits in quotes, such as "022", not "099"']),
        ('umask = "7777"', ['line 1: umask: must be three octal digits in quotes, such as "022", not "7777"']),
        ("default_lok = 1", ["line 1: default_lok: unknown key, did you mean default_lock?"]),
        ("lock = 1", ["line 1: lock: unknown key, did you mean locks?"]),
        (
            "zzz = 1",
            [
                (
                    "line 1: zzz: unknown key; there are default_lock, default_wall, cwd, shell, umask, durability, env, locks, "
                    "order, memory, disk, keep, log, spool"
                )
            ],
        ),
        ('[memory]\nflor = "4%"', ["line 2: memory.flor: unknown key, did you mean floor?"]),
        ('[spool]\ndefault_wall = "1h"', ["line 2: spool.default_wall: this belongs to the top of the file: put it above spool"]),
        (
            '[env]\ncwd = "/"',
            ['line 2: env.cwd: this stands below [env] and so is a variable; put it above [env], or say env = { cwd = "..." } if it is one'],
        ),
        ("order = 'strict'", ['line 1: order: must be a table, not "strict"']),
        ("default_lock = []", ["line 1: default_lock: the name of a lock must be text in quotes, not an array"]),
        ("default_wall = 0", ["line 1: default_wall: must be longer than zero"]),
        ('shell = ["/bin/sh", ""]', ["line 1: shell: must not be empty"]),
        ("shell = 1", ['line 1: shell: must be a path in quotes or an array such as ["/bin/sh"], not 1']),
        ('durability = "ful"', ['line 1: durability: must be one of full, fast, not "ful", did you mean full?']),
        ("durability = true", ["line 1: durability: must be one of full, fast, not true"]),
        ("locks = 2", ["line 1: locks: must be a table such as { gpu = 2 }, not 2"]),
        ("locks.gpu = true", ["line 1: locks.gpu: must be a whole number, not true"]),
        ("locks.gpu = []", ["line 1: locks.gpu: must name from 1 to 10000 units"]),
        ("locks.gpu = [0]", ["line 1: locks.gpu: a unit's name must be text in quotes, not 0"]),
        ('locks.gpu = "2"', ['line 1: locks.gpu: must be a number of units, or their names such as ["0", "1"], not "2"']),
        ('locks.gpu.env = "A B"', ['line 1: locks.gpu.env: must be the name of a variable in quotes: letters, digits and _, not "A B"']),
        ("locks.gpu.units = 1.5", ['line 1: locks.gpu.units: must be a number of units, or their names such as ["0", "1"], not 1.5']),
        ("memory.guard = 1", ["line 1: memory.guard: must be true or false, not 1"]),
        ("log.limit = 0", ['line 1: log.limit: must be more than 0; say "none" for no limit']),
        ("keep.done = 0", ["line 1: keep.done: must be longer than zero"]),
        ("[keep]\ndone = 90d", ['line 2: keep.done: text needs quotes: "90d"']),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, problems):
    assert [str(problem) for problem in refusal(text).problems] == problems


def test_a_bad_name_of_a_lock_is_refused():
    assert "is no name of a lock" in str(refusal('locks."a b" = 2'))


def test_everything_wrong_is_reported_at_once_in_the_order_of_the_file():
    error = refusal('cwd = ""\ndefault_wall = 24h\n[disk]\nfloor = "5%"\n[log]\nlimit = -1\n[what]\nx = 1\n')
    assert [(problem.line, problem.column, problem.key) for problem in error.problems] == [
        (1, 1, "cwd"),
        (2, 18, "default_wall"),
        (4, 1, "disk.floor"),
        (6, 1, "log.limit"),
        (7, 2, "what"),
    ]


def test_the_source_of_a_setting_is_known_with_its_line():
    said = parse_settings(b'default_wall = "12h"\n[memory]\nfloor = 0\n[env]\n"A B" = ""\n')
    assert said.sources == {"default_wall": 1, "memory.floor": 3, "env": 4, 'env."A B"': 5}
    assert said.source("default_wall") == "spool.toml default_wall"
    assert said.source("memory.floor") == "spool.toml memory.floor"
    assert said.source("memory.guard") == "default"


def test_settings_that_say_the_same_on_other_lines_are_equal():
    assert parse_settings(b"\n\numask = '022'") == parse_settings(b"") == Settings()


def test_every_key_sets_a_field_of_the_settings():
    assert set(KEYS.values()) == set(Settings.__slots__) - {"sources"}


@pytest.mark.parametrize("path", ["/usr/bin:/bin", '/a "b"\\c', "/größe:/bin", "/a{b}%s"])
def test_the_text_that_init_writes_sets_the_path_and_nothing_else(path):
    said = parse_settings(default_settings_text(path))
    assert said == Settings(env={"PATH": path})


def test_every_comment_in_the_text_that_init_writes_is_the_default():
    text = default_settings_text("/bin").decode()
    commented = re.findall(r"^# (\w+) = ", text, flags=re.MULTILINE)
    gpus = [line for line in text.splitlines() if line.startswith("# gpu")]
    for gpu in gpus:
        said = parse_settings(f"[locks]\n{gpu.removeprefix('# ')}".encode())
        assert said.locks["gpu"].units == ("0", "1")
    spoken = re.sub(r"^# (?=\w+ = )", "", "\n".join(line for line in text.splitlines() if line not in gpus), flags=re.MULTILINE)
    said = parse_settings(spoken.encode())
    assert said == Settings(env={"PATH": "/bin"})
    assert {key.rpartition(".")[2] for key in KEYS} == {*commented, "env", "locks"} - {"gpu"}
    assert set(KEYS) <= set(said.sources)


def test_a_path_of_bytes_that_are_no_utf_8_still_gives_a_text():
    assert parse_settings(default_settings_text("/bin:/\udcff")).env["PATH"] == "/bin:/?"


_LINES = st.sampled_from(
    [
        *("default_wall = 1", "cwd = 1", 'shell = ["a", 1]', "locks = 1", "[locks]", "gpu = 2", "gpu = { units = [] }", "[env]", "A = 1"),
        *("[memory]", 'floor = "x"', "guard = true", "[keep]", "done = 1", "[[keep]]", "x", '"', "'''", "a.b = 1", "order.policy = {}", "\0", "\x1b"),
    ]
)


def outcome(data):
    try:
        return parse_settings(data)
    except SettingsError as error:
        return error


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=100) | st.lists(_LINES, max_size=8).map(lambda lines: "\n".join(lines).encode()))
def test_any_bytes_give_settings_or_an_error(data):
    result = outcome(data)
    if isinstance(result, SettingsError):
        assert result.problems
        assert str(result).isascii()
        assert str(result).isprintable()
    else:
        assert isinstance(result, Settings)
