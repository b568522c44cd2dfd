"""The crash table: what a run record that was left behind means, for every combination of what can be found."""

from __future__ import annotations

import itertools

import pytest

from spoold.model import Stage
from spoold.recovery import Leftover, Step, Stray, recover, recover_stray

PLACES = (*Stage, None)


def leftover(where: Stage | None, *, accounted: bool = False, same_boot: bool = True) -> Leftover:
    return Leftover(where, accounted, same_boot)


@pytest.mark.parametrize(("where", "same_boot"), list(itertools.product(PLACES, (True, False))))
def test_a_run_whose_end_is_in_its_file_is_forgotten_wherever_the_file_lies(where: Stage | None, same_boot: bool) -> None:
    assert recover(leftover(where, accounted=True, same_boot=same_boot)) is Step.FORGET


@pytest.mark.parametrize("same_boot", [True, False])
def test_a_run_whose_file_is_in_running_is_adopted_whatever_it_has_come_to(same_boot: bool) -> None:
    assert recover(leftover(Stage.RUNNING, same_boot=same_boot)) is Step.ADOPT


@pytest.mark.parametrize("where", [Stage.READY, Stage.INCOMING])
def test_a_started_job_found_in_ready_after_the_box_went_down_has_started(where: Stage) -> None:
    assert recover(leftover(where, same_boot=False)) is Step.ADVANCE


@pytest.mark.parametrize("where", [Stage.READY, Stage.INCOMING])
def test_a_started_job_found_in_ready_without_a_reboot_was_moved_by_a_user_to_run_again(where: Stage) -> None:
    assert recover(leftover(where, same_boot=True)) is Step.REQUEUE


@pytest.mark.parametrize(("where", "same_boot"), list(itertools.product((Stage.DONE, Stage.REFUSED, None), (True, False))))
def test_a_started_job_whose_file_a_user_took_away_is_stopped(where: Stage | None, same_boot: bool) -> None:
    assert recover(leftover(where, same_boot=same_boot)) is Step.STOP


def test_no_combination_starts_a_job_a_second_time_while_its_record_is_not_retired() -> None:
    """REQUEUE stops what is left first; every other step goes on with this run or ends it."""
    found = {recover(Leftover(where, accounted, same)) for where in PLACES for accounted in (True, False) for same in (True, False)}
    assert found == set(Step)


@pytest.mark.parametrize(("waits", "ended"), list(itertools.product((True, False), repeat=2)))
def test_a_file_in_running_waits_while_a_supervisor_may_be_about_to_write_its_record(waits: bool, ended: bool) -> None:
    assert recover_stray(settling=True, waits=waits, ended=ended) is Stray.WAIT


def test_a_job_in_running_without_a_start_record_goes_back_for_its_command_was_never_released() -> None:
    assert recover_stray(settling=False, waits=True, ended=False) is Stray.BACK


@pytest.mark.parametrize("waits", [True, False])
def test_a_file_in_running_whose_trace_has_the_end_lacks_only_its_last_rename(waits: bool) -> None:
    assert recover_stray(settling=False, waits=waits, ended=True) is Stray.FINISH


def test_a_file_that_a_user_put_into_running_is_refused() -> None:
    assert recover_stray(settling=False, waits=False, ended=False) is Stray.REFUSE
