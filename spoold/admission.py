"""admission - a job file and the spool's settings together: what a ready job asks of the box, and whether the box could ever give it.

Owns the application of settings to a `Job` and the reading of a job's own history.  Pure: sizes of model files and the box's RAM are arguments.
Fails: never; what can never run is a list of sentences for the author of the file.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobspec.names import FileName
from jobspec.spec import DEFAULT_GRACE_S, NO_LIMIT, Job, ModelSize, Share
from jobspec.units import format_size
from spoold.model import Box, Ready, Running
from spoold.settings import Order, Settings


@dataclass(frozen=True, slots=True)
class History:
    """What a job file of ours says about its present life: since it was accepted the last time."""

    accepted_at: float
    claim: str
    runs: int = 0
    requeued_at: float | None = None


def epoch(at: object) -> float | None:
    """Seconds since the epoch of a TOML date-time; a local one means the box's own zone."""
    if not isinstance(at, datetime.datetime):
        return None
    try:
        return at.timestamp()
    except (OverflowError, ValueError, OSError):
        return None


def read_history(entries: Sequence[Mapping[str, Any]]) -> History | None:
    """The present life of a job in ready/, or None if these entries are not those of a job that waits for its turn."""
    history: History | None = None
    for entry in entries:
        step, at = entry.get("step"), epoch(entry.get("at"))
        if at is None:
            continue
        if step == "accepted":
            history = History(accepted_at=at, claim=str(entry.get("claim", "")))
        elif history is None:
            continue
        elif step == "started":
            history = replace(history, runs=history.runs + 1)
        elif step == "ended":
            history = replace(history, requeued_at=None)
        elif step == "requeued":
            history = replace(history, requeued_at=at)
    if history is None or (history.runs and history.requeued_at is None):
        return None
    return history


def memory_bytes(job: Job, settings: Settings, total: int, model_bytes: int | None) -> int | None:
    """What a job declares, in bytes; None if its model file is not there."""
    asked = settings.unknown_memory if job.memory is None else job.memory
    if isinstance(asked, ModelSize):
        return None if model_bytes is None else model_bytes + share_bytes(asked.margin, total)
    return share_bytes(asked, total)


def share_bytes(size: int | Share, total: int) -> int:
    """A size, or a share of `total` bytes of RAM."""
    return size if isinstance(size, int) else int(total * size.percent / 100)


def admit(name: FileName, job: Job, history: History, settings: Settings, *, total: int, model_bytes: int | None, held_as: str | None = None) -> Ready:
    """A job that waits for its turn.  `name` has a number; `held_as` is its entry in ready/ if it is on hold."""
    assert name.seq is not None
    if job.lock is None:
        locks: Mapping[str, int | None] = {settings.default_lock: 1}
    else:
        locks = {request.name: request.units for request in job.lock}
    not_before = epoch(job.not_before)
    if history.requeued_at is not None and history.runs and job.retry is not None:
        not_before = max(not_before or 0.0, history.requeued_at + job.retry.delay_s)
    return Ready(
        seq=name.seq,
        name=name.name,
        file=held_as or name.file,
        job=job,
        accepted_at=history.accepted_at,
        locks=locks,
        memory=memory_bytes(job, settings, total, model_bytes),
        wall_s=settings.default_wall_s if job.wall_s is None else job.wall_s,
        grace_s=DEFAULT_GRACE_S if job.grace_s is None else job.grace_s,
        not_before=not_before,
        # it means the first start: what waits to be run again has been started in time
        give_up_at=None if job.give_up_s is None or history.runs else history.accepted_at + job.give_up_s,
        runs=history.runs,
        held=held_as is not None,
    )


def never(job: Ready, box: Box) -> list[str]:
    """Why this box could not run the job even if it were idle; empty if it could."""
    problems = []
    for lock, units in job.locks.items():
        have = len(box.units(lock))
        if units is not None and units > have:
            problems.append(f"it asks for {units} of the lock {lock}, which has {have}; set [locks] {lock} in spool.toml or ask for less")
    most = box.total - box.floor
    # a box whose memory could not be read is none without memory
    if job.memory is not None and job.memory > most and box.total > 0:
        problems.append(
            f"it needs {format_size(job.memory)} of memory, and this box can give {format_size(most)} at the most "
            f"({format_size(box.total)} less the floor of {format_size(box.floor)})"
        )
    return problems


def clash_text(name: str, first: Ready | Running) -> str:
    """The sentence for a second job of a live NAME; says where the first one is."""
    place = f"running/{first.file}" if isinstance(first, Running) else f"ready/{first.file}"
    case = "" if first.name == name else f", which differs from {name} only in case"
    return f"a job named {first.name} is live already{case}: it is {place}; wait for its end, or give this one another name"


def endless(job: Ready) -> bool:
    """Said to have no wall clock."""
    return job.wall_s == NO_LIMIT


def make_box(settings: Settings, *, total: int, available: int | None, paused: str | None = None, closed: str | None = None) -> Box:
    """The box under these settings."""
    return Box(
        locks={lock: units.units for lock, units in settings.locks.items()},
        total=total,
        available=available,
        floor=share_bytes(settings.memory_floor, total),
        strict=settings.order is Order.STRICT,
        paused=paused,
        closed=closed,
    )
