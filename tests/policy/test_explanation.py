"""Why each job waits: complete, true, and the same as long as nothing has happened."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from queues import NEVER, NOW, World, a_box, a_job, a_queue, a_run, an_end, impossible, verdict_of, worlds

from spoold.dependencies import stamp, when
from spoold.explanation import blockers, explain
from spoold.model import Box, Outcome, Queue, Reason, Rule
from spoold.scheduler import decide

few = settings(deadline=None, max_examples=120)


def rules(queue: Queue, box: Box | None = None, now: float = NOW) -> dict[str, list[str]]:
    return {name: [reason.rule.value for reason in reasons] for name, reasons in explain(queue, box or a_box(), now).items()}


def texts(queue: Queue, name: str, box: Box | None = None) -> str:
    return "; ".join(reason.text for reason in explain(queue, box or a_box(), NOW)[name])


# whole queues ---------------------------------------------------------------------------------------------------------


@given(worlds())
@few
def test_exactly_those_that_start_now_have_no_reason(world: World) -> None:
    reasons = explain(world.queue, world.box, NOW)
    starting = {start.job.name for start in decide(world.queue, world.box, NOW).start}
    assert list(reasons) == [job.name for job in world.queue.in_order()]
    assert {name for name, found in reasons.items() if not found} == starting


@given(worlds())
@few
def test_every_condition_that_is_not_met_has_its_reason(world: World) -> None:
    reasons = explain(world.queue, world.box, NOW)
    refused = {refuse.job.name for refuse in decide(world.queue, world.box, NOW).refuse}
    for job in world.queue.in_order():
        found = {reason.rule for reason in reasons[job.name]}
        if job.name in refused:
            assert found == {Rule.REFUSED}
            continue
        assert (Rule.HOLD in found) == job.sits
        assert (Rule.TIME in found) == (job.not_before is not None and job.not_before > NOW)
        free = {lock: len(world.box.units(lock)) - sum(len(run.locks.get(lock, ())) for run in world.queue.runs()) for lock in job.locks}
        short = {lock for lock, asked in job.locks.items() if (len(world.box.units(lock)) if asked is None else asked) > free[lock]}
        assert {reason.facts["lock"] for reason in reasons[job.name] if reason.rule is Rule.LOCK} == short
        if verdict_of(world.queue, job, NOW) == "free":
            assert Rule.AFTER not in found
            assert found or not short
        else:
            assert found


@given(worlds())
@few
def test_an_order_reason_names_an_earlier_job_that_would_really_start_later(world: World) -> None:
    reasons = explain(world.queue, world.box, NOW)
    jobs = {job.name: job for job in world.queue.in_order()}
    for name, job in jobs.items():
        for reason in reasons[name]:
            if reason.rule is not Rule.ORDER:
                continue
            before = jobs[reason.facts["job"]]
            assert before.key < job.key
            assert verdict_of(world.queue, before, NOW) == verdict_of(world.queue, job, NOW) == "free"
            if world.box.strict:
                continue
            # without that one and all behind it the job would start now
            rest = a_queue(*world.queue.runs(), *(one for one in jobs.values() if one.key < before.key and verdict_of(world.queue, one, NOW) == "free"), job)
            if not any(one.awaits or one.not_before is not None or one.give_up_at is not None for one in rest.in_order()):
                assert job.name in {start.job.name for start in decide(rest, world.box, NOW).start}


@given(worlds())
@few
def test_reasons_stand_still_while_only_the_clock_ticks(world: World) -> None:
    """All times of a world are whole seconds, so that nothing is due between these two moments."""
    early, late = NOW + 0.125, NOW + 0.375
    assert explain(world.queue, world.box, early) == explain(world.queue, world.box, late)


@given(worlds())
@few
def test_a_paused_spool_is_the_first_reason_of_everyone_and_hides_none_of_the_others(world: World) -> None:
    open_reasons = explain(world.queue, world.box, NOW)
    paused = explain(world.queue, replace(world.box, paused="lunch"), NOW)
    for name, reasons in paused.items():
        if open_reasons[name] and open_reasons[name][0].rule is Rule.REFUSED:
            assert reasons == open_reasons[name]
        else:
            assert reasons[0] == Reason(Rule.PAUSED, "the spool is paused: lunch", {})
            assert reasons[1:] == open_reasons[name]


@given(worlds())
@few
def test_every_reason_is_one_line_and_can_be_written_as_json(world: World) -> None:
    for reasons in explain(world.queue, world.box, NOW).values():
        for reason in reasons:
            assert reason.text
            assert "\n" not in reason.text
            assert json.loads(json.dumps(reason.as_json())) == reason.as_json()


@given(worlds(free=True))
@few
def test_whoever_blocks_a_free_job_now_is_told_for_its_trace(world: World) -> None:
    for job in world.queue.in_order():
        found = explain(world.queue, world.box, NOW)[job.name]
        wanted = {reason.facts.get("lock", "memory") for reason in found if reason.rule in (Rule.LOCK, Rule.MEMORY) and world.box.available is not None}
        told = {text.partition(":")[0].removeprefix("lock ") for text in blockers(world.queue, world.box, job)}
        if not impossible(job, world.box) and world.box.available is not None:
            assert told == wanted


# one by one -----------------------------------------------------------------------------------------------------------


def test_a_lock_names_its_holder_since_when_and_until_when() -> None:
    queue = a_queue(a_run(1, "g51", locks={"gpu": ("1",)}, started_at=NOW, wall=60), a_job(20, "g52", locks={"gpu": 2}))
    [reason] = explain(queue, a_box(), NOW)["g52"]
    assert reason.text == f"waits for gpu (2 of 2, 1 free), held by g51 (unit 1) since {when(NOW)}, at the latest until {when(NOW + 60)}"
    assert reason.facts == {
        "lock": "gpu",
        "wanted": 2,
        "free": 1,
        "held_by": [{"job": "g51", "units": ["1"], "since": stamp(NOW), "until": stamp(NOW + 60)}],
    }


def test_a_holder_without_a_wall_clock_has_no_until() -> None:
    queue = a_queue(a_run(1, "g51", wall=NEVER), a_job(20, "g52"))
    [reason] = explain(queue, a_box(), NOW)["g52"]
    assert reason.text.endswith(", without a wall clock")
    assert reason.facts["held_by"][0]["until"] is None


def test_memory_names_what_is_missing_and_who_has_it() -> None:
    queue = a_queue(a_run(1, "quant", locks={}, memory=60, used=5), a_run(2, "tiny", locks={}), a_job(20, "big", locks={}, memory=79))
    [reason] = explain(queue, a_box(available=95, floor=4), NOW)["big"]
    assert reason.text == "needs 79B of memory, 36B is free for it; quant has 60B"
    assert reason.facts == {
        "needed": 79,
        "free": 36,
        "missing": 43,
        "available": 95,
        "promised": 55,
        "floor": 4,
        "held_by": [{"job": "quant", "memory": 60, "used": 5}],
    }


def test_memory_that_no_job_uses_is_said_to_be_nobodys() -> None:
    assert "belongs to no job" in texts(a_queue(a_job(20, memory=79)), "j20", a_box(available=10))


def test_memory_that_cannot_be_read_is_a_reason_for_those_that_declare_some() -> None:
    queue = a_queue(a_job(20, locks={}, memory=1), a_job(30, locks={}))
    assert rules(queue, a_box(available=None)) == {"j20": ["memory"], "j30": []}


def test_a_job_that_waits_for_a_place_only_names_the_one_whose_place_it_would_take() -> None:
    run = a_run(1, locks={"gpu": ("0", "1")}, started_at=NOW, wall=8)
    other = a_job(10, "other", locks={"gpu": 1}, wall=5)
    head, long = a_job(20, "head", locks={"gpu": 1, "box": 1}, wall=5), a_job(30, "long", wall=60)
    found = explain(a_queue(run, other, head, long), a_box(), NOW)["long"]
    assert [reason.as_json() for reason in found] == [
        {"rule": "order", "text": "head is placed before it and would start later if it went first", "job": "head", "policy": "backfill"}
    ]


def test_a_job_whose_lock_goes_to_one_that_starts_now_waits_for_its_turn() -> None:
    assert rules(a_queue(a_job(10), a_job(20), a_job(30, locks={}))) == {"j10": [], "j20": ["order"], "j30": []}
    assert "j10 is placed before it" in texts(a_queue(a_job(10), a_job(20)), "j20")


def test_in_strict_order_everyone_waits_for_the_first_that_waits() -> None:
    queue = a_queue(a_run(1), a_job(10), a_job(20), a_job(30, locks={}), a_job(40, locks={}, not_before=NOW + 9))
    assert rules(queue, a_box(strict=True)) == {"j10": ["lock"], "j20": ["lock", "order"], "j30": ["order"], "j40": ["time"]}
    assert "j10 is placed before it and the order is strict" in texts(queue, "j30", a_box(strict=True))


def test_all_reasons_are_told_at_once() -> None:
    queue = a_queue(a_run(1, "x"), a_job(10, "me", after=["x", "y"], not_before=NOW + 9, held=True, memory=79))
    assert rules(queue, a_box(available=10))["me"] == ["hold", "after", "after", "time", "lock", "memory"]


def test_a_job_that_will_be_refused_says_so_and_does_not_look_free() -> None:
    queue = a_queue(an_end("x", Outcome.FAILED), a_job(10, after_ok=["x"]), a_job(20, give_up_at=NOW - 1), a_job(30, locks={"gpu": 9}))
    assert rules(queue) == {"j10": ["refused"], "j20": ["refused"], "j30": ["refused"]}
    assert texts(queue, "j10").startswith("will be refused: after_ok = x: ")


def test_a_job_that_will_be_refused_is_in_nobodys_way() -> None:
    queue = a_queue(a_job(10, locks={"gpu": 9, "box": 1}), a_job(20))
    assert rules(queue) == {"j10": ["refused"], "j20": []}
    assert rules(queue, a_box(strict=True)) == {"j10": ["refused"], "j20": []}


@pytest.mark.parametrize(("paused", "text"), [("", "the spool is paused"), ("lunch", "the spool is paused: lunch")])
def test_the_text_of_a_pause_is_shown(paused: str, text: str) -> None:
    assert texts(a_queue(a_job(10)), "j10", a_box(paused=paused)) == text


def test_a_full_disk_is_told_beside_a_pause() -> None:
    box = replace(a_box(paused=""), closed="the disk is full")
    assert texts(a_queue(a_job(10)), "j10", box) == "the spool is paused; nothing starts: the disk is full"


def test_a_retry_that_waits_says_which_run_it_will_be() -> None:
    assert f"waits until {when(NOW + 60)} before run 2 (retry)" in texts(a_queue(a_job(10, not_before=NOW + 60, runs=1)), "j10")


@pytest.mark.timeout(110)
def test_ten_thousand_jobs_are_explained_without_quadratic_time() -> None:
    queue = a_queue(a_run(1, locks={"gpu": ("0",)}))
    for seq in range(1, 10_001):
        queue.add(a_job(seq, locks={"box": 1, "gpu": 1} if seq % 2 else {"gpu": None}, wall=float(1 + seq % 7)))
    found = explain(queue, a_box(), NOW)
    assert [name for name, reasons in found.items() if not reasons] == ["j1"]
