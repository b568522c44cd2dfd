"""pickup - accept what was dropped into incoming/.

Owns the first move of every job.  Reads only complete regular files of the spooler's own user whose name fits the grammar, and copies them: the
submitter's inode is never trusted or changed.  Never judges when a job starts.  Fails: OSError if the spool cannot be written; a bad job is
refused, not raised.

The steps, each safe to be cut off: read and check; rename incoming/x to a private claim (the atomic step); read again what can no longer be
reached by its name; write those bytes and the trace to a file of our own, sync, rename it into ready/, sync; drop the claim.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from jobspec import trace
from jobspec.errors import JobSpecError
from jobspec.names import BadNameError, FileName, next_file, parse_file_name, safe_entry
from jobspec.parse import parse
from jobspec.spec import MAX_FILE_BYTES, Job
from spoold.admission import History, admit, clash_text, never
from spoold.archive import accepted_entry
from spoold.files import Ident, Opened
from spoold.layout import HOLD
from spoold.model import Box, Queue, Ready, Running, Stage
from spoold.settings import Settings
from spoold.store import Store, held_name, plain_name
from spoold.trust import distrust

SETTLE_S: Final = 0.5
"""How long a file must be unchanged where nobody can say whether it is open for writing."""
BAD_FOR_S: Final = 2.0
"""How long a file must stay unreadable as a job before it is refused: an editor may save in two steps."""
WRITER_LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Accepted:
    """A job is in ready/; `ident` and `data` are its file there."""

    job: Ready
    entry: str
    ident: Ident
    data: bytes
    origin: str
    uid: int
    claim: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry is in refused/ under `entry`; `why_owed` if the reason could not be written yet."""

    origin: str
    entry: str
    why: str
    why_owed: bool


@dataclass(frozen=True, slots=True)
class Later:
    """Look again then, or when an event says so."""

    at: float
    why: str


@dataclass(frozen=True, slots=True)
class Gone:
    """Somebody took it away first."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """It is out of incoming/ and ours alone: go on with `admit`, and again until that is neither Later nor an error."""

    claim: str
    origin: str
    known: Good | None = field(default=None, compare=False)


Taken = Accepted | Refused | Later | Gone


@dataclass(slots=True)
class _Seen:
    """What is remembered of an entry between two looks."""

    ident: Ident
    since: float
    bad_since: float | None = None


@dataclass(frozen=True, slots=True)
class Good:
    """A complete file that reads as a job."""

    opened: Opened
    job: Job


class Pickup:
    """The door.  One entry at a time; whatever happens to one costs only that one.

    `model_bytes` measures the model file that a job's memory depends on; `being_run` tells whether a file is that of a run which has not ended.
    Two clocks: `now` is the date, in seconds since the epoch; `tick` counts time awake, so that a clock that is set back delays nothing.
    """

    def __init__(self, store: Store, *, model_bytes: Callable[[Job], int | None], being_run: Callable[[Opened], bool]) -> None:
        self._store = store
        self._model_bytes = model_bytes
        self._being_run = being_run
        self._uid = os.geteuid()
        self._seen: dict[str, _Seen] = {}
        self._last_seq: int | None = None

    def remember_last(self, seq: int | None) -> None:
        """The number of the last job that is known to have been queued."""
        self._last_seq = seq

    def forget(self, stage: Stage, entry: str) -> None:
        """Drop what is remembered of an entry that is no longer there."""
        self._seen.pop(f"{stage.value}/{entry}", None)

    def take(self, stage: Stage, entry: str, queue: Queue, tick: float) -> Claimed | Refused | Later | Gone:
        """Claim, refuse or put off one entry of incoming/, or a file that somebody put into ready/ himself."""
        origin = f"{stage.value}/{entry}"
        path = self._store.layout.entry(stage, entry)
        try:
            looked = self._look(origin, path, tick)
            if isinstance(looked, Later):
                return looked
            problems = [] if isinstance(looked, Good) else [looked]
            try:
                name = parse_file_name(plain_name(entry)).name
            except BadNameError as error:
                problems.insert(0, str(error))
            if problems or isinstance(looked, str):
                return self._refuse(origin, path, entry, "; ".join(problems))
            if self._being_run(looked.opened):
                return Later(tick + WRITER_LOOK_S, "its run has not ended")
            if self._is_leaving(queue.clash(name)):
                return Later(tick + WRITER_LOOK_S, f"a job named {name} is just being taken out of ready/")
            claim = self._store.claim(stage, entry)
        except FileNotFoundError:
            self._seen.pop(origin, None)
            return Gone()
        self._seen.pop(origin, None)
        return Claimed(claim, origin, looked)

    def _is_leaving(self, clash: Ready | Running | None) -> bool:
        """This live job's file is not in ready/ any more: somebody moves or replaces it, and it is withdrawn soon."""
        return isinstance(clash, Ready) and self._store.ident(self._store.layout.entry(Stage.READY, clash.file)) is None

    def admit(self, claimed: Claimed, queue: Queue, settings: Settings, box: Box, *, now: float, tick: float) -> Taken:
        """The part of acceptance after the atomic step, also for what an earlier spooler left behind."""
        claim, origin = claimed.claim, claimed.origin
        path = self._store.claim_path(claim)
        entry = origin.rpartition("/")[2]
        try:
            good = self._look(claim, path, tick, claimed.known)
            if isinstance(good, Later):
                return good
            self._seen.pop(claim, None)
            if isinstance(good, str):
                return self._refuse(origin, path, entry, good)
            try:
                wanted = parse_file_name(plain_name(entry))
            except BadNameError as error:
                return self._refuse(origin, path, entry, str(error))
            clash = queue.clash(wanted.name)
            if clash is not None:
                return self._refuse(origin, path, entry, clash_text(wanted.name, clash))
            return self._publish(claimed, wanted, good, queue, settings, box, now)
        except FileNotFoundError:
            return Gone()

    def _publish(self, claimed: Claimed, wanted: FileName, good: Good, queue: Queue, settings: Settings, box: Box, now: float) -> Taken:
        origin, path = claimed.origin, self._store.claim_path(claimed.claim)
        entry = origin.rpartition("/")[2]
        token = claimed.claim.partition("~")[0]
        data = good.opened.data
        assert data is not None
        uid = good.opened.ident.uid
        data = trace.append(data, accepted_entry(now, origin, uid, token))
        history = History(accepted_at=now, claim=token)
        name = wanted if wanted.seq is not None else next_file(wanted.name, self._last(queue))
        while True:
            # a file that a user puts into ready/ may be on hold from the first
            held = None if held_name(entry) is None else f"{name.job}{HOLD}"
            file = held or name.file
            ready = admit(name, good.job, history, settings, total=box.total, model_bytes=self._model_bytes(good.job), held_as=held)
            problems = never(ready, box)
            if problems:
                return self._refuse(origin, path, wanted.file, "; ".join(problems))
            try:
                ident = self._store.publish(data, file)
                break
            except FileExistsError:
                if wanted.seq is not None:
                    return self._refuse(origin, path, wanted.file, f"ready/{file} is there already; give it another number")
                name = next_file(wanted.name, name.seq)
        self._drop_claim(path)
        self._last_seq = name.seq
        return Accepted(ready, file, ident, data, origin, uid, token)

    def _drop_claim(self, path: str) -> None:
        """Its job is in ready/.  What stays is known by its token at the next start, so trouble here costs nothing."""
        if self._store.unsynced is not None:
            return  # until ready/ is known to be on the disk this may be the only copy that is
        try:
            self._store.discard(path)
        except OSError:
            pass

    def _last(self, queue: Queue) -> int | None:
        """The number that the next unnumbered job comes after: the highest in the queue, or the last one that was queued."""
        return max((seq for seq in (queue.last_seq, self._last_seq) if seq is not None), default=None)

    def _look(self, key: str, path: str, tick: float, known: Good | None = None) -> Good | Later | str:
        """A complete file that reads as a job, or when to look again, or the sentence that it is refused with."""
        ident = self._store.ident(path)
        if ident is None:
            raise FileNotFoundError(path)
        if not ident.regular:
            return _kind_text(ident.mode)
        try:
            opened = self._store.open(path)
        except PermissionError:
            return "it cannot be read; chmod u+r it and drop it again"
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                return Later(tick + WRITER_LOOK_S, "it was replaced while it was looked at")
            raise
        doubt = distrust(opened.ident.uid, opened.ident.gid, opened.ident.mode, self._uid)
        if doubt is not None:
            return doubt
        if known is not None and opened.writer is not True and opened.data == known.opened.data:
            return Good(opened, known.job)
        seen = self._seen.get(key)
        if seen is None or not seen.ident.same_content(opened.ident):
            seen = self._seen[key] = _Seen(opened.ident, tick)
        if opened.writer:
            seen.since = tick
            return Later(tick + WRITER_LOOK_S, "somebody has it open for writing")
        if opened.writer is None and tick - seen.since < SETTLE_S:
            return Later(seen.since + SETTLE_S, "it may still be written")
        if opened.data is None:
            return f"it has {opened.ident.size:,} bytes, and a job file has at most {MAX_FILE_BYTES:,}; put long scripts into a file of their own"
        try:
            return Good(opened, parse(opened.data))
        except JobSpecError as error:
            if seen.bad_since is None:
                seen.bad_since = tick
            if tick - seen.bad_since < BAD_FOR_S:
                return Later(seen.bad_since + BAD_FOR_S, "it does not read as a job")
            return str(error)

    def _refuse(self, origin: str, path: str, entry: str, why: str) -> Refused | Gone:
        try:
            name, written = self._store.refuse(path, safe_entry(plain_name(entry)), why)
        except FileNotFoundError:
            self._seen.pop(origin, None)
            return Gone()
        self._seen.pop(origin, None)
        return Refused(origin, name, why, not written)


def _kind_text(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    kind = next((name for test, name in kinds if test(mode)), "no regular file")
    return f"it is {kind}; a job is a regular file, so copy the file itself into incoming/"

