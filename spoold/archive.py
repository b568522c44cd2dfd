"""archive - done/ and refused/: how the end of a run is written, and how an end is found again by NAME.

Owns the `started`, `ended` and `requeued` entries of the trace.  The index of names is a hint that is checked against the file it points to;
done/ may hold a million files and is never parsed as a whole.  Fails: an unreadable file is no end of anybody.
"""

from __future__ import annotations

import datetime
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jobspec import trace
from jobspec.names import BadNameError, is_candidate, parse_file_name, show
from spoold.admission import epoch
from spoold.layout import WHY
from spoold.model import Ended, Fate, Outcome, Stage, is_glob, matches
from spoold.records import EndRecord, StartRecord
from spoold.store import Store

YOUNG_NS: Final = 100_000_000
_NUMBERED: Final = re.compile(r"(.+)\.([1-9][0-9]*)\Z")


def moment(at: float) -> datetime.datetime:
    """A moment as the trace writes it: with offset, to the millisecond."""
    stamp = datetime.datetime.fromtimestamp(at).astimezone()
    return stamp.replace(microsecond=stamp.microsecond // 1000 * 1000)


def accepted_entry(at: float, origin: str, uid: int, claim: str) -> dict[str, Any]:
    """The trace of an acceptance.  `claim` names the private claim, so that a crash between two steps never accepts one file twice."""
    return {"step": "accepted", "at": moment(at), "from": show(origin), "uid": uid, "claim": claim}


def started_entry(start: StartRecord, pid: int) -> dict[str, Any]:
    """The trace of a start."""
    return {
        "step": "started",
        "at": moment(start.started_at),
        "run": start.run,
        "pid": pid,
        "locks": {lock: list(units) for lock, units in start.locks.items()},
        "memory": start.memory,
        "waited_s": round(start.waited_s, 3),
        "waited_for": list(start.waited_for),
        "log": start.log,
    }


def ended_entry(start: StartRecord, end: EndRecord, set_back: float = 0.0) -> dict[str, Any]:
    """The trace of an end.  `name` is the NAME under which it ran: a number that a taken file name got is no part of it.

    `set_back`: by how many seconds the clock was behind what had happened before; then that is said, for the order of ends.
    """
    entry: dict[str, Any] = {"step": "ended", "at": moment(end.ended_at or start.started_at), "run": end.run, "name": start.name, "outcome": end.outcome}
    if end.exit is not None:
        entry["exit"] = end.exit
    if end.signal is not None:
        entry["signal"] = end.signal
    entry |= {
        "elapsed_s": round(end.elapsed_s, 3),
        "cpu_s": round(end.cpu_s, 3),
        "peak_memory": end.peak_memory,
        "leftover": list(end.leftover),
    }
    if end.why:
        entry["why"] = end.why
    if set_back > 0.0:
        entry["clock_behind_s"] = round(set_back, 3)
    return entry


def requeued_entry(at: float, why: str) -> dict[str, Any]:
    return {"step": "requeued", "at": moment(at), "why": why}


def snapshot(start: StartRecord) -> bytes:
    """The job file as it was started."""
    return start.text.encode("utf-8", "surrogateescape")


def account(start: StartRecord, end: EndRecord, *more: Mapping[str, Any], set_back: float = 0.0) -> bytes:
    """The whole job file after a run."""
    return trace.append(snapshot(start), started_entry(start, end.pid), ended_entry(start, end, set_back), *more)


def newest(store: Store, stage: Stage) -> list[str]:
    """The job files of done/ or refused/ by when they came there, the newest last."""
    came: list[tuple[int, str]] = []
    for entry in store.stage_entries(stage):
        if is_candidate(entry):
            ident = store.ident(store.layout.entry(stage, entry))
            if ident is not None:
                came.append((ident.ctime_ns, entry))
    return [entry for _, entry in sorted(came)]


def last_claim(entries: Sequence[Mapping[str, Any]]) -> str:
    """The claim of the last acceptance, which names the present life of a job; empty if there is none."""
    return next((str(entry.get("claim", "")) for entry in reversed(entries) if entry.get("step") == "accepted"), "")


def last_run(entries: tuple[dict[str, Any], ...]) -> int | None:
    """The number of the last run that has ended, by a file's trace."""
    for entry in reversed(entries):
        if entry.get("step") == "ended":
            run = entry.get("run")
            return run if isinstance(run, int) else None
    return None


class Archive:
    """Names in done/ and refused/, listed once and again when somebody else changed the directory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mtimes: dict[Stage, int] = {}
        self._names: dict[Stage, dict[str, set[str]]] = {Stage.DONE: {}, Stage.REFUSED: {}}
        self._highest: dict[Stage, int | None] = {}

    def refresh(self) -> None:
        """List again what has changed since the last look."""
        for stage in (Stage.DONE, Stage.REFUSED):
            mtime = os.stat(self._store.layout.stage(stage)).st_mtime_ns
            if self._mtimes.get(stage) == mtime:
                continue
            names: dict[str, set[str]] = {}
            highest: int | None = None
            for entry in self._store.stage_entries(stage):
                for seq, name in names_of(entry):
                    names.setdefault(name, set()).add(entry)
                    if seq is not None and (highest is None or seq > highest):
                        highest = seq
            self._names[stage] = names
            self._highest[stage] = highest
            # a change within the clock's grain would leave the same time
            self._mtimes[stage] = mtime if time.time_ns() - mtime > YOUNG_NS else -1

    @property
    def highest_seq(self) -> int | None:
        """The highest number in done/ and refused/ at the last look."""
        numbers = [seq for seq in self._highest.values() if seq is not None]
        return max(numbers) if numbers else None

    def entries_of(self, stage: Stage, name: str) -> tuple[str, ...]:
        """Files that may be of that NAME, at the last look."""
        return tuple(sorted(self._names[stage].get(name, ())))

    def last_end(self, name: str) -> Ended | None:
        """The end of that NAME that happened last."""
        ends = [ended for stage in self._names for entry in self._names[stage].get(name, ()) for ended in self.read(stage, entry) if ended.name == name]
        return max(ends, key=lambda ended: ended.at, default=None)

    def ends_since(self, pattern: str, since: float) -> Iterator[Ended]:
        """The ends of NAMEs that match a glob (or are this name) from `since` on."""
        for stage, names in self._names.items():
            for name, entries in list(names.items()):
                if name != pattern and not (is_glob(pattern) and matches(pattern, name)):
                    continue
                for entry in entries:
                    ident = self._store.ident(self._store.layout.entry(stage, entry))
                    # mtime is that of the last trace: what was written before cannot have ended since, but for a clock that was set
                    if ident is not None and max(ident.mtime_ns, ident.ctime_ns) / 1e9 >= since - 1:
                        yield from (ended for ended in self.read(stage, entry) if ended.name == name and ended.at >= since)

    def read(self, stage: Stage, entry: str) -> list[Ended]:
        """What one file says about the end of its job: one end, under the NAME it had."""
        path = self._store.layout.entry(stage, entry)
        try:
            opened = self._store.open_own(path)
        except OSError:
            return []
        if opened.data is None:
            return []
        entries = trace.read(opened.data)
        candidates = names_of(entry)
        if not candidates:
            return []
        seq, name = candidates[0]
        file = f"{stage.value}/{entry}"
        last = entries[-1] if entries else {}
        if stage is Stage.DONE and last.get("step") == "ended":
            at = epoch(last.get("at"))
            outcome = _outcome(last.get("outcome"))
            if at is None or outcome is None:
                return []
            ran_as = last.get("name")
            if isinstance(ran_as, str) and any(ran_as == name for _, name in candidates):
                name = ran_as
            behind = last.get("clock_behind_s", 0.0)
            at += behind if isinstance(behind, float) else 0.0
            return [Ended(seq=seq or 0, name=name, at=at, how=outcome, file=file)]
        ident = self._store.ident(path)
        at = 0.0 if ident is None else ident.ctime_ns / 1e9
        if stage is Stage.REFUSED:
            why = self._store.ident(self._store.layout.entry(stage, entry.removesuffix(".toml") + WHY))
            at = at if why is None else why.mtime_ns / 1e9
            # a number is that of the place only if the name without it is taken
            if len(candidates) > 1 and not os.path.lexists(self._store.layout.entry(stage, _without_number(entry))):
                del candidates[1:]
            return [Ended(seq=seq or 0, name=name, at=at, how=Fate.REFUSED, file=file) for seq, name in candidates]
        return [Ended(seq=seq or 0, name=name, at=at, how=Fate.WITHDRAWN, file=file)]


def names_of(entry: str) -> list[tuple[int | None, str]]:
    """The NAMEs that a file in done/ or refused/ may have run under: its own, and that without the number of a taken name."""
    if not entry.endswith(".toml") or entry.startswith("."):
        return []
    try:
        file = parse_file_name(entry)
    except BadNameError:
        return []
    found = [(file.seq, file.name)]
    numbered = _NUMBERED.match(file.name)
    if numbered is not None and int(numbered[2]) >= 2:
        found.append((file.seq, numbered[1]))
    return found


def _without_number(entry: str) -> str:
    return re.sub(r"\.[1-9][0-9]*\.toml\Z", ".toml", entry)


def _outcome(value: object) -> Outcome | None:
    try:
        return Outcome(value)
    except ValueError:
        return None
