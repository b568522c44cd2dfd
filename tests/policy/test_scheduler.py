"""Who starts now: against the same rules written down a second time, and as a whole day in virtual time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queues import NEVER, NOW, UNITS, Dice, World, a_box, a_job, a_queue, a_run, an_end, copy_of, impossible, places, verdict_of, worlds
from virtual import CAPACITY, Script, Spooler, play, roll_any, roll_free

from spoold import scheduler
from spoold.model import Box, Outcome, Queue, Ready, Refuse, Running
from spoold.reservations import promised
from spoold.scheduler import Decision, decide, latest_starts

seeds = st.integers(0, 2**32 - 1)
policies = st.booleans()
few = settings(deadline=None, max_examples=80)
many = settings(deadline=None, max_examples=250)


def scripts(*, exact: bool, strict: st.SearchStrategy[bool] = policies) -> st.SearchStrategy[Script]:
    return st.builds(
        lambda seed, running, ready, strict: roll_free(seed, running, ready, strict=strict, exact=exact),
        seeds, st.integers(0, 3), st.integers(1, 7), strict,
    )  # fmt: skip


any_scripts = st.builds(
    lambda seed, running, ready, strict: roll_any(seed, running, ready, strict=strict),
    seeds, st.integers(0, 3), st.integers(1, 7), policies,
)  # fmt: skip


def as_run(number: int, job: Ready, locks: Mapping[str, tuple[str, ...]], now: float) -> Running:
    return a_run(number, job.name, seq=job.seq, locks=locks, memory=job.memory or 0, started_at=now, wall=job.wall_s, grace=job.grace_s)


def started(decision: Decision) -> list[str]:
    return [start.job.name for start in decision.start]


def refused(decision: Decision) -> set[str]:
    return {refuse.job.name for refuse in decision.refuse}


# a decision, against the rules ----------------------------------------------------------------------------------------


@given(worlds())
@many
def test_a_decision_is_what_the_rules_say(world: World) -> None:
    decision = decide(world.queue, world.box, NOW)
    expected = places(world.queue, world.box, NOW)
    assert started(decision) == [name for name, at in expected.items() if at == NOW]
    assert latest_starts(world.queue, world.box, NOW) == expected


@given(worlds())
@many
def test_exactly_what_can_never_run_is_refused(world: World) -> None:
    found = refused(decide(world.queue, world.box, NOW))
    verdicts = {job.name: verdict_of(world.queue, job, NOW) for job in world.queue.in_order()}
    doomed = {name for name, verdict in verdicts.items() if verdict == "refuse"}
    too_large = {job.name for job in world.queue.in_order() if verdicts[job.name] == "free" and impossible(job, world.box)}
    assert doomed <= found <= doomed | too_large
    assert found == doomed | too_large or world.box.strict, "in strict order what comes behind the first that waits is looked at in its turn"


@given(worlds())
@few
def test_nobody_is_started_twice_or_both_started_and_refused(world: World) -> None:
    decision = decide(world.queue, world.box, NOW)
    assert len(set(started(decision))) == len(decision.start)
    assert len(refused(decision)) == len(decision.refuse)
    assert not refused(decision) & set(started(decision))


@given(worlds(), seeds)
@few
def test_the_same_queue_gives_the_same_decision_however_it_came_about(world: World, seed: int) -> None:
    first = decide(world.queue, world.box, NOW)
    assert decide(world.queue, world.box, NOW) == first
    assert decide(copy_of(world.queue), world.box, NOW) == first
    shuffled = Queue()
    jobs = [*world.queue.in_order()]
    random.Random(seed).shuffle(jobs)
    for run in world.queue.runs():
        shuffled.start(run)
    for job in jobs:
        shuffled.add(job)
    for ended in (*world.queue.past.values(), *world.queue.ended.values()):
        shuffled.note_end(ended)
    assert decide(shuffled, world.box, NOW) == first


@given(worlds())
@few
def test_a_decision_changes_nothing(world: World) -> None:
    before = ([*world.queue.in_order()], world.queue.runs(), dict(world.queue.ended), dict(world.queue.past))
    decide(world.queue, world.box, NOW)
    assert before == ([*world.queue.in_order()], world.queue.runs(), dict(world.queue.ended), dict(world.queue.past))


@given(worlds())
@few
def test_those_that_wait_for_jobs_a_time_or_a_hold_block_nobody(world: World) -> None:
    free = [
        replace(job, job=replace(job.job, after=(), after_ok=(), after_failed=()), not_before=None, give_up_at=None)
        for job in world.queue.in_order()
        if verdict_of(world.queue, job, NOW) == "free"
    ]
    alone = a_queue(*world.queue.runs(), *free)
    assert started(decide(world.queue, world.box, NOW)) == started(decide(alone, world.box, NOW))


@given(worlds(strict=True))
@few
def test_in_strict_order_those_that_start_are_the_first_of_those_that_can(world: World) -> None:
    able = [job.name for job in world.queue.in_order() if verdict_of(world.queue, job, NOW) == "free" and not impossible(job, world.box)]
    now = started(decide(world.queue, world.box, NOW))
    assert now == able[: len(now)]


@given(worlds())
@few
def test_nothing_starts_while_the_spool_is_paused_or_closed_and_nobody_has_a_latest_start(world: World) -> None:
    doomed = refused(decide(world.queue, world.box, NOW)) & {job.name for job in world.queue.in_order() if verdict_of(world.queue, job, NOW) == "refuse"}
    for box in (replace(world.box, paused="lunch"), replace(world.box, closed="full")):
        decision = decide(copy_of(world.queue), box, NOW)
        assert decision.start == []
        assert refused(decision) == doomed
        assert latest_starts(world.queue, box, NOW) == {}


@given(worlds(), st.floats(0.001, 60))
@many
def test_time_alone_changes_nothing_before_the_moment_that_the_decision_names(world: World, later: float) -> None:
    queue, box, numbers = world.queue, world.box, itertools.count(1000)
    while True:
        decision = decide(queue, box, NOW)
        for refuse in decision.refuse:
            queue.take(refuse.job.key)
        for start in decision.start:
            queue.start(as_run(next(numbers), queue.take(start.job.key), start.locks, NOW))
        if not decision.refuse and not decision.start:
            break
    assert decision.look_again is None or decision.look_again > NOW
    due = [at for run in queue.runs() if (at := run.started_at + run.wall_s + run.grace_s) > NOW]
    if NOW + later >= min(due, default=NEVER):
        return  # a run should have ended by then, and its end would be an event
    if decision.look_again is None or NOW + later < decision.look_again:
        after = decide(queue, box, NOW + later)
        assert (after.start, after.refuse) == ([], [])
    else:
        kept = [job for job in queue.in_order() if decision.look_again in (job.not_before, job.give_up_at)]
        assert kept, "somebody's time comes at that moment"


@given(worlds())
@few
def test_the_first_that_are_blocked_are_jobs_that_are_free_and_do_not_start(world: World) -> None:
    decision = decide(world.queue, world.box, NOW)
    for job in decision.blocked:
        assert verdict_of(world.queue, job, NOW) == "free"
        assert job.name not in started(decision)
    able = {job.name for job in world.queue.in_order() if verdict_of(world.queue, job, NOW) == "free" and not impossible(job, world.box)}
    assert bool(decision.blocked) == bool(able - set(started(decision)))


# whole days -----------------------------------------------------------------------------------------------------------


def units_are_handed_out_once(queue: Queue, box: Box, decision: Decision, now: float) -> None:
    held: set[tuple[str, str]] = set()
    free = CAPACITY - box.floor - sum(max(run.memory, run.used) for run in queue.runs())
    for run in queue.runs():
        held |= {(lock, unit) for lock, units in run.locks.items() for unit in units}
    for start in decision.start:
        assert start.locks.keys() == start.job.locks.keys()
        for lock, units in start.locks.items():
            asked = start.job.locks[lock]
            every = UNITS.get(lock, ("0",))
            assert set(units) <= set(every)
            assert len(set(units)) == len(units) == (len(every) if asked is None else asked)
            assert not {(lock, unit) for unit in units} & held, "a unit that somebody has"
            held |= {(lock, unit) for unit in units}
        assert start.job.memory is not None
        free -= start.job.memory
        assert start.job.memory == 0 or free >= 0, "memory that somebody was promised"


@given(scripts(exact=False))
@many
def test_no_unit_is_handed_out_twice_and_no_memory_promised_twice(script: Script) -> None:
    play(script, units_are_handed_out_once)


@given(any_scripts)
@few
def test_no_unit_is_handed_out_twice_among_jobs_that_wait_for_each_other(script: Script) -> None:
    play(script, units_are_handed_out_once)


@given(scripts(exact=True))
@many
def test_with_whole_wall_clocks_a_job_starts_at_the_same_moment_whoever_is_placed_later(script: Script) -> None:
    full = play(script)
    for _, job in script.jobs:
        alone = play(script.without(job))
        assert full.starts.get(job.name, NEVER) == alone.starts.get(job.name, NEVER), job.name


@given(scripts(exact=True))
@few
def test_with_whole_wall_clocks_every_latest_start_is_kept(script: Script) -> None:
    announced: list[dict[str, float]] = []
    day = play(script, lambda queue, box, decision, now: announced.append(latest_starts(queue, box, now)))
    for starts in announced:
        for name, latest in starts.items():
            assert day.starts[name] <= latest, name


@given(scripts(exact=False))
@few
def test_no_decision_puts_an_earlier_job_off(script: Script) -> None:
    """The heart of conservative backfilling: the starts of one decision leave every earlier job the place that it had without the later ones."""

    def no_place_is_worse(queue: Queue, box: Box, decision: Decision, now: float) -> None:
        names = set(started(decision))
        new = [as_run(9000 + number, one.job, one.locks, now) for number, one in enumerate(decision.start)]
        for job in queue.in_order():
            if job.name in names:
                continue
            earlier = [other for other in queue.in_order() if other.key <= job.key]
            before = latest_starts(a_queue(*queue.runs(), *earlier), box, now).get(job.name, NEVER)
            after = latest_starts(a_queue(*queue.runs(), *new, *(one for one in earlier if one.name not in names)), box, now).get(job.name, NEVER)
            assert after <= before, job.name

    play(script, no_place_is_worse)


@given(scripts(exact=False))
@few
def test_when_runs_end_early_the_foremost_jobs_latest_start_only_comes_nearer(script: Script) -> None:
    head: tuple[str, float] | None = None

    def never_later(queue: Queue, box: Box, decision: Decision, now: float) -> None:
        nonlocal head
        foremost = next((job for job in queue.in_order() if not impossible(job, box)), None)
        if foremost is None:
            return
        latest = latest_starts(queue, box, now).get(foremost.name, NEVER)
        if head is not None and head[0] == foremost.name:
            assert latest <= head[1]
        head = (foremost.name, latest)

    play(script, never_later)


def starts_in_order(day: Spooler, script: Script) -> None:
    keys = {job.name: job.key for _, job in script.jobs}
    comes = {job.name: at for at, job in script.jobs}
    for index, name in enumerate(day.order):
        passed = [other for other in keys if keys[other] < keys[name] and comes[other] <= day.starts[name] and other not in day.order[:index]]
        assert all(other in day.ended and other not in day.starts for other in passed), f"{name} passed {passed}"


@given(scripts(exact=False, strict=st.just(True)))
@few
def test_in_strict_order_nobody_ever_passes_an_earlier_one(script: Script) -> None:
    starts_in_order(play(script), script)


@given(any_scripts)
@many
def test_every_job_starts_or_is_refused_in_the_end_if_every_run_ends(script: Script) -> None:
    day = play(script)
    assert [*day.queue.live_jobs()] == []
    for _, job in script.jobs:
        assert job.name in day.starts or not day.ended[job.name].ok


@given(any_scripts)
@few
def test_no_job_starts_before_those_it_waits_for_have_ended_nor_before_its_time(script: Script) -> None:
    def conditions_are_met(queue: Queue, box: Box, decision: Decision, now: float) -> None:
        for start in decision.start:
            assert verdict_of(queue, start.job, now) == "free"

    play(script, conditions_are_met)


# one by one -----------------------------------------------------------------------------------------------------------


def test_a_short_job_passes_into_the_hole_and_a_long_one_that_would_delay_the_head_does_not() -> None:
    run = a_run(1, locks={"gpu": ("0", "1")}, started_at=NOW, wall=8)
    head = a_job(20, "head", locks={"gpu": 1, "box": 1}, wall=5)
    long, short = a_job(30, "long", wall=60), a_job(40, "short", wall=2)
    decision = decide(a_queue(run, head, long, short), a_box(), NOW)
    assert started(decision) == ["short"]
    assert [job.name for job in decision.blocked] == ["head", "long"]


def test_a_latest_start_is_no_promise_if_a_run_ends_early_and_an_earlier_job_moves_forward() -> None:
    """The exception that INTERNALS.md tells: places are found anew for each decision, and earlier jobs come first."""
    gpu, box = a_run(1, locks={"gpu": ("0", "1")}, started_at=NOW, wall=10), a_run(2, locks={"box": ("0",)}, started_at=NOW, wall=5)
    first, second = a_job(10, "first", locks={"gpu": 2, "box": 1}, wall=10), a_job(20, "second", wall=5)
    queue = a_queue(gpu, box, first, second)
    assert latest_starts(queue, a_box(), NOW) == {"first": NOW + 10, "second": NOW + 5}
    queue.end(1)
    assert latest_starts(queue, a_box(), NOW + 4) == {"first": NOW + 5, "second": NOW + 15}


def test_the_grace_belongs_to_the_place_of_a_job() -> None:
    run = a_run(1, locks={"gpu": ("0", "1")}, started_at=NOW, wall=8)
    head = a_job(20, "head", locks={"gpu": 1, "box": 1})
    assert started(decide(a_queue(run, head, a_job(30, wall=7, grace=1)), a_box(), NOW)) == ["j30"]
    assert started(decide(a_queue(run, head, a_job(30, wall=7, grace=2)), a_box(), NOW)) == []


def test_a_run_without_a_wall_clock_leaves_no_place_to_keep_free() -> None:
    run = a_run(1, locks={"gpu": ("0", "1")}, wall=NEVER)
    head = a_job(20, "head", locks={"gpu": 1, "box": 1})
    assert started(decide(a_queue(run, head, a_job(30, wall=NEVER)), a_box(), NOW)) == ["j30"]
    assert latest_starts(a_queue(run, head), a_box(), NOW) == {}


def test_nobody_passes_into_the_place_of_a_run_that_may_end_at_any_moment() -> None:
    overdue = a_run(1, locks={"gpu": ("0", "1")}, started_at=NOW - 100, wall=10)
    head = a_job(20, "head", locks={"gpu": 1, "box": 1})
    assert started(decide(a_queue(overdue, head, a_job(30, wall=1)), a_box(), NOW)) == []


def test_a_run_that_ends_within_the_second_is_counted_to_its_end_and_not_longer() -> None:
    run = a_run(1, locks={"gpu": ("0", "1")}, started_at=NOW - 9.5, wall=10)
    head = a_job(20, "head", locks={"gpu": 1, "box": 1})
    assert started(decide(a_queue(run, head, a_job(30, wall=0.75)), a_box(), NOW)) == []
    assert started(decide(a_queue(run, head, a_job(30, wall=0.5)), a_box(), NOW)) == ["j30"]


def test_a_job_is_tied_to_others_also_through_a_third() -> None:
    run = a_run(1, locks={"gpu": ("0", "1")}, started_at=NOW, wall=10)
    first, second = a_job(10, "first", locks={"gpu": 1, "box": 1}, wall=5), a_job(20, "second", locks={"box": 1, "cpu": 1}, wall=20)
    queue = a_queue(run, first, second, a_job(30, locks={"cpu": 4}, wall=12), a_job(40, locks={"cpu": 4}, wall=3))
    assert latest_starts(queue, a_box(), NOW) == {"first": NOW + 10, "second": NOW + 15, "j30": NOW, "j40": NOW + 12}
    assert started(decide(queue, a_box(), NOW)) == ["j30"]


def test_jobs_that_share_nothing_with_the_head_pass_it() -> None:
    run = a_run(1, locks={"gpu": ("0", "1")})
    head = a_job(20, "head", locks={"gpu": 1}, wall=NEVER)
    assert started(decide(a_queue(run, head, a_job(30, locks={"cpu": 4}, wall=NEVER), a_job(40, locks={}, wall=NEVER)), a_box(), NOW)) == ["j30", "j40"]


def test_memory_is_a_resource_of_its_own_place() -> None:
    run = a_run(1, locks={}, memory=60, used=60, started_at=NOW, wall=10)
    head = a_job(20, "head", locks={}, memory=80)
    box = a_box(available=40)
    assert started(decide(a_queue(run, head, a_job(30, locks={}, memory=30, wall=10)), box, NOW)) == ["j30"]
    assert started(decide(a_queue(run, head, a_job(30, locks={}, memory=30, wall=11)), box, NOW)) == []
    assert started(decide(a_queue(run, head, a_job(30, locks={}, memory=20, wall=11)), box, NOW)) == ["j30"]


def test_what_a_young_run_was_promised_is_kept_for_it() -> None:
    run = a_run(1, locks={}, memory=60, used=5)
    assert promised([run]) == 55
    assert started(decide(a_queue(run, a_job(20, locks={}, memory=41)), a_box(available=95), NOW)) == []
    assert started(decide(a_queue(run, a_job(20, locks={}, memory=40)), a_box(available=95), NOW)) == ["j20"]


def test_jobs_that_declare_memory_wait_while_it_cannot_be_read_and_others_do_not() -> None:
    queue = a_queue(a_job(10, locks={}, memory=1), a_job(20, locks={}))
    assert started(decide(queue, a_box(available=None), NOW)) == ["j20"]


def test_a_job_whose_give_up_has_passed_is_refused_and_one_whose_has_not_tells_when_to_look() -> None:
    queue = a_queue(a_job(10, give_up_at=NOW), a_job(20, give_up_at=NOW + 5, held=True), a_job(30, not_before=NOW + 3))
    decision = decide(queue, a_box(), NOW)
    assert refused(decision) == {"j10"}
    assert decision.look_again == NOW + 3


def test_a_job_that_is_put_on_hold_again_and_again_is_refused_once() -> None:
    queue = a_queue()
    job = a_job(10, give_up_at=NOW)
    for held in (True, False, True, False):
        queue.add(replace(job, held=held))
        queue.take(job.key)
    queue.add(job)
    assert decide(queue, a_box(), NOW).refuse == [Refuse(job, decide(queue, a_box(), NOW).refuse[0].why)]


def test_a_job_whose_file_is_away_is_left_alone_until_it_is_back() -> None:
    queue = a_queue(an_end("x", Outcome.FAILED), a_job(10, give_up_at=NOW - 5, away=True), a_job(20, after_ok=["x"], away=True))
    decision = decide(queue, a_box(), NOW)
    assert (decision.refuse, decision.start, decision.look_again) == ([], [], None)
    for key in ((10, "j10"), (20, "j20")):
        queue.add(replace(queue.take(key), away=False))
    assert refused(decide(queue, a_box(), NOW)) == {"j10", "j20"}


def test_units_that_the_settings_took_away_are_not_handed_out_while_a_run_has_them() -> None:
    run = a_run(1, locks={"gpu": ("7", "8")})
    assert started(decide(a_queue(run, a_job(20, locks={"gpu": 1})), a_box(), NOW)) == []


@pytest.mark.parametrize("asked", [1, 2, None])
def test_a_job_gets_all_of_its_locks_or_none(asked: int | None) -> None:
    run = a_run(1, locks={"box": ("0",)})
    assert started(decide(a_queue(run, a_job(20, locks={"gpu": asked, "box": 1}), a_job(30, locks={"gpu": 2}, wall=5)), a_box(), NOW)) == ["j30"]


# large queues ---------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(110)
def test_ten_thousand_jobs_are_decided_about_explained_and_planned_without_quadratic_time() -> None:
    queue = a_queue(a_run(1, locks={"box": ("0",), "gpu": ("0",)}))
    for seq in range(1, 10_001):
        queue.add(a_job(seq, locks={"box": 1, "gpu": 1} if seq % 2 else {"gpu": None}, wall=float(1 + seq % 7)))
    queue.add(a_job(20_000, "small", locks={"gpu": 1}, wall=1))
    queue.add(a_job(20_001, "large", locks={"gpu": 1}, wall=NEVER))
    for _ in range(20):
        assert started(decide(queue, a_box(), NOW)) == ["small"]
    assert len(latest_starts(queue, a_box(), NOW)) == 10_002


@pytest.mark.timeout(110)
def test_a_chain_of_ten_thousand_is_worked_off_without_looking_at_all_of_it_each_time() -> None:
    queue = a_queue(*(a_job(seq, after=[f"j{seq - 1}"] if seq > 1 else []) for seq in range(1, 10_001)))
    for seq in range(1, 10_001):
        assert started(decide(queue, a_box(), NOW)) == [f"j{seq}"]
        queue.take((seq, f"j{seq}"))
        queue.note_end(an_end(f"j{seq}", at=NOW + seq))


def test_behind_too_many_earlier_ones_nobody_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "MOST_RESERVATIONS", 3)

    def queue_of(heads: int) -> Queue:
        blocked = (a_job(seq, locks={"box": 1, "gpu": 1}, wall=float(seq)) for seq in range(1, heads + 1))
        return a_queue(a_run(1, started_at=NOW, wall=1), *blocked, a_job(50, "late", locks={"gpu": 1}, wall=NEVER))

    assert started(decide(queue_of(3), a_box(), NOW)) == ["late"]
    assert started(decide(queue_of(4), a_box(), NOW)) == []


@given(seeds)
@few
def test_the_limit_on_reservations_only_ever_puts_later_jobs_off(seed: int) -> None:
    dice = Dice(seed)
    world = World(dice.queue(2, 8, 0, free=True), dice.box(strict=False))
    whole = started(decide(world.queue, world.box, NOW))
    before = scheduler.MOST_RESERVATIONS
    scheduler.MOST_RESERVATIONS = dice.random.randint(0, 3)  # type: ignore[misc]
    try:
        limited = decide(copy_of(world.queue), world.box, NOW)
    finally:
        scheduler.MOST_RESERVATIONS = before  # type: ignore[misc]
    first_missing = next((name for name in whole if name not in started(limited)), None)
    if first_missing is None:
        assert started(limited) == whole
    else:
        assert started(limited)[: whole.index(first_missing)] == whole[: whole.index(first_missing)]
    units_are_handed_out_once(world.queue, replace(world.box, floor=-CAPACITY), limited, NOW)
