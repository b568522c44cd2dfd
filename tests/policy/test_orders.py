"""What a supervisor is told about one run: above all the environment, which has nothing of the spooler's own in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queues import NOW, a_job

from jobspec.spec import NO_LIMIT, Job
from spoold.layout import Layout
from spoold.model import Ready
from spoold.orders import DEFAULT_PATH, environment, expand, lock_variable, make_order
from spoold.records import Order
from spoold.settings import Durability, LockUnits, Settings

LAYOUT = Layout("/srv/spool")
IDENTITY = {"HOME": "/home/ann", "USER": "ann", "LOGNAME": "ann", "SHELL": "/bin/zsh", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
SETTINGS = Settings(env={"PATH": "/opt/bin:/bin", "TEAM": "b"}, locks={"gpu": LockUnits(("0", "1"), "CUDA_VISIBLE_DEVICES")})


def spec_of(ready: Ready, **fields: object) -> Ready:
    return replace(ready, job=replace(ready.job, **fields))  # type: ignore[arg-type]


def order_of(
    ready: Ready, *, settings: Settings = SETTINGS, locks: Mapping[str, tuple[str, ...]] | None = None, text: bytes = b"", now: float = NOW
) -> Order:
    return make_order(ready, 3, text, locks or {}, settings=settings, layout=LAYOUT, identity=IDENTITY, now=now, waited_for=["x"])


# the environment ------------------------------------------------------------------------------------------------------


def test_the_environment_is_the_account_the_spool_the_job_and_spoold_variables_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SPOOLER", "1")
    job = spec_of(a_job(50, "g52", memory=37, wall=90.0), env={"OMP_NUM_THREADS": "8"})
    assert environment(job, 3, {"gpu": ("1",), "cpu": ("a", "b")}, SETTINGS, LAYOUT, IDENTITY) == IDENTITY | {
        "PATH": "/opt/bin:/bin",
        "TEAM": "b",
        "OMP_NUM_THREADS": "8",
        "CUDA_VISIBLE_DEVICES": "1",
        "SPOOLD_JOB": "g52",
        "SPOOLD_RUN": "3",
        "SPOOLD_SPOOL": "/srv/spool",
        "SPOOLD_STAGE_DIR": "/srv/spool/running",
        "SPOOLD_MEMORY": "37",
        "SPOOLD_WALL": "90",
        "SPOOLD_LOCK_GPU": "1",
        "SPOOLD_LOCK_CPU": "a,b",
    }


def test_every_job_has_a_path_even_if_nobody_says_one() -> None:
    assert environment(a_job(1), 1, {}, Settings(), LAYOUT, {})["PATH"] == DEFAULT_PATH


def test_the_jobs_own_env_goes_over_that_of_the_spool_and_both_over_the_account() -> None:
    job = spec_of(a_job(1), env={"TEAM": "mine", "HOME": "/elsewhere"})
    env = environment(job, 1, {}, SETTINGS, LAYOUT, IDENTITY)
    assert (env["TEAM"], env["HOME"], env["USER"]) == ("mine", "/elsewhere", "ann")
    assert environment(a_job(1), 1, {}, Settings(env={"LANG": "de"}), LAYOUT, IDENTITY)["LANG"] == "de"


@given(st.dictionaries(st.sampled_from(("SPOOLD_JOB", "SPOOLD_RUN", "SPOOLD_SPOOL", "SPOOLD_WALL", "SPOOLD_LOCK_GPU")), st.text()))
@settings(deadline=None, max_examples=20)
def test_no_job_can_say_what_only_the_spooler_knows(lies: dict[str, str]) -> None:
    honest = environment(a_job(1), 1, {"gpu": ("0",)}, SETTINGS, LAYOUT, IDENTITY)
    assert environment(spec_of(a_job(1), env=lies), 1, {"gpu": ("0",)}, SETTINGS, LAYOUT, IDENTITY) == honest
    assert environment(a_job(1), 1, {"gpu": ("0",)}, replace(SETTINGS, env=SETTINGS.env | lies), LAYOUT, IDENTITY) == honest


def test_the_variable_of_a_lock_tells_the_units_over_what_the_job_says_but_never_replaces_the_spoolers_own() -> None:
    job = spec_of(a_job(1), env={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert environment(job, 1, {"gpu": ("1",)}, SETTINGS, LAYOUT, IDENTITY)["CUDA_VISIBLE_DEVICES"] == "1"
    odd = Settings(locks={"gpu": LockUnits(("0",), "SPOOLD_JOB")})
    assert environment(a_job(1, "me"), 1, {"gpu": ("0",)}, odd, LAYOUT, IDENTITY)["SPOOLD_JOB"] == "me"


@pytest.mark.parametrize(("lock", "variable"), [("gpu", "SPOOLD_LOCK_GPU"), ("gpu-0.a", "SPOOLD_LOCK_GPU_0_A"), ("_x", "SPOOLD_LOCK__X")])
def test_the_variable_of_a_lock_is_a_name_that_a_shell_takes(lock: str, variable: str) -> None:
    assert lock_variable(lock) == variable


@pytest.mark.parametrize(
    ("wall", "said"), [(1.0, "1"), (0.25, "0.25"), (100.0, "100"), (1_036_800.0, "1036800"), (86_400.5, "86400.5"), (NO_LIMIT, "none")]
)
def test_the_wall_clock_is_told_in_seconds_without_an_exponent(wall: float, said: str) -> None:
    assert environment(a_job(1, wall=wall), 1, {}, SETTINGS, LAYOUT, IDENTITY)["SPOOLD_WALL"] == said


# the order ------------------------------------------------------------------------------------------------------------


def test_an_order_says_what_the_job_file_and_the_settings_say() -> None:
    spec = Job(script="echo hi", cwd="~/work", stdin="in.txt", nice=7)
    job = replace(a_job(50, "g52", memory=37, wall=90.0, grace=5.0), job=spec, runs=2)
    settings = Settings(shell=("/bin/bash", "-e"), umask=0o077, durability=Durability.FAST, log_limit=10)
    order = order_of(job, settings=settings, locks={"gpu": ("1",)}, text=b"x\xff")
    assert (order.run, order.job, order.seq, order.name, order.file) == (3, "0050-g52", 50, "g52", "0050-g52.toml")
    assert (order.argv, order.script, order.shell) == (None, "echo hi", ["/bin/bash", "-e"])
    assert (order.cwd, order.stdin, order.nice, order.umask) == ("/home/ann/work", "/home/ann/work/in.txt", 7, 0o077)
    assert (order.wall_s, order.grace_s, order.memory, order.locks) == (90.0, 5.0, 37, {"gpu": ["1"]})
    assert (order.log_number, order.sync, order.log_limit, order.waited_for) == (3, False, 10, ["x"])
    assert order.text.encode("utf-8", "surrogateescape") == b"x\xff"


def test_no_wall_clock_is_none_for_the_supervisor() -> None:
    assert order_of(a_job(1, wall=NO_LIMIT)).wall_s is None


def test_without_a_word_a_job_runs_where_the_settings_say_and_without_them_at_home() -> None:
    assert order_of(a_job(1)).cwd == "/home/ann"
    assert order_of(a_job(1), settings=Settings(cwd="/data")).cwd == "/data"
    assert order_of(a_job(1)).stdin is None


@pytest.mark.parametrize(
    ("cwd", "stdin", "found"),
    [
        ("/data", "in.txt", "/data/in.txt"),
        ("work", "in.txt", "/home/ann/work/in.txt"),
        ("/data", "~/in.txt", "/home/ann/in.txt"),
        ("/data", "/in.txt", "/in.txt"),
        (None, "in.txt", "/home/ann/in.txt"),
    ],
)
def test_stdin_is_looked_for_where_the_job_runs(cwd: str | None, stdin: str, found: str) -> None:
    order = order_of(spec_of(a_job(1), cwd=cwd, stdin=stdin))
    assert order.stdin is not None
    assert os.path.normpath(order.stdin) == found


@pytest.mark.parametrize(("path", "found"), [("~", "/h"), ("~/a", "/h/a"), ("~b/a", "/h/~b/a"), ("a", "/h/a"), ("/a", "/a"), ("a~", "/h/a~")])
def test_a_tilde_in_front_is_home_and_a_relative_path_starts_there(path: str, found: str) -> None:
    assert os.path.normpath(expand(path, "/h")) == found


def test_a_job_has_waited_since_it_could_have_started_the_first_time() -> None:
    assert order_of(a_job(1, accepted_at=NOW - 7)).waited_s == 7
    assert order_of(a_job(1, accepted_at=NOW - 7, not_before=NOW - 2)).waited_s == 2
    assert order_of(a_job(1, accepted_at=NOW + 7)).waited_s == 0
