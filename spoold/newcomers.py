"""newcomers - what is new in the queue, or says something new: what it means for itself and for others.

Owns the consequences of what users did in ready/: a withdrawal is an end for those who wait for it, an edit or another name may make a job impossible or
close a cycle, whose members are all refused.  Never looks at ready/ itself: that is `shelf`'s.  Fails: never; a refusal that the disk does not allow is
tried again.
"""

from __future__ import annotations

from spoold import dependencies
from spoold.admission import never
from spoold.dates import Dates
from spoold.door import Door
from spoold.journal import Journal
from spoold.ledger import Ledger
from spoold.model import Ended, Fate, Queue, Ready, Refuse, Stage
from spoold.opening import Opened
from spoold.refusing import Refusing
from spoold.shelf import Changes
from spoold.starting import Starting
from spoold.store import plain_name
from spoold.surroundings import Surroundings
from spoold.survey import resolve_ends


class Newcomers:
    """Judges what has changed in the queue."""

    def __init__(
        self,
        opened: Opened,
        queue: Queue,
        door: Door,
        ledger: Ledger,
        refusing: Refusing,
        starting: Starting,
        surroundings: Surroundings,
        dates: Dates,
        journal: Journal,
    ) -> None:
        self._opened = opened
        self._queue = queue
        self._door = door
        self._ledger = ledger
        self._refusing = refusing
        self._starting = starting
        self._surroundings = surroundings
        self._dates = dates
        self._journal = journal

    def apply(self, changes: Changes, now: float, tick: float) -> None:
        """What users did in ready/, as far as others are concerned."""
        if not changes:
            return
        self._starting.stale = True
        for old, new in changes.renamed:
            if old.key != new.key or old.held != new.held:
                self._journal.say(f"{old.file.removesuffix('.toml')} ready -> ready as {new.file}")
        for job in changes.withdrawn:
            self._journal.say(f"{job.file.removesuffix('.toml')} was taken out of ready/: withdrawn")
            if self._queue.waiting_for(job.name):
                self._ledger.add(job.seq, job.name, self._dates.date(now))
            self._queue.note_end(Ended(seq=job.seq, name=job.name, at=self._dates.date(now), how=Fate.WITHDRAWN))
        for job, entry, why in changes.broken:
            refused_as = self.refuse_entry(Stage.READY, entry, why)
            if refused_as is None:
                self._door.hint(Stage.READY, entry, tick)  # it is tried again there
            file = f"refused/{refused_as or plain_name(entry)}"
            self._queue.note_end(Ended(seq=job.seq, name=job.name, at=self._dates.date(now), how=Fate.REFUSED, file=file))
        for entry in changes.foreign:
            self._door.hint(Stage.READY, entry, tick)
        for job in (*changes.changed, *(new for _, new in changes.renamed)):
            self.check(job, now, tick)

    def check(self, job: Ready, now: float, tick: float) -> None:
        """A job that is new in the queue, or that says something new: impossible, or part of a cycle?"""
        current = self._queue.live(job.name)
        if not isinstance(current, Ready):
            return
        if current.waits_for_jobs:
            resolve_ends(self._queue, self._opened.archive, only=current)
        problems = never(current, self._surroundings.box(tick))
        if problems:
            self._refuse(Refuse(current, "; ".join(problems)), now)
            return
        cycle = dependencies.find_cycle(self._queue, current)
        if cycle is not None:
            text = dependencies.cycle_text(cycle)
            for member in [self._queue.live(name) for name in cycle]:
                if isinstance(member, Ready):
                    self._refuse(Refuse(member, text), now)

    def _refuse(self, refuse: Refuse, now: float) -> None:
        self._refusing.refuse(refuse, now)
        self._starting.stale = True

    def refuse_entry(self, stage: Stage, entry: str, why: str) -> str | None:
        """A file that is no job of the queue; the name that it got in refused/."""
        self._starting.stale = True
        return self._refusing.refuse_entry(stage, entry, why)
