"""A disk that is full, read-only or broken for a while: what runs goes on, what waits is kept, each trouble is said once, and all goes on afterwards."""

from __future__ import annotations

import pathlib
import time

import psutil
import pytest
from failpoints import Plan
from rig import Rig

from jobspec import trace
from spoold.model import Stage

WATCHED_S = 1.5
SICK = ["ENOSPC", "EDQUOT", "EROFS", "EIO"]


def plans(rig: Rig, mode: str) -> dict[str, str]:
    plan = Plan(str(rig.root), str(rig.directory / "calls"), mode, while_there=str(rig.directory / "sick")).to_json()
    return {"plan": plan, "supervisor_plan": plan}


def fall_ill(rig: Rig) -> pathlib.Path:
    sick = rig.directory / "sick"
    sick.touch()
    return sick


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed meanwhile"])
@pytest.mark.parametrize("mode", SICK)
def test_a_sick_disk_loses_nothing_and_all_goes_on_when_it_is_well(rig: Rig, mode: str, killed: bool) -> None:
    rig.bad_disk = True
    rig.queue("0010-runs.toml", gate=True)
    rig.queue("0020-waits.toml")
    rig.queue("0030-goes.toml", gate=True, lock=[])
    rig.begin(**plans(rig, mode))
    rig.until_begun("runs")
    rig.until_begun("goes")
    sick = fall_ill(rig)
    rig.queue("0040-dropped.toml", after=["runs"])
    rig.queue("0050-never.toml", memory="900TB", runs=[0], ends=["refused"])
    rig.open_gate("runs")
    if mode != "ENOSPC" or not killed:
        rig.until(lambda: rig.said("cannot be"), "it says so")
    if killed:
        rig.kill()
        rig.begin(**plans(rig, mode))
    before = len(rig.witnessed())
    rig.open_gate("goes")
    rig.until(lambda: len(rig.witnessed()) > before, "what runs goes on")
    sick.unlink()
    rig.until_settled()
    rig.judge(unordered=("goes",))
    assert rig.began().count("runs") == rig.began().count("waits") == 1


@pytest.mark.parametrize("mode", SICK)
def test_a_sick_disk_costs_hardly_any_time_and_few_words(rig: Rig, mode: str) -> None:
    rig.bad_disk = True
    rig.quick = {}
    rig.queue("0010-a.toml", gate=True)
    rig.queue("0020-b.toml", after=["a"])
    rig.begin(**plans(rig, mode))
    rig.until_begun("a")
    sick = fall_ill(rig)
    rig.open_gate("a")
    rig.queue("0030-c.toml")
    rig.queue("0040-never.toml", memory="900TB", runs=[0], ends=["refused"])
    rig.until(lambda: rig.said("cannot be"), "it says so")
    process = psutil.Process(rig.pid)
    before, lines = process.cpu_times(), len(rig.said(""))
    began = time.monotonic()
    time.sleep(WATCHED_S)
    after = process.cpu_times()
    share = (after.user + after.system - before.user - before.system) / (time.monotonic() - began)
    assert share < 0.05 + 0.05 / WATCHED_S, rig.account(f"{share:.0%} of a CPU")
    assert len(rig.said("")) - lines <= 6, rig.account("too many words")
    sick.unlink()
    rig.until_settled()
    rig.judge(unordered=("c",))
    said = [line.partition(" ")[2] for line in rig.said("cannot be")]
    assert len(set(said)) == len(said), rig.account("something was said twice")


def test_a_run_that_ends_on_a_full_disk_keeps_its_end_when_everybody_is_killed(rig: Rig) -> None:
    rig.bad_disk = True
    rig.queue("0010-a.toml", gate=True, do="exit 3", ends=["failed"])
    rig.begin(**plans(rig, "ENOSPC"))
    rig.until_begun("a")
    sick = fall_ill(rig)
    rig.open_gate("a")
    rig.until(lambda: rig.said("cannot be put away"), "it has ended")
    rig.kill()
    sick.unlink()
    rig.until_settled()
    rig.judge()
    assert trace.read(rig.path(Stage.DONE, "0010-a.toml").read_bytes())[-1]["exit"] == 3
