"""dependencies - `after`, `after_ok`, `after_failed`: whom a job waits for, and cycles.

Owns the meaning of names and globs.  A name is the live job of that NAME, else the one that ended last; a glob is the earlier placed jobs
that match and were live at or since the job's acceptance, never the job itself.  A refusal or withdrawal is an end that is not ok.
Pure: reads a `Queue`.  Never decides about locks, memory or time.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spoold.model import Ended, Fate, Queue, Ready, Reason, Rule, Running
from spoold.waiting import Key, Standing, is_glob, matches

MOST_ANSWERS: Final = 50
"""So many ends are told in a trace: a glob may mean thousands, and a record has to hold them."""
NOBODY: Final = Standing(satisfied=True)


class Kind(enum.Enum):
    """The field that a wait comes from."""

    AFTER = "after"
    AFTER_OK = "after_ok"
    AFTER_FAILED = "after_failed"

    def accepts(self, ended: Ended) -> bool:
        match self:
            case Kind.AFTER:
                return True
            case Kind.AFTER_OK:
                return ended.ok
            case Kind.AFTER_FAILED:
                return not ended.ok


@dataclass(frozen=True, slots=True)
class Awaited:
    """One job that is waited for: live, ended, or (neither) nowhere in the spool."""

    kind: Kind
    pattern: str
    name: str
    live: Ready | Running | None = None
    ended: Ended | None = None


def awaited(queue: Queue, job: Ready) -> Iterator[Awaited]:
    """Everyone that the job's `after*` mean, now."""
    for kind, patterns in ((Kind.AFTER, job.job.after), (Kind.AFTER_OK, job.job.after_ok), (Kind.AFTER_FAILED, job.job.after_failed)):
        for pattern in patterns:
            if is_glob(pattern):
                yield from _by_glob(queue, job, kind, pattern)
            else:
                live = queue.live(pattern)
                yield Awaited(kind, pattern, pattern, live, None if live is not None else queue.ended.get(pattern))


def _live_by_glob(queue: Queue, job: Ready, pattern: str) -> Iterator[Ready | Running]:
    for live in queue.live_jobs():
        if (live.seq, live.name) < job.key and live.name != job.name and matches(pattern, live.name):
            yield live


def _by_glob(queue: Queue, job: Ready, kind: Kind, pattern: str) -> Iterator[Awaited]:
    seen = {job.name}
    for live in sorted(_live_by_glob(queue, job, pattern), key=lambda one: (one.seq, one.name)):
        seen.add(live.name)
        yield Awaited(kind, pattern, live.name, live, None)
    last: dict[str, Ended] = {}
    for ended in queue.past.values():
        if ended.name in seen or ended.at < job.accepted_at or (ended.seq, ended.name) >= job.key or not matches(pattern, ended.name):
            continue
        if ended.name not in last or last[ended.name].at < ended.at:
            last[ended.name] = ended
    for name in sorted(last):
        yield Awaited(kind, pattern, name, None, last[name])


def refusal(queue: Queue, job: Ready) -> str | None:
    """Why the job can never run any more because of how another one ended; None if it still can."""
    if job.name in job.awaits:
        return f"it waits for itself ({job.name}): take {job.name} out of its after"
    if not job.job.after_ok and not job.job.after_failed:
        return None
    for one in awaited(queue, job):
        if one.ended is not None and not one.kind.accepts(one.ended):
            wish = "ended well" if one.kind is Kind.AFTER_OK else "failed"
            return (
                f"{one.kind.value} = {one.pattern}: it was to run only if {one.name} {wish}, but {one.name} {how(one.ended)} "
                f"({when(one.ended.at)}); run {one.name} again and drop this job again"
            )
    return None


def waits(queue: Queue, job: Ready) -> list[Reason]:
    """The jobs that this one still waits for; empty if it waits for none."""
    if not job.waits_for_jobs:
        return []
    reasons = []
    for one in awaited(queue, job):
        if one.live is not None:
            reasons.append(_wait_for_live(one, one.live))
        elif one.ended is None:
            text = f"waits for {one.name}, which is nowhere in the spool yet ({one.kind.value})"
            reasons.append(Reason(Rule.AFTER, text, {"job": one.name, "kind": one.kind.value, "state": "nowhere"}))
    return reasons


def satisfied(queue: Queue, job: Ready) -> bool:
    """Nobody is left to wait for.  Cheaper than `waits`."""
    for pattern in job.awaits:
        if is_glob(pattern):
            if next(_live_by_glob(queue, job, pattern), None) is not None:
                return False
        elif queue.live(pattern) is not None or pattern not in queue.ended:
            return False
    return True


def stand(queue: Queue, job: Ready) -> Standing:
    """What the `after`s of a job have come to; judged once, and again only when something happened to one of those it waits for."""
    if not job.waits_for_jobs:
        return NOBODY
    standing = queue.waiting.standing(job.key)
    if standing is None:
        standing = Standing(satisfied(queue, job), refusal(queue, job))
        queue.waiting.note(job.key, standing)
    return standing


def answered_by(queue: Queue, job: Ready) -> list[str]:
    """The ends that let the job go on, each with its date: for the trace."""
    ends = [f"{one.name} {how(one.ended)} {when(one.ended.at)}" for one in awaited(queue, job) if one.ended is not None]
    return ends if len(ends) <= MOST_ANSWERS else [*ends[:MOST_ANSWERS], f"and {len(ends) - MOST_ANSWERS} more"]


def _wait_for_live(one: Awaited, live: Ready | Running) -> Reason:
    facts = {"job": one.name, "kind": one.kind.value}
    condition = {Kind.AFTER: "to end", Kind.AFTER_OK: "to end well", Kind.AFTER_FAILED: "to fail"}[one.kind]
    if isinstance(live, Running):
        text = f"waits for {one.name} {condition}, running since {when(live.started_at)}"
        return Reason(Rule.AFTER, text, facts | {"state": "running", "since": stamp(live.started_at)})
    state = "held" if live.held else "ready"
    text = f"waits for {one.name} {condition}, which is {'on hold' if live.held else 'ready but not started'}"
    return Reason(Rule.AFTER, text, facts | {"state": state})


def find_cycle(queue: Queue, job: Ready) -> tuple[str, ...] | None:
    """The NAMEs of a cycle through this ready job, from it on, or None.  Only a job that somebody waits for can close one.

    What a search has left behind without a cycle is not searched again, so that asking for every job of a queue costs one search of it.
    """
    if not job.waits_for_jobs or job.key in queue.waiting.acyclic or not queue.waiting.is_awaited(job.key):
        return None
    path = {job.key: job.name}
    left: set[Key] = set()
    other_cycle = False
    stack = [_ready_successors(queue, job)]
    while stack:
        following = next(stack[-1], None)
        if following is None:
            stack.pop()
            left.add(path.popitem()[0])
        elif following.key == job.key:
            return tuple(path.values())
        elif following.key in path:
            other_cycle = True  # this job only leads to it; its members find it
        elif following.key not in left and following.key not in queue.waiting.acyclic:
            path[following.key] = following.name
            stack.append(_ready_successors(queue, following))
    if not other_cycle:
        queue.waiting.acyclic.update(left)
    return None


def _ready_successors(queue: Queue, job: Ready) -> Iterator[Ready]:
    for pattern in job.awaits:
        if is_glob(pattern):
            yield from (live for live in _live_by_glob(queue, job, pattern) if isinstance(live, Ready))
        else:
            live = queue.live(pattern)
            if isinstance(live, Ready):
                yield live


def cycle_text(cycle: tuple[str, ...]) -> str:
    """The sentence that every member of a cycle is refused with."""
    steps = ", ".join(f"{a} waits for {b}" for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    return f"a cycle of afters: {steps}; none of them could ever start, so take one after out and drop them again"


def how(ended: Ended) -> str:
    """An end in words: "ended ok", "was refused"."""
    return f"was {ended.how.value}" if isinstance(ended.how, Fate) else f"ended {ended.how.value}"


def when(at: float) -> str:
    """A moment as people read it, to the minute, in the box's own zone."""
    return datetime.datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


def stamp(at: float) -> str:
    """A moment as ISO 8601 with offset, to the second."""
    return datetime.datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
