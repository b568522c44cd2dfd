"""surroundings - what every job meets alike: spool.toml, PAUSED, room on the disk, memory, and how well the spool is watched.

Owns the settings in force: a broken spool.toml leaves the last good ones, and is said; one that is being written, or away for a moment because an
editor saves it, leaves them too.  Never looks at a job.
Fails: OSError if the spool's disk cannot be asked; everything else is said and kept as it was.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from jobspec.names import show
from jobspec.units import format_size
from spoold import host
from spoold.admission import make_box
from spoold.journal import Journal
from spoold.meter import disk_free
from spoold.model import Box
from spoold.opening import Opened
from spoold.settings import Settings, SettingsError, parse_settings
from spoold.survey import read_paused
from spoold.trust import distrust_directory

OLD_S: Final = 60.0
"""A reading of memory that is older than this says nothing any more."""
PRESSED: Final = 2
CRITICAL: Final = 4
"""macOS: kern.memorystatus_vm_pressure_level.  Level 1 proves nothing: memory of the GPU never raises it."""
MOST_SETTINGS_BYTES: Final = 1024 * 1024
SETTLE_S: Final = 0.5
"""How long it must be unchanged where nobody can say whether it is open for writing."""
AWAY_S: Final = 2.0
"""How long spool.toml must be gone before the defaults are in force."""


class Surroundings:
    """The box and the spool's own files, as they were at the last look."""

    def __init__(self, opened: Opened, journal: Journal) -> None:
        self._opened = opened
        self._journal = journal
        self.settings = opened.settings
        self.paused: str | None = None
        self.closed: str | None = None
        self.total = 0
        self._settings_stamp = self._stamp()
        self._changed_at: tuple[tuple[int, int, int] | None, float] | None = None

    def box(self, tick: float, shut: str | None = None) -> Box:
        """The box now; `shut` is a reason of the spooler's own why nothing starts."""
        reading = self._opened.meter.read(tick)
        self.total = reading.total
        available = None if reading.old and tick - reading.at > OLD_S else reading.available
        closed = self.closed or shut
        if closed is None and self._pressure(tick) >= PRESSED:
            closed = "the system reports memory pressure"
        return make_box(self.settings, total=reading.total, available=available, paused=self.paused, closed=closed)

    def memory_critical(self, tick: float) -> bool:
        """The system says that there is no memory left to wait for."""
        return self._pressure(tick) >= CRITICAL

    def _pressure(self, tick: float) -> int:
        level = self._opened.meter.read(tick).detail.get("pressure_level", 0)
        return level if isinstance(level, int) else 0

    def look_at_paused(self) -> bool:
        """True if it has changed."""
        paused = read_paused(self._opened.layout)
        if paused == self.paused:
            return False
        self._journal.say((f"paused: {show(paused)}" if paused else "paused") if paused is not None else "goes on: PAUSED is gone")
        self.paused = paused
        return True

    def look_at_disk(self) -> bool:
        """True if it has changed whether there is room enough to start anything."""
        free = disk_free(self._opened.layout.root)
        floor = self.settings.disk_floor
        closed = f"the spool's disk is nearly full, less than the [disk] floor of {format_size(floor)} is free" if free < floor else None
        self._journal.once("disk", closed)
        changed, self.closed = closed != self.closed, closed
        return changed

    def look_at_watcher(self) -> None:
        watcher = self._opened.watcher
        healthy = watcher.healthy()
        why = None if healthy and not watcher.why else watcher.why or "some directories cannot be watched"
        self._journal.once("watcher", None if why is None else f"changes are found by looking once a second: {why}")

    def look_at_settings(self, *, anyway: bool = False) -> bool:
        """Read spool.toml again if it has changed, or `anyway`.  True if other settings are in force."""
        stamp = self._stamp()
        if stamp == self._settings_stamp and not anyway:
            self._changed_at = None
            return False
        settings = self._read_settings(stamp, anyway)
        if settings is None:
            return False
        self._changed_at = None
        self._settings_stamp = stamp
        self._journal.once("settings", None)
        if settings == self.settings:
            return False
        self._journal.say("spool.toml has changed: the new settings are in force" if stamp else "spool.toml is gone: the defaults are in force")
        self.settings = settings
        return True

    def _read_settings(self, stamp: tuple[int, int, int] | None, anyway: bool) -> Settings | None:
        """What spool.toml says; None if that is to be asked again, or if it is broken."""
        if self._changed_at is None or self._changed_at[0] != stamp:
            self._changed_at = (stamp, host.awake())
        since = host.awake() - self._changed_at[1]
        try:
            data, writer, doubt = self._open_settings()
            if writer or (writer is None and not anyway and since < SETTLE_S):
                return None
            if doubt is None:
                return parse_settings(data)
            problem = doubt
        except FileNotFoundError:
            return Settings() if anyway or since >= AWAY_S else None
        except SettingsError as error:
            problem = str(error)
        except OSError as error:
            problem = error.strerror or str(error)
        self._settings_stamp = stamp
        self._journal.once("settings", f"spool.toml: {problem}; the last good settings stay in force")
        return None

    def _open_settings(self) -> tuple[bytes, bool | None, str | None]:
        """The bytes, whether somebody is writing them, and why they are not to be believed."""
        path = self._opened.layout.settings
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return b"", False, "it is no regular file"
            return os.read(fd, MOST_SETTINGS_BYTES), host.has_writer(fd), distrust_directory(path, found, os.geteuid())
        finally:
            os.close(fd)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._opened.layout.settings)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size
