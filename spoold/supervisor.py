"""supervisor - owns one job at a time, from the order to the end record, and is then parked until the next.

Owns its slot: the lock S, which it was born with and holds for life, and the record.  Forked from the launcher, in a session of its own, a
subreaper where the system has that.  One thread, one blocking wait, which a signal, the spooler or a moment of time ends.
Outlives the spooler: without one it carries out what was ordered completely, sees its job through, and then ends; parked, it ends at once.
Signals: USR1 and USR2 stop the job with outcome stopped and memory, for a spooler that adopted it and has no socket; TERM stops it with
outcome lost, for then the box goes down; INT and HUP mean nothing.
Fails: FAILED to the spooler if nothing could be started; any other fault is told as a traceback and is its death, which the spooler
takes for what it is: the processes are orphans then, and the run is lost.
"""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from typing import Final

from spoold import host, records
from spoold.beginning import Begun, Desk, NotStarted
from spoold.command import Unstartable
from spoold.layout import Layout
from spoold.messages import Inbox, Kind, frame, pack, unpack
from spoold.records import EndRecord, Order
from spoold.watch import Watch

TOLD_TO_END: Final = "its supervisor was told to end by a signal, as when the box goes down"
STOPS: Final = {signal.SIGUSR1: "stopped", signal.SIGUSR2: "memory"}
CAUGHT: Final = (signal.SIGCHLD, signal.SIGTERM, *STOPS)
RECORD_TRIES: Final = 3600
RECORD_PAUSE_S: Final = 1.0
CHUNK: Final = 1 << 16


class Bell:
    """Signals as something to poll: each leaves its number in a pipe."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def catch(self, *signals: int) -> None:
        for number in signals:
            signal.signal(number, lambda *_: None)

    def rung(self) -> bytes:
        """The signals that came since the last look."""
        try:
            return os.read(self.fd, CHUNK)
        except BlockingIOError:
            return b""

    def take_down(self) -> None:
        """In a fork: the pipe is the parent's."""
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._write)


class Supervisor:
    """`end` is our end of the spooler's socket pair."""

    def __init__(self, desk: Desk, end: int) -> None:
        self._desk = desk
        self._end = end
        self._connected = True
        self._leaving = False
        self._owed: tuple[bytes, bool] | None = None
        """An end that the spooler was told and the record could not take."""
        self._inbox = Inbox()
        self._given_orphans = host.become_subreaper()
        self._tracker = host.Tracker(os.getpid())
        self._bell = Bell()
        self._bell.catch(*CAUGHT)
        self._poll = select.poll()
        self._poll.register(self._bell.fd, select.POLLIN)
        self._poll.register(end, select.POLLIN)

    def serve(self) -> None:
        """One order after the other, until the spooler is gone or a signal says so."""
        while not self._leaving:
            request = self._inbox.take()
            if request is not None:
                kind, body = request
                if kind is Kind.ORDER:
                    self._owed = None  # a spooler that gives the next order has put the last run away
                    self._carry_out(records.decode_order(body))
                # a STOP that finds us parked came too late: its run has ended
            elif self._connected:
                self._wait(None)
                self._leaving = signal.SIGTERM in self._bell.rung()
            else:
                if self._owed is not None:
                    self._record_end(*self._owed)
                return

    # one run ----------------------------------------------------------------------------------------------------------

    def _carry_out(self, order: Order) -> None:
        try:
            begun = self._desk.begin(order)
        except NotStarted as error:
            self._send(pack(Kind.FAILED, run=order.run, why=str(error)))
            return
        except Unstartable as error:
            end = EndRecord(run=order.run, outcome="failed", ended_at=time.time(), unstartable=str(error))
        else:
            end = self._see_through(order, begun)
        area = records.encode_end(end)
        self._owed = None if self._record_end(area, order.sync) else (area, order.sync)
        self._leaving = self._leaving or self._desk.spoiled or not self._connected
        self._send(frame(Kind.LAST if self._leaving else Kind.ENDED, area))

    def _see_through(self, order: Order, begun: Begun) -> EndRecord:
        watch = Watch(order, begun, self._desk.slot, self._tracker, self._given_orphans)
        self._note(watch)
        self._send(pack(Kind.STARTED, run=order.run, pid=begun.pid, log=begun.log, at=begun.started_at))
        now = host.awake()
        while not watch.gone:
            self._wait(watch.due(now))
            now = host.awake()
            rung = self._bell.rung()
            if signal.SIGTERM in rung:
                # before anybody is reaped: when a box goes down, the job is told to end at the same moment
                self._leaving = True
                watch.stop("lost", TOLD_TO_END, now)
            watch.reap(now)
            for number, outcome in STOPS.items():
                if number in rung:
                    watch.stop(outcome, None, now)
            self._hear(watch, order.run, now)
            watch.turn(now)
            if watch.changed and not watch.gone:
                self._note(watch)
        return watch.end(now)

    def _hear(self, watch: Watch, run: int, now: float) -> None:
        while (request := self._inbox.take()) is not None:
            kind, body = request
            assert kind is Kind.STOP, f"{kind.name} while a job runs"
            stop = unpack(body)
            if stop["run"] == run:
                watch.stop(stop["outcome"], None, now)

    def _note(self, watch: Watch) -> None:
        try:
            self._desk.write(records.encode_figures(watch.figures()), records.FIGURES_AT, False)
        except OSError:
            pass  # figures are for show and for the memory rule: a job does not depend on them

    def _record_end(self, area: bytes, sync: bool) -> bool:
        """While there is a spooler to be told, a record that cannot be written holds nothing up; alone, the record is all there is."""
        for _ in range(RECORD_TRIES):
            try:
                self._desk.write(area, records.END_AT, sync)
            except OSError:
                if self._connected:
                    return False
                self._wait(RECORD_PAUSE_S)
                if signal.SIGTERM in self._bell.rung():
                    return False
            else:
                return True
        return False

    def say_up(self) -> None:
        """Ready for an order; one may be there already, also from a spooler that has ended since."""
        try:
            os.write(self._end, frame(Kind.UP, b""))
        except ConnectionError:
            pass  # what it said before it ended is still to be read

    # the conversation -------------------------------------------------------------------------------------------------

    def _wait(self, seconds: float | None) -> None:
        """Until something happens, or for so long.  What the spooler says goes into the inbox."""
        for fd, _ in self._poll.poll(None if seconds is None else seconds * 1000):
            if fd == self._end:
                try:
                    data = os.read(self._end, CHUNK)
                except ConnectionError:
                    data = b""
                if data:
                    self._inbox.feed(data)
                else:
                    self._part()

    def _send(self, data: bytes) -> None:
        try:
            while data and self._connected:
                data = data[os.write(self._end, data) :]
        except ConnectionError:
            self._part()

    def _part(self) -> None:
        """The spooler is gone."""
        self._connected = False
        self._poll.unregister(self._end)


def supervise(layout: Layout, number: int, end: int, boot: str, box: str, durable: bool) -> None:
    """The life of a supervisor, in the process that the launcher has just forked."""
    try:
        os.setsid()
        desk = Desk(layout.root, layout.slot(number), boot, box)
        supervisor = Supervisor(desk, end)
        try:
            desk.open_record(durable)  # while nobody waits for it
        except OSError:
            pass  # tried again for the first order, which is told why
        supervisor.say_up()
        supervisor.serve()
    except BaseException:
        os.write(end, pack(Kind.FAULT, text=traceback.format_exc()))
        raise
