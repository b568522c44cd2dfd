"""retention - old records and logs removed, each on a clock of its own, if spool.toml says so.  Nothing is removed by default.

Owns `[keep]`.  The age of a file is that of its last change, which is its last step.  Goes through a directory in small bites, so that a million files never
keep the spooler from its work.  Never touches ready/, running/ or incoming/, the record of a job that another one waits for, or the log of a run.
Fails: OSError of one file costs that file; it is tried again in the next round.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final

from spoold.archive import names_of
from spoold.journal import Journal
from spoold.layout import WHY
from spoold.model import Queue, Stage
from spoold.settings import Settings
from spoold.store import Store

ROUND_S: Final = 3600.0
BITE: Final = 500


class Retention:
    """Removes what is older than it is to be kept."""

    def __init__(self, store: Store, queue: Queue, journal: Journal, *, logs_in_use: Callable[[], set[str]]) -> None:
        self._store = store
        self._queue = queue
        self._journal = journal
        self._logs_in_use = logs_in_use
        self._round: Iterator[None] | None = None
        self._next_round = 0.0
        self._removed = 0

    @property
    def busy(self) -> bool:
        """A round is under way."""
        return self._round is not None

    def look(self, settings: Settings, now: float, tick: float) -> None:
        """A bite of the round that is under way, or the beginning of the next one if it is time."""
        if self._round is None:
            if tick < self._next_round or (settings.keep_done_s, settings.keep_refused_s, settings.keep_log_s) == (None, None, None):
                return
            self._next_round = tick + ROUND_S
            self._removed = 0
            self._round = self._go(settings, now)
        for _ in range(BITE):
            try:
                next(self._round)
            except StopIteration:
                self._round = None
                if self._removed:
                    self._journal.say(f"{self._removed} old files removed, as [keep] says")
                return

    def again(self) -> None:
        """Other settings: do not wait for the next round's time."""
        self._round = None
        self._next_round = 0.0

    def _go(self, settings: Settings, now: float) -> Iterator[None]:
        layout = self._store.layout
        for stage, keep_s in ((Stage.DONE, settings.keep_done_s), (Stage.REFUSED, settings.keep_refused_s)):
            if keep_s is not None:
                for entry in self._old(layout.stage(stage), now - keep_s):
                    if entry is not None and entry.endswith(".toml") and not any(self._queue.asks_about(name) for _, name in names_of(entry)):
                        self._remove(layout.entry(stage, entry))
                        if stage is Stage.REFUSED:
                            self._remove(layout.entry(stage, entry.removesuffix(".toml") + WHY), count=0)
                    yield
        if settings.keep_log_s is not None:
            in_use = self._logs_in_use()
            for entry in self._old(layout.log, now - settings.keep_log_s):
                if entry is not None and entry.endswith(".log") and entry not in in_use:
                    self._remove(f"{layout.log}/{entry}")
                yield

    def _old(self, directory: str, before: float) -> Iterator[str | None]:
        """Regular files that changed last before that moment; None for every other one, so that each counts in the bite."""
        with os.scandir(directory) as found:
            for entry in found:
                try:
                    old = entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < before
                except OSError:
                    old = False
                yield entry.name if old else None

    def _remove(self, path: str, count: int = 1) -> None:
        try:
            os.unlink(path)
        except OSError:
            return
        self._removed += count
