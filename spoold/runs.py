"""runs - the runs that have not been put away yet: started, watched for users who take their file, finished into done/, or queued again.

Owns the way running/ -> done/, refused/ or ready/.  The record rules: a run is retired only when its file lies where it belongs with the whole
account in it.  Never decides who starts.  Fails: OSError of the spool is said, and the same step is tried again with growing pauses.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from jobspec import trace
from jobspec.names import is_candidate
from spoold.active import Active, Requeued, end_words, ended_as, inode_of, unpin, wants_retry
from spoold.archive import account, last_claim, requeued_entry, snapshot
from spoold.files import Opened
from spoold.journal import Journal
from spoold.layout import Layout
from spoold.model import Ended, Fate, Outcome, Queue, Stage
from spoold.pool import Pool
from spoold.records import EndRecord, StartRecord
from spoold.store import Store, plain_name

TAKEN_AFTER_S: Final = 0.5
"""How long a file must be missing from running/ before its job is stopped: an editor moves the old file away for a moment."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0


class Runs:
    """The active runs of a spool."""

    def __init__(self, layout: Layout, store: Store, pool: Pool, queue: Queue, journal: Journal, *, on_refused: Callable[[str, str, bool], None]) -> None:
        self._layout = layout
        self._store = store
        self._pool = pool
        self._queue = queue
        self._journal = journal
        self._on_refused = on_refused
        self._active: dict[int, Active] = {}

    def __len__(self) -> int:
        return len(self._active)

    def add(self, active: Active) -> None:
        """A run begins, its file being in running/ if nothing else is known."""
        self._active[active.run] = active
        if active.pin < 0 and active.inode is not None:
            self._pin(active, self._layout.entry(Stage.RUNNING, active.entry))

    def drop(self, run: int) -> Active:
        """A run that never was: its command was not executed."""
        active = self._active.pop(run)
        unpin(active)
        return active

    def found(self, active: Active, path: str) -> None:
        """The file of a run that an earlier spooler started."""
        active.inode = inode_of(path)
        self._pin(active, path)

    def _pin(self, active: Active, path: str) -> None:
        """Hold the file of the run, if it is still that one."""
        unpin(active)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        found = os.fstat(fd)
        if (found.st_dev, found.st_ino) == active.inode:
            active.pin = fd
        else:
            os.close(fd)

    def get(self, run: int) -> Active | None:
        return self._active.get(run)

    def repeatable(self) -> frozenset[int]:
        """Runs whose file may ask for a retry."""
        return frozenset(active.run for active in self._active.values() if active.may_retry)

    def logs(self) -> set[str]:
        """The names in log/ that runs may be writing to."""
        records = [self._pool.record(active.slot) for active in self._active.values()]
        return {record.start.log.rpartition("/")[2] for record in records if record is not None and record.start is not None}

    def entries(self) -> set[str]:
        """The names in running/ that are ours."""
        return {active.entry for active in self._active.values()}

    def owns(self, dev: int, inode: int) -> bool:
        """This file is that of a run which has not been put away."""
        return any(active.pin >= 0 and active.inode == (dev, inode) for active in self._active.values())

    def is_of_run(self, opened: Opened) -> bool:
        """This file is that of a run which has not been put away, or what an editor made of that before a user took it out of running/."""
        if self.owns(opened.ident.dev, opened.ident.ino):
            return True
        claim = last_claim(trace.read(opened.data or b""))
        return bool(claim) and any(
            claim == self._claim(active) for active in self._active.values() if not os.path.lexists(self._layout.entry(Stage.RUNNING, active.entry))
        )

    def _claim(self, active: Active) -> str:
        record = self._pool.record(active.slot)
        return "" if record is None or record.start is None or record.start.run != active.run else last_claim(trace.read(snapshot(record.start)))

    @property
    def unfinished(self) -> bool:
        """Some run has ended and is not put away yet."""
        return any(active.end is not None for active in self._active.values())

    def next_due(self, tick: float) -> float | None:
        """The next moment at which something is to be tried or looked at again."""
        dues = [active.due for active in self._active.values() if active.end is not None]
        dues += [active.missing_since + TAKEN_AFTER_S for active in self._active.values() if active.missing_since is not None and not active.stopping]
        return min(dues, default=None)

    def concerns_us(self, entry: str) -> bool:
        """After an event at this name in running/: a file of ours is missing, or there is one that is not ours."""
        ours = [active for active in self._active.values() if active.entry == entry]
        if os.path.lexists(self._layout.entry(Stage.RUNNING, entry)):
            return not ours
        return any(active.end is None for active in ours)

    # users ------------------------------------------------------------------------------------------------------------

    def look(self, tick: float) -> list[str]:
        """Notice files that were taken out of running/ (their jobs are stopped), and name those that were put there by hand."""
        there = dict(self._store.inodes(Stage.RUNNING))
        for active in self._active.values():
            if active.end is not None or active.stopping:
                continue
            if active.entry in there:
                active.missing_since = None
                if active.inode is not None and there[active.entry] != active.inode[1] and not active.astray:
                    self.found(active, self._layout.entry(Stage.RUNNING, active.entry))  # edited: this is the file that is to be followed now
                continue
            if active.missing_since is None:
                active.missing_since = tick
            if tick - active.missing_since >= TAKEN_AFTER_S:
                active.stopping = True
                self._journal.say(f"{active.job} was taken out of running/: stopping run={active.run}")
                self._pool.stop(active.run, Outcome.STOPPED.value)
        ours = self.entries()
        inodes = {active.inode[1] for active in self._active.values() if active.pin >= 0 and active.inode is not None}
        return [entry for entry, inode in there.items() if is_candidate(entry) and entry not in ours and inode not in inodes]

    # the end ----------------------------------------------------------------------------------------------------------

    def note_end(self, run: int, end: EndRecord, tick: float, ended_at: float) -> Active | None:
        """No process of the run is left.  What it held is free from now on; its file is put away by `finish_due`.  `ended_at` is the date that it is given."""
        active = self._active.get(run)
        if active is None or active.end is not None:
            return None
        active.end = end
        active.set_back = ended_at - end.ended_at
        active.due = tick
        if self._queue.run(run) is not None:
            self._queue.end(run)
        if not active.comes_back:
            self._queue.note_end(ended_as(active, end, ""))
        return active

    def finish_due(self, tick: float, now: float) -> list[tuple[Active, Requeued | None]]:
        """Put away what has ended; what cannot be now is tried again later.  Returns those that were, and what is in ready/ again."""
        finished = []
        for active in [active for active in self._active.values() if active.end is not None and active.due <= tick]:
            try:
                requeued = self._finish(active, now)
            except OSError as error:
                active.pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, active.pause_s * 2))
                active.due = tick + active.pause_s
                self._journal.once(f"finish {active.run}", f"{active.job} has ended and cannot be put away: {error.strerror or error}; tried again")
                continue
            self._journal.once(f"finish {active.run}", None)
            self.drop(active.run)
            finished.append((active, requeued))
        return finished

    def _finish(self, active: Active, now: float) -> Requeued | None:
        record = self._pool.record(active.slot)
        end = active.end
        assert end is not None
        start = record.start if record is not None else None
        assert start is not None
        assert start.run == active.run
        if end.unstartable is not None:
            self._refuse_unstartable(active, start, end.unstartable)
            self._pool.retire(active.run)
            return None
        try:
            if active.astray:
                raise FileNotFoundError(active.entry)
            requeued = self._put_away(active, start, end, now)
        except FileNotFoundError:
            requeued = self._put_away_elsewhere(active, start, end, now)
        self._pool.retire(active.run)
        return requeued

    def _put_away(self, active: Active, start: StartRecord, end: EndRecord, now: float) -> Requeued | None:
        if active.may_retry and wants_retry(start, end):
            why = f"retry after {end.outcome}"
            data = account(start, end, requeued_entry(now, why), set_back=active.set_back)
            self._rewrite(active, Stage.RUNNING, active.entry, data)
            self._store.back_to_ready(active.entry)
            self._journal.say(f"{active.job} running -> ready run={active.run} {end_words(end)} ({why})")
            return Requeued(active.entry, data)
        self._rewrite(active, Stage.RUNNING, active.entry, account(start, end, set_back=active.set_back))
        name = self._store.finish(active.entry)
        self._journal.say(f"{active.job} running -> done run={active.run} {end_words(end)}{'' if name == active.entry else f' file={name}'}")
        self._queue.note_end(ended_as(active, end, f"done/{name}"))
        return None

    def _put_away_elsewhere(self, active: Active, start: StartRecord, end: EndRecord, now: float) -> Requeued | None:
        """A user took the file out of running/: write the account to wherever it is now."""
        stage, entry = self._whereabouts(active)
        if stage is Stage.READY:
            data = account(start, end, requeued_entry(now, "moved to ready/ while it ran"), set_back=active.set_back)
            self._rewrite(active, Stage.READY, entry, data)
            self._journal.say(f"{active.job} running -> ready run={active.run} {end_words(end)} (by hand)")
            return Requeued(entry, data)
        data = account(start, end, set_back=active.set_back)
        if stage is Stage.INCOMING:
            self._rewrite(active, Stage.INCOMING, entry, data)
            self._journal.say(f"{active.job} running -> incoming run={active.run} {end_words(end)} (by hand)")
            return None
        if stage is Stage.DONE:
            self._rewrite(active, Stage.DONE, entry, data)
            name = entry
        elif stage is not None:
            self._rewrite(active, stage, entry, data)
            name = self._store.move_to_free(self._layout.entry(stage, entry), Stage.DONE, active.entry)
            self._store.sync_dirs(self._layout.stage(Stage.DONE), self._layout.stage(stage))
        else:
            name = self._store.add_done(data, active.entry)
        self._journal.say(f"{active.job} running -> done run={active.run} {end_words(end)} file={name} (by hand)")
        self._queue.note_end(ended_as(active, end, f"done/{name}"))
        return None

    def _rewrite(self, active: Active, stage: Stage, entry: str, data: bytes) -> None:
        """Give the file its account; should the next step fail, it is found again by its new inode."""
        ident = self._store.rewrite(stage, entry, data)
        active.inode = (ident.dev, ident.ino)
        self._pin(active, self._layout.entry(stage, entry))
        if stage is not Stage.RUNNING:
            # nothing moves it any more that would be synced
            self._store.sync_dirs(self._layout.stage(stage))

    def _whereabouts(self, active: Active) -> tuple[Stage | None, str]:
        """Where a user put the file of a run: the very one, or else one of its name with the same life in it, which is what an editor made of it."""
        claim = self._claim(active)
        edited: tuple[Stage | None, str] = (None, "")
        for stage in (Stage.DONE, Stage.READY, Stage.INCOMING, Stage.REFUSED, Stage.RUNNING):
            for entry, inode in self._store.inodes(stage):
                if not is_candidate(plain_name(entry) if stage is Stage.READY else entry):
                    continue
                # without a pin its number may be another file's by now
                if active.pin >= 0 and active.inode is not None and inode == active.inode[1]:
                    return stage, entry
                if edited[0] is None and claim and active.name in entry and self._carries_on(stage, entry, claim, active.run):
                    edited = stage, entry
        return edited

    def _carries_on(self, stage: Stage, entry: str, claim: str, run: int) -> bool:
        """This file tells of that life, and of nothing after this run: its end may be in it already, if the user was faster than the last rename."""
        try:
            data = self._store.open_own(self._layout.entry(stage, entry)).data
        except OSError:
            return False
        steps = trace.read(data or b"")
        return last_claim(steps) == claim and (steps[-1].get("step") != "ended" or steps[-1].get("run") == run)

    def _refuse_unstartable(self, active: Active, start: StartRecord, why: str) -> None:
        text = f"its command could not be started: {why}"
        try:
            if active.astray:
                raise FileNotFoundError(active.entry)
            name, written = self._store.refuse(self._layout.entry(Stage.RUNNING, active.entry), active.entry, text)
        except FileNotFoundError:
            stage, entry = self._whereabouts(active)
            if stage is None:
                new = self._store.write_new(snapshot(start))
                name, written = self._store.refuse(new, active.entry, text)
            elif stage in (Stage.READY, Stage.INCOMING):
                return
            elif stage is Stage.REFUSED:
                name, written = entry, self._store.write_why(entry, text)
            else:
                name, written = self._store.refuse(self._layout.entry(stage, entry), active.entry, text)
        self._on_refused(name, text, written)
        self._journal.say(f"{active.job} running -> refused run={active.run}: {text}")
        self._queue.note_end(Ended(seq=active.seq, name=active.name, at=start.started_at, how=Fate.REFUSED, file=f"refused/{name}"))
