"""explanation - why each ready job waits: the rule, who holds what since when, how much memory is missing and who has it.

Owns the sentences.  They change when their meaning changes, not when a clock ticks.  Pure: reads what `scheduler.decide` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jobspec.spec import ModelSize
from jobspec.units import format_size
from spoold import dependencies
from spoold.model import Box, Queue, Ready, Reason, Rule, Running
from spoold.reservations import Need, Profile, need_of, promised
from spoold.scheduler import decide, latest_starts, resources

Reasons = tuple[Reason, ...]


def explain(queue: Queue, box: Box, now: float) -> dict[str, Reasons]:
    """All the reasons of every ready job, by NAME; a job without one starts at the next turn of a spooler."""
    everyone = _everyone(box)
    turn = _Turn(queue, replace(box, paused=None, closed=None), now)
    reasons: dict[str, Reasons] = {}
    for job in queue.in_order():
        reasons[job.name] = turn.refused.get(job.name) or (*everyone, *turn.reasons(job))
    return reasons


class _Turn:
    """The next decision, were nothing paused, and what it does not say: who is in whose way."""

    def __init__(self, queue: Queue, box: Box, now: float) -> None:
        self._queue = queue
        self._box = box
        self._now = now
        decision = decide(queue, box, now)
        self.refused: Mapping[str, Reasons] = {
            refuse.job.name: (Reason(Rule.REFUSED, f"will be refused: {refuse.why}", {}),) for refuse in decision.refuse
        }
        self._starting = {start.job.name for start in decision.start}
        self._first_that_waits: Ready | None = None
        self._places: dict[str, float] | None = None
        self._wanted: dict[object, list[Reason]] = {}
        self._in_the_way: dict[Need, Ready | None] = {}

    def reasons(self, job: Ready) -> list[Reason]:
        """What keeps a job that is not refused."""
        own = _standing(self._queue, job, self._now)
        waits_its_turn = not own
        wanted = (tuple(job.locks.items()), job.memory)
        if wanted not in self._wanted:
            self._wanted[wanted] = [*_locks(self._queue, self._box, job), *_memory(self._queue, self._box, job)]
        own += self._wanted[wanted]
        if not waits_its_turn or job.name in self._starting:
            return own
        if self._box.strict and self._first_that_waits is not None:
            own.append(_order(self._box, self._first_that_waits))
        elif not self._wanted[wanted]:
            before = self._who_is_in_the_way(job) or self._first_that_waits
            assert before is not None, f"nobody is in the way of {job.name}"
            own.append(_order(self._box, before))
        self._first_that_waits = self._first_that_waits or job
        return own

    def _who_is_in_the_way(self, job: Ready) -> Ready | None:
        """The first one placed earlier whose place leaves none for this job now.  None: too many are placed earlier for a decision to tell."""
        need = need_of(job, self._box)
        if need in self._in_the_way:
            return self._in_the_way[need]
        if self._places is None:
            self._places = latest_starts(self._queue, self._box, self._now)
        profile = Profile(self._queue, self._box, self._now)
        found = None
        for earlier in self._queue.in_order():
            start = self._places.get(earlier.name)
            if earlier.key >= job.key or start is None or start >= self._now + need.seconds:
                continue
            place = need_of(earlier, self._box)
            if resources(place) & resources(need):
                profile.reserve(place, start)
                if profile.earliest(need) != self._now:
                    found = earlier
                    break
        self._in_the_way[need] = found
        return found


def blockers(queue: Queue, box: Box, job: Ready) -> list[str]:
    """Who keeps an eligible job waiting now, in a few words each: for its trace."""
    found = []
    for lock, asked in job.locks.items():
        units = len(box.units(lock))
        holders = [run for run in _runs(queue) if run.locks.get(lock)]
        free = units - sum(len(run.locks[lock]) for run in holders)
        if (units if asked is None else asked) > free:
            found.append(f"lock {lock}: {', '.join(run.name for run in holders)}")
    if job.memory and box.available is not None and job.memory > box.available - promised(queue.runs()) - box.floor:
        owners = [run.name for run in _runs(queue) if run.memory or run.used]
        found.append(f"memory: {', '.join(owners) or 'used by no job'}")
    return found


def _runs(queue: Queue) -> list[Running]:
    """In the order in which they were started, also if they were found on the disk in another."""
    return sorted(queue.runs(), key=lambda run: run.run)


def _everyone(box: Box) -> list[Reason]:
    found = []
    if box.paused is not None:
        found.append(Reason(Rule.PAUSED, f"the spool is paused: {box.paused}" if box.paused else "the spool is paused", {}))
    if box.closed is not None:
        found.append(Reason(Rule.PAUSED, f"nothing starts: {box.closed}", {}))
    return found


def _standing(queue: Queue, job: Ready, now: float) -> list[Reason]:
    """What keeps a job from being eligible."""
    found = []
    if job.held:
        found.append(Reason(Rule.HOLD, f"on hold; `spoold release {job.name}` lets it go on", {}))
    if job.away:
        found.append(Reason(Rule.HOLD, "its file is away or open for writing; somebody may be editing it", {}))
    found += dependencies.waits(queue, job)
    if job.not_before is not None and job.not_before > now:
        until = dependencies.when(job.not_before)
        text = f"waits until {until} before run {job.runs + 1} (retry)" if job.runs else f"not before {until}"
        found.append(Reason(Rule.TIME, text, {"until": dependencies.stamp(job.not_before)}))
    if job.memory is None:
        path = job.job.memory.path if isinstance(job.job.memory, ModelSize) else "its model"
        found.append(Reason(Rule.MEMORY, f"waits for {ascii(path)[1:-1]}, whose size it needs, to be there", {"path": path}))
    return found


def _locks(queue: Queue, box: Box, job: Ready) -> list[Reason]:
    found = []
    for lock, asked in job.locks.items():
        units = len(box.units(lock))
        wanted = units if asked is None else asked
        holders = [run for run in _runs(queue) if run.locks.get(lock)]
        free = units - sum(len(run.locks[lock]) for run in holders)
        if wanted <= free:
            continue
        held = "; ".join(_holder(run, lock, units) for run in holders)
        amount = "" if units == 1 else f" ({wanted} of {units}, {max(free, 0)} free)"
        facts = {
            "lock": lock,
            "wanted": wanted,
            "free": max(free, 0),
            "held_by": [
                {"job": run.name, "units": list(run.locks[lock]), "since": dependencies.stamp(run.started_at), "until": _until(run)} for run in holders
            ],
        }
        found.append(Reason(Rule.LOCK, f"waits for {lock}{amount}, held by {held}" if held else f"waits for {lock}{amount}", facts))
    return found


def _until(run: Running) -> str | None:
    return None if run.deadline is None else dependencies.stamp(run.deadline)


def _holder(run: Running, lock: str, units: int) -> str:
    which = "" if units == 1 else f" (unit {', '.join(run.locks[lock])})"
    until = ", without a wall clock" if run.deadline is None else f", at the latest until {dependencies.when(run.deadline)}"
    return f"{run.name}{which} since {dependencies.when(run.started_at)}{until}"


def _memory(queue: Queue, box: Box, job: Ready) -> list[Reason]:
    if not job.memory:
        return []
    if box.available is None:
        text = "the box's memory cannot be read; jobs that declare memory wait"
        return [Reason(Rule.MEMORY, text, {"needed": job.memory})]
    runs = _runs(queue)
    free = box.available - promised(runs) - box.floor
    if job.memory <= free:
        return []
    owners = [f"{run.name} has {format_size(max(run.memory, run.used))}" for run in runs if max(run.memory, run.used) > 0]
    who = f"; {', '.join(owners)}" if owners else "; what is used belongs to no job"
    text = f"needs {format_size(job.memory)} of memory, {format_size(max(free, 0))} is free for it{who}"
    facts = {
        "needed": job.memory,
        "free": free,
        "missing": job.memory - free,
        "available": box.available,
        "promised": promised(runs),
        "floor": box.floor,
        "held_by": [{"job": run.name, "memory": run.memory, "used": run.used} for run in runs if run.memory or run.used],
    }
    return [Reason(Rule.MEMORY, text, facts)]


def _order(box: Box, before: Ready) -> Reason:
    text = (
        f"{before.name} is placed before it and the order is strict"
        if box.strict
        else f"{before.name} is placed before it and would start later if it went first"
    )
    return Reason(Rule.ORDER, text, {"job": before.name, "policy": "strict" if box.strict else "backfill"})
