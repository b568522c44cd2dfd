"""SIGKILL of spooler, launcher, supervisor and job, alone and together, at named points and at random moments: nothing is lost, nothing runs twice.

Random moments come from a fixed seed; tests/soak takes a thousand.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import random
import signal
import subprocess
import time
from typing import Any

import pytest
from rig import Rig, name_of
from spooling import COMMAND, REPOSITORY

from jobspec import trace
from spoold import lockfile, slots
from spoold.layout import Layout
from spoold.model import Stage
from spoold.pool import Pool
from spoold.store import Store

SEED = 1
WHO = ("spooler", "launcher", "supervisor", "job")
COMBINATIONS = [who for count in range(1, 5) for who in itertools.combinations(WHO, count)]


def pids_of(rig: Rig, who: str, name: str | None = None) -> list[int]:
    """Processes of this spool by their part; only those of one job, if a name is given."""
    live = [record for number in slots.numbers(rig.layout) if (record := slots.read(rig.layout.slot(number))).live and record.end is None]
    runs = [record for record in live if record.start is not None and name in (None, record.start.name)]
    match who:
        case "spooler":
            return [rig.pid] if rig.alive else []
        case "supervisor":
            alive = set(rig.supervisors_with_a_run())
            return [record.start.supervisor for record in runs if record.start is not None and record.start.supervisor in alive]
        case "job":
            return [record.figures.pid for record in runs if record.figures is not None]
    return rig.launchers()


def strike(rig: Rig, who: tuple[str, ...], name: str | None = None) -> int:
    """SIGKILL to these, in this order; how many there were."""
    struck = 0
    if "supervisor" in who or "job" in who:
        # whom a killed job or supervisor belonged to has to be known before
        rig.may_lose = rig.may_lose or "supervisor" in who
    for pid in [pid for one in who for pid in pids_of(rig, one, name)]:
        if pid == rig.pid:
            rig.kill()
        else:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        struck += 1
    return struck


@pytest.mark.parametrize("who", COMBINATIONS, ids="+".join)
def test_a_job_that_runs_when_some_or_all_are_killed_ends_once_and_the_next_one_runs(rig: Rig, who: tuple[str, ...]) -> None:
    ends = ["lost"] if "supervisor" in who else ["failed"] if "job" in who else ["ok"]
    rig.queue("0010-a.toml", gate=True, ends=ends, grace="200ms")
    rig.queue("0020-b.toml", after=["a"])
    rig.begin()
    rig.until_begun("a")
    rig.until(lambda: pids_of(rig, "job", "a"), "its pid is on record")
    assert strike(rig, who, "a") == len(who), rig.account("not all were there")
    if not {"supervisor", "job"} & set(who):
        rig.until(lambda: rig.alive, "a spooler runs again")
        rig.open_gate("a")
    rig.until_settled()
    rig.may_lose = False
    rig.judge()
    assert [name for name, *_ in (line[1:] for line in rig.witnessed() if line[0] == "begin")] == ["a", "b"]


@pytest.mark.parametrize("who", [("spooler",), ("spooler", "launcher"), ("launcher",)], ids="+".join)
def test_a_job_that_is_just_ending_when_they_are_killed_keeps_its_end(rig: Rig, who: tuple[str, ...]) -> None:
    for number in range(6):
        rig.queue(f"{10 + number:04}-a{number}.toml", gate=True, lock=[])
    rig.begin()
    for number in range(6):
        rig.until_begun(f"a{number}")
        rig.open_gate(f"a{number}")
        strike(rig, who)
        rig.keep_alive()
    rig.until_settled()
    rig.judge(unordered=tuple(rig.expected))


@pytest.mark.parametrize("moment", ["before the spooler sees it", "while it is being stopped"])
def test_a_job_that_is_stopped_by_hand_is_stopped_also_if_the_spooler_is_killed(rig: Rig, moment: str) -> None:
    rig.queue("0010-a.toml", do="trap 'sleep 0.2; exit 1' TERM; while :; do sleep 0.02; done", grace="5s", ends=["stopped"])
    rig.begin()
    rig.until_begun("a")
    if moment.startswith("before"):
        os.kill(rig.pid, signal.SIGSTOP)
        rig.path(Stage.RUNNING, "0010-a.toml").rename(rig.path(Stage.DONE, "0010-a.toml"))
    else:
        rig.path(Stage.RUNNING, "0010-a.toml").rename(rig.path(Stage.DONE, "0010-a.toml"))
        rig.until(lambda: rig.said("was taken out of running/"), "it is being stopped")
    rig.kill()
    rig.until_settled()
    rig.judge()
    assert rig.entries(Stage.DONE) == ["0010-a.toml"]


def test_a_spooler_that_is_killed_straight_after_cp_returned_a_hundred_times_loses_no_job(rig: Rig) -> None:
    chance = random.Random(SEED)
    for number in range(100):
        rig.begin()
        if number % 3:
            rig.until_up()
        name = f"j{number}"
        text = rig.job(name, lock=[])
        if number % 2:
            rig.queue(f"{1000 + number}-{name}.toml", lock=[])
        else:
            # as `spoold submit` does it
            rig.expected_of(name, text)
            rig.store.drop(rig.expect(text), f"{1000 + number}-{name}.toml")
        if number % 5 == 0:
            time.sleep(chance.random() * 0.02)
        rig.kill()
    rig.until_settled()
    rig.judge(unordered=tuple(rig.expected))
    assert sorted(rig.began()) == sorted(f"j{number}" for number in range(100))


def test_a_spooler_that_is_killed_straight_after_submit_returned_loses_no_job(rig: Rig) -> None:
    for number in range(3):
        rig.begin()
        submitted = subprocess.run(
            [*COMMAND, "--spool", str(rig.root), "submit", "--name", f"j{number}", "--", "true"], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
        )
        assert submitted.returncode == 0, submitted.stderr
        rig.kill()
    rig.begin()
    rig.until(lambda: {name_of(entry) for entry in rig.entries(Stage.DONE)} == {"j0", "j1", "j2"}, "all have run")
    assert all(trace.read(rig.path(Stage.DONE, entry).read_bytes())[-1]["outcome"] == "ok" for entry in rig.entries(Stage.DONE))


def test_a_slot_whose_old_supervisor_ended_just_before_it_was_taken_again_keeps_nothing_from_starting(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(str(tmp_path / "spool"))
    Store(layout, durable=False).make()
    os.makedirs(layout.slot(1).dir)
    held = lockfile.take(layout.slot(1).supervisor_lock)
    assert held is not None
    take = slots.take

    def take_when_it_has_ended(*args: Any) -> slots.Taken:
        os.close(held)
        monkeypatch.setattr(slots, "take", take)
        return take(*args)

    monkeypatch.setattr(slots, "take", take_when_it_has_ended)
    pool = Pool(layout, sync=False)
    try:
        pool.open()
        assert not pool.settling()
    finally:
        pool.close()


def at_random(rig: Rig, chance: random.Random, *, jobs: int, strikes: int, supervisors: bool) -> int:
    """A queue with locks, afters and retries, and strikes at random moments; how many processes were hit."""
    rig.may_lose = supervisors
    retry = {"times": 50, "delay": 0, "on": ["failed", "lost"]}
    for number in range(jobs):
        fields = [{}, {"lock": []}, {"lock": ["a", "b"]}, {"lock": "a"}, {"after": [f"j{number - 1}"]}, {"after": ["j*"]}, {"retry": retry}][number % 7]
        do = f"sleep 0.0{chance.randrange(10)}"
        rig.queue(f"{100 + number:04}-j{number}.toml", do=do, grace="1s", runs=range(1, 52) if "retry" in fields else (1,), ends=["ok", "failed"], **fields)
    rig.begin()
    struck = 0
    for _ in range(strikes):
        time.sleep(chance.random() * 0.08)
        rig.keep_alive()
        who = tuple(one for one in WHO if (supervisors or one in ("spooler", "launcher")) and chance.random() < 0.4)
        struck += strike(rig, who)
    rig.until_settled(120.0)
    # those without a lock start all at once, each from its own supervisor
    rig.judge(unordered=tuple(f"j{number}" for number in range(1, jobs, 7)))
    rig.end()
    return struck


@pytest.mark.parametrize("supervisors", [False, True], ids=["spooler and launcher", "all"])
def test_kills_at_random_moments(rig: Rig, supervisors: bool) -> None:
    assert at_random(rig, random.Random(SEED), jobs=21, strikes=15, supervisors=supervisors) > 5
