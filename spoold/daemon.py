"""daemon - one turn of the crank: what ended, who starts, what was dropped, what users changed; and how long to wait.

Owns the spooler's loop and its signals.  Joins the edges and holds no rule of its own: `scheduler` decides, `store` moves, `pool` runs.
Killed at any moment it loses nothing: everything it knows is read again from the disk at the next start.
Fails: AnotherRunsError, SpoolError or BadSettingsError at the start; after that the spool's own failures are said, and tried again later.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from spoold import host
from spoold.crank import Crank
from spoold.errors import AnotherRunsError, Exit, SpoolError
from spoold.journal import Journal, StderrJournal
from spoold.layout import Layout
from spoold.opening import open_spool

LONGEST_WAIT_S: Final = 1.0
"""A lost event costs no more than this."""


class Signals:
    """SIGTERM, SIGINT and SIGHUP as flags, and a descriptor that wakes the loop."""

    def __init__(self) -> None:
        self.end = False
        self.reload = False
        self.fd, self._write_fd = os.pipe()
        for fd in (self.fd, self._write_fd):
            os.set_blocking(fd, False)
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Signals:
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._write_fd)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self.reload = True
        else:
            self.end = True

    def drain(self) -> None:
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            pass


def run(layout: Layout, *, until_empty: bool = False, quiet_if_running: bool = False, journal: Journal | None = None) -> int:
    """Be the spooler of this spool until a signal says otherwise, or until nothing is left to do.  The exit code."""
    journal = journal if journal is not None else StderrJournal()
    # first: a signal that comes while the spool is being opened is a signal to the spooler, too
    with Signals() as signals:
        try:
            opened = open_spool(layout, journal)
        except AnotherRunsError:
            if quiet_if_running:
                return Exit.OK
            raise
        with opened:
            crank = Crank(opened, journal)
            try:
                crank.recover()
            except OSError as error:
                raise SpoolError(f"{error.filename or layout.root}: {error.strerror or error}; start again when this is mended, running jobs go on") from error
            journal.say(f"spoold runs on {layout.root}, pid {os.getpid()}")
            _turn(crank, signals, until_empty)
            crank.say_goodbye()
    return Exit.OK


def _turn(crank: Crank, signals: Signals, until_empty: bool) -> None:
    while not signals.end:
        if signals.reload:
            signals.reload = False
            crank.reload()
        crank.turn(time.time(), host.awake())
        if until_empty and crank.idle_for_good():
            crank.say_what_is_left()
            return
        _wait(crank, signals)


def _wait(crank: Crank, signals: Signals) -> None:
    """Until something happens, or until it is time to look."""
    timeout_s = min(LONGEST_WAIT_S, crank.patience(time.time(), host.awake()))
    poll = select.poll()
    for fd in (signals.fd, *crank.fds()):
        poll.register(fd, select.POLLIN)
    if signals.end or signals.reload:
        return
    poll.poll(max(0.0, timeout_s) * 1000)
    signals.drain()
