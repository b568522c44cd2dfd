"""The crash tests without their thrift: every disk call, a thousand kills, hundreds of power cuts.  Each says at its end what it has done."""

from __future__ import annotations

import pathlib
import random
import shutil
from collections import Counter

import days
import pytest
from failpoints import KILL_AFTER, KILL_BEFORE
from rig import Rig
from stable import Stable
from test_kill_points import DISK_SAYS_NO, Day, one_point, points_of
from test_kills import at_random
from test_load import two_thousand_files
from test_power_cut import one

pytestmark = [pytest.mark.soak, pytest.mark.timeout(4 * 3600)]


def every_point(stable: Stable, directory: pathlib.Path, day: Day, modes: tuple[str, ...], *, span: int = 1, old_disk: bool = False) -> str:
    counts: Counter[str] = Counter()
    for number, (who, plan) in enumerate(points_of(stable, directory, day, modes, span=span, old_disk=old_disk)):
        reached = one_point(stable, directory / str(number), day, who, plan, old_disk=old_disk)
        counts[f"{'spooler' if who == 'plan' else 'supervisor'} {plan.mode}"] += reached
    return f"{day.__name__}, span {span}: {dict(counts)}"


@pytest.mark.parametrize("day", [days.one_job, days.whole_day])
@pytest.mark.parametrize("old_disk", [False, True], ids=["", "renames take two steps"])
def test_every_point_of_a_day_where_it_can_be_cut_off(
    stable: Stable, tmp_path: pathlib.Path, day: Day, old_disk: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    done = every_point(stable, tmp_path, day, (KILL_BEFORE, KILL_AFTER), old_disk=old_disk)
    with capsys.disabled():
        print(f"\n{done}")


@pytest.mark.parametrize("day", [days.one_job, days.whole_day])
@pytest.mark.parametrize("span", [1, 12])
def test_every_point_of_a_day_where_the_disk_can_say_no(
    stable: Stable, tmp_path: pathlib.Path, day: Day, span: int, capsys: pytest.CaptureFixture[str]
) -> None:
    done = every_point(stable, tmp_path, day, DISK_SAYS_NO, span=span)
    with capsys.disabled():
        print(f"\n{done}")


def test_a_thousand_kills_at_random_moments(stable: Stable, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    struck = jobs = 0
    seed = 1
    while struck < 1000:
        seed += 1
        with Rig(stable, tmp_path / str(seed)) as rig:
            try:
                struck += at_random(rig, random.Random(seed), jobs=40, strikes=30, supervisors=seed % 2 == 0)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            jobs += 40
        shutil.rmtree(tmp_path / str(seed))
    with capsys.disabled():
        print(f"\n{struck} kills, {jobs} jobs, none lost, none doubled")


def test_hundreds_of_power_cuts(stable: Stable, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = sum(one(stable, tmp_path / str(seed), seed) for seed in range(1000, 1250))
    with capsys.disabled():
        print(f"\n500 power cuts undid {lost} changes, no job was lost, none started twice")
    assert lost > 100


def test_two_thousand_files_at_once_with_a_kill_while_they_run(rig: Rig) -> None:
    two_thousand_files(rig, kill_after=1000, waiting=0)
