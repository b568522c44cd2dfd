"""events - what the pool tells of a run.

Owns three nouns.  Each run that was ordered or adopted is told by exactly one Ended or Failed.  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from spoold.records import EndRecord


@dataclass(frozen=True, slots=True)
class Started:
    """The command is being executed.  `log` is relative to the spool."""

    run: int
    pid: int
    log: str
    at: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The run was not started: nothing was executed, and nothing of it is on disk."""

    run: int
    why: str


@dataclass(frozen=True, slots=True)
class Ended:
    """No process of the run is left, or it could not be started at all (`end.unstartable`).  Its slot waits to be retired."""

    run: int
    slot: int
    end: EndRecord


Event = Started | Failed | Ended
