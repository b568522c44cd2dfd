"""starting - what the scheduler decided, done: refusals, and ready/ -> running/ with an order to a supervisor.

Owns the step between a decision and a run, and the pause after the spool or the box failed at it.  A job is started from the bytes that are read now, and
only if they are those that were checked.  Never decides.  Fails: never; a job that could not be started is back in ready/ and nothing starts for a while.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spoold import dependencies, scheduler
from spoold.active import Active
from spoold.errors import SpoolError
from spoold.explanation import blockers
from spoold.files import Ident
from spoold.identity import login_environment
from spoold.journal import Journal
from spoold.model import Queue, Ready, Running, Stage, Start
from spoold.opening import Opened
from spoold.orders import make_order
from spoold.refusing import Refusing
from spoold.resume import Resume
from spoold.runs import Runs
from spoold.shelf import Shelf
from spoold.surroundings import Surroundings

MOST_ROUNDS: Final = 100
MOST_WAITS: Final = 20
"""How many different obstacles of one job are remembered for its trace."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
GROWING_S: Final = 1.0
"""How long a model file must keep its size before a job that is measured by it starts."""


class Starting:
    """Decisions carried out.  `stale`: something has happened since the last decision that may change it."""

    def __init__(
        self, opened: Opened, queue: Queue, shelf: Shelf, runs: Runs, refusing: Refusing, resume: Resume, surroundings: Surroundings, journal: Journal
    ) -> None:
        self._opened = opened
        self._queue = queue
        self._shelf = shelf
        self._runs = runs
        self._refusing = refusing
        self._resume = resume
        self._surroundings = surroundings
        self._journal = journal
        self._identity = login_environment()
        self._waits: dict[str, dict[str, None]] = {}
        self._pause_s = FIRST_PAUSE_S
        self._shut_until = 0.0
        self.shut: str | None = None
        self.stale = True
        self.look_again: float | None = None
        self.lacks_supervisor = False
        """A job is to start as soon as a supervisor is up: jobs that start together start in the order of the queue."""
        self.running_is_odd = False
        """A file of somebody else's stands in the way in running/."""

    def due(self, now: float) -> bool:
        """A decision is due at this date."""
        if self.lacks_supervisor and self._opened.pool.can_start():
            return True
        return self.stale or (self.look_again is not None and self.look_again <= now)

    def reopen(self, tick: float) -> None:
        """The pause after a failure is over."""
        if self.shut is not None and tick >= self._shut_until:
            self.shut = None
            self.stale = True

    def calm(self) -> None:
        """A job has started: whatever failed works again."""
        if self._pause_s != FIRST_PAUSE_S:
            self._pause_s = FIRST_PAUSE_S
            self._journal.once("shut", None)

    def forget(self) -> None:
        """Drop what is remembered of jobs that are no longer live."""
        self._waits = {name: waits for name, waits in self._waits.items() if self._queue.live(name) is not None}

    def decide(self, now: float, tick: float) -> None:
        """Refuse, start, and again until nothing changes: a refusal may let others go on."""
        self.reopen(tick)
        for _ in range(MOST_ROUNDS):
            self.stale = False
            self._measure()
            decision = scheduler.decide(self._queue, self._surroundings.box(tick, self.shut or self._resume.unsettled), now)
            self.look_again = decision.look_again
            self._note_waits(decision.blocked, tick)
            for refuse in decision.refuse:
                self._refusing.refuse(refuse, now)
            self.lacks_supervisor = False
            for start in decision.start:
                if not self._opened.pool.can_start():
                    self.lacks_supervisor = True
                    return
                self._start(start, now, tick)
                if self.shut is not None:
                    return
            if not decision.refuse:
                return
        self.stale = True

    def _measure(self) -> None:
        """What the runs use now: asked only of those that somebody's memory depends on."""
        if any(run.memory for run in self._queue.runs()):
            self._opened.meter.expire()
        for run in self._queue.runs():
            figures = self._opened.pool.figures(run.run) if run.memory else None
            if figures is not None and figures.memory != run.used:
                self._queue.update(replace(run, used=figures.memory))

    def _note_waits(self, blocked: list[Ready], tick: float) -> None:
        """Remember for the trace who kept the foremost jobs waiting."""
        if not blocked:
            return
        box = self._surroundings.box(tick)
        for job in blocked:
            waits = self._waits.setdefault(job.name, {})
            if len(waits) < MOST_WAITS:
                waits.update(dict.fromkeys(blockers(self._queue, box, job)))

    def _start(self, verdict: Start, now: float, tick: float) -> None:
        job = verdict.job
        item = self._shelf.item(job.key)
        assert item is not None
        if self._shelf.measure_again(job.key, self._surroundings.settings, self._surroundings.total):
            # still being written, it may be: decided again with what it has now, and not before a while
            self.look_again = min(now + GROWING_S, self.look_again or float("inf"))
            return
        store = self._opened.store
        try:
            found = store.open_own(store.layout.entry(Stage.READY, item.entry))
        except OSError:
            # gone, a link now, or not to be read: the shelf finds out, and nobody else has to wait for that
            self._shelf.doubt(job.key)
            return
        if found.data is None or found.writer or hash(found.data) != item.digest:
            self._shelf.doubt(job.key)
            return
        try:
            ident = store.begin(item.entry)
        except FileNotFoundError:
            self._shelf.doubt(job.key)
            return
        except FileExistsError:
            self._shelf.doubt(job.key)
            self.running_is_odd = True
            return
        except OSError as error:
            self._close(f"{job.file} cannot be moved to running/: {error.strerror or error}", tick)
            return
        if not ident.same_file(found.ident):
            self._back(item.entry, tick)
            self._shelf.doubt(job.key)
            return
        self._order(verdict, found.data, item.entry, ident, now, tick)

    def _order(self, verdict: Start, text: bytes, entry: str, ident: Ident, now: float, tick: float) -> None:
        """The file is in running/: have a supervisor start it."""
        job = verdict.job
        waited_for = [*dependencies.answered_by(self._queue, job), *self._waits.pop(job.name, ())]
        run = self._opened.pool.next_run()
        settings, layout = self._surroundings.settings, self._opened.layout
        order = make_order(job, run, text, verdict.locks, settings=settings, layout=layout, identity=self._identity, now=now, waited_for=waited_for)
        self._shelf.remove(job.key)
        self._queue.start(
            Running(
                seq=job.seq,
                name=job.name,
                file=job.file,
                run=run,
                started_at=now,
                wall_s=job.wall_s,
                grace_s=job.grace_s,
                locks=verdict.locks,
                memory=job.memory or 0,
            )
        )
        active = Active(run, order.job, job.name, job.seq, entry, -1, (ident.dev, ident.ino), may_retry=job.job.retry is not None)
        self._runs.add(active)
        try:
            active.slot = self._opened.pool.start(order)
        except (SpoolError, OSError) as error:
            self.take_back(active, str(error), tick)

    def take_back(self, active: Active, why: str, tick: float) -> None:
        """The command was not executed: the job waits for its turn again, and nothing starts for a while."""
        self._queue.end(active.run)
        self._runs.drop(active.run)
        if self._back(active.entry, tick):
            self._resume.load(active.entry, self._surroundings.settings, self._surroundings.total, tick)
        self._close(f"{active.job} could not be started: {why}", tick)

    def _back(self, entry: str, tick: float) -> bool:
        """running/ -> ready/.  False if it has to stay for now; then it is looked after as a stray."""
        try:
            self._opened.store.back_to_ready(entry)
        except OSError as error:
            self._resume.add_stray(entry)
            self._journal.say(f"{entry.removesuffix('.toml')} stays in running/ for now: {error.strerror or error}")
            return False
        return True

    def _close(self, why: str, tick: float) -> None:
        """The spool or the box fails: nothing starts for a while, longer each time."""
        self.shut = why
        self._shut_until = tick + self._pause_s
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
        self._journal.once("shut", why)
        self.stale = False
