"""The clock is set back, or forward, by an hour: nothing is lost, nothing waits for the hour to pass again, what happened later counts as later."""

from __future__ import annotations

import datetime
import pathlib
import struct

import pytest
from rig import Rig

from jobspec import trace
from spoold.model import Stage

HOUR = 3600.0


class Clock:
    """The clock of every spooler and supervisor of a rig; the box's own is left alone."""

    def __init__(self, rig: Rig) -> None:
        self._file = rig.directory / "clock"
        self.set(0.0)
        rig.in_every_life["shift"] = str(self._file)

    def set(self, seconds: float) -> None:
        with open(self._file, "r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))


@pytest.fixture
def clock(rig: Rig) -> Clock:
    return Clock(rig)


def at(rig: Rig, name: str, step: str) -> datetime.datetime:
    path = rig.place(Stage.DONE, name)
    assert path is not None
    found = [entry["at"] for entry in trace.read(path.read_bytes()) if entry["step"] == step]
    assert isinstance(found[-1], datetime.datetime)
    return found[-1]


@pytest.mark.parametrize("shift", [-HOUR, HOUR], ids=["back", "forward"])
@pytest.mark.parametrize("restarted", [False, True], ids=["", "and the spooler is killed"])
def test_a_clock_that_is_set_delays_and_loses_nothing(rig: Rig, clock: Clock, shift: float, restarted: bool) -> None:
    rig.queue("0010-a.toml", gate=True)
    rig.queue("0020-b.toml", do='[ "$SPOOLD_RUN" -ge 3 ] || exit 1', retry={"times": 5, "delay": "300ms", "on": ["failed"]}, lock="other", runs=range(1, 7))
    rig.queue("0030-c.toml", after=["a"])
    rig.begin()
    rig.until_begun("a")
    rig.until_begun("b")
    clock.set(shift)
    rig.queue("0040-d.toml", lock=[])
    if restarted:
        rig.kill()
    rig.until(lambda: rig.place(Stage.DONE, "d"), "what is dropped after it runs", 10.0)
    rig.open_gate("a")
    rig.until_settled(10.0)
    rig.judge(unordered=("d",))
    for name in "abcd":
        path = rig.place(Stage.DONE, name)
        assert path is not None
        assert all(0 <= step["elapsed_s"] < 60 for step in trace.read(path.read_bytes()) if step["step"] == "ended")
        assert all(0 <= step["waited_s"] < 60 + max(0.0, shift) for step in trace.read(path.read_bytes()) if step["step"] == "started")


@pytest.mark.parametrize("restarted", [False, True], ids=["", "and the spooler is killed"])
def test_an_end_after_the_clock_was_set_back_is_an_end_since_the_acceptance(rig: Rig, clock: Clock, restarted: bool) -> None:
    rig.queue("0010-g1.toml", do="exit 1", ends=["failed"], gate=True)
    rig.queue("0020-g2.toml")
    rig.queue("0030-b.toml", after_ok=["g*"], runs=[0], ends=["refused"])
    rig.begin()
    rig.until_begun("g1")
    rig.until(lambda: rig.place(Stage.READY, "b"), "b waits")
    clock.set(-HOUR)
    rig.open_gate("g1")
    if restarted:
        rig.until(lambda: rig.place(Stage.DONE, "g1"), "g1 has ended")
        rig.kill()
    rig.until_settled()
    rig.judge()


def test_of_two_ends_of_one_name_the_later_counts_whatever_the_clock_said(rig: Rig, clock: Clock) -> None:
    rig.drop("0010-a.toml", rig.job("a", do="exit 1"))
    rig.begin()
    rig.until(lambda: rig.place(Stage.DONE, "a"), "it has failed")
    clock.set(-HOUR)
    rig.drop("0020-a.toml", rig.job("again", gate=True))
    rig.until_begun("again")
    rig.queue("0030-b.toml", after_ok=["a"])
    rig.until(lambda: rig.place(Stage.READY, "b"), "b waits")
    rig.open_gate("again")
    rig.until_settled()
    assert rig.place(Stage.DONE, "b") is not None, rig.account("the first end of a was taken for its last")
    rig.check()


def test_the_wall_clock_counts_time_awake_and_no_step_of_the_clock(rig: Rig, clock: Clock) -> None:
    rig.queue("0010-short.toml", do="sleep 60", wall="700ms", ends=["wall"], lock="a")
    rig.queue("0020-long.toml", gate=True, wall="10m", lock="b")
    rig.begin()
    rig.until_begun("short")
    rig.until_begun("long")
    clock.set(HOUR)
    rig.until(lambda: rig.place(Stage.DONE, "short"), "its wall clock has run out", 10.0)
    assert rig.place(Stage.RUNNING, "long") is not None, rig.account("an hour of the clock is no hour awake")
    clock.set(-HOUR)
    rig.open_gate("long")
    rig.until_settled()
    rig.judge(unordered=("long",))


def test_what_is_accepted_after_the_clock_was_set_back_is_not_dated_before_what_ended(rig: Rig, clock: Clock, tmp_path: pathlib.Path) -> None:
    rig.queue("0010-a.toml")
    rig.queue("0015-waits.toml", gate=True)
    rig.begin()
    rig.until_begun("waits")
    clock.set(-HOUR)
    rig.queue("0020-b.toml", lock=[])
    rig.until(lambda: rig.place(Stage.DONE, "b"), "b has run")
    rig.open_gate("waits")
    rig.until_settled()
    assert at(rig, "b", "accepted") >= at(rig, "a", "ended")
    rig.judge(unordered=("b",))


def test_a_clock_that_was_years_ahead_once_dates_nothing_for_years(rig: Rig, clock: Clock) -> None:
    clock.set(50 * 365 * 24 * HOUR)
    rig.queue("0010-a.toml", gate=True)
    rig.queue("0020-waits.toml", after=["later"])
    rig.begin()
    rig.until_begun("a")
    rig.until(lambda: rig.place(Stage.READY, "waits"), "it is accepted")
    clock.set(0.0)
    rig.kill()
    rig.open_gate("a")
    rig.queue("0030-later.toml")
    rig.until_settled()
    rig.judge(unordered=("waits", "later"))
    assert at(rig, "later", "accepted").year < datetime.datetime.now().year + 2
