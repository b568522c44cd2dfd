"""crank - one turn: what ended, who starts, what is put away, what users changed, what was dropped, who starts now.

Owns the order of the steps of a turn, and what is asked again when.  Holds no rule that could be stated about a `Queue`.
Fails: never; each step's trouble with the disk is said once, and the step is tried again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from jobspec.names import show
from jobspec.spec import Job
from jobspec.units import format_size
from spoold import dependencies, host, scheduler
from spoold.admission import History, make_box, never
from spoold.archive import names_of
from spoold.door import Door
from spoold.errors import SpoolError
from spoold.explanation import blockers
from spoold.identity import login_environment
from spoold.journal import Journal
from spoold.ledger import Ledger
from spoold.meter import disk_free
from spoold.model import Box, Ended, Fate, Queue, Ready, Refuse, Running, Stage, Start
from spoold.modelsize import model_bytes
from spoold.opening import Opened
from spoold.orders import make_order
from spoold.pickup import Accepted, Gone, Later, Pickup, Refused, Taken
from spoold.pool import Ended as RunEnded
from spoold.pool import Failed, Started
from spoold.resume import Resume
from spoold.runs import Active, Requeued, Runs
from spoold.settings import Durability, Settings, SettingsError, parse_settings
from spoold.shelf import Changes, Shelf
from spoold.store import held_name
from spoold.survey import read_paused, resolve_ends

LOOK_S: Final = 1.0
"""How often directories are compared with what is known, should an event be lost."""
LOOK_INTO_S: Final = 60.0
"""How often every file in ready/ is: an edit in place changes no directory."""
SCAN_SHARE: Final = 100
"""A scan that took so long is not repeated before a hundred times that has passed."""
DOOR_TIME_S: Final = 0.010
"""How long a turn accepts before it looks again who may start."""
MOST_WAITS: Final = 20
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0


class Crank:
    """A spooler's state between two turns; all of it is rebuilt from the disk by `recover`."""

    def __init__(self, opened: Opened, journal: Journal) -> None:
        self._o = opened
        self._journal = journal
        self.settings = opened.settings
        self.queue = Queue()
        self.shelf = Shelf(opened.store, self.queue, model_bytes=self._model_bytes)
        self.runs = Runs(opened.layout, opened.store, opened.pool, self.queue, journal, on_refused=self._owe_why)
        self._pickup = Pickup(opened.store, model_bytes=self._model_bytes, being_run=lambda ident: self.runs.owns(ident.dev, ident.ino))
        self.door = Door(opened.store, self._pickup, journal)
        self.ledger = Ledger(opened.store)
        self._identity = login_environment()
        self._owed: dict[str, str] = {}
        self._waits: dict[str, dict[str, None]] = {}
        self._mtimes: dict[Stage, int] = {}
        self._next_look = 0.0
        self._next_look_into = 0.0
        self._next_list: dict[Stage, float] = {}
        self._look_again: float | None = None
        self._stale = True
        self._pause_s = FIRST_PAUSE_S
        self._shut_until = 0.0
        self._shut_why: str | None = None
        self._paused: str | None = None
        self._closed: str | None = None
        self._settings_mtime: int | None = self._settings_stamp()
        self._box_total = 0
        self._resume = Resume(
            opened.layout, opened.store, opened.pool, opened.archive, self.queue, self.runs, self.shelf, self.door, self.ledger, journal
        )

    # what the daemon asks ---------------------------------------------------------------------------------------------

    def fds(self) -> list[int]:
        """Descriptors that become readable when there is something to do."""
        return [self._o.watcher.fd, *self._o.pool.fds()]

    def recover(self) -> None:
        """Read the spool and go on where an earlier spooler left it."""
        tick = host.awake()
        self.box(tick)
        self._resume.recover(self.settings, self._total(), tick)
        resolve_ends(self.queue, self._o.archive)
        self._pickup.remember_last(self._o.archive.highest_seq)
        for job in [job for job in self.queue.conditional() if job.waits_for_jobs]:
            self._check_new(job, time.time(), tick)
        self._stale = True

    def reload(self) -> None:
        """Read spool.toml again."""
        self._settings_mtime = None
        self._look_at_settings()

    def patience(self, now: float, tick: float) -> float:
        """Seconds until something is due, if nothing happens before."""
        dues = [self._next_look, self.door.next_due, self.runs.next_due(tick), self._o.pool.next_look(tick)]
        if self._look_again is not None:
            dues.append(tick + max(0.0, self._look_again - now))
        if self.shelf.odd:
            dues.append(tick + 0.25)
        if self._stale:
            dues.append(tick)
        return max(0.0, min(due for due in dues if due is not None) - tick)

    def idle_for_good(self) -> bool:
        """Nothing is running, nothing waits at the door, and no ready job can start by itself any more."""
        if self._stale or len(self.runs) or not self.door.empty or self.shelf.odd or self._resume.waiting:
            return False
        if self._look_again is not None or self._shut_why is not None:
            return False
        if self._paused is not None:
            return True
        return not any(scheduler.eligible(self.queue, job, float("inf")) for job in self.queue.in_order()) and not self.shelf.missing_models()

    def say_what_is_left(self) -> None:
        left = self.queue.ready_count
        if left:
            why = f"the spool is paused ({show(self._paused)})" if self._paused else "they are on hold, or wait for such or for names that are not there"
            self._journal.say(f"{left} job{'s' if left > 1 else ''} left in ready/: {why}; `spoold why` explains each")
        else:
            self._journal.say("nothing is left to do")

    def say_goodbye(self) -> None:
        names = ", ".join(run.name for run in self.queue.runs())
        self._journal.say(f"spoold ends; these go on under their supervisors: {names}" if names else "spoold ends")

    # one turn ---------------------------------------------------------------------------------------------------------

    def turn(self, now: float, tick: float) -> None:
        """Everything that can be done now.  `now` is the date, `tick` counts time awake."""
        if not self._o.owner.still_ours():
            self._own_again()
        hints = self._o.watcher.drain()
        if self._collect(now, tick):
            self._decide(now, tick)
        self._put_away(now, tick)
        if hints.everything:
            self._mtimes.clear()
            self._next_look = self._next_look_into = tick
        ready_hints = set()
        for label, entry in hints.names:
            if label == Stage.INCOMING.value:
                self.door.hint(Stage.INCOMING, entry, tick)
            elif label == Stage.READY.value:
                ready_hints.add(entry)
            elif label != Stage.RUNNING.value or self.runs.concerns_us(entry):
                self._next_look = tick
        if ready_hints or self.shelf.odd:
            self._guard("ready", lambda: self._apply(self.shelf.look(self.settings, self._total(), tick, ready_hints), now, tick))
        if tick >= self._next_look:
            self._look(now, tick)
        self._work_at_door(now, tick)
        if self._stale or (self._look_again is not None and self._look_again <= now):
            self._decide(now, tick)

    def _own_again(self) -> None:
        """The spool was removed and made anew, or its .spoold/ was: whoever locks what is there now is its spooler."""
        self._o.owner.drop()
        try:
            self._o.store.make_private()
        except OSError as error:
            raise SpoolError(f"the spool has gone: {error.filename}: {error.strerror}; start again when it is back") from error
        self._o.owner.take()
        self._o.pool.renew()
        self._journal.say("the spool's lock was removed and has been taken again")

    def _collect(self, now: float, tick: float) -> bool:
        """What supervisors said.  True if something became free."""
        freed = False
        for event in self._o.pool.collect(tick):
            active = self.runs.get(event.run)
            if active is None:
                if isinstance(event, RunEnded):
                    self._o.pool.retire(event.run)
                continue
            if isinstance(event, Started):
                self._say_started(active, event)
                self._calm()
            elif isinstance(event, Failed):
                self._take_back(active, event.why, tick)
            elif isinstance(event, RunEnded) and self.runs.note_end(event.run, event.end, tick) is not None:
                freed = self._stale = True
        # an end decides about others: put it on record in the queue before anybody is chosen
        if freed:
            self._put_away(now, tick)
        return freed

    def _say_started(self, active: Active, event: Started) -> None:
        run = self.queue.run(active.run)
        locks = "" if run is None else " ".join(f"{lock}:{','.join(units)}" if units != ("0",) else lock for lock, units in run.locks.items())
        memory = format_size(run.memory) if run is not None and run.memory else "none"
        self._journal.say(f"{active.job} ready -> running run={active.run} pid={event.pid} locks={locks or 'none'} memory={memory}")

    def _put_away(self, now: float, tick: float) -> None:
        for active, requeued in self.runs.finish_due(tick, now):
            self._stale = True
            if isinstance(requeued, Requeued):
                self._guard("ready", lambda r=requeued: self._resume.load(r.entry, self.settings, self._total(), tick))  # type: ignore[misc]
            else:
                self.door.hint(Stage.INCOMING, active.entry, tick)

    # deciding and starting --------------------------------------------------------------------------------------------

    def _total(self) -> int:
        """Bytes of RAM; they were read before the first job was."""
        return self._box_total

    def box(self, tick: float) -> Box:
        """The box now."""
        reading = self._o.meter.read(tick)
        self._box_total = reading.total
        available = None if reading.available is None or (reading.old and tick - reading.at > 60) else reading.available
        return make_box(self.settings, total=reading.total, available=available, paused=self._paused, closed=self._closed or self._shut_why)

    def _measure(self) -> None:
        """What the runs use now: asked only when somebody's memory depends on it."""
        for run in self.queue.runs():
            figures = self._o.pool.figures(run.run) if run.memory else None
            if figures is not None and figures.memory != run.used:
                self.queue.update(replace(run, used=figures.memory))

    def _decide(self, now: float, tick: float) -> None:
        """Refuse, start, and again until nothing changes: a refusal may let others go on."""
        if self._shut_why is not None and tick >= self._shut_until:
            self._shut_why = None
        for _ in range(100):
            self._stale = False
            self._measure()
            decision = scheduler.decide(self.queue, self.box(tick), now)
            self._look_again = decision.look_again
            self._note_waits(decision.blocked, tick)
            for refuse in decision.refuse:
                self._refuse(refuse, now)
            for start in decision.start:
                self._start(start, now, tick)
                if self._shut_why is not None:
                    return
            if not decision.refuse:
                return

    def _note_waits(self, blocked: list[Ready], tick: float) -> None:
        """Remember for the trace who kept the foremost jobs waiting."""
        if not blocked or self._paused is not None:
            return
        box = self.box(tick)
        for job in blocked:
            waits = self._waits.setdefault(job.name, {})
            if len(waits) < MOST_WAITS:
                waits.update(dict.fromkeys(blockers(self.queue, box, job)))

    def _start(self, verdict: Start, now: float, tick: float) -> None:
        job = verdict.job
        item = self.shelf.item(job.key)
        assert item is not None
        store = self._o.store
        try:
            opened = store.open_own(self._o.layout.entry(Stage.READY, item.entry))
            if opened.data is None or opened.writer or hash(opened.data) != item.digest:
                self.shelf.doubt(job.key)
                return
            run = self._o.pool.next_run()
            waited_for = [*dependencies.answered_by(self.queue, job), *self._waits.get(job.name, ())]
            order = make_order(
                job, run, opened.data, verdict.locks,
                settings=self.settings, layout=self._o.layout, identity=self._identity, now=now, waited_for=waited_for,
            )  # fmt: skip
            ident = store.begin(item.entry)
        except FileNotFoundError:
            self.shelf.doubt(job.key)
            return
        except FileExistsError:
            # somebody put a file of that name into running/ himself: it goes first, then this one starts
            self.shelf.doubt(job.key)
            self._next_look = tick
            return
        except OSError as error:
            self._shut(f"{job.file} cannot be moved to running/: {error.strerror or error}", tick)
            return
        if not ident.same_file(opened.ident):
            self._guard("ready", lambda: store.back_to_ready(item.entry))
            self.shelf.doubt(job.key)
            return
        self._waits.pop(job.name, None)
        self.shelf.remove(job.key)
        self.queue.start(
            Running(
                seq=job.seq, name=job.name, file=job.file, run=run, started_at=now, wall_s=job.wall_s, grace_s=job.grace_s,
                locks=verdict.locks, memory=job.memory or 0,
            )
        )  # fmt: skip
        active = Active(run, order.job, job.name, job.seq, item.entry, -1, (ident.dev, ident.ino))
        self.runs.add(active)
        try:
            active.slot = self._o.pool.start(order)
        except (SpoolError, OSError) as error:
            self._take_back(active, str(error), tick)

    def _take_back(self, active: Active, why: str, tick: float) -> None:
        """The command was not executed: the job waits for its turn again, and nothing starts for a while."""
        self.queue.end(active.run)
        self.runs.drop(active.run)
        try:
            self._o.store.back_to_ready(active.entry)
        except OSError as error:
            self._resume.add_stray(active.entry)
            self._journal.say(f"{active.job} stays in running/ for now: {error.strerror or error}")
        else:
            self._guard("ready", lambda: self._resume.load(active.entry, self.settings, self._total(), tick))
        self._shut(f"{active.job} could not be started: {why}", tick)

    def _shut(self, why: str, tick: float) -> None:
        """The spool or the box fails: nothing starts for a while, longer each time."""
        self._shut_why = why
        self._shut_until = tick + self._pause_s
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
        self._journal.once("shut", why)
        self._stale = False

    def _calm(self) -> None:
        if self._pause_s != FIRST_PAUSE_S:
            self._pause_s = FIRST_PAUSE_S
            self._journal.once("shut", None)

    def _refuse(self, refuse: Refuse, now: float) -> None:
        """ready/ -> refused/."""
        item = self.shelf.item(refuse.job.key)
        if item is None:
            return
        try:
            name, written = self._o.store.refuse(self._o.layout.entry(Stage.READY, item.entry), plain_name(item.entry), refuse.why)
        except FileNotFoundError:
            self.shelf.doubt(refuse.job.key)
            return
        except OSError as error:
            self._journal.once("refuse", f"{refuse.job.file} cannot be refused: {error.strerror or error}; tried again")
            self.shelf.doubt(refuse.job.key)
            return
        self.shelf.remove(refuse.job.key)
        self._owe_why(name, refuse.why, written)
        self._journal.say(f"{refuse.job.file.removesuffix('.toml')} ready -> refused: {refuse.why}")
        self.queue.note_end(Ended(seq=refuse.job.seq, name=refuse.job.name, at=now, how=Fate.REFUSED, file=f"refused/{name}"))
        self._stale = True

    def _owe_why(self, name: str, why: str, written: bool) -> None:
        if not written:
            self._owed[name] = why

    # users ------------------------------------------------------------------------------------------------------------

    def _apply(self, changes: Changes, now: float, tick: float) -> None:
        """What users did in ready/, as far as others are concerned."""
        if not changes:
            return
        self._stale = True
        for old, new in changes.renamed:
            if old.key != new.key or old.held != new.held:
                self._journal.say(f"{old.file.removesuffix('.toml')} ready -> ready as {new.file}")
        for job in changes.withdrawn:
            self._journal.say(f"{job.file.removesuffix('.toml')} was taken out of ready/: withdrawn")
            if self.queue.waiting_for(job.name):
                self.ledger.add(job.name, now)
            self.queue.note_end(Ended(seq=job.seq, name=job.name, at=now, how=Fate.WITHDRAWN))
        for entry, why in changes.broken:
            self._refuse_entry(Stage.READY, entry, plain_name(entry), why, now)
        for entry in changes.foreign:
            self.door.hint(Stage.READY, entry, tick)
        for job in (*changes.changed, *(new for _, new in changes.renamed)):
            self._check_new(job, now, tick)

    def _check_new(self, job: Ready, now: float, tick: float) -> None:
        """A job that is new in the queue, or that says something new: impossible, or part of a cycle?"""
        current = self.queue.live(job.name)
        if not isinstance(current, Ready):
            return
        if current.waits_for_jobs:
            resolve_ends(self.queue, self._o.archive, only=current)
        problems = never(current, self.box(tick))
        if problems:
            self._refuse(Refuse(current, "; ".join(problems)), now)
            return
        cycle = dependencies.find_cycle(self.queue, current)
        if cycle is not None:
            text = dependencies.cycle_text(cycle)
            for name in cycle:
                member = self.queue.live(name)
                if isinstance(member, Ready):
                    self._refuse(Refuse(member, text), now)

    def _refuse_entry(self, stage: Stage, entry: str, wanted: str, why: str, now: float) -> None:
        try:
            name, written = self._o.store.refuse(self._o.layout.entry(stage, entry), wanted, why)
        except FileNotFoundError:
            return
        except OSError as error:
            self._journal.once(f"refuse {entry}", f"{stage.value}/{show(entry)} cannot be refused: {error.strerror or error}")
            return
        self._owe_why(name, why, written)
        self._journal.say(f"{show(entry)} {stage.value} -> refused: {why}")
        self._stale = True

    def _work_at_door(self, now: float, tick: float) -> None:
        """Accept what is due, for a while."""
        if self.door.next_due is None or self.door.next_due > tick:
            return
        end = host.awake() + DOOR_TIME_S
        for stage, entry, taken in self.door.work(self.queue, self.settings, self.box(tick), now=now, tick=tick, more=lambda: host.awake() < end):
            self._taken(stage, entry, taken, now, tick)

    def _taken(self, stage: Stage | None, entry: str, taken: Taken, now: float, tick: float) -> None:
        match taken:
            case Accepted(job=job):
                self.shelf.add(job, taken.entry, taken.ident, taken.data, History(accepted_at=job.accepted_at, claim=taken.claim))
                self._journal.say(f"{job.file.removesuffix('.toml')} {taken.origin.partition('/')[0]} -> ready uid={taken.uid}")
                self._check_new(job, now, tick)
                self._stale = True
            case Refused():
                self._owe_why(taken.entry, taken.why, not taken.why_owed)
                self._journal.say(f"{show(entry)} {taken.origin.partition('/')[0]} -> refused: {taken.why}")
                for seq, name in names_of(taken.entry):
                    self.queue.note_end(Ended(seq=seq or 0, name=name, at=now, how=Fate.REFUSED, file=f"refused/{taken.entry}"))
                self._stale = True
            case Gone() | Later():
                pass

    # looking around ---------------------------------------------------------------------------------------------------

    def _look(self, now: float, tick: float) -> None:
        """Compare what is known with the disk, cheaply: a directory is listed when its time has changed."""
        self._next_look = tick + LOOK_S
        self._look_at_settings()
        self._guard("paused", self._look_at_paused)
        self._guard("disk", self._look_at_disk)
        self._guard("watcher", self._look_at_watcher)
        self._guard("incoming", lambda: self._if_changed(Stage.INCOMING, tick, lambda: self.door.list(tick)))
        self.door.name_litter(tick)
        self._guard("running", lambda: self._look_at_running(now, tick))
        self._guard("ready", lambda: self._look_at_ready(now, tick))
        self._guard("refused", lambda: self._if_changed(Stage.REFUSED, tick, self._look_at_refused))
        self._guard("recovery", lambda: self._resume.look(self.settings, self._total(), tick))
        if self.shelf.missing_models():
            self._stale |= bool(self.shelf.read_again(self.settings, self._total()))
        if self._shut_why is not None and tick >= self._shut_until:
            self._stale = True
        if self.queue.ready_count:
            # memory may have become free without an event of ours
            self._stale = True

    def _if_changed(self, stage: Stage, tick: float, scan: Callable[[], None]) -> None:
        """Scan a directory if its time has changed since the last scan; a large one not too often."""
        path = self._o.layout.stage(stage)
        mtime = os.stat(path).st_mtime_ns
        if self._mtimes.get(stage) == mtime or tick < self._next_list.get(stage, 0.0):
            return
        began = host.awake()
        scan()
        cost = host.awake() - began
        self._next_list[stage] = tick + SCAN_SHARE * cost
        # a change within the clock's grain after the scan would leave the same time: such a young one is looked at again
        self._mtimes[stage] = mtime if time.time_ns() - mtime > 2_000_000_000 else -1

    def _look_at_ready(self, now: float, tick: float) -> None:
        if tick >= self._next_look_into:
            began = host.awake()
            self._apply(self.shelf.look_into(self.settings, self._total(), tick), now, tick)
            self._next_look_into = tick + max(LOOK_INTO_S, SCAN_SHARE * (host.awake() - began))
            self.queue.forget()
            self._waits = {name: waits for name, waits in self._waits.items() if self.queue.live(name) is not None}
        self._if_changed(Stage.READY, tick, lambda: self._apply(self.shelf.look(self.settings, self._total(), tick), now, tick))

    def _look_at_running(self, now: float, tick: float) -> None:
        for entry in self.runs.look(tick):
            if self._resume.is_stray(entry):
                continue
            self._refuse_entry(Stage.RUNNING, entry, entry, "only the spooler starts jobs: put it into incoming/ to have it queued", now)

    def _look_at_refused(self) -> None:
        self._o.store.sweep_whys()
        for name, why in list(self._owed.items()):
            if self._o.store.write_why(name, why):
                del self._owed[name]

    def _look_at_paused(self) -> None:
        paused = read_paused(self._o.layout)
        if paused != self._paused:
            self._journal.say(f"paused: {show(paused)}" if paused is not None else "goes on: PAUSED is gone")
            self._paused = paused
            self._stale = True

    def _look_at_disk(self) -> None:
        free = disk_free(self._o.layout.root)
        floor = self.settings.disk_floor
        closed = f"the spool's disk is nearly full, less than the [disk] floor of {format_size(floor)} is free" if free < floor else None
        self._journal.once("disk", closed)
        if closed != self._closed:
            self._closed = closed
            self._stale = True

    def _look_at_watcher(self) -> None:
        healthy = self._o.watcher.healthy()
        why = None if healthy and not self._o.watcher.why else self._o.watcher.why or "some directories cannot be watched"
        self._journal.once("watcher", None if why is None else f"changes are found by looking once a second: {why}")

    def _settings_stamp(self) -> int | None:
        try:
            found = os.stat(self._o.layout.settings)
        except OSError:
            return None
        return found.st_mtime_ns ^ found.st_ino ^ found.st_size

    def _look_at_settings(self) -> None:
        stamp = self._settings_stamp()
        if stamp == self._settings_mtime:
            return
        self._settings_mtime = stamp
        try:
            with open(self._o.layout.settings, "rb") as file:
                settings = parse_settings(file.read(1024 * 1024))
        except FileNotFoundError:
            settings = Settings()
        except (SettingsError, OSError) as error:
            self._journal.once("settings", f"spool.toml: {error}; the last good settings stay in force")
            return
        self._journal.once("settings", None)
        if settings == self.settings:
            return
        self._journal.say("spool.toml has changed: the new settings are in force")
        self.settings = settings
        self._o.store.durable = settings.durability is Durability.FULL
        self.shelf.read_again(settings, self._total())
        self._stale = True

    def _guard(self, what: str, step: Callable[[], object]) -> None:
        """One step; trouble with the disk is said once and costs that step only."""
        try:
            step()
        except OSError as error:
            self._journal.once(f"guard {what}", f"{what}: {error.strerror or error}{f' ({error.filename})' if error.filename else ''}; tried again")
        else:
            self._journal.once(f"guard {what}", None)

    def _model_bytes(self, job: Job) -> int | None:
        return model_bytes(job, self.settings.cwd)


def plain_name(entry: str) -> str:
    """The job file's name of an entry in ready/ that may be on hold."""
    return held_name(entry) or entry
