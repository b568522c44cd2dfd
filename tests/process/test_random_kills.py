"""Supervisors, launchers and spoolers killed at random moments: one end a run, nothing executed twice, no process left."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import time

import psutil
import pytest
from poolside import Owner, Poolside, an_order, is_gone, until

from spoold.pool import Ended, Failed


def witness(path: pathlib.Path, run: int) -> list[str]:
    """A job that says that it was executed, and waits to be ended."""
    return ["sh", "-c", f"echo {run} $$ >>{path}; exec sleep 1000"]


def executed(path: pathlib.Path) -> dict[int, list[int]]:
    """Pids by run."""
    found: dict[int, list[int]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        run, pid = map(int, line.split())
        found.setdefault(run, []).append(pid)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_supervisor_killed_at_any_moment_of_a_start(tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    with Poolside(tmp_path) as side:
        for _ in range(15):
            until(lambda: _supervisors(), "a supervisor")
            side.turn(0)
            run = side.pool.next_run()
            victims = _supervisors()
            side.pool.start(an_order(run, witness(tmp_path / "ran", run), grace_s=0.2))
            _wait_busily(chance.uniform(0, 0.004))
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            side.pool.stop(run, "stopped")  # in case that it was none of them
            side.until(lambda run=run: side.of(run, Ended) or side.of(run, Failed), "an end")  # type: ignore[misc]
            ran = executed(tmp_path / "ran")
            assert len(side.of(run, Ended)) + len(side.of(run, Failed)) == 1
            assert len(ran.get(run, [])) <= 1
            assert all(map(is_gone, ran.get(run, [])))
            if side.of(run, Failed):
                assert run not in ran
            side.pool.retire(run)
        assert side.does(["true"]).end.outcome == "ok"
        assert side.pool.slots_in_use == 0


def _supervisors() -> list[int]:
    return [child.pid for process in psutil.Process().children() for child in process.children()]


def _wait_busily(seconds: float) -> None:
    """A sleep of less than a millisecond is not to be had."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@pytest.mark.parametrize("seed", range(4))
def test_a_spooler_killed_at_any_moment_of_a_start(tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    owner = Owner(tmp_path)
    assert owner.says()["kind"] == "Open"
    for run in (1, 2, 3):
        owner.tell(an_order(run, ["sh", "-c", f"echo {run} $$ >>{tmp_path}/ran; exit {run}"]))
    _wait_busily(chance.uniform(0, 0.03))
    owner.kill()
    with Poolside(tmp_path) as side:
        side.until(lambda: not side.pool.settling(), "settled")
        live = {slot: record for slot, (record, _) in side.pool.scan().items() if record.live}
        started = {record.start.run for record in live.values() if record.start is not None}
        for slot, record in live.items():
            side.pool.adopt(slot, record)
        for run in started:
            assert side.ended(run).end.exit == run
            side.pool.retire(run)
        assert {run: len(pids) for run, pids in executed(tmp_path / "ran").items()} == dict.fromkeys(started, 1)
        assert side.does(["true"]).run > max(started, default=0)
