"""recovery - what a run record that was left behind means, and what becomes of it.

Owns the crash table of INTERNALS.md as a function.  Pure: whoever calls it has looked at the disk and the locks.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from spoold.model import Stage


class Step(enum.Enum):
    """What to do with a run record at start."""

    FORGET = "forget"
    """Its file is in done/ with this run's end in it: only the mark was missing."""
    ADOPT = "adopt"
    """The file is in running/: go on with the run, whatever it has come to."""
    ADVANCE = "advance"
    """The box went down and the rename was lost: move the file forward to running/, then as ADOPT."""
    REQUEUE = "requeue"
    """A user moved the file out of running/ to have it run again: stop what is left, then queue it."""
    STOP = "stop"
    """A user took the file away: stop what is left; the account is written from the snapshot."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """An unretired start record and what was found about it.

    `where` is the stage in which the job's file lies now, None if nowhere; `accounted`: a file in done/ carries the end of this very run;
    `same_boot`: the record is of this boot of this box, so that no rename can have been lost.
    """

    where: Stage | None
    accounted: bool
    same_boot: bool


def recover(leftover: Leftover) -> Step:
    """One row of the crash table."""
    if leftover.accounted:
        return Step.FORGET
    match leftover.where:
        case Stage.RUNNING:
            return Step.ADOPT
        case Stage.READY | Stage.INCOMING:
            return Step.REQUEUE if leftover.same_boot else Step.ADVANCE
        case Stage.DONE | Stage.REFUSED | None:
            return Step.STOP


class Stray(enum.Enum):
    """What to do with a file in running/ that no unretired start record belongs to."""

    WAIT = "wait"
    """A supervisor of an earlier spooler may be about to write its record."""
    BACK = "back"
    """It died before its command was released: it waits for its turn again."""
    FINISH = "finish"
    """Its trace has the end: only the last rename is missing."""
    REFUSE = "refuse"
    """A user put it there."""


def recover_stray(*, settling: bool, waits: bool, ended: bool) -> Stray:
    """`waits`: its trace is that of a job which waits for its turn; `ended`: its last step is an end."""
    if settling:
        return Stray.WAIT
    if ended:
        return Stray.FINISH
    return Stray.BACK if waits else Stray.REFUSE
