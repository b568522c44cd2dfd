"""model - the nouns: jobs in each stage, the queue, the box, verdicts, reasons, outcomes.

Owns `Queue`, on which every decision depends.  Pure: knows no disk, clock or process; times are arguments, in seconds since the epoch.
A bad transition raises and changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobspec.spec import Job
from spoold.lineup import Lineup, Shape
from spoold.stages import MOVES as MOVES
from spoold.stages import Stage as Stage
from spoold.waiting import Key as Key
from spoold.waiting import Waiting
from spoold.waiting import is_glob as is_glob
from spoold.waiting import matches as matches


class Outcome(enum.Enum):
    """How a run ended."""

    OK = "ok"
    FAILED = "failed"
    WALL = "wall"
    MEMORY = "memory"
    STOPPED = "stopped"
    LOST = "lost"


class Fate(enum.Enum):
    """What became of a job that never ran: it counts as ended, and not as ok."""

    REFUSED = "refused"
    WITHDRAWN = "withdrawn"


class Rule(enum.Enum):
    """The rule that makes a job wait."""

    AFTER = "after"
    ORDER = "order"
    LOCK = "lock"
    MEMORY = "memory"
    TIME = "time"
    HOLD = "hold"
    PAUSED = "paused"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job waits: the rule, the sentence, and the facts as data."""

    rule: Rule
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"rule": self.rule.value, "text": self.text, **self.facts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A job in ready/ with the settings of the spool applied.

    `locks` maps a lock to the number of units asked for (None: all of them).  `memory` is in bytes; None: the model file that it
    depends on is not there.  Times are seconds since the epoch, None: no such limit.  `runs` counts the starts since acceptance.
    """

    seq: int
    name: str
    file: str
    job: Job
    accepted_at: float
    locks: Mapping[str, int | None]
    memory: int | None
    wall_s: float
    grace_s: float
    not_before: float | None = None
    give_up_at: float | None = None
    runs: int = 0
    held: bool = False
    away: bool = False
    """Its file is not there, or open for writing: somebody may be editing it."""

    @property
    def sits(self) -> bool:
        """It takes no part until somebody does something."""
        return self.held or self.away

    @property
    def key(self) -> Key:
        """Order in the queue: by number, ties by name."""
        return (self.seq, self.name)

    @property
    def waits_for_jobs(self) -> bool:
        return bool(self.job.after or self.job.after_ok or self.job.after_failed)

    @property
    def awaits(self) -> tuple[str, ...]:
        """All names and globs that it waits for."""
        return self.job.after + self.job.after_ok + self.job.after_failed

    @property
    def shape(self) -> Shape | None:
        """What it asks for, and for how long: what keeps one job from starting keeps every later one of its shape.

        None if it is special: more than locks, memory and the order may keep it waiting.
        """
        if self.held or self.away or self.memory is None or self.not_before is not None or self.waits_for_jobs:
            return None
        return (tuple(self.locks.items()), self.memory, self.wall_s + self.grace_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A run that still has processes, or whose end is not yet recorded.

    `locks` maps a lock to the units that this run holds.  `memory` is what it declared, `used` what it uses now, in bytes.
    """

    seq: int
    name: str
    file: str
    run: int
    started_at: float
    wall_s: float
    grace_s: float
    locks: Mapping[str, tuple[str, ...]]
    memory: int
    used: int = 0

    @property
    def deadline(self) -> float | None:
        """The latest moment at which its processes are told to end; None: never."""
        return None if self.wall_s == float("inf") else self.started_at + self.wall_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The last that is known of a NAME that is no longer live."""

    seq: int
    name: str
    at: float
    how: Outcome | Fate
    file: str = ""
    """Relative to the spool; empty if nothing of it is left."""

    @property
    def ok(self) -> bool:
        return self.how is Outcome.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What the box can give: the units of each lock, memory in bytes, and what keeps everything from starting.

    A lock that is not in `locks` has one unit.  `available` is None while nothing can be measured.
    """

    locks: Mapping[str, tuple[str, ...]]
    total: int
    available: int | None
    floor: int
    strict: bool = True
    paused: str | None = None
    closed: str | None = None

    def units(self, lock: str) -> tuple[str, ...]:
        return self.locks.get(lock, ("0",))


def fold(name: str) -> str:
    """The form in which two live NAMEs must differ: names are ASCII, disks may ignore case."""
    return name.lower()


class Queue:
    """Everything that a decision depends on: ready jobs in order, runs, and the ends that ready jobs ask about.

    Owned by one thread and rebuilt from a scan at start; every change is one method, so that the indexes cannot disagree.
    """

    def __init__(self) -> None:
        self._ready: dict[Key, Ready] = {}
        self._running: dict[int, Running] = {}
        self._live: dict[str, Ready | Running] = {}
        self.lineup = Lineup()
        """Whom a decision has to look at."""
        self.waiting = Waiting()
        """Whom an event concerns."""
        self._conditional: set[Key] = set()
        self.ended: dict[str, Ended] = {}
        """By NAME: the end that happened last."""
        self.past: dict[tuple[str, str], Ended] = {}
        """By (file, NAME): every end that a glob may mean."""

    # ready ------------------------------------------------------------------------------------------------------------

    def add(self, job: Ready) -> None:
        """A job enters ready/.  Its NAME must not be live."""
        key = job.key
        assert fold(job.name) not in self._live, f"{job.name} is live already"
        assert key not in self._ready
        self._ready[key] = job
        self._live[fold(job.name)] = job
        self.lineup.add(key, job.shape, job.give_up_at)
        if job.waits_for_jobs or job.give_up_at is not None:
            self._conditional.add(key)
        if job.waits_for_jobs:
            self.waiting.add(key, job.awaits)
        if self.waiting.is_awaited(key):
            self.waiting.acyclic.clear()
        self._touch(job.name)

    def take(self, key: Key) -> Ready:
        """A job leaves ready/."""
        job = self._ready.pop(key)
        del self._live[fold(job.name)]
        self.lineup.drop(key, job.shape, job.give_up_at)
        self._conditional.discard(key)
        if job.waits_for_jobs:
            self.waiting.drop(key, job.awaits)
        self._touch(job.name)
        return job

    def _touch(self, name: str) -> None:
        """This NAME is live, ended or neither in another way than before: whoever may wait for it has to be judged again."""
        for key in self.waiting.touched(name):
            self.lineup.unpark(key)

    def get(self, key: Key) -> Ready | None:
        return self._ready.get(key)

    def __getitem__(self, key: Key) -> Ready:
        return self._ready[key]

    def in_order(self) -> Iterator[Ready]:
        """Ready jobs, the earliest placed first.  The queue must not change meanwhile."""
        ready = self._ready
        for key in self.lineup.order:
            yield ready[key]

    def conditional(self) -> list[Ready]:
        """Ready jobs that may become impossible: those that wait for others or give up, in order."""
        return [self._ready[key] for key in sorted(self._conditional)]

    def gave_up(self, now: float) -> list[Ready]:
        """Ready jobs whose `give_up` has passed."""
        return [self._ready[key] for key in self.lineup.gave_up(now)]

    def asks_about(self, name: str) -> bool:
        """Some ready job names this NAME, or may mean it by a glob."""
        return bool(self.waiting_for(name))

    @property
    def last_seq(self) -> int | None:
        """The highest number in the queue, of jobs that run too."""
        last = [self.lineup.order[-1][0]] if self.lineup.order else []
        return max((*last, *(run.seq for run in self._running.values())), default=None)

    def waiting_for(self, name: str) -> tuple[Ready, ...]:
        """Ready jobs that name this NAME in an `after`, or may mean it by a glob."""
        return tuple(self._ready[key] for key in sorted(self.waiting.asking(name)))

    @property
    def ready_count(self) -> int:
        return len(self._ready)

    # running ----------------------------------------------------------------------------------------------------------

    def start(self, run: Running) -> None:
        """A run begins: it holds its locks and its memory from here on.  The job must have left ready/."""
        assert fold(run.name) not in self._live, f"{run.name} is live already"
        assert run.run not in self._running, f"there is a run {run.run} already"
        for lock, units in run.locks.items():
            for other in self._running.values():
                both = set(units) & set(other.locks.get(lock, ()))
                assert not both, f"{lock} unit {sorted(both)} of {other.name} given to {run.name} too"
        self._running[run.run] = run
        self._live[fold(run.name)] = run
        self._touch(run.name)

    def update(self, run: Running) -> None:
        """New figures of a run."""
        assert run.run in self._running
        self._running[run.run] = run
        self._live[fold(run.name)] = run

    def end(self, run: int) -> Running:
        """A run has no process left: what it held is free."""
        ended = self._running.pop(run)
        del self._live[fold(ended.name)]
        self._touch(ended.name)
        return ended

    def runs(self) -> tuple[Running, ...]:
        return tuple(self._running.values())

    def run(self, number: int) -> Running | None:
        return self._running.get(number)

    # names ------------------------------------------------------------------------------------------------------------

    def live(self, name: str) -> Ready | Running | None:
        """The live job of that NAME, letter for letter."""
        job = self._live.get(fold(name))
        return job if job is not None and job.name == name else None

    def clash(self, name: str) -> Ready | Running | None:
        """The live job whose NAME is this one or differs from it only in case."""
        return self._live.get(fold(name))

    def live_jobs(self) -> Iterator[Ready | Running]:
        return iter(self._live.values())

    def forget(self) -> None:
        """Drop the ends that no ready job asks about: a spooler runs for months."""
        self.ended = {name: ended for name, ended in self.ended.items() if self.waiting.asks_for(name)}
        since = min((self._ready[key].accepted_at for key in self.waiting.globbing), default=None)
        self.past = {} if since is None else {key: ended for key, ended in self.past.items() if ended.at >= since}

    def note_end(self, ended: Ended) -> None:
        """A job has ended, was refused or was withdrawn."""
        last = self.ended.get(ended.name)
        if last is None or last.at <= ended.at:
            self.ended[ended.name] = ended
        self.past[(ended.file, ended.name)] = ended
        self._touch(ended.name)


@dataclass(frozen=True, slots=True)
class Start:
    """Start this job now, with these units of these locks."""

    job: Ready
    locks: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Refuse:
    """This job can never run; `why` is the sentence for its author."""

    job: Ready
    why: str


Verdict = Start | Refuse
"""Whoever has no verdict waits; `explanation` says why."""
