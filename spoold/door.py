"""door - which entries of incoming/ are to be looked at, and when.

Owns the list of what waits at the door: hints and a listing put entries on it, `pickup` takes them off or puts them off.  A bad entry costs itself:
it is tried again with growing pauses and never at once.  Never renames anything itself.  Fails: OSError if incoming/ cannot be listed.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from jobspec.names import is_candidate, show
from spoold.journal import Journal
from spoold.model import Box, Queue, Stage
from spoold.pickup import Claimed, Later, Pickup, Taken
from spoold.settings import Settings
from spoold.store import Store, plain_name

LITTER_S: Final = 60.0
"""How long something may lie in incoming/ unread before it is named."""
LINGER_S: Final = 0.004
"""Some copy programs close a file and then set its mode by name, a few microseconds later: taken away at once, they would report an error."""
MOST_LINGER_S: Final = 0.1
"""The same where processes wait for a processor: such a program may be kept from it just then, the longer the more there are."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
T = TypeVar("T")


@dataclass(slots=True)
class _Waiting:
    """One entry at the door, or one that is claimed: when it is due, since when it is there, and how long the next pause after a failure is.

    `dropped_ns` is when the file came to be as it is: the order in which files without a number get theirs.
    """

    due: float
    since: float
    dropped_ns: int = 0
    pause_s: float = FIRST_PAUSE_S


class Door:
    """incoming/, the claims that an earlier spooler left, and files that users put into ready/ themselves.

    `on_shelf` tells whether an entry of ready/ is that of a job which is accepted: the shelf's, and not the door's; `crowding` how many
    processes want to run for each processor.
    """

    def __init__(self, store: Store, pickup: Pickup, journal: Journal, *, on_shelf: Callable[[str], bool], crowding: Callable[[], float]) -> None:
        self._store = store
        self._pickup = pickup
        self._journal = journal
        self._on_shelf = on_shelf
        self._crowding = crowding
        self._linger = (float("-inf"), LINGER_S)
        self._last_due = float("-inf")
        self._waiting: dict[tuple[Stage, str], _Waiting] = {}
        self._line: list[tuple[float, int, str, int, Stage]] = []
        self._counter = itertools.count()
        self._claims: dict[Claimed, _Waiting] = {}
        self._litter: dict[str, float] = {}
        self._named: set[str] = set()

    def hint(self, stage: Stage, entry: str, tick: float) -> None:
        """Something happened to this entry: look at it as soon as it has been left alone for a moment."""
        if not is_candidate(plain_name(entry) if stage is Stage.READY else entry):
            return
        before = self._waiting.pop((stage, entry), None)
        ident = self._store.ident(self._store.layout.entry(stage, entry))
        if ident is None:
            self._pickup.forget(stage, entry)
        else:
            # never before one that was dropped earlier, and may have to be left alone for longer
            self._last_due = max(self._last_due, tick + self._linger_s(tick))
            self._waiting[(stage, entry)] = _Waiting(self._last_due, tick if before is None else before.since, ident.ctime_ns)
            self._stand_in_line(stage, entry)

    def _linger_s(self, tick: float) -> float:
        if self._linger[0] != tick:
            crowding = self._crowding()
            self._linger = (tick, LINGER_S if crowding <= 1 else min(MOST_LINGER_S, 2 * LINGER_S * crowding))
        return self._linger[1]

    def _stand_in_line(self, stage: Stage, entry: str) -> None:
        waiting = self._waiting[(stage, entry)]
        heapq.heappush(self._line, (waiting.due, waiting.dropped_ns, entry, next(self._counter), stage))

    def _first(self) -> tuple[Stage, str, _Waiting] | None:
        """Who is due first.  Places in the line of those that were taken, or have another place now, are given up."""
        while self._line:
            due, _, entry, _, stage = self._line[0]
            waiting = self._waiting.get((stage, entry))
            if waiting is not None and waiting.due == due:
                return stage, entry, waiting
            heapq.heappop(self._line)
        return None

    def left_claim(self, claim: str, tick: float) -> None:
        """An earlier spooler took this out of incoming/ and did not finish."""
        self._claims[Claimed(claim, f"{Stage.INCOMING.value}/{claim.partition('~')[2]}")] = _Waiting(tick, tick)

    def list(self, tick: float) -> None:
        """Look at all of incoming/."""
        entries = self._store.stage_entries(Stage.INCOMING)
        jobs = {entry for entry in entries if is_candidate(entry)}
        for entry in jobs:
            if (Stage.INCOMING, entry) not in self._waiting:
                self.hint(Stage.INCOMING, entry, tick)
        litter = {entry for entry in entries if entry not in jobs}
        self._litter = {entry: self._litter.get(entry, tick) for entry in litter}
        self._named &= litter

    def name_litter(self, tick: float) -> None:
        """Say what has lain in incoming/ for a minute and is no job, so that nothing rots unseen."""
        for entry, since in self._litter.items():
            if tick - since >= LITTER_S and entry not in self._named:
                self._named.add(entry)
                self._journal.say(f"incoming/{show(entry)} is no job and stays there: a job file ends in .toml and starts with no dot")

    @property
    def next_due(self) -> float | None:
        """The next moment at which an entry is due, on the clock of `tick`."""
        first = self._first()
        dues = [waiting.due for waiting in self._claims.values()]
        return min(dues if first is None else [first[2].due, *dues], default=None)

    @property
    def empty(self) -> bool:
        """Nothing that could become a job waits at the door."""
        return not self._waiting and not self._claims

    def work(self, queue: Queue, settings: Settings, box: Box, *, now: float, tick: float, more: Callable[[], bool]) -> Iterator[tuple[str, Taken]]:
        """Take what is due, in the order in which it was dropped, while `more()`; every result but `Later` takes the entry off the list."""

        def admit(claimed: Claimed, waiting: _Waiting) -> Iterator[tuple[str, Taken]]:
            taken = self._try(waiting, claimed.origin, tick, lambda: self._pickup.admit(claimed, queue, settings, box, now=now, tick=tick))
            if taken is not None:
                del self._claims[claimed]
                yield claimed.origin.rpartition("/")[2], taken

        for claimed in sorted((claimed for claimed, waiting in self._claims.items() if waiting.due <= tick), key=lambda claimed: claimed.claim):
            yield from admit(claimed, self._claims[claimed])
        while (first := self._first()) is not None and first[2].due <= tick and more():
            stage, entry, waiting = first
            heapq.heappop(self._line)
            if stage is Stage.READY and self._on_shelf(entry):
                del self._waiting[(stage, entry)]
                continue
            taken = self._try(waiting, f"{stage.value}/{entry}", tick, lambda: self._pickup.take(stage, entry, queue, tick))  # noqa: B023
            if taken is None:
                self._stand_in_line(stage, entry)
                continue
            del self._waiting[(stage, entry)]
            if isinstance(taken, Claimed):
                self._claims[taken] = _Waiting(tick, tick)
                yield from admit(taken, self._claims[taken])
            else:
                yield entry, taken

    def _try(self, waiting: _Waiting, origin: str, tick: float, take: Callable[[], T]) -> T | None:
        """One entry, whatever it does.  None: later."""
        try:
            taken = take()
        except OSError as error:
            waiting.due = tick + waiting.pause_s
            waiting.pause_s = min(LONGEST_PAUSE_S, waiting.pause_s * 2)
            self._journal.once(origin, f"{show(origin)} cannot be taken: {error.strerror or error}; it is kept and tried again")
            return None
        if isinstance(taken, Later):
            waiting.due = taken.at
            if tick - waiting.since >= LITTER_S:
                self._journal.once(origin, f"{show(origin)} has not been taken for a minute: {taken.why}")
            return None
        self._journal.once(origin, None)
        return taken
