"""The power fails at a disk call, and what was not synced is gone or not, by chance: nothing is lost, and nothing that may have started starts again."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import sys

import pytest
from powercut import entries, roll_back
from rig import Rig
from stable import Stable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the journal of the calls names files by /proc/self/fd")

RETRY_LOST = {"times": 9, "delay": 0, "on": ["lost", "failed"]}


def queue_a_day(rig: Rig) -> None:
    rig.queue("0010-a.toml", ends=["ok", "lost"])
    rig.queue("0020-b.toml", after=["a"], do="exit 3", ends=["failed", "lost"])
    rig.queue("0030-c.toml", retry=RETRY_LOST, runs=range(11), ends=["ok"])
    rig.queue("0040-d.toml", lock="other", ends=["ok", "lost"])
    rig.queue("0050-e.toml", after_ok=["b"], runs=[0], ends=["refused"])
    rig.queue("0060-f.toml", lock=["box", "other"], ends=["ok", "lost"])


def live(rig: Rig, number: int, at: int) -> None:
    """A boot of the box on which the power fails at this disk call, if it comes to that."""
    beside = rig.directory / "beside"
    (beside / "kept").mkdir(parents=True, exist_ok=True)
    rig.in_every_life["boot"] = f"boot {number}"
    rig.begin(power=json.dumps({"root": str(rig.root), "beside": str(beside), "at": at}))


def all_processes_end(rig: Rig) -> None:
    rig.stable.end(rig.pid, signal.SIGKILL)
    while left := rig.processes():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def cuts(rig: Rig, chance: random.Random, times: int) -> int:
    """So many boots that end in a power cut, and a last one that does not; how many changes were lost."""
    queue_a_day(rig)
    beside = rig.directory / "beside"
    lost = 0
    for number in range(times):
        live(rig, number, chance.randrange(5, 130))
        dark = beside / "dark"
        rig.until_without_spooler(lambda dark=dark: dark.exists() or rig.is_settled(), "the power fails")  # type: ignore[misc]
        dark.touch()
        all_processes_end(rig)
        if entries(str(beside)):
            lost += roll_back(str(beside), chance)
    rig.in_every_life["boot"] = "the last boot"
    rig.may_lose = rig.may_lose_logs = True
    rig.begin()
    rig.until_settled()
    rig.judge()
    for name in ("a", "b", "d", "f"):
        assert rig.began().count(name) <= 1, rig.account(f"{name} ran twice")
    return lost


def one(stable: Stable, directory: pathlib.Path, seed: int) -> int:
    chance = random.Random(seed)
    with Rig(stable, directory) as rig:
        try:
            lost = cuts(rig, chance, 1 + seed % 3)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    shutil.rmtree(directory)
    return lost


def test_power_cuts_lose_no_job_and_start_none_twice(stable: Stable, tmp_path: pathlib.Path) -> None:
    assert sum(one(stable, tmp_path / str(seed), seed) for seed in range(9)) > 0
