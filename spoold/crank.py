"""crank - one turn: what ended, who starts, what is put away, what users changed, what was dropped, who starts now.

Owns the order of the steps of a turn, and what is asked again when.  Holds no rule that could be stated about a `Queue`.
Fails: never; each step's trouble with the disk is said once, and the step is tried again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from jobspec.names import BadNameError, parse_file_name, show
from jobspec.spec import Job
from jobspec.units import format_duration, format_size
from spoold import host, scheduler
from spoold.active import Active, Requeued
from spoold.admission import History
from spoold.dates import STEP_S, Dates
from spoold.door import Door
from spoold.errors import SpoolError
from spoold.guarding import Guarding
from spoold.journal import Journal
from spoold.ledger import Ledger
from spoold.meter import crowding
from spoold.model import Ended, Fate, Queue, Stage
from spoold.modelsize import model_bytes
from spoold.newcomers import Newcomers
from spoold.opening import Opened
from spoold.pickup import Accepted, Gone, Later, Pickup, Refused, Taken
from spoold.pool import Ended as RunEnded
from spoold.pool import Failed, Started
from spoold.refusing import Refusing
from spoold.resume import Resume
from spoold.retention import Retention
from spoold.runs import Runs
from spoold.settings import Durability
from spoold.shelf import Shelf
from spoold.stagetimes import SCAN_SHARE, StageTimes
from spoold.starting import Starting
from spoold.store import plain_name
from spoold.surroundings import Surroundings
from spoold.survey import resolve_ends
from spoold.watcher import ROOT

LOOK_S: Final = 1.0
"""How often directories are compared with what is known, should an event be lost."""
LOOK_INTO_S: Final = 60.0
"""How often every file in ready/ is: an edit in place changes no directory."""
DOOR_TIME_S: Final = 0.010
"""How long a turn accepts before it looks again who may start."""
ODD_S: Final = 0.25
"""How long a file in ready/ that is being edited is left alone."""
BITE_S: Final = 0.05
"""The pause between two bites of a round that removes old files."""


class Crank:
    """A spooler's state between two turns; all of it is rebuilt from the disk by `recover`."""

    def __init__(self, opened: Opened, journal: Journal) -> None:
        self._o = opened
        self._journal = journal
        self.queue = Queue()
        self._dates = Dates()
        self.surroundings = Surroundings(opened, journal)
        self.shelf = Shelf(opened.store, self.queue, model_bytes=self._model_bytes)
        self._refusing = Refusing(opened.store, self.queue, self.shelf, journal, self._dates)
        self.runs = Runs(opened.layout, opened.store, opened.pool, self.queue, journal, on_refused=self._refusing.owe)
        self._pickup = Pickup(opened.store, model_bytes=self._model_bytes, being_run=self.runs.is_of_run)
        self.door = Door(opened.store, self._pickup, journal, on_shelf=self.shelf.knows, crowding=crowding)
        self.ledger = Ledger(opened.store)
        self._resume = Resume(
            opened.layout, opened.store, opened.pool, opened.archive, self.queue, self.runs, self.shelf, self.door, self.ledger, journal
        )
        self.starting = Starting(opened, self.queue, self.shelf, self.runs, self._refusing, self._resume, self.surroundings, journal)
        self._newcomers = Newcomers(opened, self.queue, self.door, self.ledger, self._refusing, self.starting, self.surroundings, self._dates, journal)
        self._retention = Retention(opened.store, self.queue, journal, logs_in_use=self.runs.logs)
        self._guarding = Guarding(opened, self.queue, self.runs, self.surroundings, journal)
        self._root = self._root_ident()
        self._times = StageTimes(opened.layout)
        self._next_look = 0.0
        self._next_look_into = 0.0
        self._next_models = 0.0

    # what the daemon asks ---------------------------------------------------------------------------------------------

    def fds(self) -> list[int]:
        """Descriptors that become readable when there is something to do."""
        return [self._o.watcher.fd, *self._o.pool.fds()]

    def recover(self) -> None:
        """Read the spool and go on where an earlier spooler left it."""
        tick = host.awake()
        box = self.surroundings.box(tick)
        self._resume.recover(self.surroundings.settings, box.total, tick)
        resolve_ends(self.queue, self._o.archive)
        self._pickup.remember_last(self._o.archive.highest_seq)
        self._learn_dates(time.time())
        for job in [job for job in self.queue.conditional() if job.waits_for_jobs]:
            self._newcomers.check(job, time.time(), tick)

    def _learn_dates(self, now: float) -> None:
        """What is on record may be dated later than now, if the clock was set back while no spooler ran."""
        for job in self.queue.in_order():
            self._dates.was_accepted(job.accepted_at)
        for ended in (*self.queue.ended.values(), *self.queue.past.values()):
            self._dates.happened(ended.at)
        self._wait_no_longer(now)

    def _wait_no_longer(self, now: float) -> None:
        """A job that was queued again in what is the future now waits its delay from now on."""
        late = []
        for job in self.queue.in_order():
            item = self.shelf.item(job.key) if job.runs and job.job.retry is not None else None
            if item is not None and item.history.requeued_at is not None and item.history.requeued_at > now + STEP_S:
                late.append(item)
        for item in late:
            item.history = replace(item.history, requeued_at=now)
        if late:
            self.shelf.read_again(self.surroundings.settings, self.surroundings.total)

    def _mind_the_clock(self, now: float, tick: float) -> None:
        """Wall clocks count time awake: a step of the clock moves the dates of the runs with it."""
        step = self._dates.step(now, tick)
        if step == 0.0:
            return
        for run in self.queue.runs():
            self.queue.update(replace(run, started_at=run.started_at + step))
        if step < 0:
            self._journal.say(f"the clock was set back by {format_duration(round(-step))}")
            self._wait_no_longer(now)
        self.starting.stale = True

    def reload(self) -> None:
        """Read spool.toml again."""
        if self.surroundings.look_at_settings(anyway=True):
            self._apply_settings()

    def patience(self, now: float, tick: float) -> float:
        """Seconds until something is due, if nothing happens before."""
        dues = [self._next_look, self.door.next_due, self.runs.next_due(tick), self._o.pool.next_look(tick)]
        if self.starting.look_again is not None:
            dues.append(tick + max(0.0, self.starting.look_again - now))
        if self.shelf.odd:
            dues.append(tick + ODD_S)
        if self.starting.stale:
            dues.append(tick)
        return max(0.0, min(due for due in dues if due is not None) - tick)

    def idle_for_good(self) -> bool:
        """Nothing is running, nothing waits at the door, and no ready job can start by itself any more."""
        if self.starting.stale or len(self.runs) or not self.door.empty or self.shelf.odd or self._resume.waiting:
            return False
        if self.starting.look_again is not None or self.starting.shut is not None:
            return False
        if self.surroundings.paused is not None:
            return True
        return not any(scheduler.eligible(self.queue, job, float("inf")) for job in self.queue.in_order()) and not self.shelf.missing_models()

    def say_what_is_left(self) -> None:
        left = self.queue.ready_count
        if not left:
            self._journal.say("nothing is left to do")
            return
        why = "they are on hold, or wait for such or for names that are not there"
        if self.surroundings.paused is not None:
            why = f"the spool is paused ({show(self.surroundings.paused)})"
        self._journal.say(f"{left} job{'s' if left > 1 else ''} left in ready/: {why}; `spoold why` explains each")

    def say_goodbye(self) -> None:
        names = ", ".join(run.name for run in self.queue.runs())
        self._journal.say(f"spoold ends; these go on under their supervisors: {names}" if names else "spoold ends")

    # one turn ---------------------------------------------------------------------------------------------------------

    def turn(self, now: float, tick: float) -> None:
        """Everything that can be done now.  `now` is the date, `tick` counts time awake."""
        if not self._o.owner.still_ours():
            self._own_again()
        self._mind_the_clock(now, tick)
        hints = self._o.watcher.drain()
        in_ready = {entry for label, entry in hints.names if label == Stage.READY.value}
        if in_ready or self.shelf.odd:
            self._guard("ready", lambda: self._look_at_shelf(now, tick, in_ready))
        if self._collect(now, tick):
            self._catch_up(now, tick)
            self.starting.decide(now, tick)
        self._put_away(now, tick)
        if self._resume.waiting:
            self._guard("recovery", lambda: self._resume.look(self.surroundings.settings, self.surroundings.total, tick))
            self._note(not self._resume.waiting)
        if hints.everything:
            self._times.forget()
            self._next_look = self._next_look_into = tick
        for label, entry in hints.names:
            if label == Stage.INCOMING.value:
                self.door.hint(Stage.INCOMING, entry, tick)
            elif label == ROOT or (label == Stage.RUNNING.value and self.runs.concerns_us(entry)):
                self._next_look = tick
        if self.starting.running_is_odd:
            self.starting.running_is_odd = False
            self._next_look = tick
        if tick >= self._next_look:
            self._look(now, tick)
        self._work_at_door(now, tick)
        if self.starting.due(now):
            self.starting.decide(now, tick)
        self._times.note_ready()

    def _catch_up(self, now: float, tick: float) -> None:
        """What a user did before a job ended counts for who is next, though the news of it may still be on its way."""
        self._guard("paused", lambda: self._note(self.surroundings.look_at_paused()))
        if self._times.ready_was_touched:
            self._guard("ready", lambda: self._look_at_shelf(now, tick))

    def _look_at_shelf(self, now: float, tick: float, names: Iterable[str] | None = None) -> None:
        self._newcomers.apply(self.shelf.look(self.surroundings.settings, self.surroundings.total, tick, names), now, tick)

    def _own_again(self) -> None:
        """The spool's .spoold/ was removed or made anew: whoever locks what is there now is its spooler.

        A spool that was moved away is another spooler's from now on, and what lies in its place is no spool of ours: nothing is made there.
        """
        if self._root_ident() != self._root:
            raise SpoolError(f"the spool has gone from {self._o.layout.root}: it was moved or removed; start again where it is now, running jobs go on")
        self._o.owner.drop()
        try:
            self._o.store.make_private()
        except OSError as error:
            raise SpoolError(f"the spool has gone: {error.filename}: {error.strerror}; start again when it is back") from error
        self._o.owner.take()
        self._o.pool.renew()
        self._journal.say("the spool's lock was removed and has been taken again")

    def _root_ident(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._o.layout.root)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _collect(self, now: float, tick: float) -> bool:
        """What supervisors said.  True if something became free."""
        freed = False
        for event in self._o.pool.collect(tick):
            active = self.runs.get(event.run)
            if active is None:
                if isinstance(event, RunEnded):
                    self._o.pool.retire(event.run)
            elif isinstance(event, Started):
                self._say_started(active, event)
                self.starting.calm()
            elif isinstance(event, Failed):
                self.starting.take_back(active, event.why, tick)
            elif self.runs.note_end(event.run, event.end, tick, self._dates.ended(event.end.ended_at)) is not None:
                freed = True
                if active.comes_back:
                    self._put_away(now, tick)
        return freed

    def _say_started(self, active: Active, event: Started) -> None:
        run = self.queue.run(active.run)
        held = {} if run is None else run.locks
        locks = " ".join(lock if units == ("0",) else f"{lock}:{','.join(units)}" for lock, units in held.items())
        memory = format_size(run.memory) if run is not None and run.memory else "none"
        self._journal.say(f"{active.job} ready -> running run={active.run} pid={event.pid} locks={locks or 'none'} memory={memory}")

    def _put_away(self, now: float, tick: float) -> None:
        for active, requeued in self.runs.finish_due(tick, now):
            self.starting.stale = True
            if isinstance(requeued, Requeued):
                self._resume.load(requeued.entry, self.surroundings.settings, self.surroundings.total, tick)
            else:
                # a user may have moved the file there while it ran
                self.door.hint(Stage.INCOMING, active.entry, tick)

    # users ------------------------------------------------------------------------------------------------------------

    def _work_at_door(self, now: float, tick: float) -> None:
        """Accept what is due, for a while."""
        if self.door.next_due is None or self.door.next_due > tick:
            return
        end = host.awake() + DOOR_TIME_S
        box = self.surroundings.box(tick)
        date = self._dates.date(now)
        for entry, taken in self.door.work(self.queue, self.surroundings.settings, box, now=date, tick=tick, more=lambda: host.awake() < end):
            self._taken(entry, taken, date, tick)

    def _taken(self, entry: str, taken: Taken, now: float, tick: float) -> None:
        match taken:
            case Accepted(job=job):
                self._dates.was_accepted(job.accepted_at)
                self.shelf.add(job, taken.entry, taken.ident, taken.data, History(accepted_at=job.accepted_at, claim=taken.claim))
                self._journal.say(f"{job.file.removesuffix('.toml')} {taken.origin.partition('/')[0]} -> ready uid={taken.uid}")
                self._newcomers.check(job, now, tick)
                self.starting.stale = True
            case Refused():
                self._refusing.owe(taken.entry, taken.why, not taken.why_owed)
                self._journal.say(f"{show(entry)} {taken.origin.partition('/')[0]} -> refused: {taken.why}")
                self._note_refused(entry, taken.entry, now)
                self.starting.stale = True
            case Gone() | Later():
                pass

    def _note_refused(self, entry: str, refused_as: str, now: float) -> None:
        """For those that wait: a job of this NAME has ended without having run."""
        try:
            name = parse_file_name(plain_name(entry))
        except BadNameError:
            return
        self.queue.note_end(Ended(seq=name.seq or 0, name=name.name, at=self._dates.date(now), how=Fate.REFUSED, file=f"refused/{refused_as}"))

    # looking around ---------------------------------------------------------------------------------------------------

    def _look(self, now: float, tick: float) -> None:
        """Compare what is known with the disk, cheaply: a directory is listed when its time has changed."""
        self._next_look = tick + LOOK_S
        around = self.surroundings
        if around.look_at_settings():
            self._apply_settings()
        self._guard("paused", lambda: self._note(around.look_at_paused()))
        self._guard("disk", lambda: self._note(around.look_at_disk()))
        self._guard("watcher", around.look_at_watcher)
        self._guard("memory", lambda: self._guarding.look(tick))
        self._guard("retention", lambda: self._retention.look(around.settings, now, tick))
        if self._retention.busy:
            self._next_look = tick + BITE_S
        self._guard("incoming", lambda: self._times.if_changed(Stage.INCOMING, tick, lambda: self.door.list(tick)))
        self.door.name_litter(tick)
        self._guard("running", lambda: self._look_at_running(now, tick))
        self._guard("ready", lambda: self._look_at_ready(now, tick))
        self._guard("refused", lambda: self._times.if_changed(Stage.REFUSED, tick, self._o.store.sweep_whys))
        self._guard("reasons", self._refusing.pay)
        unsynced = self._o.store.unsynced
        self._journal.once("sync", None if unsynced is None else f"the last moves may not outlive a power cut: {unsynced}")
        if tick >= self._next_models:
            began = host.awake()
            self._note(self.shelf.look_for_models(around.settings, around.total))
            self._next_models = tick + SCAN_SHARE * (host.awake() - began)
        self.starting.reopen(tick)
        # memory may have become free without an event of ours
        self._note(self.queue.ready_count > 0)

    def _note(self, changed: bool) -> None:
        """Something that may change the next decision."""
        if changed:
            self.starting.stale = True

    def _look_at_ready(self, now: float, tick: float) -> None:
        settings, total = self.surroundings.settings, self.surroundings.total
        if tick >= self._next_look_into:
            began = host.awake()
            self._newcomers.apply(self.shelf.look_into(settings, total, tick), now, tick)
            self._next_look_into = tick + max(LOOK_INTO_S, SCAN_SHARE * (host.awake() - began))
            self.queue.forget()
            self.starting.forget()
        self._times.if_changed(Stage.READY, tick, lambda: self._look_at_shelf(now, tick))

    def _look_at_running(self, now: float, tick: float) -> None:
        for entry in self.runs.look(tick):
            if not self._resume.is_stray(entry):
                self._newcomers.refuse_entry(Stage.RUNNING, entry, "only the spooler starts jobs: put it into incoming/ to have it queued")
        due = self.runs.next_due(tick)
        if due is not None:
            self._next_look = min(self._next_look, due)

    def _apply_settings(self) -> None:
        settings = self.surroundings.settings
        self._o.store.durable = settings.durability is Durability.FULL
        self.shelf.read_again(settings, self.surroundings.total)
        self._retention.again()
        self.starting.stale = True

    def _guard(self, what: str, step: Callable[[], object]) -> None:
        """One step; trouble with the disk is said once and costs that step only."""
        try:
            step()
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            self._journal.once(f"guard {what}", f"{what}: {error.strerror or error}{where}; tried again")
        else:
            self._journal.once(f"guard {what}", None)

    def _model_bytes(self, job: Job) -> int | None:
        return model_bytes(job, self.surroundings.settings.cwd)
