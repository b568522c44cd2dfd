"""following - `log`: a job's output, and with -f until its end.

Owns the copying of a log to standard output, byte for byte.  Follows a job across its start and its retries.  Never looks more often than ten times
a second.  Fails: NoSuchError for a job that has no output yet.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import Final

import click

from jobspec import trace
from jobspec.names import show
from spoold.archive import snapshot
from spoold.cli.completing import JOB
from spoold.cli.ends import Awaited, Waiting, end_text, exit_code, log_path, logs_in, steps_of
from spoold.cli.jobs import Place
from spoold.cli.look import look
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import complain, say
from spoold.errors import NoSuchError
from spoold.model import Stage
from spoold.rows import short
from spoold.store import Store
from spoold.view import JobView, last_life

_BLOCK: Final = 64 * 1024
_PATIENCE_S: Final = 1.0
"""How long a job may take to start before it is said that it waits."""


@verb(
    "log",
    examples="""
spoold log g52
spoold log -f g52             until it has ended; exits as it does
spoold log -fn 20 @           from the last twenty lines on
less $(spoold log --path g52)
""",
)
@click.argument("job", metavar="JOB", type=JOB)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, and exit as it does.")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Begin with the last N lines.")
@click.option("--path", is_flag=True, help="Print where the log lies instead.")
@pass_session
def log(session: Session, job: str, follow: bool, lines: int | None, path: bool) -> int:
    """Print the output of a job's last run.

    With -f a job that has not started is waited for.  What it wrote is printed as it is, whatever it does to a terminal.
    """
    store = Store(session.layout)
    if follow and not path:
        return _follow_from_now(store, job, lines)
    awaited = Awaited(store, job)
    last = _last_log(awaited)
    if last is None:
        raise NoSuchError(f"{show(awaited.name)} has no output: it has not started; `spoold why {show(awaited.name)}` says why")
    where = log_path(store, last)
    if path:
        say(show(where, 4096))
        return 0
    copy = Copy(where, lines)
    copy.go_on()
    copy.close()
    return 0


def _last_log(awaited: Awaited) -> str | None:
    """The log of a job's last run."""
    standing = awaited.look()
    if standing.end is not None:
        return standing.end.log
    record = awaited.record()
    if record is not None and record.start is not None:
        return record.start.log
    logs = [] if standing.place is None else logs_in(steps_of(awaited.store, standing.place))
    return logs[-1] if logs else None


class Copy:
    """One log on its way to standard output."""

    def __init__(self, path: str, lines: int | None = None) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise NoSuchError(f"{show(path)} is not there any more") from error
        self._at = 0 if lines is None else _last_lines(self._fd, lines)

    def go_on(self) -> None:
        """Everything that has come since."""
        if os.fstat(self._fd).st_size < self._at:
            # a log that is cut at its limit begins anew
            self._at = 0
        sys.stdout.flush()
        while block := os.pread(self._fd, _BLOCK, self._at):
            self._at += len(block)
            sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()

    def close(self) -> None:
        os.close(self._fd)


def _last_lines(fd: int, lines: int) -> int:
    """Where the last so many lines begin."""
    at = os.fstat(fd).st_size
    wanted = lines
    ends_in_newline = at > 0 and os.pread(fd, 1, at - 1) == b"\n"
    end = at - 1 if ends_in_newline else at
    if wanted == 0:
        return at
    while end > 0:
        begin = max(0, end - _BLOCK)
        block = os.pread(fd, end - begin, begin)
        while (found := block.rfind(b"\n")) >= 0:
            wanted -= 1
            if wanted == 0:
                return begin + found + 1
            block = block[:found]
        end = begin
    return 0


class Output:
    """The logs of a job's runs, one after the other.  `past`: those that are not wanted."""

    def __init__(self, store: Store, lines: int | None, past: Iterable[str]) -> None:
        self._store = store
        self._lines = lines
        self._done = set(past)
        self._copy: Copy | None = None

    @property
    def begun(self) -> bool:
        return self._copy is not None

    def runs(self, logs: Iterable[str]) -> None:
        """Go on with the logs of these runs; those that were printed already are not printed again."""
        for log in logs:
            if log in self._done:
                continue
            self._done.add(log)
            if self._copy is not None:
                self._copy.go_on()
                self._copy.close()
                complain(f"it runs again: {show(log)}")
            self._copy = Copy(log_path(self._store, log), self._lines if self._copy is None else None)
            self._copy.go_on()

    def go_on(self) -> None:
        if self._copy is not None:
            self._copy.go_on()


def follow(store: Store, name: str) -> int:
    """Print all that a job writes which was queued a moment ago, until it has ended; its exit code."""
    return _follow(store, Awaited(store, name), Output(store, None, ()))


def _follow_from_now(store: Store, word: str, lines: int | None) -> int:
    """The same for a job that may have a past: of the runs that it has behind itself only the last counts, if it is the end."""
    awaited = Awaited(store, word)
    standing = awaited.look()
    logs = logs_in(steps_of(store, standing.place or _place_of(standing.end)))
    record = awaited.record()
    now = record.start.log if record is not None and record.start is not None else logs[-1] if logs and standing.end is not None else None
    return _follow(store, awaited, Output(store, lines, (log for log in logs if log != now)))


def _follow(store: Store, awaited: Awaited, output: Output) -> int:
    begun = time.monotonic()
    told = False
    looked_at: int | None = None
    waiting = Waiting(store.layout)
    while True:
        standing = awaited.look()
        if standing.place is not None and standing.place.stage is Stage.RUNNING and looked_at != standing.inode:
            record = awaited.record()
            if record is not None and record.start is not None:
                looked_at = standing.inode
                # what it ran before stands in the file that was started
                output.runs([*logs_in(last_life(trace.read(snapshot(record.start)))), record.start.log])
        output.go_on()
        if standing.end is not None:
            output.runs(logs_in(steps_of(store, _place_of(standing.end))))
            code = exit_code(standing.end)
            if code:
                complain(end_text(standing.end))
            return code
        if not told and not output.begun and time.monotonic() - begun > _PATIENCE_S:
            told = True
            complain(f"{show(awaited.name)} has not started: {_why(store, awaited.name)}")
        waiting.pause()


def _place_of(end: JobView | None) -> Place:
    assert end is not None
    stage, _, entry = end.file.partition("/")
    return Place(Stage(stage), entry, end.name, end.seq)


def _why(store: Store, name: str) -> str:
    """Why a job waits, in a few words."""
    found = look(store.layout)
    if found.spooler is None:
        return "no spooler runs"
    return short(found.reasons.get(name, ()), found.now) or "it is about to"
