"""scheduler - `decide(queue, box, now)`: who starts now, who can never run, and when to look again.

Owns the order of starts.  Jobs that wait for others, for a time or for a hold are passed over; among the rest the earlier placed goes first.
"strict": none passes.  "backfill": a later job passes only into a place in which no earlier one can start any later for it.
Pure: no clock, no disk; the same queue gives the same decision.  Why a job waits is `explanation`'s.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from spoold import dependencies
from spoold.admission import never
from spoold.lineup import Shape
from spoold.model import Box, Key, Queue, Ready, Refuse, Start
from spoold.reservations import FOREVER, Need, Profile, choose_units, need_of

BLOCKED_SHOWN: Final = 4
MOST_RESERVATIONS: Final = 1000
"""How many earlier jobs one decision gives a place to.  Behind more of them nobody passes: that delays a later job and never an earlier one."""


@dataclass(slots=True)
class Decision:
    """What to do now, in this order, and the next moment at which time alone may change the answer."""

    refuse: list[Refuse] = field(default_factory=list)
    start: list[Start] = field(default_factory=list)
    look_again: float | None = None
    blocked: list[Ready] = field(default_factory=list)
    """The first few that only locks, memory or the order keep waiting."""

    def at(self, moment: float) -> None:
        self.look_again = moment if self.look_again is None else min(self.look_again, moment)


def eligible(queue: Queue, job: Ready, now: float) -> bool:
    """It waits for nobody, no time and no hold: only locks, memory and the order can keep it."""
    return not job.sits and job.memory is not None and (job.not_before is None or job.not_before <= now) and dependencies.stand(queue, job).satisfied


def doomed(queue: Queue, now: float) -> Iterator[Refuse]:
    """Ready jobs that can never run any more; one that somebody may be editing is left alone until it is back."""
    given_up = set()
    for job in queue.gave_up(now):
        if not job.away:
            given_up.add(job.key)
            waited = dependencies.when(job.accepted_at)
            yield Refuse(job, f"it was not started within its give_up (accepted {waited}); drop it again, or give it longer")
    for key in queue.lineup.special:
        job = queue[key]
        if job.waits_for_jobs and not job.away and key not in given_up:
            why = dependencies.stand(queue, job).refusal
            if why is not None:
                yield Refuse(job, why)


def decide(queue: Queue, box: Box, now: float) -> Decision:
    """One decision over the whole queue.  Refusals come first: an end may let others go on, at the next decision.

    Ready jobs stand in one line a shape; a line whose first job cannot start now is left at once, so that the cost follows the number of shapes and of
    jobs with conditions, not the length of the queue.
    """
    decision = Decision()
    decision.refuse.extend(doomed(queue, now))
    give_up = queue.lineup.next_give_up(now)
    if give_up is not None:
        decision.at(give_up)
    if box.paused is not None or box.closed is not None:
        return decision
    refused = {refuse.job.key for refuse in decision.refuse}
    lines = [_Line(_ripe(queue, refused, now, decision), None)]
    for shape, keys in queue.lineup.shapes.items():
        lines.append(_Line([key for key in keys if key not in refused] if refused else keys, shape))
    heads = [(line.keys[0], number) for number, line in enumerate(lines) if line.keys]
    heapq.heapify(heads)
    turn = _Turn(queue, box, now, decision)
    while heads:
        key, number = heapq.heappop(heads)
        line = lines[number]
        job = queue[key]
        problems = never(job, box)
        if problems:
            decision.refuse.append(Refuse(job, "; ".join(problems)))
        elif not turn.start(job):
            if box.strict:
                break
            if line.shape is not None:
                turn.block(line)
                continue
            turn.block(_Line((key,), None))
        line.at += 1
        if line.at < len(line.keys):
            heapq.heappush(heads, (line.keys[line.at], number))
    return decision


def _ripe(queue: Queue, refused: set[Key], now: float, decision: Decision) -> list[Key]:
    """Jobs with conditions whose conditions are all met; notes when time alone may meet them, and parks those that only an event can let go on."""
    ripe = []
    for key in tuple(queue.lineup.special):
        job = queue[key]
        if key in refused:
            continue
        if job.sits or job.memory is None or not dependencies.stand(queue, job).satisfied:
            queue.lineup.park(key)
        elif job.not_before is not None and job.not_before > now:
            decision.at(job.not_before)
        else:
            ripe.append(key)
    return ripe


@dataclass(slots=True)
class _Line:
    """Keys in order, from `at` on not yet decided about.  They are of one shape, or (None) those that had to be judged one by one."""

    keys: Sequence[Key]
    shape: Shape | None
    at: int = 0


@dataclass(slots=True)
class _Blocked:
    """Jobs of one need, in order, that do not start now; up to `placed` they have their place in the profile, or can have none."""

    need: Need
    keys: Sequence[Key]
    placed: int = 0

    def next_before(self, key: Key) -> Key | None:
        """The first one without a place that is placed earlier in the queue than this job."""
        return self.keys[self.placed] if self.placed < len(self.keys) and self.keys[self.placed] < key else None


class _Turn:
    """One decision while it is being made: what is taken, and who waits in front of whom."""

    def __init__(self, queue: Queue, box: Box, now: float, decision: Decision) -> None:
        self._queue = queue
        self._box = box
        self._now = now
        self._decision = decision
        self._profile = Profile(queue, box, now)
        self._taken: dict[str, set[str]] = {}
        self._blocked: list[_Blocked] = []
        self._one_by_one: dict[Need, list[Key]] = {}
        self._closed: set[Need] = set()
        self._reservations = 0

    def start(self, job: Ready) -> bool:
        """Start an eligible job if it can start now and nobody before it would start later for it."""
        need = need_of(job, self._box)
        # what was refused to an earlier job of this need is refused to this one: places are only ever taken
        if need in self._closed or not self._profile.fits_now(need) or not self._has_place_now(job, need):
            self._closed.add(need)
            if len(self._decision.blocked) < BLOCKED_SHOWN:
                self._decision.blocked.append(job)
            return False
        self._profile.reserve(need, self._now)
        locks = choose_units(self._queue, self._box, job.locks, self._taken)
        for lock, units in locks.items():
            self._taken.setdefault(lock, set()).update(units)
        self._decision.start.append(Start(job, locks))
        return True

    def block(self, line: _Line) -> None:
        """These do not start now; who comes later must not delay them."""
        need = need_of(self._queue[line.keys[line.at]], self._box)
        if line.shape is not None:
            self._blocked.append(_Blocked(need, line.keys, line.at))
        elif need in self._one_by_one:
            self._one_by_one[need] += line.keys
        else:
            keys = self._one_by_one[need] = list(line.keys)
            self._blocked.append(_Blocked(need, keys))

    def _has_place_now(self, job: Ready, need: Need) -> bool:
        """Its place is now, after those that are before it in the queue have theirs."""
        return self._place_earlier(job.key, need) and self._profile.earliest(need) == self._now

    def _place_earlier(self, key: Key, need: Need) -> bool:
        """Give places to those before it that it could delay, until all that are left come after its end.  False: they are too many to tell."""
        end = self._now + need.seconds
        tied = self._tied(need)
        heads = [(head, number) for number, line in enumerate(tied) if (head := line.next_before(key)) is not None]
        heapq.heapify(heads)
        near = {number for _, number in heads if self._profile.bound(tied[number].need) < end}
        while near:
            _, number = heapq.heappop(heads)
            line = tied[number]
            if self._reservations == MOST_RESERVATIONS:
                return False
            start = self._profile.earliest(line.need)
            if start == FOREVER:
                line.placed = len(line.keys)
            else:
                self._profile.reserve(line.need, start)
                self._reservations += 1
                line.placed += 1
            head = line.next_before(key)
            if head is not None:
                heapq.heappush(heads, (head, number))
            if head is None or self._profile.bound(line.need) >= end:
                near.discard(number)
        return True

    def _tied(self, need: Need) -> list[_Blocked]:
        """Those that share a lock or memory with this need, directly or through each other: others cannot be delayed by it."""
        shared = resources(need)
        groups: dict[frozenset[str], list[_Blocked]] = {}
        for line in self._blocked:
            groups.setdefault(resources(line.need), []).append(line)
        tied: list[_Blocked] = []
        while True:
            sharing = [group for group in groups if group & shared]
            if not sharing:
                return tied
            for group in sharing:
                shared |= group
                tied += groups.pop(group)


def resources(need: Need) -> frozenset[str]:
    """What it can delay others by: its locks, and memory (which is no lock's name)."""
    return frozenset(lock for lock, _ in need.locks) | ({" memory"} if need.memory else frozenset())


def latest_starts(queue: Queue, box: Box, now: float) -> dict[str, float]:
    """For every eligible job the latest moment at which it starts if every wall clock is used up; those that have none are left out.

    Nobody has one while nothing starts at all.
    """
    starts: dict[str, float] = {}
    if box.paused is not None or box.closed is not None:
        return starts
    refused = {refuse.job.key for refuse in doomed(queue, now)}
    profile = Profile(queue, box, now)
    floor = now
    for job in queue.in_order():
        if job.key in refused or not eligible(queue, job, now):
            continue
        need = need_of(job, box)
        start = profile.earliest(need, floor) if box.strict else profile.earliest(need)
        if start == FOREVER:
            if box.strict and not never(job, box):
                break
            continue
        profile.reserve(need, start)
        starts[job.name] = start
        floor = max(floor, start)
    return starts
