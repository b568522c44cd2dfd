"""opening - everything that has to hold before a spooler may work on a spool, and its parts put together.

Owns the checks at the start and the order in which things are opened: the one-spooler lock before anything is changed.
Fails: SpoolError with the command that mends it, AnotherRunsError, BadSettingsError.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from spoold import host
from spoold.archive import Archive
from spoold.claim import OwnerLock
from spoold.errors import BadSettingsError, SpoolError
from spoold.journal import Journal
from spoold.layout import Layout
from spoold.meter import Meter
from spoold.model import Stage
from spoold.pool import Pool
from spoold.settings import Durability, Settings
from spoold.store import Store
from spoold.survey import read_settings
from spoold.trust import distrust_directory
from spoold.watcher import Watcher


@dataclass(slots=True)
class Opened:
    """A spool that is ours, with everything that works on it."""

    layout: Layout
    settings: Settings
    store: Store
    archive: Archive
    pool: Pool
    watcher: Watcher
    meter: Meter
    owner: OwnerLock

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *exc: object) -> None:
        """Give everything back; running jobs go on."""
        self.watcher.stop()
        self.pool.close()
        self.owner.drop()


def open_spool(layout: Layout, journal: Journal) -> Opened:
    """Check the spool, take its lock, start what is needed."""
    settings, problem = read_settings(layout)
    if problem is not None:
        raise BadSettingsError(f"{problem}; mend {layout.settings} and start again")
    check_directories(layout)
    check_place(layout, settings, journal)
    durable = settings.durability is Durability.FULL
    store = Store(layout, durable=durable)
    try:
        store.make_private()
    except OSError as error:
        raise SpoolError(f"cannot make {error.filename}: {error.strerror}; the spool must be writable") from error
    owner = OwnerLock(layout.owner)
    owner.take()
    try:
        store.clear_new()
        pool = open_pool(layout, durable, journal)
    except BaseException:
        owner.drop()
        raise
    # done/ and refused/ are only looked into when somebody asks about them; their events are nearly all our own
    directories = {stage.value: layout.stage(stage) for stage in (Stage.INCOMING, Stage.READY, Stage.RUNNING)} | {"root": layout.root}
    watcher = Watcher(directories)
    watcher.start()
    return Opened(layout, settings, store, Archive(store), pool, watcher, Meter(), owner)


def open_pool(layout: Layout, durable: bool, journal: Journal) -> Pool:
    """The supervisors.  On a full disk there is none to be had for a new job yet, but what runs is looked after."""
    pool = Pool(layout, sync=durable)
    try:
        pool.open()
    except SpoolError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        journal.say(f"{error}; jobs start when there is room")
    return pool


def check_directories(layout: Layout) -> None:
    """Every directory of the spool is ours and nobody else can write to it, nor to spool.toml; the stages and .spoold/ are on one file system."""
    uid = os.geteuid()
    devices = set()
    for path in (layout.root, *(layout.stage(stage) for stage in Stage)):
        try:
            found = os.stat(path, follow_symlinks=False)
        except OSError as error:
            raise SpoolError(f"{path}: {error.strerror}; `spoold init {layout.root}` makes what is missing") from error
        if not os.path.isdir(path) or os.path.islink(path):
            raise SpoolError(f"{path} is no directory; move it away and run `spoold init {layout.root}`")
        doubt = distrust_directory(path, found, uid)
        if doubt is not None:
            raise SpoolError(doubt)
        devices.add(found.st_dev)
    for path in (layout.log, layout.private, layout.settings):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            continue
        doubt = distrust_directory(path, found, uid)
        if doubt is not None:
            raise SpoolError(doubt)
        if path == layout.private:
            devices.add(found.st_dev)
    if len(devices) > 1:
        raise SpoolError(f"the stages of {layout.root} lie on different file systems, so a rename could not move a job; put them on one")


def check_place(layout: Layout, settings: Settings, journal: Journal) -> None:
    """Network and synced folders cannot keep the promises."""
    place = host.file_system(layout.root)
    if place.local:
        return
    if not settings.shared:
        raise SpoolError(f"{layout.root}: {place.why}; move the spool to a local disk, or set [spool] shared = true in spool.toml to go on at your own risk")
    journal.say(f"{layout.root}: {place.why}; going on because [spool] shared = true")
