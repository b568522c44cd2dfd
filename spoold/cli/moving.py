"""moving - `move`, `hold`, `release`: renames in ready/, nothing else.

Owns the choice of numbers: one that is free between two neighbours, and where there is none, the fewest renames that make room, in an order in which
the queue never stands wrong.  Fails: NoSuchError for a job that does not wait, SpoolError where a name is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from jobspec.names import MAX_DIGITS, STEP, parse_file_name, show
from spoold.cli.completing import Job
from spoold.cli.jobs import Jobs, Place
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import say
from spoold.errors import NoSuchError, SpoolError, UsageError
from spoold.layout import HOLD
from spoold.model import Stage
from spoold.store import Store

_LAST: Final = 10**MAX_DIGITS - 1
_WAITING: Final = Job(Stage.READY)


@dataclass(frozen=True, slots=True)
class Step:
    """One job gets another number."""

    place: Place
    seq: int


@verb(
    "move",
    examples="""
spoold move g52 --first
spoold move g52 --before g50
spoold move 0200 --to 45
""",
)
@click.argument("job", metavar="JOB", type=_WAITING)
@click.option("--before", metavar="JOB", type=_WAITING, help="Right before that job.")
@click.option("--after", metavar="JOB", type=_WAITING, help="Right after that job; says nothing about waiting for it.")
@click.option("--first", is_flag=True, help="Before all others.")
@click.option("--last", is_flag=True, help="After all others.")
@click.option("--to", "seq", type=click.IntRange(0, _LAST), metavar="SEQ", help="To this number.")
@pass_session
def move(session: Session, job: str, before: str | None, after: str | None, first: bool, last: bool, seq: int | None) -> int:
    """Give a job that waits another place.

    Its file gets another number; where none is free, as few others as can be do too.  Every rename that is made is printed.
    """
    if sum((before is not None, after is not None, first, last, seq is not None)) != 1:
        raise UsageError("move needs one of --before JOB, --after JOB, --first, --last, --to SEQ")
    store = Store(session.layout)
    jobs = Jobs(store)
    moved = jobs.one(job, (Stage.READY,))
    queue = [place for place in jobs.live() if place.stage is Stage.READY and place.seq is not None]
    others = [place for place in queue if place != moved]
    if seq is not None:
        stands, steps = seq == moved.seq, [Step(moved, seq)]
    else:
        if first or last:
            at = 0 if first else len(others)
        else:
            target = jobs.one(before or after or "", (Stage.READY,))
            if target == moved:
                raise UsageError(f"{show(moved.name)} cannot be moved to where it is itself")
            at = others.index(target) + (0 if before is not None else 1)
        stands, steps = moved in queue and queue.index(moved) == at, make_room(moved, others, at)
    if stands:
        say(f"{show(moved.name)} is there already: {show(moved.file)}")
        return 0
    for step in steps:
        _rename(store, step.place, _numbered(step.place, step.seq))
    return 0


def make_room(moved: Place, others: Sequence[Place], at: int) -> list[Step]:
    """The renames that put a job before the `at`-th of the others, itself last.  Fewest renames; at no point are two jobs in the wrong order."""
    low = -1 if at == 0 else _seq(others[at - 1])
    if at == len(others):
        seq = STEP if low < 0 else (low // STEP + 1) * STEP
        if seq <= _LAST:
            return [Step(moved, seq)]
    high = _LAST + 1 if at == len(others) else _seq(others[at])
    free = _between(low, high)
    if free is not None:
        return [Step(moved, free)]
    up = _shift(others[at:], low + 1, 1) if low < _LAST else None
    down = _shift(list(reversed(others[:at])), high - 1, -1) if high > 0 else None
    choices = [steps for steps in (up, down) if steps is not None]
    if not choices:
        raise SpoolError("there is no number left: the queue fills all that there are; renumber it with mv")
    shifted = min(choices, key=len)
    return [*shifted, Step(moved, low + 1 if shifted is up else high - 1)]


def _between(low: int, high: int) -> int | None:
    """A number between two others, as round as can be and in the middle; None if there is none."""
    if high - low < 2:
        return None
    if low < 0 < high:
        return max(high - STEP, high // 2)
    middle = (low + high) // 2
    size = 1
    while size * 10 < high - low:
        size *= 10
    while size > 1:
        near = (middle + size // 2) // size * size
        if low < near < high:
            return near
        size //= 10
    return middle


def _shift(neighbours: Sequence[Place], taken: int, by: int) -> list[Step] | None:
    """Make `taken` free: each of the neighbours, from the nearest on, moves as little as it has to.  The farthest goes first."""
    steps = []
    for place in neighbours:
        taken += by
        if _seq(place) * by >= taken * by:
            break
        if not 0 <= taken <= _LAST:
            return None
        steps.append(Step(place, taken))
    return steps[::-1]


def _seq(place: Place) -> int:
    assert place.seq is not None
    return place.seq


def _numbered(place: Place, seq: int) -> str:
    """The file's name with another number, as many digits as before, and on hold if it was."""
    held = place.held
    file = parse_file_name(_plain(place.entry))
    digits = f"{seq:0{len(file.digits or '')}d}" if file.digits is not None else f"{seq:04d}"
    return f"{digits}-{file.name}.toml{HOLD if held else ''}"


def _plain(entry: str) -> str:
    """A file's name as it is when it is not on hold."""
    plain = entry.removesuffix(HOLD)
    return plain if plain.endswith(".toml") else f"{plain}.toml"


def _rename(store: Store, place: Place, to: str) -> None:
    try:
        store.rename_in_ready(place.entry, to)
    except FileExistsError:
        raise SpoolError(f"ready/{show(to)} is there already") from None
    except FileNotFoundError:
        raise NoSuchError(f"{show(place.file)} is not there any more: it has started, or somebody moved it") from None
    store.sync_dirs(store.layout.stage(Stage.READY))
    say(f"{show(place.file)} -> ready/{show(to)}")


@verb("hold", examples="spoold hold g52 'bench-*'")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", type=_WAITING)
@pass_session
def hold(session: Session, jobs: tuple[str, ...]) -> int:
    """Keep jobs that wait from starting.

    They keep their places and their names.  The file of a job on hold ends in .hold.
    """
    store = Store(session.layout)
    for place in Jobs(store).some(jobs, (Stage.READY,)):
        if place.held:
            say(f"{show(place.name)} is on hold already")
        else:
            _rename(store, place, f"{place.entry}{HOLD}")
    return 0


@verb("release", examples="spoold release g52 'bench-*'")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", type=_WAITING)
@pass_session
def release(session: Session, jobs: tuple[str, ...]) -> int:
    """Let jobs on hold go on."""
    store = Store(session.layout)
    for place in Jobs(store).some(jobs, (Stage.READY,)):
        if place.held:
            _rename(store, place, _plain(place.entry))
        else:
            say(f"{show(place.name)} is not on hold")
    return 0
