"""spec - `Job` and its parts: frozen, complete, already valid.

Owns the nouns of a job file.  Whoever holds a `Job` need not check it again: `parse` made it or nobody did.
Never reads a setting: what a file leaves out is None here and is filled in by `spoold.settings`.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

MAX_FILE_BYTES: Final = 64 * 1024
DEFAULT_GRACE_S: Final = 30.0
NO_LIMIT: Final = float("inf")
"""A wall clock of "none": said on purpose, never a default."""


class RetryOn(enum.Enum):
    """The outcomes after which a job may be run again."""

    FAILED = "failed"
    WALL = "wall"
    MEMORY = "memory"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class LockRequest:
    """Units of one lock: a count from 1 up, or None for all that the lock has."""

    name: str
    units: int | None = 1


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the box's RAM, in percent (0 < percent <= 100)."""

    percent: float


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The size of a file or folder, plus a margin in bytes or in points of RAM."""

    path: str
    margin: int | Share = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a job may be run again, after how many seconds, after which outcomes."""

    times: int
    delay_s: float = 0.0
    on: frozenset[RetryOn] = frozenset({RetryOn.FAILED})


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job file.  Exactly one of `command` and `script` is set.

    Sizes are bytes, durations seconds.  None means that the file says nothing; the empty `lock` says that the job takes none.
    `not_before` without an offset is local time.  FORMAT.md has the ranges.
    """

    command: tuple[str, ...] | None = None
    script: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    stdin: str | None = None
    after: tuple[str, ...] = ()
    after_ok: tuple[str, ...] = ()
    after_failed: tuple[str, ...] = ()
    lock: tuple[LockRequest, ...] | None = None
    memory: int | Share | ModelSize | None = None
    wall_s: float | None = None
    grace_s: float | None = None
    nice: int | None = None
    not_before: datetime.datetime | None = None
    give_up_s: float | None = None
    retry: Retry | None = None
    keep_awake: bool = False
    note: str | None = None
    meta: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
