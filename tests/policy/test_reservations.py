"""Locks and memory over time: the profile against a plain list of what is taken when."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queues import NEVER, NOW, Dice, Plan, Taken, World, a_box, a_job, a_queue, a_run, allot, worlds

from spoold.model import Queue, Running
from spoold.reservations import FOREVER, Need, Profile, choose_units, need_of, promised, release_at

seeds = st.integers(0, 2**32 - 1)
few = settings(deadline=None, max_examples=120)


def taken_by(need: Need, start: float) -> Taken:
    return Taken(start, start + need.seconds, dict(need.locks), need.memory)


@given(worlds(free=True), seeds)
@few
def test_the_earliest_place_is_the_first_stretch_in_which_all_of_it_is_free(world: World, seed: int) -> None:
    dice = Dice(seed)
    profile, plan = Profile(world.queue, world.box, NOW), Plan(world.queue, world.box, NOW)
    for number in range(10):
        job = a_job(number, locks=dice.request(), memory=dice.memory(), wall=dice.wall(), grace=dice.grace())
        need = need_of(job, world.box)
        not_before = NOW + dice.random.choice((0, 0, dice.random.randint(0, 40)))
        place = plan.place(job, not_before)
        found = profile.earliest(need, not_before) if not_before > NOW else profile.earliest(need)
        assert found == (FOREVER if place is None else place.start)
        assert profile.fits_now(need) == plan.fits(Taken(NOW, NOW + 1e-9, dict(need.locks), need.memory))
        if place is not None and dice.random.random() < 0.7:
            profile.reserve(need, place.start)
            plan.taken.append(place)


@given(worlds(free=True), seeds)
@few
def test_a_bound_is_never_later_than_the_earliest_place_and_stays_one(world: World, seed: int) -> None:
    dice = Dice(seed)
    profile = Profile(world.queue, world.box, NOW)
    needs = [need_of(a_job(n, locks=dice.request(), memory=dice.memory(), wall=dice.wall()), world.box) for n in range(4)]
    bounds = dict.fromkeys(needs, NOW)
    for _ in range(12):
        need = dice.random.choice(needs)
        bound = profile.bound(need)
        found = profile.earliest(need)
        assert bounds[need] <= bound <= found or bound == found == FOREVER
        assert profile.bound(need) >= bound
        bounds[need] = bound
        if found != FOREVER:
            profile.reserve(need, found)


@given(worlds(free=True), seeds)
@few
def test_a_place_that_was_taken_is_really_free(world: World, seed: int) -> None:
    dice = Dice(seed)
    profile, plan = Profile(world.queue, world.box, NOW), Plan(world.queue, world.box, NOW)
    for number in range(8):
        need = need_of(a_job(number, locks=dice.request(), memory=dice.memory(), wall=dice.wall()), world.box)
        start = profile.earliest(need)
        if start != FOREVER:
            assert plan.fits(taken_by(need, start))
            profile.reserve(need, start)
            plan.taken.append(taken_by(need, start))


@given(seeds)
@few
def test_the_units_that_are_chosen_are_nobodys(seed: int) -> None:
    dice = Dice(seed)
    queue = dice.queue(dice.random.randint(0, 3), 0, 0)
    taken: dict[str, set[str]] = {}
    pretended: list[Running] = [*queue.runs()]
    for number in range(4):
        request = dice.request()
        allotted = allot(request, pretended)
        if allotted is None:
            with pytest.raises(AssertionError, match="units of"):
                choose_units(queue, a_box(), request, taken)
            continue
        chosen = choose_units(queue, a_box(), request, taken)
        assert chosen == allotted
        pretended.append(a_run(1000 + number, locks=chosen))
        for lock, units in chosen.items():
            taken.setdefault(lock, set()).update(units)


def test_all_units_of_a_lock_are_as_many_as_it_has() -> None:
    assert need_of(a_job(1, locks={"gpu": None, "cpu": 3, "box": None}), a_box()).locks == (("gpu", 2), ("cpu", 3), ("box", 1))


def test_a_run_gives_back_at_the_end_of_its_grace_and_once_that_is_past_at_any_moment_to_come() -> None:
    assert release_at(a_run(1, started_at=NOW, wall=5, grace=3), NOW) == NOW + 8
    assert release_at(a_run(1, started_at=NOW, wall=5, grace=3), NOW + 7.999) == NOW + 8
    assert NOW + 8 < release_at(a_run(1, started_at=NOW, wall=5, grace=3), NOW + 8) < NOW + 8.01
    assert NOW + 99 < release_at(a_run(1, started_at=NOW, wall=5, grace=3), NOW + 99) < NOW + 99.01
    assert release_at(a_run(1, wall=NEVER), NOW) == NEVER


def test_what_is_promised_is_what_was_declared_and_is_not_yet_used() -> None:
    assert promised([]) == 0
    assert promised([a_run(1, memory=10, used=3), a_run(2, memory=5, used=5), a_run(3, memory=5, used=50), a_run(4)]) == 7


def profile_of(queue: Queue, available: int = 100) -> Profile:
    return Profile(queue, a_box(available=available), NOW)


def test_memory_comes_back_at_the_end_of_a_run_as_much_as_it_declared_or_uses() -> None:
    greedy = a_queue(a_run(1, locks={}, memory=10, used=40, started_at=NOW, wall=7))
    assert profile_of(greedy, 60).earliest(Need((), 60, 1.0)) == NOW
    assert profile_of(greedy, 60).earliest(Need((), 100, 1.0)) == NOW + 7
    assert profile_of(greedy, 60).earliest(Need((), 101, 1.0)) == FOREVER
    modest = a_queue(a_run(1, locks={}, memory=40, used=10, started_at=NOW, wall=7))
    assert profile_of(modest, 90).earliest(Need((), 60, 1.0)) == NOW
    assert profile_of(modest, 90).earliest(Need((), 61, 1.0)) == NOW + 7


def test_a_job_without_memory_fits_even_where_more_is_used_than_there_is() -> None:
    assert profile_of(a_queue(a_run(1, locks={}, memory=90, used=0)), 10).earliest(Need((("box", 1),), 0, 1.0)) == NOW


def test_a_place_ends_where_the_next_one_begins() -> None:
    profile = profile_of(a_queue())
    box = (("box", 1),)
    profile.reserve(Need(box, 0, 5.0), NOW + 10)
    assert profile.earliest(Need(box, 0, 10.0)) == NOW
    assert profile.earliest(Need(box, 0, 10.5)) == NOW + 15


def test_a_place_without_an_end_is_at_the_end_and_leaves_nothing() -> None:
    profile = profile_of(a_queue(a_run(1, started_at=NOW, wall=3)))
    need = Need((("box", 1),), 0, NEVER)
    assert profile.earliest(need) == NOW + 3
    profile.reserve(need, NOW + 3)
    assert profile.earliest(Need((("box", 1),), 0, 1.0)) == FOREVER
    assert profile.bound(Need((("box", 1),), 0, 1.0)) == FOREVER
