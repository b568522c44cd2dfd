"""scheduler - `decide(queue, box, now)`: who starts now, who can never run, and when to look again.

Owns the order of starts.  Jobs that wait for others, for a time or for a hold are passed over; among the rest the earlier placed goes first.
"strict": none passes.  "backfill": a later job passes only into a place in which no earlier one can start any later for it.
Pure: no clock, no disk; the same queue gives the same decision.  Why a job waits is `explanation`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from spoold import dependencies
from spoold.admission import never
from spoold.model import Box, Queue, Ready, Refuse, Start
from spoold.reservations import FOREVER, Need, Profile, choose_units, need_of

BLOCKED_SHOWN: Final = 4


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


def doomed(queue: Queue, box: Box, now: float, decision: Decision) -> Iterator[Refuse]:
    """Ready jobs that can never run any more."""
    for job in queue.conditional():
        if job.give_up_at is not None:
            if job.give_up_at <= now:
                waited = dependencies.when(job.accepted_at)
                yield Refuse(job, f"it was not started within its give_up (accepted {waited}); drop it again, or give it longer")
                continue
            decision.at(job.give_up_at)
        why = dependencies.refusal(queue, job)
        if why is not None:
            yield Refuse(job, why)


def decide(queue: Queue, box: Box, now: float) -> Decision:
    """One decision over the whole queue.  Refusals come first: an end may let others go on, at the next decision."""
    decision = Decision()
    decision.refuse.extend(doomed(queue, box, now, decision))
    refused = {refuse.job.key for refuse in decision.refuse}
    shut = box.paused is not None or box.closed is not None
    profile: Profile | None = None
    pending: list[Need] = []
    taken: dict[str, set[str]] = {}
    for job in queue.in_order():
        if job.sits or job.key in refused or job.memory is None:
            continue
        if job.not_before is not None and job.not_before > now:
            decision.at(job.not_before)
            continue
        if shut or not dependencies.satisfied(queue, job):
            continue
        problems = never(job, box)
        if problems:
            decision.refuse.append(Refuse(job, "; ".join(problems)))
            continue
        if profile is None:
            profile = Profile(queue, box, now)
        need = need_of(job, box)
        if profile.fits_now(need) and _place(profile, pending, need, now):
            locks = choose_units(queue, box, job.locks, taken)
            for lock, units in locks.items():
                taken.setdefault(lock, set()).update(units)
            decision.start.append(Start(job, locks))
        else:
            if len(decision.blocked) < BLOCKED_SHOWN:
                decision.blocked.append(job)
            if box.strict:
                break
            pending.append(need)
    return decision


def _place(profile: Profile, pending: list[Need], need: Need, now: float) -> bool:
    """Give the earlier ones that do not start now their places first; then this one starts if its place is now."""
    for earlier in pending:
        start = profile.earliest(earlier)
        if start != FOREVER:
            profile.reserve(earlier, start)
    pending.clear()
    if profile.earliest(need) != now:
        pending.append(need)
        return False
    profile.reserve(need, now)
    return True


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
