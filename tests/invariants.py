"""invariants - the six promises of the design, checked on a spool as it lies on the disk.

Owns what "holds" means: a job is in exactly one stage with its text unchanged; its trace is a possible life, and its own witness tells of no other
run; units of a lock and memory are never handed out twice; the earlier placed starts first; when the spool is idle nothing is half-made.
Reads files and nothing else: it asks no part of the spooler but for the form of a trace and of a record.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import stat
import time
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jobspec import trace
from jobspec.parse import parse
from spoold import host, slots
from spoold.admission import share_bytes
from spoold.layout import Layout
from spoold.model import Stage
from spoold.settings import Settings, parse_settings

LARGEST: Final = 1024 * 1024
PATIENCE_S: Final = 3.0
ROUNDED: Final = datetime.timedelta(milliseconds=2)
"""What two dates of a trace may be wrong by, each being cut to a millisecond: jobs chosen in one turn have one date."""
GRAIN: Final = datetime.timedelta(milliseconds=2)
"""Times in a trace are cut to milliseconds."""
AFTER: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"accepted"}),
    "accepted": frozenset({"accepted", "started"}),
    "started": frozenset({"ended"}),
    "ended": frozenset({"requeued", "accepted"}),
    "requeued": frozenset({"started", "accepted"}),
}
"""What may follow each step of a trace: a second start only after a requeue that is written down, or when a user dropped the file again."""
LAST: Final[Mapping[Stage, frozenset[str]]] = {
    Stage.READY: frozenset({"accepted", "requeued"}),
    Stage.RUNNING: frozenset({"accepted", "requeued", "ended"}),
    Stage.DONE: frozenset({"ended"}),
}


@dataclass(frozen=True, slots=True)
class Lying:
    """A file in a stage."""

    stage: Stage
    entry: str
    text: bytes
    history: tuple[dict[str, Any], ...] = ()

    @property
    def place(self) -> str:
        return f"{self.stage.value}/{self.entry}"


@dataclass(frozen=True, slots=True)
class Interval:
    """A run by its trace: from `began` to `ended`, None if it goes on."""

    place: str
    began: datetime.datetime
    ended: datetime.datetime | None
    locks: Mapping[str, list[str]]
    memory: int

    def overlaps(self, later: Interval) -> bool:
        return self.ended is None or later.began < self.ended


@dataclass(slots=True)
class Look:
    """One look at a spool: what lies where, and what is wrong."""

    layout: Layout
    problems: list[str] = field(default_factory=list)
    lying: list[Lying] = field(default_factory=list)

    def wrong(self, text: str) -> None:
        self.problems.append(text)


def check(layout: Layout, dropped: Mapping[bytes, int], witness: pathlib.Path, *, idle: bool = True, unordered: Collection[str] = ()) -> None:
    """AssertionError with all that is broken.  `dropped`: how many files of each text lie somewhere in the spool; `idle`: nothing is left to do;
    `unordered`: witness names of jobs that were held, edited or moved, and so may start after later ones."""
    end = time.monotonic() + PATIENCE_S
    while True:
        # a look at directories in which files are moving may see one twice or not at all: what is really broken stays so
        found = problems(layout, dropped, witness, idle=idle, unordered=unordered)
        if not found:
            return
        assert time.monotonic() < end, "\n".join(found)
        time.sleep(0.05)


def problems(layout: Layout, dropped: Mapping[bytes, int], witness: pathlib.Path, *, idle: bool = True, unordered: Collection[str] = ()) -> list[str]:
    """Everything that is broken, a line each."""
    look = Look(layout)
    look.lying = [lying for stage in Stage for lying in _lie(look, stage)]
    _check_places(look, dropped)
    _check_traces(look, idle)
    seen = _read_witness(witness)
    _check_runs(look, seen)
    _check_witnessed_locks(look, seen)
    intervals = sorted((interval for lying in look.lying for interval in _intervals(lying)), key=lambda interval: interval.began)
    _check_locks(look, intervals)
    _check_memory(look, intervals)
    _check_order(look, unordered)
    if idle:
        _check_leftovers(look)
    return look.problems


def _lie(look: Look, stage: Stage) -> Iterator[Lying]:
    directory = look.layout.stage(stage)
    entries = os.listdir(directory)
    for entry in entries:
        path = f"{directory}/{entry}"
        if stage is Stage.REFUSED:
            _check_reason(look, entry, entries)
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST or not os.access(path, os.R_OK) or entry.endswith(".why"):
            continue
        data = pathlib.Path(path).read_bytes()
        text, history = trace.split(data)
        if stage in (Stage.READY, Stage.RUNNING, Stage.DONE) and entry.endswith((".toml", ".hold")):
            try:
                tomllib.loads(data.decode())
            except ValueError as error:
                look.wrong(f"{stage.value}/{entry} does not parse: {error}")
        yield Lying(stage, entry, text, trace.read(data) if history else ())


def _check_reason(look: Look, entry: str, entries: list[str]) -> None:
    if entry.endswith(".toml"):
        if entry.removesuffix(".toml") + ".why" not in entries:
            look.wrong(f"refused/{entry} has no reason")
        elif not pathlib.Path(look.layout.entry(Stage.REFUSED, entry.removesuffix(".toml") + ".why")).read_text().strip():
            look.wrong(f"refused/{entry} has an empty reason")


def _check_places(look: Look, dropped: Mapping[bytes, int]) -> None:
    """Invariants 1 and 3: each text lies in as many places as it was dropped."""
    places: dict[bytes, list[str]] = {}
    for lying in look.lying:
        places.setdefault(lying.text, []).append(lying.place)
    for text, times in dropped.items():
        there = places.get(text, [])
        if len(there) != times:
            shown = text if len(text) < 300 else text[:300] + b"..."
            look.wrong(f"dropped {times} times and found at {there or 'no place'}: {shown!r}")


def _check_traces(look: Look, idle: bool) -> None:
    """Invariant 2 by the traces: each is a life that the design knows."""
    for lying in look.lying:
        if not lying.entry.endswith(".toml") or lying.stage in (Stage.INCOMING, Stage.REFUSED):
            continue
        before = ""
        for step in (str(entry.get("step")) for entry in lying.history):
            if step not in AFTER[before]:
                look.wrong(f"{lying.place}: {step} after {before or 'nothing'}")
                break
            before = step
        allowed = LAST[lying.stage]
        if before not in allowed and not (lying.stage is Stage.DONE and before in ("accepted", "requeued") and not idle):
            withdrawn = lying.stage is Stage.DONE and before in ("accepted", "requeued")
            if not withdrawn:
                look.wrong(f"{lying.place}: its trace ends with {before or 'nothing'}")
    if idle:
        for lying in look.lying:
            if lying.stage is Stage.RUNNING and lying.entry.endswith(".toml"):
                look.wrong(f"{lying.place} and nothing runs")


def _read_witness(witness: pathlib.Path) -> list[list[str]]:
    try:
        return [line.split() for line in witness.read_text().splitlines()]
    except FileNotFoundError:
        return []


def _witness_name(text: bytes) -> str | None:
    if b"witness" not in text:
        return None  # a file made to choke its reader is none of ours
    try:
        name = tomllib.loads(text.decode()).get("meta", {}).get("witness")
    except ValueError:
        return None
    return name if isinstance(name, str) else None


def _check_runs(look: Look, seen: list[list[str]]) -> None:
    """Invariant 2 by the jobs themselves: nobody began more often than the traces know, or under a run of another."""
    begun = Counter(name for what, name, *_ in seen if what == "begin")
    known: Counter[str] = Counter()
    running: set[str] = set()
    for lying in look.lying:
        name = _witness_name(lying.text)
        if name is None:
            continue
        known[name] += sum(1 for entry in lying.history if entry.get("step") == "started")
        if lying.stage is Stage.RUNNING:
            running.add(name)
    for name, times in begun.items():
        if name in running:
            if times > known[name] + 1:
                look.wrong(f"{name} began {times} times, and it was started {known[name] + 1} times")
        elif name in known and times > known[name]:
            look.wrong(f"{name} began {times} times, and its traces know of {known[name]}")
    runs = Counter(run for what, _, run, *_ in seen if what == "begin")
    for run, times in runs.items():
        if times > 1:
            look.wrong(f"run {run} began {times} times")


def _check_witnessed_locks(look: Look, seen: list[list[str]]) -> None:
    """Invariant 4 by the jobs themselves: between the beginning and the end of one no other began with a unit of it."""
    ends = {(name, run) for what, name, run, *_ in seen if what == "end"}
    held: dict[str, tuple[str, str]] = {}
    for what, name, run, *locks in seen:
        units = [f"{lock}={unit}" for lock, _, mine in (one.partition("=") for one in locks) for unit in mine.split(",") if unit]
        for unit in units:
            if what == "end":
                held.pop(unit, None)
            elif unit in held:
                look.wrong(f"{name} began with {unit} while {held[unit][0]} had it")
            elif (name, run) in ends:  # one that was ended by force leaves no witness of its end
                held[unit] = (name, run)


def _intervals(lying: Lying) -> Iterator[Interval]:
    start: dict[str, Any] | None = None
    for entry in lying.history:
        if entry.get("step") == "started":
            start = entry
        elif entry.get("step") == "ended" and start is not None and start.get("run") == entry.get("run"):
            yield Interval(lying.place, start["at"], entry["at"], start["locks"], start["memory"])
            start = None


def _check_locks(look: Look, intervals: list[Interval]) -> None:
    """Invariant 4 by the traces."""
    for index, first in enumerate(intervals):
        for later in intervals[index + 1 :]:
            if not first.overlaps(later):
                continue
            for lock, units in first.locks.items():
                both = set(units) & set(later.locks.get(lock, ()))
                if both:
                    look.wrong(f"{first.place} and {later.place} had {lock} {sorted(both)} at {later.began}")


def _check_memory(look: Look, intervals: list[Interval]) -> None:
    """Invariant 4 for memory: what was declared at any one time fits into the box."""
    declared = [interval for interval in intervals if interval.memory]
    if not declared:
        return
    total = host.memory_status().total
    most = total - share_bytes(_settings(look).memory_floor, total)
    for index, last in enumerate(declared):
        together = last.memory + sum(first.memory for first in declared[:index] if first.overlaps(last))
        if together > most:
            look.wrong(f"{together} bytes were promised when {last.place} started, and the box can give {most}")


def _settings(look: Look) -> Settings:
    try:
        return parse_settings(pathlib.Path(look.layout.settings).read_bytes())
    except (OSError, ValueError):
        return Settings()


def _check_order(look: Look, unordered: Collection[str]) -> None:
    """Invariant 5 for jobs that ask for the same and wait for nothing else: of two that were both there the earlier placed was chosen first."""
    groups: dict[str, list[tuple[int, str, datetime.datetime, datetime.datetime]]] = {}
    for lying in look.lying:
        life = _last_life(lying.history)
        name = _witness_name(lying.text)
        if life is None or name is None or name in unordered or not lying.entry[:1].isdigit():
            continue
        job = parse(lying.text)
        if job.after or job.after_ok or job.after_failed or job.not_before or job.memory or job.retry:
            continue
        seq, _, rest = lying.entry.partition("-")
        groups.setdefault(repr(job.lock), []).append((int(seq), rest, *life))
    for group in groups.values():
        group.sort()
        for index, (_, name, accepted, chosen) in enumerate(group):
            for _, later, later_accepted, later_chosen in group[index + 1 :]:
                if later_chosen + ROUNDED < chosen and max(accepted, later_accepted) + GRAIN < later_chosen:
                    look.wrong(f"{later} was chosen at {later_chosen}, before {name}, which was placed earlier and chosen at {chosen}")


def _last_life(history: tuple[dict[str, Any], ...]) -> tuple[datetime.datetime, datetime.datetime] | None:
    """When the job was accepted the last time, and when it was chosen after that: its supervisor starts it a moment later."""
    accepted = chosen = None
    for entry in history:
        if entry.get("step") == "accepted":
            accepted, chosen = entry["at"], None
        elif entry.get("step") == "started" and chosen is None and accepted is not None:
            chosen = accepted + datetime.timedelta(seconds=entry["waited_s"])
    return None if accepted is None or chosen is None else (accepted, chosen)


def _check_leftovers(look: Look) -> None:
    """Nothing is half-made, and every run is retired."""
    layout = look.layout
    for directory in (layout.new, layout.claims):
        for entry in os.listdir(directory):
            look.wrong(f"left over: {directory}/{entry}")
    for entry in os.listdir(layout.stage(Stage.INCOMING)):
        if entry.endswith(".toml") and not entry.startswith("."):
            look.wrong(f"incoming/{entry} was neither accepted nor refused")
    for number in slots.numbers(layout):
        record = slots.read(layout.slot(number))
        if record.live:
            look.wrong(f"slot {number}: run {record.start.run if record.start else '?'} is not retired")
    for lying in look.lying:
        for step in lying.history:
            log = step.get("log")
            if step.get("step") == "started" and isinstance(log, str) and not os.path.exists(f"{layout.root}/{log}"):
                look.wrong(f"{lying.place}: its log {log} is not there")
