"""ends - one job until its end is known, and the exit code that stands for it.

Owns the rules of `wait`, `submit --wait` and `log -f`: a job is followed by its NAME through reorders, retries and restarts of the spooler, and its
end is the first one of that NAME that was not there before.  Looks with one stat as long as nothing moves.  Never changes anything.

The exit code: the job's own; 128 + N for one that ended by signal N; for a wall clock its own if it is not 0, else 124, for memory else 137, for a stop
else 143; 70 for lost, 65 for refused, 66 for withdrawn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobspec import trace
from jobspec.names import show, stem
from spoold import claim, slots
from spoold.archive import names_of
from spoold.cli.jobs import ENDED, EVERYWHERE, Jobs, Place
from spoold.cli.look import ended_view
from spoold.cli.terminal import complain
from spoold.errors import Exit, NoSpoolerError, NoSuchError
from spoold.layout import Layout
from spoold.model import Outcome, Stage
from spoold.records import RunRecord
from spoold.rows import ended_words
from spoold.settings import Settings
from spoold.store import Store
from spoold.view import JobView, last_life

LOOK_S: Final = 0.1
AWAY_S: Final = 2.5
"""A file that is nowhere for so long was taken away: the spooler itself waits for two seconds, since editors save by moving the old file away."""

NOBODY_S: Final = 30.0
"""How long there may be no spooler before waiting is given up: whoever keeps it up starts it again sooner."""

_Mark = tuple[Stage, str, int]


class Waiting:
    """The pauses of somebody who waits for a job's end, which only a spooler brings about."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._alone_since: float | None = None
        self._looked_at = float("-inf")

    def pause(self) -> None:
        """A tenth of a second.  NoSpoolerError when there has been no spooler for half a minute."""
        now = time.monotonic()
        if now - self._looked_at >= 1.0:
            self._looked_at = now
            if claim.is_held(self._layout.owner):
                self._alone_since = None
            elif self._alone_since is None:
                self._alone_since = now
                complain(f"no spooler runs: this waits {NOBODY_S:g} s for one")
            elif now - self._alone_since >= NOBODY_S:
                raise NoSpoolerError("no spooler runs, so nothing will end; `spoold run` is the spooler, then wait again")
        time.sleep(LOOK_S)


def exit_code(view: JobView) -> int:
    """What `wait` exits with for a job that has ended."""
    if view.outcome is None:
        return Exit.BAD_JOB if view.stage is Stage.REFUSED else Exit.NO_INPUT
    if view.outcome is Outcome.LOST:
        return Exit.INTERNAL
    if view.exit:
        return view.exit
    match view.outcome:
        case Outcome.WALL:
            return 124
        case Outcome.MEMORY:
            return 137
        case Outcome.STOPPED:
            return 143
        case _:
            return 0 if view.signal is None else 128 + view.signal


def end_text(view: JobView, at: str = "") -> str:
    """The end in a sentence that begins with the NAME.  `at` is when; it stands before a reason, which may be long and end in a number."""
    if view.stage is Stage.REFUSED:
        when = f" {at}" if at else ""
        return f"{show(view.name)} was refused{when}" + (f": {show(view.reasons[0].text, 2000)}" if view.reasons else "")
    text = f"{show(view.name)} was withdrawn before it ended" if view.gone else f"{show(view.name)} ended {ended_words(view)}"
    return f"{text}, {at}" if at else text


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job is: `place` while it has not ended, then `end`.  Another `inode` is another file: its run may be another one too."""

    place: Place | None = None
    end: JobView | None = None
    inode: int | None = None


class Awaited:
    """One job.  The word is looked up once; from then on its NAME counts."""

    def __init__(self, store: Store, word: str) -> None:
        self.store = store
        self._jobs = Jobs(store)
        place = self._jobs.one(word, EVERYWHERE)
        self.name = place.name
        self._before: set[_Mark] = set()
        self._end: JobView | None = None
        self._place: Place | None = None
        self._away_since: float | None = None
        if place.stage in ENDED:
            self._end = ended_view(store, place.stage, place.entry, Settings(), place.name)
            return
        self._before = self._marks()
        # only now: an end between the two looks would have been counted as an old one
        self._place = self._live()
        if self._place is None:
            place = self._jobs.one(self.name, EVERYWHERE)
            if place.stage in ENDED:
                self._end = ended_view(store, place.stage, place.entry, Settings(), place.name)
            else:
                self._place = place

    def look(self) -> Standing:
        """Where it is now."""
        if self._end is not None:
            return Standing(end=self._end)
        if self._place is not None and not self._place.taken:
            ident = self.store.ident(self.store.layout.entry(self._place.stage, self._place.entry))
            if ident is not None:
                return Standing(place=self._place, inode=ident.ino)
        place = self._live()
        if place is not None:
            self._away_since = None
            self._place = place
            return Standing(place=place)
        record = self.record()
        self._end = self._new_end(record)
        if self._end is not None:
            return Standing(end=self._end)
        if record is not None:
            return Standing(place=self._place)
        now = time.monotonic()
        self._away_since = now if self._away_since is None else self._away_since
        if now - self._away_since < AWAY_S:
            return Standing(place=self._place)
        raise NoSuchError(f"{show(self.name)} was taken out of the spool")

    def _live(self) -> Place | None:
        return next((place for place in self._jobs.live() if place.name == self.name), None)

    def _marks(self) -> set[_Mark]:
        """The files in done/ and refused/ that may be ends of this NAME."""
        found = set()
        for stage in ENDED:
            for entry in self.store.stage_entries(stage):
                if self.name in entry and (any(name == self.name for _, name in names_of(entry)) or stem(entry) == self.name):
                    ident = self.store.ident(self.store.layout.entry(stage, entry))
                    if ident is not None:
                        found.add((stage, entry, ident.ino))
        return found

    def _new_end(self, record: RunRecord | None) -> JobView | None:
        for stage, entry, _ in sorted(self._marks() - self._before, key=lambda mark: (mark[0].value, mark[1])):
            view = ended_view(self.store, stage, entry, Settings(), self.name)
            if view is not None and not (view.gone and record is not None):
                return view
        return None

    def record(self) -> RunRecord | None:
        """The record of its run that is not put away yet."""
        for number in slots.numbers(self.store.layout):
            record = slots.read(self.store.layout.slot(number))
            if record.live and record.start is not None and record.start.name == self.name:
                return record
        return None


def steps_of(store: Store, place: Place) -> tuple[Mapping[str, Any], ...]:
    """The history of a job's present life, as its file tells it."""
    try:
        data = store.open_own(store.layout.entry(place.stage, place.entry)).data
    except OSError:
        return ()
    return () if data is None else tuple(last_life(trace.read(data)))


def logs_in(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The logs of the runs in a history, the oldest first."""
    return [log for step in steps if step.get("step") == "started" and isinstance(log := step.get("log"), str)]


def log_path(store: Store, log: str) -> str:
    """Where a log lies.  A history is what a file says: no path in it leads out of log/."""
    return f"{store.layout.log}/{os.path.basename(log)}"
