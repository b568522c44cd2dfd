"""shelf - ready/ as users see it: jobs that are reordered, renamed, held, edited, withdrawn, or put there by hand.

Owns the match between the files in ready/ and the ready jobs of the queue: every change of either goes through here.  A file is known by its inode
and what it says, so a rename is a rename; a name that vanishes is given two seconds, since editors save by moving the old file away.
Never starts or refuses a job: it says what has changed.  Fails: OSError if ready/ itself cannot be listed; one file's trouble costs that file only.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from jobspec import trace
from jobspec.errors import JobSpecError
from jobspec.names import BadNameError, FileName, is_candidate, parse_file_name
from jobspec.parse import parse
from jobspec.spec import Job, ModelSize
from spoold.admission import History, admit, clash_text, read_history
from spoold.archive import accepted_entry
from spoold.files import OWN_LIMIT, Ident, Opened
from spoold.model import Key, Queue, Ready, Stage
from spoold.settings import Settings
from spoold.store import ChangedError, Store, held_name, plain_name
from spoold.trust import distrust

AWAY_S: Final = 2.0
"""How long a file may be missing, or read as no job, before that is taken as meant."""
SETTLE_S: Final = 0.5
NOT_A_JOB: Final = frozenset({errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM})
"""A link, a socket, or a file that is not to be read."""


@dataclass(slots=True)
class Item:
    """One file in ready/: what was read from it, and since when something is odd about it."""

    entry: str
    ready: Ready
    ident: Ident
    digest: int
    history: History
    past: tuple[dict[str, Any], ...] = ()
    """The trace of a job that has run before: should a user copy another text over it, its runs still count."""
    missing_since: float | None = None
    edit: Ident | None = None
    edit_since: float = 0.0
    bad_since: float | None = None


@dataclass(slots=True)
class Changes:
    """What a look has found.  `changed` jobs are in the queue already and may be impossible or close a cycle now; `broken` ones have left it,
    each with the entry that is to be refused, and why."""

    changed: list[Ready] = field(default_factory=list)
    renamed: list[tuple[Ready, Ready]] = field(default_factory=list)
    withdrawn: list[Ready] = field(default_factory=list)
    broken: list[tuple[Ready, str, str]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.changed or self.renamed or self.withdrawn or self.broken or self.foreign)


class Shelf:
    """ready/ and the ready part of the queue, kept the same."""

    def __init__(self, store: Store, queue: Queue, *, model_bytes: Callable[[Job], int | None]) -> None:
        self._store = store
        self._queue = queue
        self._model_bytes = model_bytes
        self._uid = os.geteuid()
        self._items: dict[str, Item] = {}
        self._by_key: dict[Key, str] = {}
        self._by_inode: dict[int, str] = {}
        self._odd: set[str] = set()

    # our own changes --------------------------------------------------------------------------------------------------

    def add(self, ready: Ready, entry: str, ident: Ident, data: bytes, history: History) -> None:
        """A job that we put into ready/ enters the queue."""
        self._queue.add(ready)
        self._place(Item(entry, ready, ident, hash(data), history, trace.read(data) if history.runs else ()))

    def remove(self, key: Key) -> Item:
        """A job that we take out of ready/ leaves the queue."""
        return self._lift(self._items[self._by_key[key]])

    def item(self, key: Key) -> Item | None:
        """The file of a ready job."""
        entry = self._by_key.get(key)
        return None if entry is None else self._items[entry]

    def at(self, entry: str) -> Item | None:
        """The job at this name in ready/."""
        return self._items.get(entry)

    def knows(self, entry: str) -> bool:
        return entry in self._items

    def doubt(self, key: Key) -> None:
        """The file of this job was not as expected: it takes no part until the next look has settled it."""
        self._wait(self._items[self._by_key[key]])

    def _place(self, item: Item) -> None:
        self._items[item.entry] = item
        self._by_key[item.ready.key] = item.entry
        self._by_inode[item.ident.ino] = item.entry

    def _unplace(self, entry: str) -> Item:
        item = self._items.pop(entry)
        del self._by_key[item.ready.key]
        if self._by_inode.get(item.ident.ino) == entry:
            del self._by_inode[item.ident.ino]
        self._odd.discard(entry)
        return item

    def _lift(self, item: Item) -> Item:
        """Out of the queue and off the shelf."""
        self._queue.take(item.ready.key)
        return self._unplace(item.entry)

    def _exchange(self, item: Item, ready: Ready) -> None:
        """Put another reading of the same file into the queue."""
        self._queue.take(item.ready.key)
        del self._by_key[item.ready.key]
        item.ready = ready
        self._queue.add(ready)
        self._by_key[ready.key] = item.entry

    def _set_away(self, item: Item, away: bool) -> None:
        if item.ready.away != away:
            self._exchange(item, replace(item.ready, away=away))

    # what users did ---------------------------------------------------------------------------------------------------

    @property
    def odd(self) -> bool:
        """Something has to be looked at again soon."""
        return bool(self._odd)

    def look(self, settings: Settings, total: int, tick: float, names: Iterable[str] | None = None) -> Changes:
        """Compare the queue with ready/: all of it, or these names and what was odd before."""
        changes = Changes()
        there = dict(self._store.inodes(Stage.READY)) if names is None else None
        wanted = {entry for entry in (there if there is not None else names or ()) if is_candidate(plain_name(entry))}
        self._follow(wanted, there, settings, total, changes)
        wanted |= self._items.keys() if there is not None else self._odd
        for entry in sorted(wanted):
            item = self._items.get(entry)
            if item is None:
                if self._ident(entry) is not None:
                    changes.foreign.append(entry)
            elif there is None or there.get(entry) != item.ident.ino or entry in self._odd:
                self._look_at(item, settings, total, tick, changes)
        for entry in list(self._odd):
            item = self._items[entry]
            if item.missing_since is not None and tick - item.missing_since >= AWAY_S:
                changes.withdrawn.append(self._lift(item).ready)
        return changes

    def look_into(self, settings: Settings, total: int, tick: float) -> Changes:
        """Compare every file's size and time with what was read: an edit in place changes no directory."""
        return self.look(settings, total, tick, list(self._items))

    def read_again(self, settings: Settings, total: int) -> list[Ready]:
        """Apply other settings, or other sizes of model files, to every ready job; those that changed."""
        return [item.ready for item in list(self._items.values()) if self._admit_again(item, settings, total)]

    def measure_again(self, key: Key, settings: Settings, total: int) -> bool:
        """Whether the model file that this job is measured by has another size than it had; the job is in the queue with the new one."""
        item = self._items[self._by_key[key]]
        return isinstance(item.ready.job.memory, ModelSize) and self._admit_again(item, settings, total)

    def _admit_again(self, item: Item, settings: Settings, total: int) -> bool:
        old = item.ready
        ready = self._admit(FileName(str(old.seq), old.name), old.job, item, settings, total)
        ready = replace(ready, file=old.file, held=old.held, away=old.away)
        if ready == old:
            return False
        self._exchange(item, ready)
        return True

    def look_for_models(self, settings: Settings, total: int) -> bool:
        """Look again for the model files that were not there; True if one is there now."""
        missing = [item for item in self._items.values() if item.ready.memory is None]
        found = [self._admit_again(item, settings, total) for item in missing]
        return any(found)

    def missing_models(self) -> bool:
        """Some job waits for a model file that was not there."""
        return any(item.ready.memory is None for item in self._items.values())

    def load(self, entry: str, settings: Settings, total: int) -> str | None:
        """Take a file that an earlier spooler accepted into the queue, at start.  The reason if it is none; then the door is the place for it."""
        held = held_name(entry)
        try:
            name = parse_file_name(held or entry)
        except BadNameError as error:
            return str(error)
        if name.seq is None:
            return "it has no number"
        opened = self._store.open_own(self._store.layout.entry(Stage.READY, entry))
        if opened.data is None or opened.writer:
            return "it cannot be read yet"
        doubt = distrust(opened.ident.uid, opened.ident.gid, opened.ident.mode, self._uid)
        history = read_history(trace.read(opened.data))
        if doubt is not None or history is None:
            return doubt or "it was never accepted"
        try:
            job = parse(opened.data, limit=OWN_LIMIT)
        except JobSpecError as error:
            return str(error)
        if self._queue.clash(name.name) is not None:
            return "its NAME is live"
        ready = admit(name, job, history, settings, total=total, model_bytes=self._model_bytes(job), held_as=None if held is None else entry)
        self.add(ready, entry, opened.ident, opened.data, history)
        return None

    def _admit(self, name: FileName, job: Job, item: Item, settings: Settings, total: int) -> Ready:
        held = item.entry if held_name(item.entry) is not None else None
        return admit(name, job, item.history, settings, total=total, model_bytes=self._model_bytes(job), held_as=held)

    def _ident(self, entry: str) -> Ident | None:
        return self._store.ident(self._store.layout.entry(Stage.READY, entry))

    def _follow(self, entries: Iterable[str], there: Mapping[str, int] | None, settings: Settings, total: int, changes: Changes) -> None:
        """Jobs whose files have other names now, all of them at once: of two that swapped their names neither is in the way of the other."""
        moved: dict[str, tuple[str, Ident]] = {}
        for entry in sorted(entries):
            if there is not None and self._by_inode.get(there[entry], entry) == entry:
                continue
            ident = self._ident(entry)
            before = None if ident is None else self._by_inode.get(ident.ino)
            if ident is None or before is None or before == entry or before in moved:
                continue
            old = self._ident(before)
            # a hard link is no rename, and a new file may have the inode of one that is gone
            if (old is None or old.ino != ident.ino) and self._is_of(self._items[before], entry, ident):
                moved[before] = (entry, ident)
        lifted = [(self._lift(self._items[before]), entry, ident) for before, (entry, ident) in moved.items()]
        for item, entry, ident in sorted(lifted, key=lambda one: one[1]):
            self._rename(item, entry, ident, settings, total, changes)

    def _is_of(self, item: Item, entry: str, ident: Ident) -> bool:
        """This file is that of the job, edited or not."""
        if ident.same_content(item.ident):
            return True
        try:
            opened = self._store.open_own(self._store.layout.entry(Stage.READY, entry))
        except OSError:
            return False
        history = None if opened.data is None else read_history(trace.read(opened.data))
        return history is not None and history.claim == item.history.claim

    def _rename(self, item: Item, entry: str, ident: Ident, settings: Settings, total: int, changes: Changes) -> None:
        """Give a job the name that its file has now."""
        old = item.ready
        replaced = self._items.get(entry)
        if replaced is not None:
            changes.withdrawn.append(self._lift(replaced).ready)
        try:
            name = parse_file_name(plain_name(entry))
        except BadNameError as error:
            changes.broken.append((old, entry, str(error)))
            return
        if name.seq is None:
            why = f"a job in ready/ has a number: {FileName(plain_name(old.file).partition('-')[0], name.name).file} would do"
            changes.broken.append((old, entry, why))
            return
        clash = self._queue.clash(name.name)
        if isinstance(clash, Ready) and self._ident(clash.file) is None:
            # taken away just before, and its NAME given to this one
            changes.withdrawn.append(self._lift(self._items[clash.file]).ready)
            clash = None
        if clash is not None:
            changes.broken.append((old, entry, clash_text(name.name, clash)))
            return
        item.entry, item.missing_since = entry, None
        if ident.same_content(item.ident):
            item.ident = ident
        else:
            self._odd.add(entry)  # edited too: read again below
        item.ready = self._admit(name, old.job, item, settings, total)
        self._queue.add(item.ready)
        self._place(item)
        changes.renamed.append((old, item.ready))

    def _look_at(self, item: Item, settings: Settings, total: int, tick: float, changes: Changes) -> None:
        """A name that we know: is it there, and does it say what it said?"""
        ident = self._ident(item.entry)
        if ident is None:
            if item.missing_since is None:
                item.missing_since = tick
            self._wait(item)
            return
        item.missing_since = None
        if ident.same_content(item.ident) and not item.ready.away:
            self._odd.discard(item.entry)
            return
        try:
            opened = self._store.open_own(self._store.layout.entry(Stage.READY, item.entry))
        except FileNotFoundError:
            self._odd.add(item.entry)
            return
        except OSError as error:
            if error.errno in NOT_A_JOB:
                self._break(item, f"it cannot be read: {error.strerror}", changes)
            else:
                self._wait(item)  # the disk's trouble, or ours
            return
        self._reread(item, opened, settings, total, tick, changes)

    def _reread(self, item: Item, opened: Opened, settings: Settings, total: int, tick: float, changes: Changes) -> None:
        if item.edit is None or not item.edit.same_content(opened.ident):
            item.edit, item.edit_since, item.bad_since = opened.ident, tick, None
        if opened.writer or (opened.writer is None and tick - item.edit_since < SETTLE_S):
            self._wait(item)
            return
        doubt = distrust(opened.ident.uid, opened.ident.gid, opened.ident.mode, self._uid)
        if doubt is not None or opened.data is None:
            self._break(item, doubt or "it is no regular file, or too large", changes)
            return
        if hash(opened.data) == item.digest:
            self._settle(item, opened.ident, item.digest)
            return
        text = trace.split(opened.data)[0]
        try:
            job = parse(opened.data, limit=OWN_LIMIT)
        except JobSpecError as error:
            if item.bad_since is None:
                item.bad_since = tick
            self._wait(item)
            if tick - item.bad_since >= AWAY_S:
                self._break(item, str(error), changes)
            return
        ident, data = opened.ident, opened.data
        history = read_history(trace.read(data))
        if history is not None and history.claim == item.history.claim:
            item.history, item.past = history, trace.read(data) if history.runs else ()
        else:
            # copied over: the text is new, the job is the same one
            past = item.past or (accepted_entry(item.history.accepted_at, f"ready/{item.entry}", ident.uid, item.history.claim),)
            data = trace.append(text, *past)
            try:
                ident = self._store.replace_read(Stage.READY, item.entry, data, opened)
            except (OSError, ChangedError):
                self._wait(item)
                return
        self._settle(item, ident, hash(data))
        old = item.ready
        ready = self._admit(FileName(str(old.seq), old.name), job, item, settings, total)
        ready = replace(ready, file=old.file)
        self._exchange(item, ready)
        changes.changed.append(ready)

    def _wait(self, item: Item) -> None:
        """It takes no part until a later look."""
        self._odd.add(item.entry)
        self._set_away(item, True)

    def _settle(self, item: Item, ident: Ident, digest: int) -> None:
        if self._by_inode.get(item.ident.ino) == item.entry:
            del self._by_inode[item.ident.ino]
        item.ident, item.digest, item.edit, item.bad_since = ident, digest, None, None
        self._by_inode[ident.ino] = item.entry
        self._odd.discard(item.entry)
        self._set_away(item, False)

    def _break(self, item: Item, why: str, changes: Changes) -> None:
        self._lift(item)
        changes.broken.append((item.ready, item.entry, why))
