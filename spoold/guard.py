"""guard - whom to stop when memory runs low while jobs run.

Owns one rule: below the floor it warns at once; if that lasts for `patience`, the run most over its own declaration is stopped, else the newest that its
file allows to be repeated, else the newest; and nobody else before that one is gone and the box has been looked at again.
Pure: what is free and what each run uses are arguments.  Never stops anything itself.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from jobspec.units import format_size
from spoold.model import Running


@dataclass(frozen=True, slots=True)
class Watch:
    """What is remembered between two looks: since when memory has been low (seconds awake), and the run that is being stopped."""

    low_since: float | None = None
    stopping: int | None = None


@dataclass(frozen=True, slots=True)
class Low:
    """Memory is below the floor; the sentence for the log."""

    text: str


@dataclass(frozen=True, slots=True)
class StopRun:
    """Stop this run, with outcome memory."""

    run: Running
    why: str


Advice = Low | StopRun | None


def watch(
    before: Watch, runs: Sequence[Running], *, available: int | None, floor: int, patience_s: float, tick: float, repeatable: Set[int], critical: bool = False
) -> tuple[Watch, Advice]:
    """One look.  `critical`: the system itself says that there is no time to wait.  `repeatable`: runs whose file asks for a retry after `memory`."""
    if before.stopping is not None and any(run.run == before.stopping for run in runs):
        return before, None
    if not critical and (available is None or available >= floor):
        return Watch(), None
    since = before.low_since if before.stopping is None and before.low_since is not None else tick
    free = "an unknown amount" if available is None else format_size(available)
    text = f"memory is low: {free} is available, the floor is {format_size(floor)}"
    if not runs or (tick - since < patience_s and not critical):
        return Watch(low_since=since), Low(text)
    victim = choose(runs, repeatable)
    over = victim.used - victim.memory
    why = f"{text}; {victim.name} uses {format_size(victim.used)}" + (f", {format_size(over)} more than it declared" if over > 0 else " and is the newest")
    return Watch(low_since=since, stopping=victim.run), StopRun(victim, why)


def choose(runs: Sequence[Running], repeatable: Set[int]) -> Running:
    """The run to stop; there is at least one."""
    most = max(runs, key=lambda run: (run.used - run.memory, run.started_at, run.run))
    if most.used > most.memory:
        return most
    again = [run for run in runs if run.run in repeatable]
    return max(again or runs, key=lambda run: (run.started_at, run.run))
