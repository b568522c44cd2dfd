"""guarding - the guard at work: measures what runs use, warns, and has the one that `guard` names stopped.

Owns what the guard remembers between two looks.  Decides nothing.  Fails: never; without a reading of memory nobody is stopped.
"""

from __future__ import annotations

from dataclasses import replace

from spoold import guard
from spoold.admission import share_bytes
from spoold.journal import Journal
from spoold.model import Outcome, Queue
from spoold.opening import Opened
from spoold.runs import Runs
from spoold.surroundings import Surroundings


class Guarding:
    """Looks once a second while anything runs."""

    def __init__(self, opened: Opened, queue: Queue, runs: Runs, surroundings: Surroundings, journal: Journal) -> None:
        self._opened = opened
        self._queue = queue
        self._runs = runs
        self._surroundings = surroundings
        self._journal = journal
        self._watch = guard.Watch()

    def look(self, tick: float) -> None:
        """Warn or stop, if there is reason to."""
        runs = self._queue.runs()
        settings = self._surroundings.settings
        if not runs or not settings.guard:
            self._watch = guard.Watch()
            self._journal.once("guard", None)
            return
        for run in runs:
            figures = self._opened.pool.figures(run.run)
            if figures is not None and figures.memory != run.used:
                self._queue.update(replace(run, used=figures.memory))
        reading = self._opened.meter.read(tick)
        self._watch, advice = guard.watch(
            self._watch,
            self._queue.runs(),
            available=None if reading.old else reading.available,
            floor=share_bytes(settings.memory_floor, reading.total),
            patience_s=settings.patience_s,
            tick=tick,
            repeatable=self._runs.repeatable(),
            critical=self._surroundings.memory_critical(tick),
        )
        match advice:
            case guard.Low(text=text):
                self._journal.once("guard", text)
            case guard.StopRun(run=run, why=why):
                self._journal.say(f"{run.file.removesuffix('.toml')} is stopped: {why} run={run.run}")
                self._opened.pool.stop(run.run, Outcome.MEMORY.value)
            case None:
                if self._watch.stopping is None:
                    self._journal.once("guard", None)
