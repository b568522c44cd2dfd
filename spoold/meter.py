"""meter - the box in numbers: memory that can be had, room on the disk, whether processes wait for a processor.

Owns the last reading and how often a new one is taken.  Asks `host`, never psutil: its `available` knows no container on Linux and
counts memory that is in use on macOS, where it also fails from one call to the next.  Never decides what may start.  Fails: `read` does
not; it gives the last reading again and says that it is old.  `disk_free` raises OSError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from spoold import host

SPACING_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Reading:
    """Memory in bytes as it was `at`.  `available` is None as long as nothing could ever be measured; `total` is 0 then."""

    total: int
    available: int | None
    at: float
    old: bool = False
    """The newest attempt failed; `detail["error"]` says how."""
    detail: Mapping[str, int | str] = field(default_factory=dict)


class Meter:
    """Measures memory, not more often than makes sense."""

    def __init__(self, probe: Callable[[], host.MemoryStatus] = host.memory_status) -> None:
        self._probe = probe
        self._last = Reading(0, None, 0.0, old=True)
        self._tried_at: float | None = None

    def expire(self) -> None:
        """The next reading is a new one: it must not be older than what is known of the runs, or the same memory would be promised twice."""
        self._tried_at = None

    def read(self, now: float) -> Reading:
        """The state of memory.  `now` is in seconds of the caller's own clock; one that goes back makes a new reading."""
        if self._tried_at is not None and 0 <= now - self._tried_at < SPACING_S:
            return self._last
        self._tried_at = now
        try:
            status = self._probe()
        except (OSError, ValueError) as error:
            self._last = replace(self._last, old=True, detail={**self._last.detail, "error": str(error)})
        else:
            self._last = Reading(status.total, status.available, now, False, status.detail)
        return self._last


def disk_free(path: str) -> int:
    """Bytes that a user without rights can still write where `path` lies."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def crowding() -> float:
    """How many processes want to run for each processor; where there are more than one, a process may be kept waiting between two of its steps."""
    try:
        with open("/proc/loadavg", "rb") as file:
            wanting = int(file.read(64).split()[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):
        wanting = int(os.getloadavg()[0]) + 1  # of the last minute, and without us
    return wanting / (os.cpu_count() or 1)
