"""resume - going on where an earlier spooler left off: run records, strays in running/, ready/, claims.

Owns the order of recovery: runs first, since an unretired start record forbids a second start wherever the job's file lies; then running/ and ready/;
then what was claimed and not accepted.  What each leftover means is `recovery`'s.  Never guesses while a supervisor may still be writing its record.
"""

from __future__ import annotations

import os

from jobspec import trace
from jobspec.names import BadNameError, is_candidate, parse_file_name, show
from spoold import host
from spoold.admission import read_history
from spoold.archive import Archive, last_run, snapshot
from spoold.door import Door
from spoold.journal import Journal
from spoold.layout import Layout
from spoold.ledger import Ledger
from spoold.model import Outcome, Queue, Stage, is_glob
from spoold.pool import Pool
from spoold.records import RunRecord, StartRecord
from spoold.recovery import Leftover, Step, Stray, recover, recover_stray
from spoold.runs import Runs, active_from_record, inode_of, running_from_record
from spoold.settings import Settings
from spoold.shelf import Shelf
from spoold.store import Store, held_name


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

    @property
    def waiting(self) -> bool:
        """Strays in running/ wait for an earlier spooler's supervisors."""
        return bool(self._strays)

    def is_stray(self, entry: str) -> bool:
        """This file in running/ is being taken care of here."""
        return entry in self._strays

    def add_stray(self, entry: str) -> None:
        """A file of ours in running/ whose command was never executed and which could not be moved back."""
        self._strays.add(entry)

    def recover(self, settings: Settings, total: int, tick: float) -> None:
        """Everything, once, at the start."""
        self._adopt_runs()
        self._strays = {entry for entry in self._store.stage_entries(Stage.RUNNING) if is_candidate(entry)} - self._runs.entries()
        self.look(settings, total, tick)
        for entry in sorted(self._store.stage_entries(Stage.READY)):
            if is_candidate(entry) or held_name(entry) is not None:
                self.load(entry, settings, total, tick)
        self._archive.refresh()
        asked = {name for job in self._queue.conditional() for name in job.job.after + job.job.after_ok + job.job.after_failed if not is_glob(name)}
        for ended in self._ledger.read(asked):
            self._queue.note_end(ended)
        for claim in self._store.entries(self._layout.claims):
            if self._published(claim):
                self._store.discard(self._store.claim_path(claim))
            else:
                self._door.left_claim(claim, tick)

    def load(self, entry: str, settings: Settings, total: int, tick: float) -> None:
        """A file in ready/ enters the queue; what was never accepted goes through the door."""
        if self._shelf.knows(entry):
            return
        try:
            why = self._shelf.load(entry, settings, total)
        except OSError as error:
            self._journal.once(f"ready/{entry}", f"ready/{show(entry)} cannot be read: {error.strerror or error}")
            return
        if why is not None:
            self._door.hint(Stage.READY, entry, tick)

    # runs -------------------------------------------------------------------------------------------------------------

    def _adopt_runs(self) -> None:
        boot = host.boot_id()
        for slot, (record, _) in sorted(self._pool.scan().items()):
            start = record.start
            if start is None or not record.live:
                continue
            where, entry, accounted = self._find(start)
            same_boot = start.boot == boot
            step = recover(Leftover(where, accounted, same_boot))
            if step is Step.FORGET:
                # nobody waits for this run: it is retired as soon as the pool tells of its end
                self._pool.adopt(slot, record)
                continue
            self._adopt(slot, record, start, step, where, entry)

    def _adopt(self, slot: int, record: RunRecord, start: StartRecord, step: Step, where: Stage | None, entry: str) -> None:
        active = active_from_record(slot, record)
        if step is Step.ADVANCE and where is not None:
            self._store.move_by_hand(where, entry, Stage.RUNNING, start.file)
            where, entry = Stage.RUNNING, start.file
        if where is not None:
            active.inode = inode_of(self._layout.entry(where, entry))
        self._queue.start(running_from_record(record))
        self._runs.add(active)
        self._pool.adopt(slot, record)
        said = "has ended" if record.end is not None else "goes on"
        self._journal.say(f"{start.job} run={start.run} of an earlier spooler {said}")
        if step in (Step.REQUEUE, Step.STOP) and record.end is None:
            active.stopping = True
            self._journal.say(f"{start.job} was taken out of running/: stopping run={start.run}")
            self._pool.stop(start.run, Outcome.STOPPED.value)

    def _find(self, start: StartRecord) -> tuple[Stage | None, str, bool]:
        """Where a run's file lies: stage, entry, and whether it is in done/ with the end of this run in it."""
        if os.path.lexists(self._layout.entry(Stage.RUNNING, start.file)):
            return Stage.RUNNING, start.file, False
        self._archive.refresh()
        for entry in self._archive.entries_of(Stage.DONE, start.name):
            entries = self._trace(Stage.DONE, entry)
            if last_run(entries) == start.run:
                return Stage.DONE, entry, True
        text = trace.split(snapshot(start))[0]
        for stage in (Stage.READY, Stage.INCOMING, Stage.DONE, Stage.REFUSED):
            for entry in (start.file, *((f"{start.name}.toml",) if stage is Stage.INCOMING else ())):
                data = self._data(stage, entry)
                if data is not None and trace.split(data)[0] == text:
                    return stage, entry, stage in (Stage.READY, Stage.INCOMING) and last_run(trace.read(data)) == start.run
        return None, "", False

    def _data(self, stage: Stage, entry: str) -> bytes | None:
        try:
            return self._store.open_own(self._layout.entry(stage, entry)).data
        except OSError:
            return None

    def _trace(self, stage: Stage, entry: str) -> tuple[dict[str, object], ...]:
        data = self._data(stage, entry)
        return () if data is None else trace.read(data)

    # strays and claims ------------------------------------------------------------------------------------------------

    def look(self, settings: Settings, total: int, tick: float) -> None:
        """Files in running/ without a run: put each where it belongs, as soon as nobody can be about to start it."""
        settling = bool(self._strays) and self._pool.settling()
        for entry in sorted(self._strays):
            data = self._data(Stage.RUNNING, entry)
            if not os.path.lexists(self._layout.entry(Stage.RUNNING, entry)):
                self._strays.discard(entry)
                continue
            if settling:
                continue
            if self._adopt_late(entry):
                self._strays.discard(entry)
                continue
            entries = () if data is None else trace.read(data)
            ended = bool(entries) and entries[-1].get("step") == "ended"
            waits = bool(entries) and not ended and read_history(entries) is not None
            match recover_stray(settling=settling, waits=waits, ended=ended):
                case Stray.WAIT:
                    continue
                case Stray.BACK:
                    self._store.back_to_ready(entry)
                    self._journal.say(f"{entry.removesuffix('.toml')} running -> ready: its command was never executed")
                    self.load(entry, settings, total, tick)
                case Stray.FINISH:
                    name = self._store.finish(entry)
                    self._journal.say(f"{entry.removesuffix('.toml')} running -> done file={name}")
                case Stray.REFUSE:
                    pass
            # what a user put there is no stray any more, and is refused as any file that appears in running/
            self._strays.discard(entry)

    def _adopt_late(self, entry: str) -> bool:
        """An earlier spooler's supervisor wrote its start record after the scan."""
        for slot, record in self._pool.scan().items():
            start = record[0].start
            if start is not None and record[0].live and start.file == entry and self._runs.get(start.run) is None:
                self._adopt(slot, record[0], start, Step.ADOPT, Stage.RUNNING, entry)
                return True
        return False

    def _published(self, claim: str) -> bool:
        """The job of this claim was accepted: only the claim's removal is missing."""
        token, _, entry = claim.partition("~")
        try:
            name = parse_file_name(entry).name
        except BadNameError:
            return False
        live = self._queue.live(name)
        places = [] if live is None else [(Stage.READY, live.file), (Stage.RUNNING, live.file)]
        places += [(stage, entry) for stage in (Stage.DONE, Stage.REFUSED) for entry in self._archive.entries_of(stage, name)]
        return any(
            step.get("step") == "accepted" and step.get("claim") == token for stage, entry in places for step in self._trace(stage, entry)
        )

