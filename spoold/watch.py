"""watch - one run from its spawn to the moment at which no process of it is left.

Owns the wall clock, the end of the main process, what it leaves behind, and the figures; has `escalation` decide whom to signal and when.
Told of stops and woken by its supervisor, it never waits itself and never talks to the spooler.  A run has ended only when nothing of it
can be found by any means and its lock T is free.  Fails: never by itself; a process that cannot be ended keeps the run from ending.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from spoold import host
from spoold.beginning import TOKEN, Begun, token
from spoold.escalation import Action, Escalation, Event, Phase, named
from spoold.layout import Slot
from spoold.lockfile import is_locked
from spoold.records import EndRecord, Figures, Order
from spoold.usage import Usage

LONGEST_WAIT_S: Final = 30.0
FIRST_LOOK_S: Final = 0.02
LAST_LOOK_S: Final = 1.0
MOST_LEFTOVERS: Final = 50
DROPPED: Final = "\nspoold: the log reached its limit of {} bytes, what followed is not kept\n"


class Watch:
    """One run.  `changed` asks for its figures to be written down."""

    def __init__(self, order: Order, begun: Begun, slot: Slot, tracker: host.Tracker, given_orphans: bool) -> None:
        self._order = order
        self._begun = begun
        self._slot = slot
        self._tracker = tracker
        self._given_orphans = given_orphans
        self._escalation = Escalation(grace_s=order.grace_s)
        self._usage = Usage(begun.awake_at)
        self._status: int | None = None
        self._childless = False
        self._look_at: float | None = None
        self._look_s = FIRST_LOOK_S
        self._outcome: str | None = None
        self._why: str | None = None
        self._leftover: dict[int, str] = {}
        self._kept = -1
        self.changed = True
        tracker.begin(begun.pid)

    @property
    def gone(self) -> bool:
        return self._escalation.gone

    def stop(self, outcome: str, why: str | None, now: float) -> None:
        """End it.  If the main process has ended already, its exit status stays the outcome."""
        if self._status is None and self._outcome is None:
            self._outcome, self._why = outcome, why
        self._tell(Event.STOP, now)

    def reap(self, now: float) -> None:
        """Take note of every process of ours that has ended."""
        while not self._childless:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                self._look_at = now
                break
            if pid == 0:
                break
            self._usage.reaped(usage)
            if pid == self._begun.pid:
                self._status = status
        if self._status is not None and self._escalation.phase is Phase.RUNNING and not (self._childless and self._given_orphans):
            self._tell(Event.MAIN_ENDED, now)

    def turn(self, now: float) -> None:
        """Do what is due."""
        self.reap(now)
        wall_at = self._wall_at()
        if wall_at is not None and now >= wall_at:
            self.stop("wall", None, now)
        if self._look_at is not None and now >= self._look_at:
            if self._nothing_left():
                self._tell(Event.EMPTY, now)
                return
            self._look_at = now + self._look_s
            self._look_s = min(LAST_LOOK_S, self._look_s * 2)
            self._tell(Event.MAIN_ENDED, now)
        self._tell(Event.TIME, now)
        if now >= self._usage.due:
            self._usage.look(self._tree(), now)
            self._bound_log()
            self.changed = True

    def due(self, now: float) -> float:
        """Seconds until the next turn has something to do."""
        moments = (self._wall_at(), self._escalation.due, self._look_at, self._usage.due)
        return max(0.0, min(LONGEST_WAIT_S, *(at - now for at in moments if at is not None)))

    def figures(self) -> Figures:
        self.changed = False
        usage = self._usage
        return Figures(
            run=self._order.run,
            pid=self._begun.pid,
            at=time.time(),
            memory=usage.memory,
            peak=usage.peak,
            kind=usage.kind,
            cpu_s=round(usage.cpu_s, 6),
            processes=usage.processes,
            state=self._escalation.phase.value,
        )

    def end(self, now: float) -> EndRecord:
        """How it ended."""
        assert self.gone
        assert self._status is not None
        if self._begun.log_fd >= 0:
            self._bound_log()
            os.close(self._begun.log_fd)
        code = os.waitstatus_to_exitcode(self._status)
        return EndRecord(
            run=self._order.run,
            outcome=self._outcome or ("ok" if code == 0 else "failed"),
            exit=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            ended_at=time.time(),
            elapsed_s=round(now - self._begun.awake_at, 6),
            cpu_s=round(self._usage.cpu_s, 6),
            peak_memory=self._usage.peak,
            pid=self._begun.pid,
            leftover=list(self._leftover.values())[:MOST_LEFTOVERS],
            why=self._why,
        )

    # ------------------------------------------------------------------------------------------------------------------

    def _wall_at(self) -> float | None:
        return None if self._order.wall_s is None or self._escalation.stopping else self._begun.awake_at + self._order.wall_s

    def _nothing_left(self) -> bool:
        # every orphan comes back to a subreaper: without a child there is no descendant.  Elsewhere only the tracker knows
        return (self._given_orphans or not self._tracker.look()) and not self._lock_held()

    def _lock_held(self) -> bool:
        try:
            return is_locked(self._slot.job_lock)
        except OSError:
            return True  # nobody could say: look again

    def _tree(self) -> list[host.Process]:
        """Every process of the run that can be found.  If only T tells that there is one, all of them are searched."""
        tree = self._tracker.look()
        if not tree and self._childless and self._lock_held():
            marker = os.fsencode(f"{TOKEN}={token(self._slot, self._order.run)}")
            tree = host.processes_of_run(marker, self._slot.job_lock, self._begun.pid, 0)
        return tree

    def _tell(self, event: Event, now: float) -> None:
        before = self._escalation.phase
        self._escalation, action = self._escalation.step(event, now)
        self.changed = self.changed or self._escalation.phase is not before
        if action is Action.NOTHING:
            return
        tree = self._tree()
        for process in tree:
            host.signal_process(process, signal.SIGTERM if action is Action.TERM else signal.SIGKILL)
            if self._status is not None and process.pid != self._begun.pid:
                self._leftover.setdefault(process.pid, named(process.name, process.pid))
        if action is Action.TERM:
            for process in tree:
                host.signal_process(process, signal.SIGCONT)

    def _bound_log(self) -> None:
        """A log that passed its limit keeps its first half; the job goes on, for it writes with O_APPEND."""
        fd, limit = self._begun.log_fd, self._order.log_limit
        if fd < 0 or limit is None:
            return
        try:
            size = os.fstat(fd).st_size
            if self._kept >= 0:
                if size > self._kept:
                    os.ftruncate(fd, self._kept)
            elif size > limit:
                os.ftruncate(fd, limit // 2)
                os.write(fd, DROPPED.format(limit).encode())
                self._kept = os.fstat(fd).st_size
        except OSError:
            pass  # the disk's trouble, not the job's
