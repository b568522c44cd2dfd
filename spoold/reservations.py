"""reservations - locks and memory over time: what is free when, and the earliest place for a job.

Owns the profile of conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001): every run holds its units to the end of its wall clock
and grace, every reservation holds its own, and a job's place is the earliest stretch in which all that it asks for is free throughout.
Pure.  Never decides who may take a place: `scheduler` does, in order.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spoold.model import Box, Queue, Ready, Running

FOREVER: Final = float("inf")
OVERDUE_S: Final = 0.001
"""A run that is past its wall clock and grace is expected to end at any moment; it never counts as gone before it is."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a job asks for: a number of units of each lock, bytes of memory, for so many seconds."""

    locks: tuple[tuple[str, int], ...]
    memory: int
    seconds: float


def need_of(job: Ready, box: Box) -> Need:
    """A ready job's need; its memory must be known."""
    locks = tuple((lock, len(box.units(lock)) if units is None else units) for lock, units in job.locks.items())
    return Need(locks, job.memory or 0, job.wall_s + job.grace_s)


def release_at(run: Running, now: float) -> float:
    """The latest moment at which a run gives back what it holds."""
    at = run.started_at + (run.wall_s + run.grace_s)
    return at if at > now else now + OVERDUE_S


def promised(runs: Iterable[Running]) -> int:
    """Bytes that were declared and are not yet used: memory that nobody else may have."""
    return sum(max(0, run.memory - run.used) for run in runs)


class Profile:
    """Free units and memory as a step function of time, from `now` on.

    A step holds from its time to the next one's; the last holds for ever.  Free memory may be negative (something uses more than it said).
    Places are only ever taken, so that what was once found out about the earliest place for a need stays a lower bound for it.
    """

    def __init__(self, queue: Queue, box: Box, now: float) -> None:
        self._box = box
        runs = queue.runs()
        self._times: list[float] = [now]
        self._locks: list[dict[str, int]] = [{}]
        self._memory: list[int] = [0]
        self._known: dict[Need, float] = {}
        self._open: dict[tuple[str, int], float] = {}
        available = box.available if box.available is not None else 0
        free = available - promised(runs) - box.floor
        used: dict[str, int] = {}
        for run in runs:
            for lock, units in run.locks.items():
                used[lock] = used.get(lock, 0) + len(units)
        self._locks[0] = used
        self._memory[0] = free
        for end, run in sorted(((release_at(run, now), run) for run in runs), key=lambda pair: pair[0]):
            if end == FOREVER:
                break
            used = dict(self._locks[-1])
            for lock, units in run.locks.items():
                used[lock] -= len(units)
            free += max(run.memory, run.used)
            if end == self._times[-1]:
                self._locks[-1], self._memory[-1] = used, free
            else:
                self._times.append(end)
                self._locks.append(used)
                self._memory.append(free)

    def fits_now(self, need: Need) -> bool:
        """All of it is free at this moment, whatever comes later."""
        return self._fits(0, need)

    def _fits(self, step: int, need: Need) -> bool:
        if need.memory > 0 and need.memory > self._memory[step]:
            return False
        used = self._locks[step]
        for lock, units in need.locks:  # noqa: SIM110 - the innermost loop of every decision, which a generator would slow down by half
            if used.get(lock, 0) + units > len(self._box.units(lock)):
                return False
        return True

    def bound(self, need: Need) -> float:
        """A moment before which there is no place for this need.  Cheap, and not always the earliest one."""
        bound = self._known.get(need, self._times[0])
        for lock, units in need.locks:
            bound = max(bound, self._opens(lock, units))
        return bound

    def _opens(self, lock: str, units: int) -> float:
        """The first moment at which so many units of this lock are free, be it for a moment only."""
        at = self._open.get((lock, units), self._times[0])
        if at == FOREVER:
            return at
        most = len(self._box.units(lock)) - units
        step = bisect.bisect_right(self._times, at) - 1
        while self._locks[step].get(lock, 0) > most:
            step += 1
            if step == len(self._times):
                at = FOREVER
                break
            at = self._times[step]
        self._open[lock, units] = at
        return at

    def earliest(self, need: Need, not_before: float | None = None) -> float:
        """The earliest moment (from `not_before` on) at which the need is free for all of its seconds; FOREVER if there is none."""
        start = self.bound(need)
        if not_before is not None:
            return self._earliest_from(need, max(start, not_before))
        start = self._known[need] = self._earliest_from(need, start)
        return start

    def _earliest_from(self, need: Need, start: float) -> float:
        if start == FOREVER:
            return start
        times = self._times
        step = bisect.bisect_right(times, start) - 1
        while True:
            end = start + need.seconds
            at = step
            while at < len(times) and times[at] < end:
                if not self._fits(at, need):
                    break
                at += 1
            else:
                return start
            step = at + 1
            if step >= len(times):
                return FOREVER
            start = times[step]

    def reserve(self, need: Need, start: float) -> None:
        """Take the need out of the profile from `start` on for its seconds."""
        first = self._cut(start)
        last = len(self._times) if start + need.seconds == FOREVER else self._cut(start + need.seconds)
        for step in range(first, last):
            used = self._locks[step]
            for lock, units in need.locks:
                used[lock] = used.get(lock, 0) + units
            self._memory[step] -= need.memory

    def _cut(self, at: float) -> int:
        """Make `at` a step of its own; its index."""
        step = bisect.bisect_left(self._times, at)
        if step < len(self._times) and self._times[step] == at:
            return step
        self._times.insert(step, at)
        self._locks.insert(step, dict(self._locks[step - 1]))
        self._memory.insert(step, self._memory[step - 1])
        return step


def choose_units(queue: Queue, box: Box, locks: Mapping[str, int | None], taken: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    """Units of each lock that no run holds and that are not in `taken`; the caller knows that there are enough."""
    chosen: dict[str, tuple[str, ...]] = {}
    for lock, asked in locks.items():
        busy = set(taken.get(lock, ()))
        for run in queue.runs():
            busy.update(run.locks.get(lock, ()))
        units = box.units(lock)
        free = [unit for unit in units if unit not in busy]
        count = len(units) if asked is None else asked
        assert len(free) >= count, f"{count} units of {lock} promised, {len(free)} free"
        chosen[lock] = tuple(free[:count])
    return chosen
