"""survey - a whole spool as it lies on the disk, read and not changed: what `ls`, `why`, `show`, `wait` and `doctor` look at.

Owns the read side.  Needs no spooler and asks none: the stages, the traces and the run records say everything.  A file that vanishes meanwhile is
a move in progress and is left out.  Fails: NoSuchError if there is no spool, BadSettings are reported and the defaults used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobspec import trace
from jobspec.errors import JobSpecError
from jobspec.names import BadNameError, is_candidate, parse_file_name
from jobspec.parse import parse
from jobspec.spec import NO_LIMIT
from jobspec.units import format_size
from spoold import claim, explanation, host, records, scheduler
from spoold.admission import admit, make_box, read_history
from spoold.archive import Archive
from spoold.errors import NoSuchError
from spoold.files import OWN_LIMIT
from spoold.layout import Layout
from spoold.meter import disk_free
from spoold.model import Box, Queue, Ready, Reason, Running, Stage, is_glob
from spoold.modelsize import model_bytes
from spoold.records import Figures, RunRecord, StartRecord
from spoold.settings import Settings, SettingsError, parse_settings
from spoold.store import Store, held_name

PAUSED_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has no end in done/ yet.  `supervised`: its supervisor lives."""

    slot: int
    start: StartRecord
    figures: Figures | None
    supervised: bool
    ended: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """A file in ready/ that is no job as it stands: being edited, or broken."""

    entry: str
    why: str


@dataclass(slots=True)
class Survey:
    """One look at a spool.  `reasons` and `latest` are by NAME."""

    layout: Layout
    now: float
    settings: Settings
    settings_problem: str | None
    queue: Queue
    box: Box
    runs: dict[str, Run]
    incoming: list[str]
    """Dropped and not yet accepted, those that are being accepted among them."""
    unread: list[Unread]
    unrecorded: list[str]
    """Names in running/ that no run explains."""
    spooler: int | None
    """The pid of the spooler that runs, 0 if it did not say, None if there is none."""
    reasons: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)
    latest: Mapping[str, float] = field(default_factory=dict)


def read_settings(layout: Layout) -> tuple[Settings, str | None]:
    """The settings in force if the spooler started now, and what is wrong with spool.toml."""
    try:
        # a FIFO would keep us waiting for somebody to write
        with open(os.open(layout.settings, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(1024 * 1024)
    except FileNotFoundError:
        return Settings(), None
    except OSError as error:
        return Settings(), f"spool.toml cannot be read: {error.strerror}"
    try:
        return parse_settings(data), None
    except SettingsError as error:
        return Settings(), f"spool.toml: {error}"


def read_paused(layout: Layout) -> str | None:
    """The text of PAUSED in one line, or None if the spool is not paused."""
    try:
        fd = os.open(layout.paused, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    try:
        text = os.read(fd, PAUSED_LIMIT).decode("utf-8", "replace")
    except OSError:
        text = ""
    finally:
        os.close(fd)
    return " ".join(text.split())


def read_records(layout: Layout) -> dict[int, RunRecord]:
    """The run records of all slots, by slot."""
    found = {}
    try:
        slots = os.listdir(layout.slots)
    except FileNotFoundError:
        return {}
    for slot in slots:
        if not slot.isdigit():
            continue
        try:
            with open(layout.slot(int(slot)).record, "rb") as file:
                found[int(slot)] = records.decode(file.read(records.RECORD_SIZE))
        except OSError:
            continue
    return found


def load_ready(store: Store, entry: str, settings: Settings, total: int) -> Ready | Unread | None:
    """A file in ready/ as the queue sees it; None if it is no job's or has gone."""
    held = held_name(entry)
    if held is None and not is_candidate(entry):
        return None
    try:
        name = parse_file_name(held or entry)
        opened = store.open_own(store.layout.entry(Stage.READY, entry))
    except FileNotFoundError:
        return None
    except (BadNameError, OSError) as error:
        return Unread(entry, str(error))
    if opened.data is None:
        return Unread(entry, "it is no regular file, or too large")
    if name.seq is None:
        return Unread(entry, "it has no number")
    try:
        job = parse(opened.data, limit=OWN_LIMIT)
    except JobSpecError as error:
        return Unread(entry, str(error))
    history = read_history(trace.read(opened.data))
    if history is None:
        return Unread(entry, "it was put here by hand and has not been accepted yet")
    return admit(name, job, history, settings, total=total, model_bytes=model_bytes(job, settings.cwd), held_as=None if held is None else entry)


def claimed(store: Store) -> list[str]:
    """The names that dropped files had which are private already and not yet accepted or refused."""
    try:
        return [claim.partition("~")[2] for claim in store.entries(store.layout.claims)]
    except FileNotFoundError:
        return []


def _disk_closed(layout: Layout, settings: Settings) -> str | None:
    """Why nothing starts on a disk that is nearly full."""
    if disk_free(layout.root) >= settings.disk_floor:
        return None
    return f"the spool's disk is nearly full, less than the [disk] floor of {format_size(settings.disk_floor)} is free"


def _newest_first(found: tuple[int, RunRecord]) -> tuple[bool, int]:
    _, record = found
    return record.end is not None, 0 if record.start is None else -record.start.run


def survey(layout: Layout, now: float) -> Survey:
    """Look at everything but done/ and refused/, of which only what somebody waits for is read."""
    store = Store(layout)
    settings, problem = read_settings(layout)
    memory = host.memory_status()
    box = make_box(settings, total=memory.total, available=memory.available, paused=read_paused(layout), closed=_disk_closed(layout, settings))
    queue = Queue()
    runs: dict[str, Run] = {}
    unread: list[Unread] = []
    try:
        running = set(store.stage_entries(Stage.RUNNING))
        ready = sorted(store.stage_entries(Stage.READY))
        incoming = sorted({entry for entry in (*store.stage_entries(Stage.INCOMING), *claimed(store)) if is_candidate(entry)})
    except FileNotFoundError as error:
        raise NoSuchError(f"{layout.root} is no whole spool: {error.filename} is missing; `spoold init {layout.root}` mends it") from error
    # the newest first: each record is read at its own moment, and an older run whose file could not be put away holds nothing any more
    for slot, record in sorted(read_records(layout).items(), key=_newest_first):
        start = record.start
        if start is None or not record.live or (record.end is not None and start.file not in running):
            continue
        supervised = claim.is_held(layout.slot(slot).supervisor_lock)
        over = record.end is not None  # written when no process of it was left; its supervisor may be there still, parked
        taken = {(lock, unit) for other in queue.runs() for lock, units in other.locks.items() for unit in units}
        run = Running(
            seq=start.seq,
            name=start.name,
            file=start.file,
            run=start.run,
            started_at=start.started_at,
            wall_s=NO_LIMIT if start.wall_s is None else start.wall_s,
            grace_s=start.grace_s,
            locks={} if over else {lock: left for lock, units in start.locks.items() if (left := tuple(unit for unit in units if (lock, unit) not in taken))},
            memory=0 if over else start.memory,
            used=record.figures.memory if record.figures else 0,
        )
        if queue.clash(run.name) is None:
            queue.start(run)
            runs[run.name] = Run(slot, start, record.figures, supervised, record.end is not None)
    for entry in ready:
        job = load_ready(store, entry, settings, memory.total)
        if isinstance(job, Unread):
            unread.append(job)
        elif job is not None and (queue.clash(job.name) is not None or queue.get(job.key) is not None):
            unread.append(Unread(entry, f"a job named {job.name} is live already"))
        elif job is not None:
            queue.add(job)
    resolve_ends(queue, Archive(store))
    owner = claim.owner_pid(layout.owner) or 0 if claim.is_held(layout.owner) else None
    unrecorded = sorted(entry for entry in running - {run.start.file for run in runs.values()} if is_candidate(entry))
    found = Survey(layout, now, settings, problem, queue, box, runs, incoming, unread, unrecorded, owner)
    found.reasons = explanation.explain(queue, box, now)
    found.latest = scheduler.latest_starts(queue, box, now)
    return found


def resolve_ends(queue: Queue, archive: Archive, only: Ready | None = None) -> None:
    """Find the ends of everyone that a ready job (or this one) asks about and that is not live."""
    names: set[str] = set()
    globs: dict[str, float] = {}
    for job in queue.conditional() if only is None else [only]:
        for pattern in job.job.after + job.job.after_ok + job.job.after_failed:
            if is_glob(pattern):
                globs[pattern] = min(globs.get(pattern, job.accepted_at), job.accepted_at)
            elif queue.live(pattern) is None:
                names.add(pattern)
    if not names and not globs:
        return
    archive.refresh()
    for name in names:
        ended = archive.last_end(name)
        if ended is not None:
            queue.note_end(ended)
    for pattern, since in globs.items():
        for ended in archive.ends_since(pattern, since):
            queue.note_end(ended)
