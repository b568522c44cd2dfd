"""shelf - ready/ as users see it: jobs that are reordered, renamed, held, edited, withdrawn, or put there by hand.

Owns the match between the files in ready/ and the ready jobs of the queue: every change of either goes through here.  A file is known by its inode,
so a rename is a rename; a name that vanishes is given two seconds, since editors save by moving the old file away.
Never starts or refuses a job: it says what has changed.  Fails: OSError if ready/ itself cannot be listed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from jobspec import trace
from jobspec.errors import JobSpecError
from jobspec.names import BadNameError, FileName, is_candidate, parse_file_name
from jobspec.parse import parse
from jobspec.spec import Job
from spoold.admission import History, admit, read_history
from spoold.archive import accepted_entry
from spoold.model import Key, Queue, Ready, Stage
from spoold.settings import Settings
from spoold.store import Ident, Opened, Store, held_name
from spoold.trust import distrust

AWAY_S: Final = 2.0
"""How long a file may be missing, or read as no job, before that is taken as meant."""
SETTLE_S: Final = 0.5
LOOK_S: Final = 0.25


@dataclass(slots=True)
class Item:
    """One file in ready/: what was read from it, and since when something is odd about it."""

    entry: str
    ready: Ready
    ident: Ident
    digest: int
    history: History
    missing_since: float | None = None
    edit: Ident | None = None
    edit_since: float = 0.0
    bad_since: float | None = None


@dataclass(slots=True)
class Changes:
    """What a look has found.  `changed` jobs are in the queue already and may be impossible or close a cycle now."""

    changed: list[Ready] = field(default_factory=list)
    renamed: list[tuple[Ready, Ready]] = field(default_factory=list)
    withdrawn: list[Ready] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)
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
        self._place(Item(entry, ready, ident, hash(data), history))

    def remove(self, key: Key) -> Item:
        """A job that we take out of ready/ leaves the queue."""
        self._queue.take(key)
        return self._unplace(self._by_key[key])

    def item(self, key: Key) -> Item | None:
        """The file of a ready job."""
        entry = self._by_key.get(key)
        return None if entry is None else self._items[entry]

    def knows(self, entry: str) -> bool:
        return entry in self._items

    def doubt(self, key: Key) -> None:
        """The file of this job was not as expected: it takes no part until the next look has settled it."""
        item = self._items[self._by_key[key]]
        self._odd.add(item.entry)
        self._set_away(item, True)

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
        there: dict[str, int] = {}
        if names is None:
            for entry, inode in self._store.inodes(Stage.READY):
                there[entry] = inode
            wanted = {entry for entry in there if is_candidate(entry) or held_name(entry) is not None} | self._items.keys()
        else:
            wanted = {entry for entry in names if is_candidate(entry) or held_name(entry) is not None} | self._odd
        unknown = []
        for entry in sorted(wanted):
            item = self._items.get(entry)
            if item is None:
                unknown.append(entry)
            elif names is not None or there.get(entry) != item.ident.ino or entry in self._odd:
                self._look_at(item, settings, total, tick, changes)
        for entry in unknown:
            self._look_at_unknown(entry, settings, total, changes)
        for entry in list(self._odd):
            item = self._items[entry]
            if item.missing_since is not None and tick - item.missing_since >= AWAY_S:
                self._queue.take(item.ready.key)
                self._unplace(entry)
                changes.withdrawn.append(item.ready)
        return changes

    def look_into(self, settings: Settings, total: int, tick: float) -> Changes:
        """Compare every file's size and time with what was read: an edit in place changes no directory."""
        return self.look(settings, total, tick, list(self._items))

    def read_again(self, settings: Settings, total: int) -> list[Ready]:
        """Apply other settings, or other sizes of model files, to every ready job; those that changed."""
        changed = []
        for item in list(self._items.values()):
            old = item.ready
            ready = self._admit(FileName(str(old.seq), old.name), old.job, item, settings, total)
            ready = replace(ready, file=old.file, held=old.held, away=old.away)
            if ready != old:
                self._exchange(item, ready)
                changed.append(ready)
        return changed

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
            job = parse(trace.split(opened.data)[0])
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

    def _look_at_unknown(self, entry: str, settings: Settings, total: int, changes: Changes) -> None:
        """A name that we did not give: a job under a new name, or a file from elsewhere."""
        ident = self._store.ident(self._store.layout.entry(Stage.READY, entry))
        if ident is None:
            return
        before = self._by_inode.get(ident.ino)
        if before is None or self._store.ident(self._store.layout.entry(Stage.READY, before)) is not None:
            if is_candidate(entry):
                changes.foreign.append(entry)
            return
        item = self._items[before]
        held = held_name(entry)
        try:
            name = parse_file_name(held or entry)
        except BadNameError as error:
            self._queue.take(item.ready.key)
            self._unplace(before)
            changes.broken.append((entry, str(error)))
            return
        if name.seq is None:
            name = FileName(str(item.ready.seq).zfill(4), name.name)
            changes.broken.append((entry, f"a job in ready/ has a number: {name.file} would do"))
            self._queue.take(item.ready.key)
            self._unplace(before)
            return
        clash = self._queue.clash(name.name)
        if clash is not None and clash is not item.ready:
            self._queue.take(item.ready.key)
            self._unplace(before)
            changes.broken.append((entry, f"a job named {clash.name} is live already; give this one another name"))
            return
        old = item.ready
        self._queue.take(old.key)
        self._unplace(before)
        item.entry = entry
        item.ident = ident
        item.missing_since = None
        ready = self._admit(name, old.job, item, settings, total)
        item.ready = ready
        self._queue.add(ready)
        self._place(item)
        changes.renamed.append((old, ready))

    def _look_at(self, item: Item, settings: Settings, total: int, tick: float, changes: Changes) -> None:
        """A name that we know: is it there, and does it say what it said?"""
        path = self._store.layout.entry(Stage.READY, item.entry)
        ident = self._store.ident(path)
        if ident is None:
            if item.missing_since is None:
                item.missing_since = tick
            self._odd.add(item.entry)
            self._set_away(item, True)
            return
        item.missing_since = None
        if ident.same_content(item.ident) and not item.ready.away:
            self._odd.discard(item.entry)
            return
        try:
            opened = self._store.open_own(path)
        except FileNotFoundError:
            self._odd.add(item.entry)
            return
        except OSError as error:
            self._break(item, f"it cannot be read: {error.strerror}", changes)
            return
        self._reread(item, opened, settings, total, tick, changes)

    def _reread(self, item: Item, opened: Opened, settings: Settings, total: int, tick: float, changes: Changes) -> None:
        if item.edit is None or not item.edit.same_content(opened.ident):
            item.edit, item.edit_since, item.bad_since = opened.ident, tick, None
        if opened.writer or (opened.writer is None and tick - item.edit_since < SETTLE_S):
            self._odd.add(item.entry)
            self._set_away(item, True)
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
            job = parse(text)
        except JobSpecError as error:
            if item.bad_since is None:
                item.bad_since = tick
            self._odd.add(item.entry)
            self._set_away(item, True)
            if tick - item.bad_since >= AWAY_S:
                self._break(item, str(error), changes)
            return
        ident, data = opened.ident, opened.data
        history = read_history(trace.read(opened.data))
        if history is None:
            # copied over: the text is new, the job is the same one
            data = trace.append(text, accepted_entry(item.history.accepted_at, f"ready/{item.entry}", ident.uid, item.history.claim))
            try:
                ident = self._store.rewrite(Stage.READY, item.entry, data)
            except FileNotFoundError:
                self._odd.add(item.entry)
                return
        else:
            item.history = history
        self._settle(item, ident, hash(data))
        old = item.ready
        ready = self._admit(FileName(str(old.seq), old.name), job, item, settings, total)
        ready = replace(ready, file=old.file)
        self._exchange(item, ready)
        changes.changed.append(ready)

    def _settle(self, item: Item, ident: Ident, digest: int) -> None:
        if self._by_inode.get(item.ident.ino) == item.entry:
            del self._by_inode[item.ident.ino]
        item.ident, item.digest, item.edit, item.bad_since = ident, digest, None, None
        self._by_inode[ident.ino] = item.entry
        self._odd.discard(item.entry)
        self._set_away(item, False)

    def _break(self, item: Item, why: str, changes: Changes) -> None:
        self._queue.take(item.ready.key)
        self._unplace(item.entry)
        changes.broken.append((item.entry, why))
