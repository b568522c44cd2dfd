"""Cut off, or refused by the disk, at the n-th disk call, for every n: nothing is lost, nothing runs twice.

The default run takes every point of one job's way and an even sample, by a fixed seed, of a whole day's; tests/soak takes them all.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import days
import pytest
from failpoints import ERRORS, KILL_AFTER, KILL_BEFORE, Plan, calls
from rig import Rig
from stable import Stable

SEED = 20260826
SHARDS = 2
KILLS = (KILL_BEFORE, KILL_AFTER)
DISK_SAYS_NO = tuple(ERRORS)
EVERY = -1
Day = Callable[[Rig], None]
Point = tuple[str, Plan]
WHO = ("plan", "supervisor_plan")


@contextmanager
def fresh(stable: Stable, directory: Path) -> Iterator[Rig]:
    """A spool that is removed if nothing was found."""
    with Rig(stable, directory) as rig:
        yield rig
    shutil.rmtree(directory)


def counted(stable: Stable, directory: Path, day: Day, *, old_disk: bool = False) -> dict[str, list[str]]:
    """Every disk call of a day on which nothing happens."""
    with fresh(stable, directory) as rig:
        rig.in_every_life["old_disk"] = old_disk
        counters = {who: rig.directory / who for who in WHO}
        rig.begin(**{who: Plan(str(rig.root), str(counter)).to_json() for who, counter in counters.items()})
        day(rig)
        rig.end()
        return {who: calls(str(counter)) for who, counter in counters.items()}


def one_point(stable: Stable, directory: Path, day: Day, who: str, plan: Plan, *, old_disk: bool = False) -> bool:
    """A day with this plan; whether it came to that point at all."""
    with fresh(stable, directory) as rig:
        counter = str(rig.directory / who)
        rig.in_every_life["old_disk"] = old_disk
        armed = replace(plan, root=str(rig.root), counter=counter)
        kills = plan.mode in KILLS
        rig.may_lose = who == "supervisor_plan" and kills
        rig.bad_disk = not kills
        rig.begin(**{who: armed.to_json()})
        try:
            day(rig)
            rig.end()
        except AssertionError as error:
            made = calls(counter)
            what = made[plan.at - 1] if plan.at <= len(made) else "not reached"
            raise AssertionError(f"{day.__name__}, {who}: {plan.mode} at {plan.at} ({what}), span {plan.span}\n{error}") from error
        return len(calls(counter)) >= plan.at


def run_points(stable: Stable, directory: Path, day: Day, points: Iterable[Point], shard: int, *, old_disk: bool = False) -> None:
    reached = total = 0
    for number, (who, plan) in enumerate(points):
        if shard in (EVERY, number % SHARDS):
            reached += one_point(stable, directory / str(number), day, who, plan, old_disk=old_disk)
            total += 1
    assert reached >= total * 0.8, f"{reached} of {total} points were reached"


def points_of(stable: Stable, directory: Path, day: Day, modes: Iterable[str], *, share: float = 1.0, span: int = 1, old_disk: bool = False) -> list[Point]:
    """Every point of a day in these modes, or an even sample of them."""
    made = counted(stable, directory / "count", day, old_disk=old_disk)
    every = [(who, Plan("", "", mode, at + 1, span)) for who in WHO for mode in modes for at in range(len(made[who]))]
    step = 1 / share
    first = random.Random(SEED).random() * step
    return [every[int(first + i * step)] for i in range(int((len(every) - first) / step + 0.999))]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_job_survives_a_kill_at_each_disk_call_of_its_way(stable: Stable, tmp_path: Path, shard: int) -> None:
    run_points(stable, tmp_path, days.one_job, points_of(stable, tmp_path, days.one_job, [KILL_BEFORE]), shard)


def test_a_job_survives_a_kill_where_a_rename_takes_two_steps(stable: Stable, tmp_path: Path) -> None:
    points = [point for point in points_of(stable, tmp_path, days.one_job, [KILL_BEFORE], old_disk=True) if point[0] == "plan"]
    run_points(stable, tmp_path, days.one_job, points[10::3], EVERY, old_disk=True)


def test_a_job_survives_a_disk_that_says_no_to_the_second_step_of_a_rename(stable: Stable, tmp_path: Path) -> None:
    made = counted(stable, tmp_path / "count", days.one_job, old_disk=True)["plan"]
    second = [at for at, call in enumerate(made, 1) if call.startswith("unlink ") and made[at - 2].startswith("link ")]
    assert len(second) > 2
    run_points(stable, tmp_path, days.one_job, [("plan", Plan("", "", "EIO", at)) for at in second], EVERY, old_disk=True)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_whole_day_survives_a_kill_at_a_disk_call(stable: Stable, tmp_path: Path, shard: int) -> None:
    run_points(stable, tmp_path, days.whole_day, points_of(stable, tmp_path, days.whole_day, KILLS, share=0.025), shard)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_whole_day_survives_a_disk_that_says_no_once(stable: Stable, tmp_path: Path, shard: int) -> None:
    run_points(stable, tmp_path, days.whole_day, points_of(stable, tmp_path, days.whole_day, DISK_SAYS_NO, share=0.008), shard)


def test_a_whole_day_survives_a_disk_that_says_no_for_a_while(stable: Stable, tmp_path: Path) -> None:
    run_points(stable, tmp_path, days.whole_day, points_of(stable, tmp_path, days.whole_day, DISK_SAYS_NO, share=0.004, span=12), EVERY)
