"""resume - going on where an earlier spooler left off: run records, strays in running/, ready/, claims.

Owns the order of recovery: runs first, since an unretired start record forbids a second start wherever the job's file lies; then running/ and ready/;
then what was claimed and not accepted.  What each leftover means is `recovery`'s, where a run's file lies is `whereabouts`'.  Never guesses while a
supervisor may still be writing its record.  Fails: OSError if the spool cannot be read at the start; later each step is tried again.
"""

from __future__ import annotations

import os
from dataclasses import replace

from jobspec import trace
from jobspec.names import is_candidate, show
from spoold import host
from spoold.active import active_from_record, inode_of, running_from_record
from spoold.admission import read_history
from spoold.archive import Archive
from spoold.door import Door
from spoold.journal import Journal
from spoold.layout import Layout
from spoold.ledger import Ledger
from spoold.model import Outcome, Queue, Ready, Running, Stage, is_glob
from spoold.pool import Pool
from spoold.records import RunRecord, StartRecord
from spoold.recovery import Leftover, Step, Stray, recover, recover_stray
from spoold.runs import Runs
from spoold.settings import Settings
from spoold.shelf import Shelf
from spoold.store import Store, held_name
from spoold.survey import resolve_ends
from spoold.whereabouts import Found, Whereabouts


class Resume:
    """Recovery at the start, and of strays until the last supervisor of an earlier spooler has settled."""

    def __init__(
        self, layout: Layout, store: Store, pool: Pool, archive: Archive, queue: Queue, runs: Runs, shelf: Shelf, door: Door, ledger: Ledger, journal: Journal
    ) -> None:
        self._layout = layout
        self._store = store
        self._pool = pool
        self._archive = archive
        self._queue = queue
        self._runs = runs
        self._shelf = shelf
        self._door = door
        self._ledger = ledger
        self._journal = journal
        self._strays: set[str] = set()
        self._adopted: set[int] = set()
        self._unsettled = False

    @property
    def waiting(self) -> bool:
        """Not everything that an earlier spooler left is where it belongs."""
        return bool(self._strays) or self._unsettled

    @property
    def unsettled(self) -> str | None:
        """Why nothing may start yet: what a job that is about to begin will hold is not known."""
        return "a supervisor of the spooler before may still be about to start a job" if self._unsettled else None

    def is_stray(self, entry: str) -> bool:
        """This file in running/ is being taken care of here."""
        return entry in self._strays

    def add_stray(self, entry: str) -> None:
        """A file of ours in running/ whose command was never executed and which could not be moved back."""
        self._strays.add(entry)

    def recover(self, settings: Settings, total: int, tick: float) -> None:
        """Everything, once, at the start."""
        whereabouts = Whereabouts(self._store, self._archive)
        for path in whereabouts.finish_moves():
            self._journal.say(f"{show(path)} was the rest of a move that was cut off: removed")
        self._unsettled = self._pool.settling()
        self._adopt_runs(whereabouts)
        self._strays = {entry for entry in self._store.stage_entries(Stage.RUNNING) if is_candidate(entry)} - self._runs.entries()
        self._look_at_strays(settings, total, tick)
        for entry in sorted(self._store.stage_entries(Stage.READY)):
            if is_candidate(entry) or held_name(entry) is not None:
                self.load(entry, settings, total, tick)
        self._archive.refresh()
        asked = {name for job in self._queue.conditional() for name in job.job.after + job.job.after_ok + job.job.after_failed if not is_glob(name)}
        for ended in self._ledger.read(asked):
            self._queue.note_end(ended)
        live = [record.start for record, _ in self._pool.scan().values() if record.start is not None and record.live]
        for claim in self._store.entries(self._layout.claims):
            if whereabouts.published(claim, live):
                self._store.discard(self._store.claim_path(claim))
            else:
                self._door.left_claim(claim, tick)

    def load(self, entry: str, settings: Settings, total: int, tick: float) -> None:
        """A file in ready/ enters the queue; what was never accepted goes through the door.  That of a run comes when the run has ended."""
        inode = inode_of(self._layout.entry(Stage.READY, entry))
        if inode is None or self._runs.owns(*inode) or self._shelf.knows(entry):
            return
        try:
            why = self._shelf.load(entry, settings, total)
        except OSError as error:
            self._journal.once(f"ready/{entry}", f"ready/{show(entry)} cannot be read: {error.strerror or error}")
            return
        if why is not None:
            self._door.hint(Stage.READY, entry, tick)
            return
        item = self._shelf.at(entry)
        if item is not None and item.ready.waits_for_jobs:
            # whom it waits for may have ended long ago: the queue only knows the ends that somebody asked about
            resolve_ends(self._queue, self._archive, only=item.ready)

    # runs -------------------------------------------------------------------------------------------------------------

    def _adopt_runs(self, whereabouts: Whereabouts) -> None:
        boot = host.boot_id()
        newer: list[StartRecord] = []
        scan = self._pool.scan().items()
        live = [(slot, record, record.start) for slot, (record, _) in scan if record.start is not None and record.live]
        # the newest first: where two runs of one job were not retired, the job's file is that of the later one
        for slot, record, start in sorted(live, key=lambda found: -found[2].run):
            if start.run in self._adopted or self._runs.get(start.run) is not None:
                newer.append(start)
                continue
            same_boot = start.boot == boot
            found = whereabouts.of(start, newer, same_boot=same_boot)
            newer.append(start)
            self._adopted.add(start.run)
            step = recover(Leftover(found.stage, found.accounted, same_boot))
            if step is Step.FORGET:
                if found.stage is Stage.REFUSED:
                    self._take_to_done(start, found.entry)
                # nobody waits for this run: it is retired as soon as the pool tells of its end
                self._pool.adopt(slot, record)
                continue
            self._adopt(slot, record, start, step, found)

    def _take_to_done(self, start: StartRecord, entry: str) -> None:
        """A user put it into refused/ when its account was in it and the last rename was missing: refused/ is for what never ran."""
        name = self._store.move_to_free(self._layout.entry(Stage.REFUSED, entry), Stage.DONE, entry)
        self._store.sync_dirs(self._layout.stage(Stage.DONE), self._layout.stage(Stage.REFUSED))
        self._journal.say(f"{start.job} refused -> done run={start.run} file={name}")

    def _adopt(self, slot: int, record: RunRecord, start: StartRecord, step: Step, found: Found) -> None:
        active = active_from_record(slot, record)
        stage, entry = found.stage, found.entry
        if step is Step.ADVANCE and stage is not None:
            self._store.move_by_hand(stage, entry, Stage.RUNNING, start.file)
            stage, entry = Stage.RUNNING, start.file
        if stage is not None:
            self._runs.found(active, self._layout.entry(stage, entry))
        active.astray = stage is not Stage.RUNNING
        if record.end is None:
            # one that has ended holds nothing any more, and another may have got what it held
            self._queue.start(self._room_for(running_from_record(record)))
        self._runs.add(active)
        self._pool.adopt(slot, record)
        said = "has ended" if record.end is not None else "goes on"
        self._journal.say(f"{start.job} run={start.run} of an earlier spooler {said}")
        if step in (Step.REQUEUE, Step.STOP) and record.end is None:
            active.stopping = True
            self._journal.say(f"{start.job} was taken out of running/: stopping run={start.run}")
            self._pool.stop(start.run, Outcome.STOPPED.value)

    def _room_for(self, run: Running) -> Running:
        """The run as the queue can take it.  A ready job of its NAME was put there meanwhile: the door tells its owner that it is the second.

        A run of its NAME, or with units of its locks, is a later one that began when this one was gone and the disk did not let it be put away.
        """
        clash = self._queue.clash(run.name)
        if isinstance(clash, Ready):
            item = self._shelf.remove(clash.key)
            self._door.hint(Stage.READY, item.entry, host.awake())
        name = f"{run.name}~{run.run}" if isinstance(clash, Running) else run.name
        taken = {(lock, unit) for other in self._queue.runs() for lock, units in other.locks.items() for unit in units}
        locks = {lock: tuple(unit for unit in units if (lock, unit) not in taken) for lock, units in run.locks.items()}
        return replace(run, name=name, locks=locks)

    # strays and claims ------------------------------------------------------------------------------------------------

    def look(self, settings: Settings, total: int, tick: float) -> None:
        """Go on with what could not be settled before."""
        if self._unsettled:
            self._unsettled = self._pool.settling()
            self._journal.once("unsettled", self.unsettled)
            if not self._unsettled:
                # whatever was on its way when the last spooler died has begun by now, or never will
                self._adopt_runs(Whereabouts(self._store, self._archive))
        self._look_at_strays(settings, total, tick)

    def _look_at_strays(self, settings: Settings, total: int, tick: float) -> None:
        for entry in sorted(self._strays):
            self._look_at_stray(entry, settings, total, tick)

    def _look_at_stray(self, entry: str, settings: Settings, total: int, tick: float) -> None:
        """A file in running/ without a run: put it where it belongs, as soon as nobody can be about to start it."""
        path = self._layout.entry(Stage.RUNNING, entry)
        if not os.path.lexists(path) or entry in self._runs.entries():
            self._strays.discard(entry)
            return
        try:
            data = self._store.open_own(path).data
        except OSError:
            data = None
        entries = () if data is None else trace.read(data)
        ended = bool(entries) and entries[-1].get("step") == "ended"
        waits = bool(entries) and not ended and read_history(entries) is not None
        try:
            match recover_stray(settling=self._unsettled, waits=waits, ended=ended):
                case Stray.WAIT:
                    return
                case Stray.BACK:
                    self._store.back_to_ready(entry)
                    self._journal.say(f"{entry.removesuffix('.toml')} running -> ready: its command was never executed")
                    self.load(entry, settings, total, tick)
                case Stray.FINISH:
                    name = self._store.finish(entry)
                    self._journal.say(f"{entry.removesuffix('.toml')} running -> done file={name}")
                case Stray.REFUSE:
                    pass
        except FileExistsError:
            # somebody put another file in its place: it is refused as any file that appears in running/
            pass
        except OSError as error:
            self._journal.once(f"running/{entry}", f"running/{show(entry)} cannot be put away: {error.strerror or error}; tried again")
            return
        self._journal.once(f"running/{entry}", None)
        # what a user put there is no stray any more, and is refused as any file that appears in running/
        self._strays.discard(entry)
