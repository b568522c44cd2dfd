"""view - one job as it is seen from outside, whatever stage it is in, and the JSON of it.

Owns the keys of `--json`.  Texts are as the files have them; who shows one to a person escapes it.  Pure: what is on the disk is an argument.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jobspec.spec import NO_LIMIT, Job
from spoold.admission import epoch
from spoold.model import Box, Outcome, Ready, Reason, Rule, Running, Stage
from spoold.records import Figures, StartRecord

KEYS: Final = (
    "name", "seq", "stage", "file", "note", "accepted_at", "started_at", "ended_at", "outcome", "exit", "signal", "elapsed_s", "peak_memory",
    "memory", "locks", "after", "wall_s", "deadline", "pid", "log", "progress", "place", "latest_start", "reasons",
)  # fmt: skip
"""The keys of one job in JSON, all of them always there, in this order."""


ENDED_STATE: Final = "ended"
"""The state of a run that has ended and whose file is not in done/ yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """All that is known of one job.  Times are seconds since the epoch.  `locks` has units asked for (None: all) or the units held.

    Beyond the JSON: `used` is the memory it uses now, `held` that it is on hold, `gone` that it was withdrawn, `state` what its processes do,
    `processes` how many there are, `supervised` that somebody keeps its wall clock, `many` the locks that have more than one unit.
    """

    name: str
    seq: int | None
    stage: Stage
    file: str
    note: str | None = None
    accepted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    outcome: Outcome | None = None
    exit: int | None = None
    signal: int | None = None
    elapsed_s: float | None = None
    peak_memory: int | None = None
    memory: int | None = None
    locks: Mapping[str, int | tuple[str, ...] | None] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    wall_s: float | None = None
    deadline: float | None = None
    pid: int | None = None
    log: str | None = None
    place: int | None = None
    latest_start: float | None = None
    reasons: tuple[Reason, ...] = ()
    many: frozenset[str] = frozenset()
    used: int | None = None
    processes: int | None = None
    state: str = "running"
    supervised: bool = True
    held: bool = False
    gone: bool = False

    def as_json(self) -> dict[str, Any]:
        """The keys of the contract, in its order."""
        table = {
            "name": self.name,
            "seq": self.seq,
            "stage": self.stage.value,
            "file": self.file,
            "note": self.note,
            "accepted_at": iso(self.accepted_at),
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "outcome": None if self.outcome is None else self.outcome.value,
            "exit": self.exit,
            "signal": self.signal,
            "elapsed_s": None if self.elapsed_s is None else round(self.elapsed_s, 3),
            "peak_memory": self.peak_memory,
            "memory": self.memory,
            "locks": {
                lock: "all" if units is None else list(units) if isinstance(units, tuple) else units for lock, units in self.locks.items()
            },
            "after": list(self.after),
            "wall_s": None if self.wall_s == NO_LIMIT else self.wall_s,
            "deadline": iso(self.deadline),
            "pid": self.pid,
            "log": self.log,
            "progress": None,
            "place": self.place,
            "latest_start": iso(self.latest_start),
            "reasons": [reason.as_json() for reason in self.reasons],
        }
        assert tuple(table) == KEYS
        return table


def _waited_for(job: Job) -> tuple[str, ...]:
    return tuple(dict.fromkeys(job.after + job.after_ok + job.after_failed))


def of_ready(job: Ready, *, file: str, place: int | None, latest: float | None, reasons: Sequence[Reason]) -> JobView:
    """A job that waits for its turn."""
    return JobView(
        name=job.name,
        seq=job.seq,
        stage=Stage.READY,
        file=file,
        note=job.job.note,
        accepted_at=job.accepted_at,
        memory=job.memory,
        locks=dict(job.locks),
        after=_waited_for(job.job),
        wall_s=job.wall_s,
        place=place,
        latest_start=latest,
        reasons=tuple(reasons),
        held=job.held,
    )


def of_running(
    run: Running,
    start: StartRecord,
    figures: Figures | None,
    job: Job | None,
    box: Box,
    *,
    accepted_at: float | None,
    supervised: bool,
    now: float,
) -> JobView:
    """A run that has not ended."""
    return JobView(
        name=run.name,
        seq=run.seq,
        stage=Stage.RUNNING,
        file=f"{Stage.RUNNING.value}/{run.file}",
        note=None if job is None else job.note,
        accepted_at=accepted_at,
        started_at=run.started_at,
        elapsed_s=max(0.0, now - run.started_at),
        peak_memory=None if figures is None else figures.peak,
        memory=run.memory,
        locks=dict(run.locks),
        after=() if job is None else _waited_for(job),
        wall_s=run.wall_s,
        deadline=run.deadline,
        pid=figures.pid or None if figures is not None else None,
        log=start.log,
        many=frozenset(lock for lock in run.locks if len(box.units(lock)) > 1),
        used=None if figures is None else figures.memory,
        processes=None if figures is None else figures.processes,
        state="running" if figures is None else figures.state,
        supervised=supervised,
    )


def of_entry(stage: Stage, entry: str, name: str, seq: int | None, *reasons: Reason, held: bool = False) -> JobView:
    """A file of which nothing but its place is known: not yet read, or no job as it stands."""
    return JobView(name=name, seq=seq, stage=stage, file=f"{stage.value}/{entry}", reasons=reasons, held=held)


def of_ended(
    stage: Stage,
    entry: str,
    name: str,
    seq: int | None,
    job: Job | None,
    history: Sequence[Mapping[str, Any]],
    *,
    default_wall_s: float,
    at: float,
    why: str | None = None,
) -> JobView:
    """A job in done/ or refused/, by its own account.  `at`: when the file came there, for one that does not say when it ended."""
    life = last_life(history)
    accepted = next((step for step in life if step.get("step") == "accepted"), {})
    started: Mapping[str, Any] = next((step for step in reversed(life) if step.get("step") == "started"), {})
    last: Mapping[str, Any] = life[-1] if life else {}
    ran = stage is Stage.DONE and last.get("step") == "ended"
    if stage is Stage.REFUSED and last.get("step") == "ended":
        # dropped again and refused at the door: what the file tells is an earlier life
        accepted, started = {}, {}
    locks = started.get("locks")
    return JobView(
        name=name,
        seq=seq,
        stage=stage,
        file=f"{stage.value}/{entry}",
        note=None if job is None else job.note,
        accepted_at=epoch(accepted.get("at")),
        started_at=epoch(started.get("at")),
        ended_at=epoch(last.get("at")) if ran else at,
        outcome=_outcome(last.get("outcome")) if ran else None,
        exit=_number(last.get("exit")) if ran else None,
        signal=_number(last.get("signal")) if ran else None,
        elapsed_s=_seconds(last.get("elapsed_s")) if ran else None,
        peak_memory=_number(last.get("peak_memory")) if ran else None,
        memory=_number(started.get("memory")),
        locks={lock: tuple(map(str, units)) for lock, units in locks.items() if isinstance(units, list)} if isinstance(locks, dict) else {},
        after=() if job is None else _waited_for(job),
        wall_s=None if job is None else default_wall_s if job.wall_s is None else job.wall_s,
        pid=_number(started.get("pid")),
        log=log if isinstance(log := started.get("log"), str) else None,
        reasons=() if why is None else (Reason(Rule.REFUSED, why),),
        gone=stage is Stage.DONE and not ran,
    )


def last_life(history: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The steps since the job was accepted the last time."""
    for index in range(len(history) - 1, -1, -1):
        if history[index].get("step") == "accepted":
            return history[index:]
    return history


def _outcome(value: object) -> Outcome | None:
    return next((outcome for outcome in Outcome if outcome.value == value), None)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def iso(at: float | None) -> str | None:
    """ISO 8601 with offset, to the millisecond."""
    return None if at is None else datetime.datetime.fromtimestamp(at).astimezone().isoformat(timespec="milliseconds")
