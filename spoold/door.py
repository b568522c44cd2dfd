"""door - which entries of incoming/ are to be looked at, and when.

Owns the list of what waits at the door: hints and a listing put entries on it, `pickup` takes them off or puts them off.  A bad entry costs itself:
it is tried again with growing pauses and never at once.  Never renames anything itself.  Fails: OSError if incoming/ cannot be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from jobspec.names import is_candidate, show
from spoold.journal import Journal
from spoold.model import Box, Queue, Stage
from spoold.pickup import Later, Pickup, Taken
from spoold.settings import Settings
from spoold.store import Store

LITTER_S: Final = 60.0
"""How long something may lie in incoming/ unread before it is named."""
LINGER_S: Final = 0.005
"""Some copy programs close a file and then set its mode by name, a few microseconds later: taken away at once, they would report an error."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0


@dataclass(slots=True)
class _Waiting:
    """One entry at the door: when it is due, and how long the next pause after a failure is."""

    due: float
    pause_s: float = FIRST_PAUSE_S


class Door:
    """incoming/, the claims that an earlier spooler left, and files that users put into ready/ themselves."""

    def __init__(self, store: Store, pickup: Pickup, journal: Journal) -> None:
        self._store = store
        self._pickup = pickup
        self._journal = journal
        self._waiting: dict[tuple[Stage, str], _Waiting] = {}
        self._claims: dict[str, _Waiting] = {}
        self._litter: dict[str, float] = {}
        self._named: set[str] = set()

    def hint(self, stage: Stage, entry: str, tick: float) -> None:
        """Something happened to this entry: look at it as soon as it has been left alone for a moment."""
        if is_candidate(entry):
            self._waiting[(stage, entry)] = _Waiting(tick + LINGER_S)

    def left_claim(self, claim: str, tick: float) -> None:
        """An earlier spooler took this out of incoming/ and did not finish."""
        self._claims[claim] = _Waiting(tick)

    def list(self, tick: float) -> None:
        """Look at all of incoming/."""
        entries = self._store.stage_entries(Stage.INCOMING)
        jobs = {entry for entry in entries if is_candidate(entry)}
        for entry in jobs:
            self._waiting.setdefault((Stage.INCOMING, entry), _Waiting(tick + LINGER_S))
        litter = {entry for entry in entries if not entry.startswith(".") and entry not in jobs}
        self._litter = {entry: self._litter.get(entry, tick) for entry in litter}
        self._named &= litter

    def name_litter(self, tick: float) -> None:
        """Say what has lain in incoming/ for a minute and is no job, so that nothing rots unseen."""
        for entry, since in self._litter.items():
            if tick - since >= LITTER_S and entry not in self._named:
                self._named.add(entry)
                self._journal.say(f"incoming/{show(entry)} is no job and stays there: a job file ends in .toml")

    @property
    def next_due(self) -> float | None:
        """The next moment at which an entry is due, on the clock of `tick`."""
        dues = [waiting.due for waiting in (*self._waiting.values(), *self._claims.values())]
        return min(dues, default=None)

    @property
    def empty(self) -> bool:
        """Nothing that could become a job waits at the door."""
        return not self._waiting and not self._claims

    def work(
        self, queue: Queue, settings: Settings, box: Box, *, now: float, tick: float, more: Callable[[], bool]
    ) -> Iterator[tuple[Stage | None, str, Taken]]:
        """Take what is due, in the order of names, while `more()`; every result but `Later` takes the entry off the list."""
        for claim in sorted(claim for claim, waiting in self._claims.items() if waiting.due <= tick):
            origin = f"{Stage.INCOMING.value}/{claim.partition('~')[2]}"
            waiting = self._claims[claim]
            taken = self._try(waiting, claim, tick, lambda: self._pickup.admit_claim(claim, origin, queue, settings, box, now=now, tick=tick))  # noqa: B023
            if taken is not None:
                del self._claims[claim]
                yield None, claim, taken
        due = sorted((entry, stage.value) for (stage, entry), waiting in self._waiting.items() if waiting.due <= tick)
        for entry, stage_name in due:
            if not more():
                return
            stage = Stage(stage_name)
            waiting = self._waiting[(stage, entry)]
            origin = f"{stage_name}/{entry}"
            taken = self._try(waiting, origin, tick, lambda: self._pickup.take(stage, entry, queue, settings, box, now=now, tick=tick))  # noqa: B023
            if taken is not None:
                del self._waiting[(stage, entry)]
                yield stage, entry, taken

    def _try(self, waiting: _Waiting, origin: str, tick: float, take: Callable[[], Taken]) -> Taken | None:
        """One entry, whatever it does.  None: later."""
        try:
            taken = take()
        except OSError as error:
            waiting.due = tick + waiting.pause_s
            waiting.pause_s = min(LONGEST_PAUSE_S, waiting.pause_s * 2)
            self._journal.once(origin, f"{show(origin)} cannot be taken: {error.strerror or error}; it stays there and is tried again")
            return None
        if isinstance(taken, Later):
            waiting.due = taken.at
            return None
        self._journal.once(origin, None)
        return taken
