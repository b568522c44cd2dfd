"""Whom a job waits for: names and globs, what an end decides, and cycles of every shape."""

from __future__ import annotations

import fnmatch
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queues import HOWS, NAMES, NOW, Dice, World, a_glob, a_job, a_queue, a_run, an_end, copy_of, verdict_of, wait_of, worlds

from spoold.dependencies import MOST_ANSWERS, answered_by, cycle_text, find_cycle, refusal, satisfied, stand, waits
from spoold.model import Ended, Fate, Outcome, Queue, Ready, Rule, Running

seeds = st.integers(0, 2**32 - 1)
few = settings(deadline=None, max_examples=120)
FIELDS = ("after", "after_ok", "after_failed")


def judge(*others: Ready | Running | Ended, seq: int = 50, accepted_at: float = NOW - 100, **after: list[str]) -> str:
    """refuse, wait or go: what is said of job `me` among these others."""
    job = a_job(seq, "me", accepted_at=accepted_at, after=after.get("after", ()), after_ok=after.get("ok", ()), after_failed=after.get("failed", ()))
    queue = a_queue(*others, job)
    why = refusal(queue, job)
    if why is not None:
        return "refuse"
    assert satisfied(queue, job) == (not waits(queue, job))
    return "go" if satisfied(queue, job) else "wait"


# names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["after", "ok", "failed"])
def test_a_name_that_is_nowhere_is_waited_for_and_said_so(field: str) -> None:
    assert judge(**{field: ["x"]}) == "wait"
    job = a_job(1, after=["x"])
    [reason] = waits(a_queue(job), job)
    assert "nowhere in the spool yet" in reason.text
    assert reason.facts == {"job": "x", "kind": "after", "state": "nowhere"}


@pytest.mark.parametrize("field", ["after", "ok", "failed"])
@pytest.mark.parametrize("live", [a_job(60, "x"), a_job(40, "x"), a_job(40, "x", held=True), a_run(1, "x")], ids=["later", "earlier", "held", "running"])
def test_a_live_job_is_waited_for_wherever_it_is_placed_and_however_its_last_run_ended(field: str, live: Ready | Running) -> None:
    for how in HOWS:
        assert judge(live, an_end("x", how), **{field: ["x"]}) == "wait"


@pytest.mark.parametrize("how", HOWS)
def test_after_takes_every_end_after_ok_only_a_good_one_after_failed_only_another(how: Outcome | Fate) -> None:
    assert judge(an_end("x", how), after=["x"]) == "go"
    assert judge(an_end("x", how), ok=["x"]) == ("go" if how is Outcome.OK else "refuse")
    assert judge(an_end("x", how), failed=["x"]) == ("refuse" if how is Outcome.OK else "go")


def test_of_several_ends_the_last_one_counts() -> None:
    ends = [an_end("x", Outcome.FAILED, seq=1, at=NOW - 9), an_end("x", Outcome.OK, seq=2, at=NOW - 5), an_end("x", Fate.REFUSED, seq=3, at=NOW - 7)]
    for seed in range(6):
        random.Random(seed).shuffle(ends)
        assert judge(*ends, ok=["x"]) == "go"


def test_a_name_is_meant_letter_for_letter() -> None:
    assert judge(a_run(1, "G52"), an_end("g52"), ok=["g52"]) == "go"
    assert judge(an_end("G52"), after=["g52"]) == "wait"


def test_an_end_before_acceptance_counts_for_a_name() -> None:
    assert judge(an_end("x", at=NOW - 10_000), ok=["x"]) == "go"


def test_one_bad_end_refuses_also_while_others_are_still_waited_for() -> None:
    assert judge(a_run(1, "y"), an_end("x", Outcome.FAILED), ok=["x", "y"]) == "refuse"
    assert judge(a_run(1, "y"), an_end("x", Outcome.FAILED), ok=["y"], after=["x"]) == "wait"


def test_the_refusal_names_the_field_the_job_its_end_and_the_remedy() -> None:
    job = a_job(50, after_ok=["build"])
    why = refusal(a_queue(an_end("build", Outcome.WALL), job), job)
    assert why is not None
    assert all(words in why for words in ("after_ok = build", "build ended wall", "1970-01-01", "drop this job again"))


def test_a_wait_for_oneself_is_refused_and_named() -> None:
    for field in FIELDS:
        job = a_job(50, "me", **{field: ["x", "me"]})
        why = refusal(a_queue(job, an_end("me")), job)
        assert why is not None
        assert why.startswith("it waits for itself (me)")


# globs ----------------------------------------------------------------------------------------------------------------


def test_a_glob_means_the_earlier_placed_that_are_live() -> None:
    assert judge(a_job(40, "g1"), after=["g*"]) == "wait"
    assert judge(a_run(1, "g1", seq=40), after=["g*"]) == "wait"
    assert judge(a_job(60, "g1"), after=["g*"]) == "go"
    assert judge(a_run(1, "g1", seq=60), after=["g*"]) == "go"
    assert judge(a_job(50, "a"), after=["?"]) == "wait"
    assert judge(a_job(50, "z"), after=["?"]) == "go"


def test_a_glob_never_means_the_job_itself() -> None:
    assert judge(after=["*"]) == "go"
    assert judge(an_end("me", Outcome.FAILED, seq=10), ok=["m*"]) == "go"


def test_a_glob_means_those_that_ended_since_acceptance_with_their_outcomes() -> None:
    assert judge(an_end("g1", Outcome.FAILED, seq=40, at=NOW), accepted_at=NOW - 1, ok=["g*"]) == "refuse"
    assert judge(an_end("g1", Outcome.FAILED, seq=40, at=NOW), accepted_at=NOW, ok=["g*"]) == "refuse"
    assert judge(an_end("g1", Outcome.FAILED, seq=40, at=NOW - 2), accepted_at=NOW - 1, ok=["g*"]) == "go"
    assert judge(an_end("g1", Outcome.FAILED, seq=60, at=NOW), accepted_at=NOW - 1, ok=["g*"]) == "go"
    assert judge(an_end("g1", Outcome.OK, seq=40, at=NOW), accepted_at=NOW - 1, failed=["g*"]) == "refuse"


def test_a_glob_that_means_nobody_is_no_wait() -> None:
    assert judge(after=["g*"], ok=["g*"], failed=["g*"]) == "go"


def test_of_several_ends_of_one_name_a_glob_means_the_last() -> None:
    early, late = an_end("g1", Outcome.FAILED, seq=40, at=NOW - 5), an_end("g1", Outcome.OK, seq=41, at=NOW - 4)
    assert judge(early, late, ok=["g*"]) == "go"
    assert judge(late, early, ok=["g*"]) == "go"


def test_a_glob_means_the_live_job_and_not_its_earlier_end() -> None:
    assert judge(an_end("g1", Outcome.FAILED, seq=40), a_job(41, "g1"), ok=["g*"]) == "wait"


@given(st.text("ab*?[]!-c", max_size=6), st.text("abc-]", max_size=4))
@few
def test_a_pattern_means_what_fnmatch_says(pattern: str, name: str) -> None:
    from spoold.model import is_glob, matches

    assert is_glob(pattern) == a_glob(pattern)
    assert matches(pattern, name) == fnmatch.fnmatchcase(name, pattern)


# whole queues ---------------------------------------------------------------------------------------------------------


@given(worlds())
@few
def test_every_job_is_judged_as_the_design_says(world: World) -> None:
    for job in world.queue.in_order():
        meant = [(kind, other) for kind in FIELDS for pattern in getattr(job.job, kind) for other in wait_of(world.queue, job, pattern)]
        open_waits = [other for _, other in meant if not isinstance(other, Ended)]
        assert satisfied(world.queue, job) == (not open_waits)
        assert len(waits(world.queue, job)) == len(open_waits)
        bad = [one for kind, one in meant if isinstance(one, Ended) and ((kind == "after_ok" and not one.ok) or (kind == "after_failed" and one.ok))]
        assert (refusal(world.queue, job) is not None) == bool(bad or job.name in job.awaits)


@given(worlds(), seeds)
@few
def test_what_was_once_judged_is_judged_again_when_something_happened(world: World, seed: int) -> None:
    dice, queue = Dice(seed), world.queue
    for step in range(12):
        for job in queue.in_order():
            stand(queue, job)
        chance = dice.random.random()
        live = [*queue.live_jobs()]
        if chance < 0.4 and live:
            gone = dice.random.choice(live)
            if isinstance(gone, Ready):
                queue.take(gone.key)
            else:
                queue.end(gone.run)
            if chance < 0.3:
                queue.note_end(an_end(gone.name, dice.random.choice(HOWS), seq=gone.seq, at=NOW + step))
        elif chance < 0.5:
            queue.note_end(an_end(dice.random.choice(NAMES), dice.random.choice(HOWS), seq=dice.random.randint(1, 9), at=NOW + step - 20))
        elif chance < 0.6:
            queue.forget()
        else:
            name = dice.random.choice(NAMES)
            if queue.clash(name) is None:
                queue.add(dice.ready(name, free=False))
        for job in queue.in_order():
            fresh = stand(copy_of(queue), job)
            assert stand(queue, job) == fresh, f"{job.name} after {step + 1} steps"
            assert fresh.satisfied == satisfied(queue, job)


def test_the_ends_that_let_a_job_go_on_are_told_and_no_more_than_a_record_can_hold() -> None:
    ends = [an_end(f"g{n}", seq=1, at=NOW - 1) for n in range(1000)]
    job = a_job(50, after=["x"], after_ok=["g*"])
    told = answered_by(a_queue(*ends, an_end("x", Outcome.FAILED), job), job)
    assert told[0] == "x ended failed 1970-01-01 00:15" or told[0].startswith("x ended failed ")
    assert len(told) == MOST_ANSWERS + 1
    assert told[-1] == f"and {1001 - MOST_ANSWERS} more"


# cycles ---------------------------------------------------------------------------------------------------------------


def edges(queue: Queue) -> dict[str, set[str]]:
    """Who waits for whom among ready jobs."""
    return {
        job.name: {other.name for pattern in job.awaits for other in wait_of(queue, job, pattern) if isinstance(other, Ready)} for job in queue.in_order()
    }


def in_a_cycle(graph: dict[str, set[str]], name: str) -> bool:
    """By closing the relation, which has nothing to do with a search from one job."""
    reached = set(graph[name])
    while True:
        more = set().union(reached, *(graph[one] for one in reached))
        if more == reached:
            return name in reached
        reached = more


def check_cycles(queue: Queue, order: list[Ready]) -> None:
    graph = edges(queue)
    for job in order:
        cycle = find_cycle(queue, job)
        assert (cycle is not None) == in_a_cycle(graph, job.name), job.name
        if cycle is not None:
            assert cycle[0] == job.name
            assert len(set(cycle)) == len(cycle)
            assert all(after in graph[before] for before, after in zip(cycle, (*cycle[1:], cycle[0]), strict=True))


def waiting_queue(dice: Dice, count: int) -> Queue:
    names = dice.random.sample(NAMES, count)
    jobs = [a_job(dice.random.randint(1, 5), name, after=dice.after(), after_ok=dice.after() if dice.seldom() else ()) for name in names]
    return a_queue(*jobs)


@given(seeds, st.integers(0, len(NAMES)))
@settings(deadline=None, max_examples=300)
def test_a_cycle_is_found_exactly_if_there_is_one(seed: int, count: int) -> None:
    dice = Dice(seed)
    queue = waiting_queue(dice, count)
    order = [*queue.in_order()]
    dice.random.shuffle(order)
    check_cycles(queue, order)
    check_cycles(queue, order)


@given(seeds)
@few
def test_a_cycle_is_found_also_when_jobs_come_go_and_are_moved(seed: int) -> None:
    dice = Dice(seed)
    queue = waiting_queue(dice, 5)
    for _ in range(12):
        check_cycles(queue, [*queue.in_order()])
        jobs = [*queue.in_order()]
        if jobs and dice.random.random() < 0.5:
            job = queue.take(dice.random.choice(jobs).key)
            if dice.random.random() < 0.5:
                queue.add(a_job(dice.random.randint(1, 5), job.name, after=job.job.after if dice.random.random() < 0.5 else dice.after()))
            elif dice.random.random() < 0.5:
                queue.start(a_run(dice.random.randint(1, 10**9), job.name, seq=job.seq, locks={}))
        else:
            name = dice.random.choice(NAMES)
            if queue.clash(name) is None:
                queue.add(a_job(dice.random.randint(1, 5), name, after=dice.after()))


def cycle_of(*jobs: Ready) -> list[tuple[str, ...] | None]:
    queue = a_queue(*jobs)
    return [find_cycle(queue, job) for job in jobs]


def test_the_shapes_of_cycles() -> None:
    assert cycle_of(a_job(1, "a", after=["b"]), a_job(2, "b", after=["a"])) == [("a", "b"), ("b", "a")]
    assert cycle_of(a_job(1, "a", after=["b"]), a_job(2, "b", after_ok=["c"]), a_job(3, "c", after_failed=["a"]))[1] == ("b", "c", "a")
    # a glob closes one from the later to the earlier
    assert cycle_of(a_job(1, "a", after=["b"]), a_job(2, "b", after=["?"])) == [("a", "b"), ("b", "a")]
    assert cycle_of(a_job(1, "a", after=["?"]), a_job(2, "b", after=["?"])) == [None, None]
    # a diamond is none, and who only leads to one is in none
    assert cycle_of(a_job(1, "a"), a_job(2, "b", after=["a"]), a_job(3, "c", after=["a"]), a_job(4, "d", after=["b", "c"])) == [None] * 4
    assert cycle_of(a_job(1, "a", after=["b"]), a_job(2, "b", after=["c"]), a_job(3, "c", after=["b"])) == [None, ("b", "c"), ("c", "b")]


def test_a_run_or_an_end_in_between_breaks_a_cycle() -> None:
    job = a_job(1, "a", after=["b"])
    assert find_cycle(a_queue(job, a_run(1, "b")), job) is None
    assert find_cycle(a_queue(job, an_end("b")), job) is None


def test_a_cycle_that_a_moved_job_closes_is_found() -> None:
    queue = a_queue(a_job(1, "a", after=["b"]), a_job(9, "c", after=["b"]))
    late = a_job(5, "b", after=["x*"])
    queue.add(late)
    assert find_cycle(queue, late) is None
    queue.take(late.key)
    moved = a_job(5, "b", after=["[ac]"])
    queue.add(moved)
    assert find_cycle(queue, moved) == ("b", "a")


def test_the_sentence_writes_the_cycle_out() -> None:
    text = cycle_text(("a", "b", "c"))
    assert "a waits for b, b waits for c, c waits for a" in text


@pytest.mark.timeout(110)
def test_a_chain_of_ten_thousand_is_searched_without_recursion_and_once() -> None:
    count = 10_000
    assert count > sys.getrecursionlimit()
    jobs = [a_job(seq, after=[f"j{seq - 1}"]) for seq in range(1, count + 1)]
    queue = a_queue(*jobs)
    assert all(find_cycle(queue, job) is None for job in reversed(jobs))
    queue = a_queue(*jobs)
    assert all(find_cycle(queue, job) is None for job in jobs)
    closing = a_job(count + 1, "j0", after=[f"j{count}"])
    queue.add(closing)
    cycle = find_cycle(queue, closing)
    assert cycle is not None
    assert len(cycle) == count + 1


@pytest.mark.timeout(110)
def test_five_hundred_globs_that_all_mean_each_other_are_searched_once() -> None:
    queue = Queue()
    for seq in range(1, 501):
        job = a_job(seq, f"g{seq}", after=["g*"])
        queue.add(job)
        assert find_cycle(queue, job) is None
    copied = copy_of(queue)
    assert all(find_cycle(copied, job) is None for job in copied.in_order())


@given(worlds())
@few
def test_nobody_who_is_free_is_waiting_for_anybody(world: World) -> None:
    for job in world.queue.in_order():
        if verdict_of(world.queue, job, NOW) == "free":
            assert [reason for reason in waits(world.queue, job) if reason.rule is Rule.AFTER] == []
