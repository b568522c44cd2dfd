"""active - one run until it is retired, and what its record says about it: queued again or not, and how it ended.

Owns the match between a record and the queue's own nouns.  Never moves a file and never talks to a supervisor.
Fails: never; a snapshot that cannot be read asks for no retry.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from jobspec import trace
from jobspec.errors import JobSpecError
from jobspec.parse import parse
from jobspec.spec import NO_LIMIT, Job, RetryOn
from jobspec.units import format_duration, format_size
from spoold.admission import History, read_history
from spoold.archive import snapshot
from spoold.files import OWN_LIMIT
from spoold.model import Ended, Outcome, Running
from spoold.records import EndRecord, RunRecord, StartRecord


@dataclass(slots=True)
class Active:
    """One run until it is retired.  `entry` is its file's name in running/; `inode` identifies that file wherever a user puts it."""

    run: int
    job: str
    name: str
    seq: int
    entry: str
    slot: int
    inode: tuple[int, int] | None
    may_retry: bool = True
    """Its file asks for retries, or nobody has looked."""
    missing_since: float | None = None
    stopping: bool = False
    pin: int = -1
    """A descriptor of that file: as long as it is open no other file can get the inode's number."""
    astray: bool = False
    """Its file was not in running/ when an earlier spooler's run was taken over: what lies there under its name is not its own."""
    end: EndRecord | None = None
    set_back: float = 0.0
    """By how much the clock was behind what had happened before, when it ended."""
    due: float = 0.0
    pause_s: float = 0.0
    """How long the next pause after a failure is; 0: there was none."""

    @property
    def comes_back(self) -> bool:
        """It has ended and may be queued again, or refused: nobody is to be started because of this end before it is put away."""
        return self.may_retry or self.stopping or self.missing_since is not None or (self.end is not None and self.end.unstartable is not None)


@dataclass(frozen=True, slots=True)
class Requeued:
    """A run's job is in ready/ again under `entry`; `data` is its file."""

    entry: str
    data: bytes


def read_snapshot(start: StartRecord) -> tuple[Job, History] | None:
    """The job and its history as they were when it was started."""
    data = snapshot(start)
    try:
        job = parse(data, limit=OWN_LIMIT)
    except JobSpecError:
        return None
    history = read_history(trace.read(data))
    return None if history is None else (job, history)


def wants_retry(start: StartRecord, end: EndRecord) -> bool:
    """Its file says that it is to run again after such an end, and has not used up its times."""
    found = read_snapshot(start)
    if found is None or found[0].retry is None:
        return False
    job, history = found
    assert job.retry is not None
    return end.outcome in {on.value for on in job.retry.on if isinstance(on, RetryOn)} and history.runs + 1 <= job.retry.times


def active_from_record(slot: int, record: RunRecord) -> Active:
    """An active run as an earlier spooler left it; its inode is not known yet."""
    start = record.start
    assert start is not None
    return Active(run=start.run, job=start.job, name=start.name, seq=start.seq, entry=start.file, slot=slot, inode=None)


def running_from_record(record: RunRecord) -> Running:
    """The run as the queue sees it."""
    start = record.start
    assert start is not None
    return Running(
        seq=start.seq,
        name=start.name,
        file=start.file,
        run=start.run,
        started_at=start.started_at,
        wall_s=NO_LIMIT if start.wall_s is None else start.wall_s,
        grace_s=start.grace_s,
        locks={lock: tuple(units) for lock, units in start.locks.items()},
        memory=start.memory,
        used=record.figures.memory if record.figures is not None else 0,
    )


def ended_as(active: Active, end: EndRecord, file: str) -> Ended:
    return Ended(seq=active.seq, name=active.name, at=end.ended_at + active.set_back, how=Outcome(end.outcome), file=file)


def end_words(end: EndRecord) -> str:
    """An end for the log: outcome=failed exit=3 elapsed=1h30m cpu=12s peak=1.5GB."""
    words = [f"outcome={end.outcome}"]
    if end.exit is not None:
        words.append(f"exit={end.exit}")
    if end.signal is not None:
        words.append(f"signal={end.signal}")
    words.append(f"elapsed={format_duration(round(end.elapsed_s, 1))}")
    words.append(f"peak={format_size(end.peak_memory)}")
    if end.leftover:
        words.append(f"leftover={len(end.leftover)}")
    return " ".join(words)


def unpin(active: Active) -> None:
    if active.pin >= 0:
        os.close(active.pin)
        active.pin = -1


def inode_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino
