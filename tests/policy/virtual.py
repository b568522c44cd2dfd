"""virtual - a spooler in virtual time: no disk, no clock, no process; jobs end when the example says so."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from queues import NEVER, NOW, Dice, a_box, a_queue

from spoold import dependencies, scheduler
from spoold.model import Box, Ended, Fate, Outcome, Queue, Ready, Running
from spoold.scheduler import Decision

CAPACITY = 100
MOST_TURNS = 10_000


@dataclass(frozen=True, slots=True)
class Script:
    """What happens: who is there at first, who comes when, how long each really runs and how it ends, and how much of its memory it uses."""

    strict: bool
    runs: Sequence[Running]
    jobs: Sequence[tuple[float, Ready]]
    lasts: Mapping[str, float] = field(default_factory=dict)
    """Seconds; who is not in it uses up its wall clock and grace."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    uses: Mapping[str, int] = field(default_factory=dict)

    def without(self, last: Ready) -> Script:
        """The same, but nobody who is placed later ever comes."""
        return replace(self, jobs=[(at, job) for at, job in self.jobs if job.key <= last.key])


Watch = Callable[[Queue, Box, Decision, float], None]


class Spooler:
    """Plays a script.  `watch` sees every decision before it is carried out."""

    def __init__(self, script: Script, watch: Watch | None = None) -> None:
        self.queue = a_queue(*script.runs)
        self.starts: dict[str, float] = {}
        self.ended: dict[str, Ended] = {}
        self.order: list[str] = []
        self._script = script
        self._watch = watch
        self._events: list[tuple[float, int, Ready | int | None]] = []
        self._number = 100
        self._seen: set[float] = set()
        for at, job in script.jobs:
            self._push(at, job)
        for run in script.runs:
            self._push(max(NOW, run.started_at + self._length(run.name, run.wall_s + run.grace_s)), run.run)

    def _length(self, name: str, most: float) -> float:
        return min(most, self._script.lasts.get(name, most))

    def _push(self, at: float, what: Ready | int | None) -> None:
        if at < NEVER:
            self._number += 1
            heapq.heappush(self._events, (at, self._number, what))

    @property
    def box(self) -> Box:
        available = CAPACITY - sum(run.used for run in self.queue.runs())
        return a_box(strict=self._script.strict, available=available, total=CAPACITY)

    def play(self) -> Spooler:
        turns = 0
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                what = heapq.heappop(self._events)[2]
                if isinstance(what, Ready):
                    self._drop(what, now)
                elif what is not None:
                    self._end(what, now)
            self._turn(now)
            turns += 1
            assert turns < MOST_TURNS
        return self

    def _drop(self, job: Ready, now: float) -> None:
        self.queue.add(job)
        for name in dependencies.find_cycle(self.queue, job) or ():
            member = self.queue.live(name)
            assert isinstance(member, Ready)
            self._refuse(member, now)

    def _end(self, number: int, now: float) -> None:
        run = self.queue.end(number)
        how = self._script.outcomes.get(run.name, Outcome.OK)
        self._note(Ended(seq=run.seq, name=run.name, at=now, how=how, file=f"done/{run.file}"))

    def _refuse(self, job: Ready, now: float) -> None:
        self.queue.take(job.key)
        self._note(Ended(seq=job.seq, name=job.name, at=now, how=Fate.REFUSED, file=f"refused/{job.file}"))

    def _note(self, ended: Ended) -> None:
        self.ended[ended.name] = ended
        self.queue.note_end(ended)

    def _turn(self, now: float) -> None:
        refused = True
        while refused:
            box = self.box
            decision = scheduler.decide(self.queue, box, now)
            if self._watch is not None:
                self._watch(self.queue, box, decision, now)
            for refuse in decision.refuse:
                self._refuse(refuse.job, now)
            for start in decision.start:
                self._start(start.job, start.locks, now)
            refused = bool(decision.refuse)
            if decision.look_again is not None and decision.look_again not in self._seen:
                self._seen.add(decision.look_again)
                self._push(decision.look_again, None)

    def _start(self, job: Ready, locks: Mapping[str, tuple[str, ...]], now: float) -> None:
        self.queue.take(job.key)
        self._number += 1
        run = Running(
            seq=job.seq, name=job.name, file=job.file, run=self._number, started_at=now, wall_s=job.wall_s, grace_s=job.grace_s, locks=locks,
            memory=job.memory or 0, used=min(job.memory or 0, self._script.uses.get(job.name, 0)),
        )  # fmt: skip
        self.queue.start(run)
        self.starts[job.name] = now
        self.order.append(job.name)
        self._push(now + self._length(job.name, job.wall_s + job.grace_s), run.run)


def play(script: Script, watch: Watch | None = None) -> Spooler:
    return Spooler(script, watch).play()


# at random ------------------------------------------------------------------------------------------------------------


def roll_free(seed: int, running: int, ready: int, *, strict: bool, exact: bool) -> Script:
    """Jobs that only locks, memory and the order keep waiting.  Nobody comes before one that is placed earlier is there."""
    dice = Dice(seed)
    names = dice.random.sample("abcdefghij", running + ready)
    runs: list[Running] = []
    for run in dice.runs(names[:running]):
        if sum(other.memory for other in runs) + run.memory <= CAPACITY:
            runs.append(replace(run, used=min(run.used, run.memory)))
    jobs = sorted((dice.ready(name, free=True) for name in names[running:]), key=lambda job: job.key)
    comes = sorted(NOW + dice.random.choice((0, 0, 0, dice.random.randint(0, 30))) for _ in jobs)
    return Script(
        strict=strict,
        runs=runs,
        jobs=list(zip(comes, jobs, strict=True)),
        lasts={} if exact else {name: float(dice.random.randint(1, 30)) for name in names},
        uses={name: dice.random.randint(0, 60) for name in names},
    )


def roll_any(seed: int, running: int, ready: int, *, strict: bool) -> Script:
    """Jobs that may wait for each other and for a time; all of them end, and none sits for good."""
    dice = Dice(seed)
    plain = roll_free(seed, running, ready, strict=strict, exact=False)
    names = [job.name for _, job in plain.jobs] + [run.name for run in plain.runs]
    patterns = (*names, *names, "*", "[a-e]", "?")
    jobs: list[tuple[float, Ready]] = []
    for at, job in plain.jobs:
        after, ok, failed = ([dice.random.choice(patterns) for _ in range(dice.random.choice(most))] for most in ((0, 0, 1, 2), (0, 0, 0, 1), (0, 0, 0, 1)))
        changed = replace(
            job,
            job=replace(job.job, after=tuple(after), after_ok=tuple(ok), after_failed=tuple(failed)),
            wall_s=float(dice.random.randint(1, 30)),
            accepted_at=at,
            not_before=dice.moment(40) if dice.seldom() else None,
            give_up_at=at + dice.random.randint(1, 60) if dice.seldom() else None,
        )
        jobs.append((at, changed))
    runs = [replace(run, wall_s=float(dice.random.randint(1, 30))) for run in plain.runs]
    outcomes = {name: dice.random.choice((Outcome.OK, Outcome.OK, Outcome.FAILED, Outcome.WALL)) for name in names}
    return replace(plain, jobs=jobs, runs=runs, outcomes=outcomes)


def live_names(queue: Queue) -> Iterable[str]:
    return [job.name for job in queue.live_jobs()]
