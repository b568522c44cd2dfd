"""The nouns, and the queue under every sequence of events: whatever happens, its indexes say what a fresh look at the same jobs says."""

from __future__ import annotations

import fnmatch
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from queues import HOWS, NAMES, NEVER, NOW, Dice, a_glob, a_job, a_queue, a_run, an_end, copy_of

from spoold.dependencies import find_cycle
from spoold.explanation import explain
from spoold.model import MOVES, Ended, Fate, Outcome, Queue, Ready, Reason, Rule, Running, Stage, fold
from spoold.scheduler import decide, latest_starts


class QueueMachine(RuleBasedStateMachine):
    """Everything that can happen to a queue, in any order."""

    @initialize(seed=st.integers(0, 2**32 - 1), strict=st.booleans())
    def begin(self, seed: int, strict: bool) -> None:
        self.dice = Dice(seed)
        self.queue = Queue()
        self.box = self.dice.box(strict)
        self.now = NOW
        self.run = 0

    def ready(self) -> list[Ready]:
        return [*self.queue.in_order()]

    def one(self) -> Ready:
        return self.dice.random.choice(self.ready())

    def free_name(self) -> str | None:
        free = [name for name in NAMES if self.queue.clash(name) is None]
        return self.dice.random.choice(free) if free else None

    @rule(seconds=st.integers(0, 30))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def drop(self) -> None:
        name = self.free_name()
        if name is not None:
            self.queue.add(replace(self.dice.ready(name, free=False), accepted_at=self.now))

    @rule()
    def carry_out_a_decision(self) -> None:
        decision = decide(self.queue, self.box, self.now)
        for refuse in decision.refuse:
            self.queue.take(refuse.job.key)
            self.note(refuse.job, Fate.REFUSED)
        for start in decision.start:
            job = self.queue.take(start.job.key)
            self.run += 1
            self.queue.start(
                a_run(
                    self.run, job.name, seq=job.seq, locks=start.locks, memory=job.memory or 0, started_at=self.now, wall=job.wall_s, grace=job.grace_s
                )
            )

    def note(self, job: Ready | Running, how: Outcome | Fate) -> None:
        self.queue.note_end(Ended(seq=job.seq, name=job.name, at=self.now, how=how, file=f"done/{job.file}.{self.dice.random.randint(0, 9)}"))

    @precondition(lambda self: self.queue.runs())
    @rule(how=st.sampled_from(Outcome))
    def a_run_ends(self, how: Outcome) -> None:
        run = self.queue.end(self.dice.random.choice(self.queue.runs()).run)
        self.note(run, how)

    @precondition(lambda self: self.queue.runs())
    @rule()
    def a_run_is_retried(self) -> None:
        run = self.queue.end(self.dice.random.choice(self.queue.runs()).run)
        again = self.dice.ready(run.name, free=False)
        self.queue.add(replace(again, seq=run.seq, runs=again.runs + 1, not_before=self.now + 5))

    @precondition(lambda self: self.queue.runs())
    @rule(used=st.integers(0, 60))
    def a_run_grows(self, used: int) -> None:
        self.queue.update(replace(self.dice.random.choice(self.queue.runs()), used=used))

    @precondition(lambda self: self.ready())
    @rule()
    def a_job_is_refused(self) -> None:
        self.note(self.queue.take(self.one().key), Fate.REFUSED)

    @precondition(lambda self: self.ready())
    @rule()
    def a_job_is_withdrawn(self) -> None:
        job = self.queue.take(self.one().key)
        self.queue.note_end(Ended(seq=job.seq, name=job.name, at=self.now, how=Fate.WITHDRAWN))

    @precondition(lambda self: self.ready())
    @rule(seq=st.integers(1, 9))
    def a_job_is_moved(self, seq: int) -> None:
        self.queue.add(replace(self.queue.take(self.one().key), seq=seq))

    @precondition(lambda self: self.ready())
    @rule()
    def a_job_is_renamed(self) -> None:
        name = self.free_name()
        if name is not None:
            self.queue.add(replace(self.queue.take(self.one().key), name=name))

    @precondition(lambda self: self.ready())
    @rule(held=st.booleans(), away=st.booleans())
    def a_job_is_held_or_let_go(self, held: bool, away: bool) -> None:
        self.queue.add(replace(self.queue.take(self.one().key), held=held, away=away))

    @precondition(lambda self: self.ready())
    @rule()
    def a_job_is_edited(self) -> None:
        old = self.queue.take(self.one().key)
        self.queue.add(replace(self.dice.ready(old.name, free=False), seq=old.seq, accepted_at=old.accepted_at))

    @rule()
    def an_end_is_found_on_the_disk(self) -> None:
        self.queue.note_end(an_end(self.dice.random.choice(NAMES), self.dice.random.choice(HOWS), seq=self.dice.random.randint(1, 9), at=self.now - 5))

    @rule()
    def what_nobody_asks_about_is_forgotten(self) -> None:
        fates = [decide(copy_of(self.queue), self.box, self.now)]
        self.queue.forget()
        assert fates == [decide(copy_of(self.queue), self.box, self.now)]

    @rule()
    def the_box_changes(self) -> None:
        self.box = self.dice.box(self.box.strict)

    @precondition(lambda self: hasattr(self, "queue"))
    @invariant()
    def every_decision_is_that_of_a_fresh_look(self) -> None:
        fresh = copy_of(self.queue)
        assert decide(self.queue, self.box, self.now) == decide(fresh, self.box, self.now)
        assert latest_starts(self.queue, self.box, self.now) == latest_starts(fresh, self.box, self.now)
        assert explain(self.queue, self.box, self.now) == explain(fresh, self.box, self.now)
        for job in self.ready():
            assert (find_cycle(self.queue, job) is None) == (find_cycle(copy_of(self.queue), job) is None)

    @precondition(lambda self: hasattr(self, "queue"))
    @invariant()
    def names_keys_and_units_are_unique(self) -> None:
        jobs = self.ready()
        live = [*jobs, *self.queue.runs()]
        assert len({fold(job.name) for job in live}) == len(live)
        assert {job.name for job in self.queue.live_jobs()} == {job.name for job in live}
        assert [job.key for job in jobs] == sorted({job.key for job in jobs})
        assert self.queue.ready_count == len(jobs)
        held = [(lock, unit) for run in self.queue.runs() for lock, units in run.locks.items() for unit in units]
        assert len(set(held)) == len(held)

    @precondition(lambda self: hasattr(self, "queue"))
    @invariant()
    def the_indexes_say_what_the_jobs_say(self) -> None:
        jobs = self.ready()
        assert self.queue.conditional() == [job for job in jobs if job.awaits or job.give_up_at is not None]
        assert self.queue.gave_up(self.now) == sorted(
            (job for job in jobs if job.give_up_at is not None and job.give_up_at <= self.now), key=lambda job: (job.give_up_at, job.key)
        )
        coming = [job.give_up_at for job in jobs if job.give_up_at is not None and job.give_up_at > self.now]
        assert self.queue.lineup.next_give_up(self.now) == min(coming, default=None)
        for name in NAMES:
            asking = [job for job in jobs if any(p == name or (a_glob(p) and fnmatch.fnmatchcase(name, p)) for p in job.awaits)]
            assert [*self.queue.waiting_for(name)] == asking
            live = self.queue.live(name)
            assert self.queue.clash(name.upper()) is live
            assert (live is not None) == any(job.name == name for job in (*jobs, *self.queue.runs()))
        for job in jobs:
            assert self.queue.get(job.key) is job
        for run in self.queue.runs():
            assert self.queue.run(run.run) is run


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(deadline=None, max_examples=40, stateful_step_count=30)


# the queue ------------------------------------------------------------------------------------------------------------


def test_order_is_by_number_then_by_name() -> None:
    queue = a_queue(a_job(10, "b"), a_job(9, "z"), a_job(10, "a"), a_job(100, "c"))
    assert [job.name for job in queue.in_order()] == ["z", "a", "b", "c"]


@pytest.mark.parametrize("second", [a_job(2, "g52"), a_job(2, "G52"), a_run(2, "g52"), a_run(2, "G52", locks={})])
def test_a_name_is_live_once_whatever_its_case(second: Ready | Running) -> None:
    queue = a_queue(a_job(1, "g52"))
    with pytest.raises(AssertionError, match="is live already"):
        queue.add(second) if isinstance(second, Ready) else queue.start(second)
    assert [job.name for job in queue.live_jobs()] == ["g52"]
    assert decide(queue, Dice(0).box(), NOW) == decide(copy_of(queue), Dice(0).box(), NOW)


def test_a_bad_start_raises_and_changes_nothing() -> None:
    queue = a_queue(a_run(1, locks={"gpu": ("0",)}))
    for bad in (a_run(2, locks={"gpu": ("1", "0")}), a_run(1, "other", locks={})):
        with pytest.raises(AssertionError):
            queue.start(bad)
    assert [run.name for run in queue.runs()] == ["r1"]
    assert queue.live("r2") is None


def test_what_is_taken_or_ended_twice_raises() -> None:
    queue = a_queue(a_job(1), a_run(1))
    queue.take((1, "j1"))
    queue.end(1)
    with pytest.raises(KeyError):
        queue.take((1, "j1"))
    with pytest.raises(KeyError):
        queue.end(1)
    with pytest.raises(AssertionError):
        queue.update(a_run(1))


def test_an_older_end_never_hides_a_newer_one() -> None:
    queue = a_queue(an_end("x", Outcome.OK, at=NOW), an_end("x", Outcome.FAILED, at=NOW - 1))
    assert queue.ended["x"].ok
    queue.note_end(an_end("x", Outcome.LOST, at=NOW))
    assert queue.ended["x"].how is Outcome.LOST, "of two at one moment the one that is told last"


def test_a_queue_that_runs_for_months_keeps_no_end_that_nobody_asks_about() -> None:
    queue = a_queue(a_job(1, after=["x"]), *(an_end(f"n{n}") for n in range(100)), an_end("x"))
    queue.forget()
    assert set(queue.ended) == {"x"}
    assert not queue.past


# the nouns ------------------------------------------------------------------------------------------------------------


def test_only_a_good_end_is_ok() -> None:
    assert [how for how in HOWS if an_end("x", how).ok] == [Outcome.OK]


def test_a_deadline_is_the_end_of_the_wall_clock() -> None:
    assert a_run(1, started_at=NOW, wall=5, grace=3).deadline == NOW + 5
    assert a_run(1, wall=NEVER).deadline is None


@pytest.mark.parametrize("change", [{"held": True}, {"away": True}, {"memory": None}, {"not_before": NOW - 1}, {"after": ["x"]}])
def test_a_job_with_a_condition_has_no_shape(change: dict[str, object]) -> None:
    assert a_job(1, **change).shape is None  # type: ignore[arg-type]


def test_jobs_of_one_shape_ask_for_the_same_for_as_long() -> None:
    assert a_job(1).shape == a_job(2, "other", give_up_at=NOW).shape
    for other in (a_job(1, wall=11), a_job(1, grace=1), a_job(1, memory=1), a_job(1, locks={"box": None}), a_job(1, locks={})):
        assert other.shape != a_job(1).shape


def test_a_reason_is_its_rule_its_text_and_its_facts_in_json() -> None:
    assert Reason(Rule.LOCK, "waits for gpu", {"lock": "gpu"}).as_json() == {"rule": "lock", "text": "waits for gpu", "lock": "gpu"}
    assert [rule.value for rule in Rule] == ["after", "order", "lock", "memory", "time", "hold", "paused", "refused"]


def test_nouns_are_frozen() -> None:
    for noun in (a_job(1), a_run(1), an_end("x")):
        with pytest.raises(FrozenInstanceError):
            noun.name = "other"  # type: ignore[misc]


def test_every_stage_has_a_row_of_moves_and_ends_are_ends() -> None:
    assert set(MOVES) == set(Stage)
    assert [stage for stage, targets in MOVES.items() if not targets] == [Stage.DONE, Stage.REFUSED]
    assert all(stage not in targets for stage, targets in MOVES.items())
    with pytest.raises(TypeError):
        MOVES[Stage.DONE] = frozenset({Stage.READY})  # type: ignore[index]
