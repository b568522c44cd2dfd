"""orphans - the processes of a run whose supervisor was killed.

Owns their end: TERM, grace, KILL by `escalation`, until none can be found and T is free.  They were never this process's children, so they
are searched by what they carry: T, their token, their session, or being handed to the launcher.  Never signals what is not proven to be of
the run, that is `host.processes_of_run`'s promise.  Fails: never; where the system cannot say, they are not gone.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from spoold import host
from spoold.beginning import TOKEN, token
from spoold.escalation import Action, Escalation, Event, named
from spoold.layout import Slot
from spoold.lockfile import is_locked
from spoold.model import Outcome
from spoold.records import EndRecord, Figures, StartRecord

FIRST_LOOK_S: Final = 0.05
LAST_LOOK_S: Final = 1.0
MOST_NAMES: Final = 50
KILLED: Final = "its supervisor was killed"
BOX_WENT_DOWN: Final = "the box went down while it ran"


class Orphans:
    """What one killed supervisor left behind.  `due` is when to look again."""

    def __init__(self, slot: Slot, start: StartRecord, figures: Figures | None) -> None:
        self._slot = slot
        self._marker = os.fsencode(f"{TOKEN}={token(slot, start.run)}")
        self._session = figures.pid if figures is not None else 0
        self._escalation = Escalation(grace_s=start.grace_s)
        self._pause_s = FIRST_LOOK_S
        self._names: dict[int, str] = {}
        self.due = float("-inf")

    @property
    def names(self) -> list[str]:
        """Those that had to be signalled."""
        return list(self._names.values())[:MOST_NAMES]

    def look(self, launcher: int, now: float) -> bool:
        """Search, signal what is due.  True: nothing is left."""
        found = host.processes_of_run(self._marker, self._slot.job_lock, self._session, launcher)
        if not found and not self._lock_held():
            return True
        before = self._escalation.phase
        for event in (Event.STOP, Event.TIME):
            self._escalation, action = self._escalation.step(event, now)
            if action is not Action.NOTHING:
                self._signal(found, action)
        # a new phase is looked at closely at first
        self._pause_s = FIRST_LOOK_S if self._escalation.phase is not before else min(LAST_LOOK_S, self._pause_s * 2)
        self.due = now + self._pause_s
        if self._escalation.due is not None:
            self.due = min(self.due, max(self._escalation.due, now + FIRST_LOOK_S))
        return False

    def _signal(self, found: list[host.Process], action: Action) -> None:
        for process in found:
            host.signal_process(process, signal.SIGTERM if action is Action.TERM else signal.SIGKILL)
            if process.pid != self._session:
                self._names.setdefault(process.pid, named(process.name, process.pid))
        if action is Action.TERM:
            for process in found:
                host.signal_process(process, signal.SIGCONT)

    def _lock_held(self) -> bool:
        try:
            return is_locked(self._slot.job_lock)
        except OSError:
            return True


def lost(start: StartRecord, figures: Figures | None, why: str, leftover: list[str]) -> EndRecord:
    """The end of a run that nobody saw.  What is known of it is what its figures said last."""
    down = why == BOX_WENT_DOWN
    ended_at = (figures.at if figures is not None else start.started_at) if down else time.time()
    return EndRecord(
        run=start.run,
        outcome=Outcome.LOST.value,
        ended_at=ended_at,
        elapsed_s=max(0.0, round(ended_at - start.started_at, 6)),
        cpu_s=figures.cpu_s if figures is not None else 0.0,
        peak_memory=figures.peak if figures is not None else 0,
        pid=figures.pid if figures is not None else 0,
        leftover=leftover,
        why=why,
    )
