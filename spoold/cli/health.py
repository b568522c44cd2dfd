"""health - what can be wrong with a spool, and the remedy for each of it.

Owns the checks of `doctor`.  Changes nothing.  Fails: never; a check that cannot be made is a finding.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from jobspec.names import is_candidate, show
from jobspec.units import format_size
from spoold import claim, host, slots
from spoold.cli.jobs import Jobs
from spoold.dependencies import when
from spoold.identity import login_environment
from spoold.layout import NUMBERED_LINKS, Layout
from spoold.meter import disk_free
from spoold.model import Stage, fold
from spoold.orders import DEFAULT_PATH, expand
from spoold.rows import span
from spoold.settings import Settings
from spoold.store import Store
from spoold.survey import read_paused, read_settings, survey
from spoold.trust import distrust_directory

OLD_S: Final = 60.0
"""What has lain in incoming/ for so long is not on its way."""
_FUTURE_S: Final = 120.0
_EARLIEST: Final = 1_700_000_000.0
_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.  With a remedy it is a problem, without one a fact."""

    check: str
    text: str
    remedy: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"check": self.check, "ok": self.remedy is None, "text": self.text, "remedy": self.remedy}


def examine(layout: Layout) -> Iterator[Finding]:
    """Every finding, in the order in which they are worth reading."""
    whole = True
    for finding in (*_directories(layout), *_place(layout)):
        whole = whole and finding.remedy is None
        yield finding
    settings, problem = read_settings(layout)
    yield from _settings(layout, problem)
    yield from _spooler(layout)
    # what a spool.toml says that cannot be read is not known, and the defaults are not what is in force
    for check in (_disk, _memory, _environment, _clock) if problem is None else (_memory, _clock):
        yield from _try(check, layout, settings)
    if whole:
        for look in (_incoming, _claims, _twice, _runs, _broken):
            yield from _try(look, layout, settings)


def _try(check: Callable[[Layout, Settings], Iterator[Finding]], layout: Layout, settings: Settings) -> Iterator[Finding]:
    try:
        yield from check(layout, settings)
    except OSError as error:
        yield Finding(
            check.__name__.strip("_"),
            f"cannot be looked at: {error.filename or layout.root}: {error.strerror}",
            "see to its permissions and its disk",
        )


def _directories(layout: Layout) -> Iterator[Finding]:
    good = True
    devices = set()
    mend = f"spoold init {layout.root}"
    for path in (layout.root, *(layout.stage(stage) for stage in Stage), layout.log, layout.private):
        try:
            # the logs may lie on another disk, by a link
            found = os.stat(path, follow_symlinks=path == layout.log)
        except OSError as error:
            good = False
            yield Finding("directories", f"{path}: {error.strerror}", mend)
            continue
        if path != layout.log:
            devices.add(found.st_dev)
        doubt = distrust_directory(path, found, os.geteuid())
        if not stat.S_ISDIR(found.st_mode):
            good = False
            yield Finding("directories", f"{path} is no directory", f"move it away, then {mend}")
        elif doubt is not None:
            good = False
            yield Finding("directories", doubt, f"chmod go-w {path}, if its owner is right")
        elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            good = False
            yield Finding("directories", f"{path} cannot be written to", f"chmod u+rwx {path}, or mount its disk for writing")
        elif path == layout.private and found.st_mode & 0o077:
            good = False
            yield Finding("directories", f"others can look into {path}, where the job's scripts are", f"chmod 700 {path}")
    if len(devices) > 1:
        good = False
        yield Finding("directories", "the stages lie on several file systems, so a rename cannot move a job", "put them on one")
    for link, target in NUMBERED_LINKS.items():
        path = f"{layout.root}/{link}"
        if not os.path.islink(path):
            good = False
            there = os.path.lexists(path)
            yield Finding("links", f"{link} is {'no link' if there else 'missing'}", f"move {path} away, then {mend}" if there else mend)
        elif os.readlink(path) != target:
            good = False
            yield Finding("links", f"{link} leads to {os.readlink(path)}, not to {target}", f"rm {path}; {mend}")
    if good:
        yield Finding("directories", "all there, yours alone to write to, on one file system")


def _settings(layout: Layout, problem: str | None) -> Iterator[Finding]:
    if problem is not None:
        yield Finding("settings", problem, f"correct {layout.settings}; until then the last good settings hold")
        return
    try:
        doubt = distrust_directory(layout.settings, os.stat(layout.settings), os.geteuid())
    except FileNotFoundError:
        yield Finding("settings", "there is no spool.toml: the defaults hold")
        return
    yield Finding("settings", doubt or "spool.toml is valid", None if doubt is None else f"chmod go-w {layout.settings}")


def _place(layout: Layout) -> Iterator[Finding]:
    try:
        place = host.file_system(layout.root)
    except OSError as error:
        yield Finding("place", f"its file system cannot be told: {error.strerror}", "see to its disk")
        return
    if place.local:
        yield Finding("place", f"on {place.kind}, a local file system")
    elif read_settings(layout)[0].shared:
        yield Finding("place", f"{place.why}; allowed by [spool] shared = true")
    else:
        yield Finding("place", place.why, "move the spool to a local disk, or set [spool] shared = true at your own risk")


def _spooler(layout: Layout) -> Iterator[Finding]:
    if claim.is_held(layout.owner):
        pid = claim.owner_pid(layout.owner)
        yield Finding("spooler", "one runs" if pid is None else f"one runs, pid {pid}")
    else:
        yield Finding("spooler", "none runs, so nothing starts", f"spoold --spool {layout.root} run")
    paused = read_paused(layout)
    if paused is not None:
        yield Finding("paused", f"nothing new starts{': ' + paused if paused else ''}", f"spoold --spool {layout.root} resume")


def _disk(layout: Layout, settings: Settings) -> Iterator[Finding]:
    free = disk_free(layout.root)
    text = f"{format_size(free)} free, the floor is {format_size(settings.disk_floor)}"
    yield Finding(
        "disk",
        text,
        _disk_remedy(free, settings.disk_floor),
    )


def _disk_remedy(free: int, floor: int) -> str | None:
    if free < floor:
        return "make room: nothing starts below the floor; or lower [disk] floor in spool.toml"
    # also without a floor: on a full disk nothing is accepted, started or put away
    return None if free else "make room: it is full, and nothing can be accepted, started or put into done/"


def _memory(layout: Layout, settings: Settings) -> Iterator[Finding]:
    try:
        memory = host.memory_status()
    except (OSError, ValueError) as error:
        yield Finding(
            "memory", f"cannot be read ({error}), so jobs that declare memory wait", "report this, with the name and version of the system"
        )
        return
    yield Finding("memory", f"{format_size(memory.available)} of {format_size(memory.total)} available")


def _environment(layout: Layout, settings: Settings) -> Iterator[Finding]:
    identity = login_environment()
    home = identity.get("HOME", "/")
    good = True
    if not os.path.isdir(home):
        good = False
        yield Finding("home", f"HOME is {home}, which is no directory", "make it, or set HOME in [env] of spool.toml")
    cwd = expand(settings.cwd, home)
    if not os.path.isdir(cwd):
        good = False
        yield Finding("cwd", f"jobs that name no cwd run in {cwd}, which is no directory", "make it, or set cwd in spool.toml")
    if not os.access(settings.shell[0], os.X_OK):
        good = False
        yield Finding("shell", f"scripts without #! are run by {settings.shell[0]}, which cannot be executed", "set shell in spool.toml")
    said = settings.env.get("PATH")
    path = (said if said is not None else DEFAULT_PATH).split(":")
    missing = [directory for directory in path if not os.path.isdir(directory)]
    if len(missing) == len(path):
        good = False
        yield Finding("PATH", "no directory in it exists", "set PATH in [env] of spool.toml: jobs find no command")
    elif said is None:
        yield Finding("PATH", f"not set in [env] of spool.toml; jobs have {DEFAULT_PATH}")
    elif any(not os.path.isabs(directory) for directory in path):
        good = False
        yield Finding(
            "PATH",
            "has a relative directory in it, which means another one for every job",
            "write whole paths into PATH in [env] of spool.toml",
        )
    if good:
        yield Finding("environment", f"HOME {home}, shell {settings.shell[0]}, cwd {cwd} and PATH are there")


def _clock(layout: Layout, settings: Settings) -> Iterator[Finding]:
    now = time.time()
    latest = max(os.stat(path).st_ctime for path in (layout.root, *(layout.stage(stage) for stage in Stage)) if os.path.isdir(path))
    if now < _EARLIEST:
        yield Finding("clock", f"it says {when(now)}", "set the clock: not_before, give_up and every history go by it")
    elif latest - now > _FUTURE_S:
        yield Finding("clock", f"it is {span(latest - now)} behind what was written last into the spool", "set the clock")
    else:
        yield Finding("clock", f"it says {when(now)}")


def _incoming(layout: Layout, settings: Settings) -> Iterator[Finding]:
    directory = layout.stage(Stage.INCOMING)
    now = time.time()
    jobs: list[str] = []
    litter: list[str] = []
    for entry in sorted(os.listdir(directory)):
        try:
            found = os.stat(f"{directory}/{entry}", follow_symlinks=False)
        except FileNotFoundError:
            continue
        # .gitkeep is how an empty directory gets into a repository
        if now - max(found.st_ctime, found.st_mtime) < OLD_S or entry == ".gitkeep":
            continue
        (jobs if is_candidate(entry) else litter).append(entry)
    if jobs and claim.is_held(layout.owner):
        yield Finding("incoming", f"{_some(jobs)} not accepted for over a minute", "spoold why NAME; somebody may have it open for writing")
    if litter:
        yield Finding(
            "incoming",
            f"no job, and left alone: {_some(litter)}",
            f"a job's name ends in .toml: rename what is one, remove what is none from {directory}",
        )


def _claims(layout: Layout, settings: Settings) -> Iterator[Finding]:
    now = time.time()
    old = []
    for entry in os.listdir(layout.claims) if os.path.isdir(layout.claims) else ():
        ident = Store(layout).ident(f"{layout.claims}/{entry}")
        if ident is not None and now - ident.ctime_ns / 1e9 > OLD_S:
            old.append(entry.partition("~")[2] or entry)
    if old:
        yield Finding(
            "claims", f"taken out of incoming/ and not yet accepted: {_some(old)}", "a spooler goes on with them when it starts: spoold run"
        )


def _twice(layout: Layout, settings: Settings) -> Iterator[Finding]:
    store = Store(layout)
    where: dict[int, list[str]] = {}
    for stage in Stage:
        for entry, inode in store.inodes(stage):
            if is_candidate(entry):
                where.setdefault(inode, []).append(f"{stage.value}/{entry}")
    twice = [places for places in where.values() if len(places) > 1]
    for places in twice[:_MOST]:
        yield Finding("twice", f"one file in two places: {' and '.join(places)}", "a spooler mends this when it starts: spoold run")
    names: dict[str, str] = {}
    for place in Jobs(store).live():
        if place.stage is not Stage.INCOMING and fold(place.name) in names:
            yield Finding("twice", f"two live jobs of one NAME: {names[fold(place.name)]} and {place.file}", "rename one of the files")
        names.setdefault(fold(place.name), place.file)


def _runs(layout: Layout, settings: Settings) -> Iterator[Finding]:
    going: list[str] = []
    orphaned: list[str] = []
    for number in slots.numbers(layout):
        slot = layout.slot(number)
        record = slots.read(slot)
        if record.live and record.start is not None:
            orphan = record.end is None and not claim.is_held(slot.supervisor_lock)
            (orphaned if orphan else going).append(record.start.job)
    spooler = claim.is_held(layout.owner)
    if orphaned:
        remedy = "the spooler is on it" if spooler else "a spooler decides what becomes of them: spoold run"
        yield Finding("runs", f"without their supervisor: {_some(orphaned)}", remedy)
    if going and not spooler:
        yield Finding("runs", f"go on without a spooler, or wait to be put away: {_some(going)}")


def _broken(layout: Layout, settings: Settings) -> Iterator[Finding]:
    found = survey(layout, time.time())
    for unread in found.unread[:_MOST]:
        yield Finding("ready", f"{unread.entry}: {unread.why}", "correct it, or move it to incoming/ to have it accepted")
    if found.unrecorded:
        yield Finding(
            "running",
            f"put there by hand, or left by a crash: {_some(found.unrecorded)}",
            "a spooler decides what becomes of them: spoold run",
        )


def _some(names: list[str]) -> str:
    shown = ", ".join(show(name, 60) for name in names[:_MOST])
    return f"{shown} and {len(names) - _MOST} more" if len(names) > _MOST else shown
