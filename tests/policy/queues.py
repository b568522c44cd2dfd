"""queues - whole queues at random, and the rules written down a second time, slowly and without the code that is tested.

Small numbers on purpose: few locks, few names, few moments, so that everything meets everything.  Times are whole seconds, for exact sums.
"""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hypothesis import strategies as st

from jobspec.spec import Job
from spoold.model import Box, Ended, Fate, Outcome, Queue, Ready, Running

NOW = 1000.0
NEVER = float("inf")
NAMES: Final = tuple("abcdefghij")
UNITS: Final[Mapping[str, tuple[str, ...]]] = {"gpu": ("0", "1"), "cpu": ("a", "b", "c", "d"), "all": ("x", "y", "z")}
"""And `box`, which has one unit because nobody says otherwise."""


def a_box(*, strict: bool = False, available: int | None = 100, floor: int = 0, total: int = 100, paused: str | None = None) -> Box:
    return Box(locks=UNITS, total=total, available=available, floor=floor, strict=strict, paused=paused)


def a_job(
    seq: int,
    name: str = "",
    *,
    after: Sequence[str] = (),
    after_ok: Sequence[str] = (),
    after_failed: Sequence[str] = (),
    locks: Mapping[str, int | None] | None = None,
    memory: int | None = 0,
    wall: float = 10.0,
    grace: float = 0.0,
    accepted_at: float = NOW - 100,
    not_before: float | None = None,
    give_up_at: float | None = None,
    held: bool = False,
    away: bool = False,
    runs: int = 0,
) -> Ready:
    name = name or f"j{seq}"
    return Ready(
        seq=seq,
        name=name,
        file=f"{seq:04}-{name}.hold" if held else f"{seq:04}-{name}.toml",
        job=Job(command=("true",), after=tuple(after), after_ok=tuple(after_ok), after_failed=tuple(after_failed)),
        accepted_at=accepted_at,
        locks={"box": 1} if locks is None else locks,
        memory=memory,
        wall_s=wall,
        grace_s=grace,
        not_before=not_before,
        give_up_at=give_up_at,
        held=held,
        away=away,
        runs=runs,
    )


def a_run(
    number: int,
    name: str = "",
    *,
    seq: int = 1,
    locks: Mapping[str, tuple[str, ...]] | None = None,
    memory: int = 0,
    used: int = 0,
    started_at: float = NOW - 10,
    wall: float = 20.0,
    grace: float = 0.0,
) -> Running:
    name = name or f"r{number}"
    return Running(
        seq=seq, name=name, file=f"{seq:04}-{name}.toml", run=number, started_at=started_at, wall_s=wall, grace_s=grace,
        locks={"box": ("0",)} if locks is None else locks, memory=memory, used=used,
    )  # fmt: skip


def an_end(name: str, how: Outcome | Fate = Outcome.OK, *, seq: int = 1, at: float = NOW - 50) -> Ended:
    return Ended(seq=seq, name=name, at=at, how=how, file=f"done/{seq:04}-{name}.toml")


def a_queue(*jobs: Ready | Running | Ended) -> Queue:
    queue = Queue()
    for job in jobs:
        match job:
            case Ready():
                queue.add(job)
            case Running():
                queue.start(job)
            case Ended():
                queue.note_end(job)
    return queue


def copy_of(queue: Queue) -> Queue:
    """The same jobs in a queue that has no history, so that none of its indexes can be stale."""
    copy = a_queue(*queue.runs())
    copy.ended, copy.past = dict(queue.ended), dict(queue.past)
    for job in queue.in_order():
        copy.add(job)
    return copy


# at random ------------------------------------------------------------------------------------------------------------

ASKED: Final = (1, 1, 1, 2, 3, None)
PATTERNS: Final = (*"abcdefgh", *"abcdefgh", "*", "?", "[a-d]", "[!c]*", "x*")
HOWS: Final = (*Outcome, *Fate)


def allot(locks: Mapping[str, int | None], runs: Iterable[Running]) -> dict[str, tuple[str, ...]] | None:
    """Units for a request beside these runs, or None if there are not enough."""
    held: dict[str, tuple[str, ...]] = {}
    for lock, asked in locks.items():
        units = UNITS.get(lock, ("0",))
        busy = {unit for run in runs for unit in run.locks.get(lock, ())}
        free = [unit for unit in units if unit not in busy]
        count = len(units) if asked is None else asked
        if len(free) < count:
            return None
        held[lock] = tuple(free[:count])
    return held


class Dice:
    """Random nouns.  A seed makes them, so that an example costs microseconds and there can be thousands."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def seldom(self) -> bool:
        return self.random.random() < 0.1

    def request(self) -> dict[str, int | None]:
        return {lock: self.random.choice(ASKED) for lock in self.random.sample(("box", *UNITS), self.random.choice((0, 1, 1, 1, 2, 2, 3)))}

    def wall(self) -> float:
        return NEVER if self.seldom() else float(self.random.randint(1, 30))

    def grace(self) -> float:
        return self.random.choice((0.0, 0.0, 5.0))

    def memory(self) -> int:
        return self.random.choice((0, self.random.randint(1, 60)))

    def after(self) -> tuple[str, ...]:
        return tuple(self.random.choice(PATTERNS) for _ in range(self.random.choice((0, 1, 1, 2))))

    def moment(self, most: int) -> float:
        return NOW + self.random.randint(-most, most)

    def ready(self, name: str, *, free: bool) -> Ready:
        """`free`: only locks, memory and the order can keep it waiting."""
        waits = not free and self.random.random() < 0.3
        return a_job(
            self.random.randint(1, 9),
            name,
            after=self.after() if waits else (),
            after_ok=self.after() if waits and self.seldom() else (),
            after_failed=self.after() if waits and self.seldom() else (),
            locks=self.request(),
            memory=None if not free and self.seldom() else self.memory(),
            wall=self.wall(),
            grace=self.grace(),
            accepted_at=self.moment(50) - 50,
            not_before=None if free or self.random.random() < 0.6 else self.moment(20) - 15,
            give_up_at=None if free or not self.seldom() else self.moment(20),
            held=not free and self.seldom(),
            away=not free and self.seldom(),
        )

    def runs(self, run_names: Sequence[str]) -> list[Running]:
        """Runs that can be at the same time."""
        runs: list[Running] = []
        for number, name in enumerate(run_names, 1):
            locks, memory = allot(self.request(), runs) or {}, self.memory()
            runs.append(
                a_run(
                    number, name, seq=self.random.randint(1, 9), locks=locks, memory=memory, used=self.random.randint(0, memory + 5),
                    started_at=self.moment(20) - 20, wall=self.wall(), grace=self.grace(),
                )
            )  # fmt: skip
        return runs

    def end(self) -> Ended:
        name, how = self.random.choice(NAMES), self.random.choice(HOWS)
        return an_end(name, how, seq=self.random.randint(1, 9), at=self.moment(30) - 30)

    def queue(self, running: int, ready: int, ended: int, *, free: bool = False) -> Queue:
        """Each NAME is live at most once."""
        order = self.random.sample(NAMES, running + ready)
        ready_jobs = [self.ready(name, free=free) for name in order[running:]]
        return a_queue(*self.runs(order[:running]), *ready_jobs, *(self.end() for _ in range(ended)))

    def box(self, strict: bool | None = None) -> Box:
        return a_box(
            strict=self.random.random() < 0.3 if strict is None else strict,
            available=None if self.seldom() else self.random.choice((100, self.random.randint(0, 100), self.random.randint(60, 100))),
            floor=self.random.choice((0, 0, self.random.randint(1, 10))),
        )


@dataclass(frozen=True, slots=True, repr=False)
class World:
    """A queue and a box."""

    queue: Queue
    box: Box

    def __repr__(self) -> str:
        parts = (*self.queue.runs(), *self.queue.in_order(), *self.queue.past.values())
        return "\n".join(("", *map(repr, parts), repr(self.box)))


def worlds(*, free: bool = False, strict: bool | None = None, running: int = 3) -> st.SearchStrategy[World]:
    """Hypothesis chooses, and shrinks, how much there is of everything; the dice do the rest."""

    def roll(seed: int, runs: int, ready: int, ended: int) -> World:
        dice = Dice(seed)
        return World(dice.queue(runs, ready, ended, free=free), dice.box(strict))

    seeds = st.integers(0, 2**32 - 1)
    return st.builds(roll, seeds, st.integers(0, running), st.integers(0, len(NAMES) - running), st.integers(0, 0 if free else 6))


# the rules, a second time ---------------------------------------------------------------------------------------------


def a_glob(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")


def wait_of(queue: Queue, job: Ready, pattern: str) -> list[Ready | Running | Ended | None]:
    """Whom one `after` means, by the words of the design; None: a name that is nowhere."""
    live = [*queue.in_order(), *queue.runs()]
    if not a_glob(pattern):
        named = [other for other in live if other.name == pattern]
        return [*named] if named else [queue.ended.get(pattern)]
    fits = [other for other in live if fnmatch.fnmatchcase(other.name, pattern) and other.name != job.name]
    meant: list[Ready | Running | Ended | None] = [other for other in fits if (other.seq, other.name) < job.key]
    since: dict[str, Ended] = {}
    for ended in queue.past.values():
        earlier = (ended.seq, ended.name) < job.key and ended.name != job.name and ended.name not in [one.name for one in meant if one is not None]
        if earlier and ended.at >= job.accepted_at and fnmatch.fnmatchcase(ended.name, pattern):
            since[ended.name] = max(since.get(ended.name, ended), ended, key=lambda one: one.at)
    return [*meant, *since.values()]


def verdict_of(queue: Queue, job: Ready, now: float) -> str:
    """refuse, wait or free: what everything but locks, memory and the order says."""
    if job.away:
        return "wait"
    if job.give_up_at is not None and job.give_up_at <= now:
        return "refuse"
    wishes = (("after", job.job.after), ("after_ok", job.job.after_ok), ("after_failed", job.job.after_failed))
    waits = False
    for kind, asked in wishes:
        for pattern in asked:
            if pattern == job.name:
                return "refuse"
            for other in wait_of(queue, job, pattern):
                if isinstance(other, Ended):
                    ok = other.how is Outcome.OK
                    if (kind == "after_ok" and not ok) or (kind == "after_failed" and ok):
                        return "refuse"
                else:
                    waits = True
    if waits or job.held or job.memory is None or (job.not_before is not None and job.not_before > now):
        return "wait"
    return "free"


@dataclass(slots=True)
class Taken:
    """Something is taken from `start` to `end`."""

    start: float
    end: float
    locks: Mapping[str, int]
    memory: int


@dataclass(slots=True)
class Plan:
    """What is taken when, as a plain list.  Every question goes through all of it."""

    queue: Queue
    box: Box
    now: float
    taken: list[Taken] = field(default_factory=list)

    def __post_init__(self) -> None:
        for run in self.queue.runs():
            end = run.started_at + (run.wall_s + run.grace_s)
            units = {lock: len(held) for lock, held in run.locks.items()}
            self.taken.append(Taken(self.now, end if end > self.now else self.now + 0.001, units, max(run.memory, run.used)))

    def free_memory(self, at: float) -> int:
        """What nobody has or was promised, at that moment."""
        runs = self.queue.runs()
        available = self.box.available or 0
        idle = available + sum(run.used for run in runs) - self.box.floor
        return idle - sum(one.memory for one in self.taken if one.start <= at < one.end)

    def fits(self, need: Taken) -> bool:
        moments = {need.start, *(one.start for one in self.taken), *(one.end for one in self.taken)}
        for at in moments:
            if not need.start <= at < need.end:
                continue
            if need.memory and need.memory > self.free_memory(at):
                return False
            for lock, units in need.locks.items():
                used = sum(one.locks.get(lock, 0) for one in self.taken if one.start <= at < one.end)
                if used + units > len(self.box.units(lock)):
                    return False
        return True

    def place(self, job: Ready, not_before: float) -> Taken | None:
        """The earliest place for a job."""
        locks = {lock: len(self.box.units(lock)) if units is None else units for lock, units in job.locks.items()}
        for start in sorted({not_before, *(one.end for one in self.taken if not_before < one.end < NEVER)}):
            need = Taken(start, start + (job.wall_s + job.grace_s), locks, job.memory or 0)
            if self.fits(need):
                return need
        return None


def impossible(job: Ready, box: Box) -> bool:
    if job.memory is not None and job.memory > box.total - box.floor:
        return True
    return any(units is not None and units > len(box.units(lock)) for lock, units in job.locks.items())


def places(queue: Queue, box: Box, now: float) -> dict[str, float]:
    """By NAME: when each job that is free to start starts at the latest, earlier placed ones first."""
    plan, found, floor = Plan(queue, box, now), {}, now
    for job in queue.in_order():
        if verdict_of(queue, job, now) != "free" or impossible(job, box):
            continue
        place = plan.place(job, floor if box.strict else now)
        if place is not None:
            plan.taken.append(place)
            found[job.name] = place.start
            floor = max(floor, place.start)
        elif box.strict:
            break
    return found
