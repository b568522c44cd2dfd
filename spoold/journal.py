"""journal - the spooler's log: one line a move, job first, on standard error.

Owns the form of a log line.  Never fails: a log that cannot be written costs the line and nothing else.
"""

from __future__ import annotations

import datetime
import sys
from typing import Protocol

from jobspec.names import show


class Journal(Protocol):
    """Where the spooler says what it does."""

    def say(self, text: str) -> None:
        """One line."""

    def once(self, key: str, text: str | None) -> None:
        """A condition: said when it begins or changes; None when it is over."""


class StderrJournal:
    """Lines on standard error with the time in front, which launchd, systemd and cron keep in a file."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._standing: dict[str, str] = {}

    def say(self, text: str) -> None:
        if self._quiet:
            return
        now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        try:
            sys.stderr.write(f"{now} {show(text, 2000)}\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            pass

    def once(self, key: str, text: str | None) -> None:
        before = self._standing.get(key)
        if text == before:
            return
        if text is None:
            del self._standing[key]
            self.say(f"over: {before}")
        else:
            self._standing[key] = text
            self.say(text)
