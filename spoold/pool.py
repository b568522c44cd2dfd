"""pool - the spooler's side of the processes: warm supervisors, orders, ends; adoption of what an earlier spooler started.

Owns the supervisors: those with a run and one parked, so that an order finds one that is up.  Tells of each run by exactly one Ended or
Failed.  A slot is used again only when its record is retired, S is ours and T is free.  Never blocks for a fork, for a run or for a dying
process; never touches a job file.  Times are `host.awake()`.
Fails: SpoolError if no supervisor can be had or the slots cannot be read; the caller keeps the job and tries again later.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
from collections.abc import Iterator
from typing import Final

from spoold import adoption, host, slots
from spoold.adoption import LATER_S, SOON_S
from spoold.errors import SpoolError
from spoold.events import Ended, Event, Failed, Started
from spoold.launching import Launching
from spoold.layout import Layout
from spoold.lockfile import is_locked
from spoold.member import Member, State
from spoold.messages import Kind, frame, pack, unpack
from spoold.model import Outcome
from spoold.records import Figures, Order, RunRecord, decode_end, encode_order

__all__ = ["Ended", "Event", "Failed", "Pool", "Started"]

MOST_PARKED: Final = 2
SETTLING_S: Final = 0.05
UNSETTLED_RUNS: Final = 1000
"""How far run numbers are kept away from those of an earlier spooler's orders that may still be on their way."""
STOP_SIGNALS: Final = {Outcome.STOPPED.value: signal.SIGUSR1, Outcome.MEMORY.value: signal.SIGUSR2}

log: Final = logging.getLogger(__name__)


class Pool:
    """One spooler's supervisors."""

    def __init__(self, layout: Layout, *, sync: bool) -> None:
        self._layout = layout
        self._launching = Launching(layout.root, "full" if sync else "fast")
        self._members: dict[int, Member] = {}
        self._runs: dict[int, Member] = {}
        self._parked: list[Member] = []
        self._unsettled: set[int] = set()
        self._last_run = 0
        self._ask_at = float("-inf")
        self._boot = host.boot_id()

    def open(self) -> None:
        """Be ready for orders: the launcher up, one supervisor parked.  May be called again after a SpoolError."""
        try:
            os.makedirs(self._layout.slots, mode=0o700, exist_ok=True)
            for number, (record, held) in self.scan().items():
                self._last_run = max(self._last_run, slots.last_run(self._layout.slot(number)))
                if held and not record.live and number not in self._members:
                    self._unsettled.add(number)
        except OSError as error:
            raise SpoolError(f"the slots of {self._layout.root} cannot be read: {error.strerror}") from error
        if not self._parked:
            self._ask()

    def close(self) -> None:
        """Parked supervisors end; those with a run go on without us."""
        for member in self._members.values():
            member.close()
        self._members.clear()
        self._runs.clear()
        self._parked.clear()
        self._launching.close()

    def renew(self) -> None:
        """The slots on disk were removed: supervisors that wait hold files that are no more, so others take their place."""
        for member in list(self._parked):
            self._forget(member)
        self.open()

    # what is there ----------------------------------------------------------------------------------------------------

    def fds(self) -> list[int]:
        """To poll for reading."""
        found = [member.fd for member in self._members.values()]
        return [fd for fd in (self._launching.fd, *found) if fd >= 0]

    def scan(self) -> dict[int, tuple[RunRecord, bool]]:
        """Every slot on disk: its record, and whether S is held."""
        found = {}
        for number in slots.numbers(self._layout):
            slot = self._layout.slot(number)
            if not slots.sound(slot) and not slots.read(slot).live:
                continue  # garbage, which costs its slot and nothing else
            held = is_locked(slot.supervisor_lock)  # first: what is read after S was found free is the last that was written
            found[number] = (slots.read(slot), held)
        return found

    def settling(self) -> bool:
        """A supervisor of an earlier spooler, without a live record, has not yet ended: it may be about to start what it was ordered.

        When this is over, `scan` shows what came of it.
        """
        for number in list(self._unsettled):
            slot = self._layout.slot(number)
            try:
                held = is_locked(slot.supervisor_lock)
                if slots.read(slot).live or not held:
                    self._last_run = max(self._last_run, slots.last_run(slot))
                    self._unsettled.discard(number)
            except OSError as error:
                log.warning("slot %d cannot be read: %s", number, error)  # so nobody knows whether it has settled
        return bool(self._unsettled)

    def next_run(self) -> int:
        """The number for the next order."""
        return self._last_run + 1 + (UNSETTLED_RUNS if self._unsettled else 0)

    @property
    def slots_in_use(self) -> int:
        """Slots with a run that has not been retired."""
        return len(self._runs)

    def record(self, slot: int) -> RunRecord | None:
        """What the slot's record says now; None if it says nothing."""
        member = self._members.get(slot)
        record = slots.read(self._layout.slot(slot)) if member is None else slots.read_record(member.record)
        return None if record == slots.NO_RECORD else record

    def figures(self, run: int) -> Figures | None:
        """What the run uses."""
        member = self._runs.get(run)
        figures = None if member is None else slots.read_figures(member.record)
        return figures if figures is not None and figures.run == run else None

    # orders -----------------------------------------------------------------------------------------------------------

    def can_start(self) -> bool:
        """A supervisor waits for an order.  Orders given while none does are carried out too, but not in any order among each other."""
        return any(member.up for member in self._parked)

    def start(self, order: Order) -> int:
        """Have it started.  The number of its slot."""
        assert order.run not in self._runs, f"run {order.run} is there already"
        if not self._parked:
            self._ask()
        member = self._parked.pop()
        member.state, member.run = State.RUNNING, order.run
        self._runs[order.run] = member
        self._last_run = max(self._last_run, order.run)
        member.send(frame(Kind.ORDER, encode_order(order)))
        # the next supervisor is asked for by `collect`: nothing may come between two orders
        return member.number

    def stop(self, run: int, outcome: str) -> None:
        """End it, with outcome stopped or memory.  No error if it has ended meanwhile."""
        member = self._runs.get(run)
        if member is None:
            return
        if member.state is State.RUNNING:
            member.send(pack(Kind.STOP, run=run, outcome=outcome))
        elif member.state is State.WATCHED and member.pid and adoption.lives(member):
            try:
                os.kill(member.pid, STOP_SIGNALS[outcome])  # S is held, so the pid is still its own
            except ProcessLookupError:
                pass

    def adopt(self, slot: int, record: RunRecord) -> None:
        """Take over a run that an earlier spooler started: `record` is live."""
        start = record.start
        assert start is not None
        assert record.live
        assert slot not in self._members
        assert start.run not in self._runs
        where = self._layout.slot(slot)
        try:
            fd = os.open(where.record, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise SpoolError(f"run {start.run} cannot be adopted: {error.strerror}: {where.record}") from error
        member = Member(slot, where, fd, None)
        adoption.watch(member, start)
        self._members[slot] = self._runs[start.run] = member
        self._last_run = max(self._last_run, start.run)
        self._unsettled.discard(slot)

    def retire(self, run: int) -> None:
        """The run's file is where it belongs: its slot may be used again."""
        member = self._runs.pop(run, None)
        if member is None:
            return
        assert member.state is State.ENDED, f"run {run} {member.state.value}"
        try:
            slots.retire(member.record, run)
        except OSError as error:
            # the slot stays as it is until the next spooler finds the run ended and its file put away
            log.warning("run %d cannot be marked as retired: %s", run, error)
            self._forget(member)
        else:
            self._park(member)

    # what has happened ------------------------------------------------------------------------------------------------

    def collect(self, now: float) -> list[Event]:
        """What has happened since the last call."""
        events: list[Event] = []
        had_launcher = self._launching.fd >= 0
        self._launching.read()  # first: it says why a supervisor is not there
        if had_launcher and self._launching.fd < 0:
            self._ask_at = now + LATER_S  # whatever ended it may end the next one at once
        ready = self._ready()
        for member in ready:
            if member.connected:
                events += self._hear(member, now)
        for member in list(self._runs.values()):
            if member.state is State.ORPHANED or (member.state is State.WATCHED and (member.exit_fd < 0 or member in ready)):
                try:
                    events += self._look(member, now)
                except OSError as error:
                    log.warning("run %d cannot be looked after: %s", member.run, error)  # the next call looks again
            elif member.has_unsent:
                member.flush()
        if not self._complete and now >= self._ask_at:
            try:
                self._launching.start()
                if not self._parked:
                    self._ask()
            except SpoolError as error:
                log.warning("%s", error)
                self._ask_at = now + LATER_S
        return events

    def next_look(self, now: float) -> float | None:
        """When `collect` is needed although nothing is readable; None: never."""
        moments = [] if self._complete else [self._ask_at]
        for member in self._runs.values():
            if member.has_unsent:
                moments.append(now + SOON_S)
            if member.state is State.WATCHED and member.exit_fd < 0:
                moments.append(now + member.pause_s)
            if member.orphans is not None:
                moments.append(member.orphans.due)
        if self._unsettled:
            moments.append(now + SETTLING_S)
        return max(now, min(moments)) if moments else None

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def _complete(self) -> bool:
        """There is a launcher, and a supervisor for the next order."""
        return bool(self._parked) and self._launching.fd >= 0

    def _ready(self) -> list[Member]:
        poll = select.poll()
        by_fd = {member.fd: member for member in self._members.values() if member.fd >= 0}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        return [by_fd[fd] for fd, _ in poll.poll(0)]

    def _hear(self, member: Member, now: float) -> Iterator[Event]:
        for kind, body in member.read():
            match kind:
                case Kind.UP:
                    member.up = True
                case Kind.STARTED:
                    told = unpack(body)
                    yield Started(told["run"], told["pid"], told["log"], told["at"])
                case Kind.FAILED:
                    told = unpack(body)
                    self._runs.pop(member.run, None)
                    self._park(member)
                    yield Failed(told["run"], told["why"])
                case Kind.ENDED | Kind.LAST:
                    end = decode_end(body)
                    assert end is not None
                    assert end.run == member.run
                    member.state = State.ENDED
                    if kind is Kind.LAST:
                        member.disconnect()
                    yield Ended(end.run, member.number, end)
                case Kind.FAULT:
                    member.fault = unpack(body)["text"]
                    log.error("the supervisor of slot %d died of a fault of its own:\n%s", member.number, member.fault)
                case _:
                    raise AssertionError(kind.name)
        if not member.connected:
            if member.state is State.PARKED:
                self._forget(member)
                self._ask_at = now + LATER_S  # as above
            elif member.state is State.RUNNING:
                adoption.lose(member)

    def _look(self, member: Member, now: float) -> list[Event]:
        refused = self._launching.refused.get(member.number)
        verdict = adoption.look(member, boot=self._boot, launcher=self._launching.pid, refused=refused, now=now)
        if isinstance(verdict, Failed):
            self._runs.pop(member.run)
            self._forget(member)
        return [] if verdict is None else [verdict]

    def _park(self, member: Member) -> None:
        """Its run is over and told: the supervisor is there for the next one, if it still is."""
        member.state, member.run = State.PARKED, 0
        if not member.connected or not member.on_disk:
            self._forget(member)
            return
        self._parked.append(member)
        while len(self._parked) > MOST_PARKED:
            self._forget(self._parked[0])

    def _forget(self, member: Member) -> None:
        member.close()
        self._members.pop(member.number, None)
        if member in self._parked:
            self._parked.remove(member)
        self._launching.refused.pop(member.number, None)

    def _ask(self) -> None:
        """Have one more supervisor forked.  It can be given an order at once: that waits in the socket until it is up."""
        try:
            taken = slots.take(self._layout, self._members)
        except OSError as error:
            raise SpoolError(f"no slot can be had in {self._layout.slots}: {error.strerror}") from error
        member = None
        try:
            ours, theirs = socket.socketpair()
            member = Member(taken.number, taken.slot, taken.record, ours)
            try:
                self._launching.fork(taken.number, theirs.fileno(), taken.lock)
            finally:
                theirs.close()
        except (OSError, SpoolError) as error:
            if member is None:
                os.close(taken.record)
            else:
                member.close()
            raise error if isinstance(error, SpoolError) else SpoolError(f"no supervisor can be had: {error.strerror}") from error
        finally:
            os.close(taken.lock)  # S is on its way to the supervisor, and held without a gap
        self._members[taken.number] = member
        self._parked.insert(0, member)  # behind those that are up
        if taken.number in self._unsettled:
            # whoever had it has just ended: from now on it is ours that holds S
            self._unsettled.discard(taken.number)
            self._last_run = max(self._last_run, slots.last_run(taken.slot))
