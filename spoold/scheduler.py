"""scheduler - `decide(queue, box, now)`: who starts now, who can never run, and when to look again.

Owns the order of starts.  Jobs that wait for others, for a time or for a hold are passed over; among the rest the earlier placed goes first.
"strict": none passes.  "backfill": a later job passes only into a place in which no earlier one can start any later for it.
Pure: no clock, no disk; the same queue gives the same decision.  Why a job waits is `explanation`'s.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from spoold import dependencies
from spoold.admission import never
from spoold.model import Box, Key, Queue, Ready, Refuse, Standing, Start
from spoold.reservations import FOREVER, Profile, choose_units, need_of

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
    return not job.sits and job.memory is not None and (job.not_before is None or job.not_before <= now) and dependencies.satisfied(queue, job)


def stand(queue: Queue, job: Ready) -> Standing:
    """What the `after`s of a job have come to; judged once, and again only when something happened to one of those it waits for."""
    standing = queue.standing(job.key)
    if standing is None:
        standing = Standing(dependencies.satisfied(queue, job), dependencies.refusal(queue, job))
        queue.note_standing(job.key, standing)
    return standing


def doomed(queue: Queue, now: float) -> Iterator[Refuse]:
    """Ready jobs that can never run any more."""
    given_up = set()
    for job in queue.gave_up(now):
        given_up.add(job.key)
        waited = dependencies.when(job.accepted_at)
        yield Refuse(job, f"it was not started within its give_up (accepted {waited}); drop it again, or give it longer")
    for key in queue.special:
        job = queue[key]
        if job.waits_for_jobs and key not in given_up:
            why = stand(queue, job).refusal
            if why is not None:
                yield Refuse(job, why)


@dataclass(slots=True)
class _Line:
    """Ready jobs of one shape, from `at` on; or (no shape) those that have to be judged one by one."""

    keys: Sequence[Key]
    at: int = 0

    @property
    def head(self) -> Key | None:
        return self.keys[self.at] if self.at < len(self.keys) else None


class _Turn:
    """One decision while it is being made: what is taken, and who waits in front of whom."""

    def __init__(self, queue: Queue, box: Box, now: float) -> None:
        self.queue = queue
        self.box = box
        self.now = now
        self.decision = Decision()
        self.profile = Profile(queue, box, now)
        self.taken: dict[str, set[str]] = {}
        self.waiting: list[Ready] = []
        """Jobs without a place yet, that were looked at one by one; in order."""
        self.blocked: list[_Line] = []
        """Shapes that do not fit now: all of their jobs from `at` on wait."""
        self.placed: set[Key] = set()

    def consider(self, job: Ready) -> bool:
        """An eligible job.  False if nothing of its shape fits now."""
        problems = never(job, self.box)
        if problems:
            self.decision.refuse.append(Refuse(job, "; ".join(problems)))
            return True
        need = need_of(job, self.box)
        if not self.profile.fits_now(need):
            self._note_blocked(job)
            return False
        if not self._earlier_have_places(job) or self.profile.earliest(need) != self.now:
            self.waiting.append(job)
            self._note_blocked(job)
            return True
        self.profile.reserve(need, self.now)
        locks = choose_units(self.queue, self.box, job.locks, self.taken)
        for lock, units in locks.items():
            self.taken.setdefault(lock, set()).update(units)
        self.decision.start.append(Start(job, locks))
        return True

    def _note_blocked(self, job: Ready) -> None:
        if len(self.decision.blocked) < BLOCKED_SHOWN:
            self.decision.blocked.append(job)

    def _earlier_have_places(self, job: Ready) -> bool:
        """Give those before it that it could delay their places in the profile.  False if they are too many to tell."""
        rivals = self._rivals(job)
        if len(rivals) > MOST_RESERVATIONS:
            return False
        for rival in rivals:
            need = need_of(rival, self.box)
            start = self.profile.earliest(need)
            if start != FOREVER:
                self.profile.reserve(need, start)
            self.placed.add(rival.key)
        return True

    def _rivals(self, job: Ready) -> list[Ready]:
        """Earlier jobs without a place that are tied to this one by a lock or by memory, directly or through each other; in order."""
        groups: list[tuple[Set[str], Iterable[Key]]] = [
            (_resources(self.queue[line.keys[line.at]]), line.keys[line.at : bisect.bisect_left(line.keys, job.key)]) for line in self.blocked
        ]
        groups += [(_resources(waiting), (waiting.key,)) for waiting in self.waiting]
        tied = set(_resources(job))
        found: list[Key] = []
        grown = True
        while grown:
            grown = False
            rest = []
            for resources, keys in groups:
                if tied & resources:
                    tied |= resources
                    found += [key for key in keys if key not in self.placed and key < job.key]
                    grown = True
                else:
                    rest.append((resources, keys))
            groups = rest
            if len(found) > MOST_RESERVATIONS:
                break
        return [self.queue[key] for key in sorted(found)]


def _resources(job: Ready) -> frozenset[str]:
    """What it can delay others by: its locks, and memory (which is no lock's name)."""
    return frozenset(job.locks) | ({" memory"} if job.memory else frozenset())


def decide(queue: Queue, box: Box, now: float) -> Decision:
    """One decision over the whole queue.  Refusals come first: an end may let others go on, at the next decision.

    Ready jobs stand in one line a shape; a line whose first job does not fit now is left at once, so that the cost follows the number of shapes and of
    jobs with conditions, not the length of the queue.
    """
    turn = _Turn(queue, box, now)
    decision = turn.decision
    decision.refuse.extend(doomed(queue, now))
    refused = {refuse.job.key for refuse in decision.refuse}
    if queue.next_give_up is not None and not refused:
        decision.at(queue.next_give_up)
    if box.paused is not None or box.closed is not None:
        return decision
    special = _Line(queue.special)
    lines = [line for line in (special, *(_Line(keys) for keys in queue.shapes.values())) if line.head is not None]
    heads = [(line.keys[0], number) for number, line in enumerate(lines)]
    heapq.heapify(heads)
    while heads:
        key, number = heapq.heappop(heads)
        line = lines[number]
        job = queue[key]
        fits = True
        if key not in refused and (line is not special or _ripe(queue, job, now, decision)):
            before = len(decision.start)
            fits = turn.consider(job)
            if box.strict and len(decision.start) == before and not _was_refused(decision, job):
                break
            if not fits and line is special:
                turn.waiting.append(job)
                fits = True
        if not fits:
            turn.blocked.append(line)
            continue
        line.at += 1
        if line.head is not None and len(turn.waiting) <= MOST_RESERVATIONS:
            heapq.heappush(heads, (line.head, number))
    return decision


def _was_refused(decision: Decision, job: Ready) -> bool:
    return bool(decision.refuse) and decision.refuse[-1].job is job


def _ripe(queue: Queue, job: Ready, now: float, decision: Decision) -> bool:
    """A job with conditions whose conditions are all met; notes when time alone may meet them."""
    if job.sits or job.memory is None:
        return False
    if job.not_before is not None and job.not_before > now:
        decision.at(job.not_before)
        return False
    return not job.waits_for_jobs or stand(queue, job).satisfied


def latest_starts(queue: Queue, box: Box, now: float) -> dict[str, float]:
    """For every eligible job the latest moment at which it starts if every wall clock is used up; those that have none are left out."""
    profile = Profile(queue, box, now)
    starts: dict[str, float] = {}
    floor = now
    for job in queue.in_order():
        if not eligible(queue, job, now):
            continue
        need = need_of(job, box)
        start = profile.earliest(need, floor if box.strict else now)
        if start == FOREVER:
            if box.strict:
                break
            continue
        profile.reserve(need, start)
        starts[job.name] = start
        floor = max(floor, start)
    return starts
