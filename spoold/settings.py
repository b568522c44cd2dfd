"""settings - spool.toml: every key with its default, and what a file says instead.

Owns the keys, their ranges and the text that `init` writes.  Reads bytes, never a disk.  Never guesses: an unknown key or a bad value
leaves the caller with the settings that it had.  Fails: SettingsError, with every problem at once, each with its line.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import tomli_w

from jobspec import toml, values
from jobspec.errors import BadFileError
from jobspec.places import Path
from jobspec.spec import NO_LIMIT, Share
from jobspec.values import Faults, shown


class SettingsError(BadFileError):
    """No valid spool.toml."""


class Durability(enum.Enum):
    """FULL syncs every step that a power cut could undo; FAST never syncs."""

    FULL = "full"
    FAST = "fast"


class Order(enum.Enum):
    """May a later job pass an earlier one that it does not delay?"""

    BACKFILL = "backfill"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class LockUnits:
    """The units that a lock has, by name, and the variable that tells a job which of them are its own."""

    units: tuple[str, ...]
    env: str | None = None


_NO_ENV: Final[Mapping[str, str]] = MappingProxyType({})
_NO_LOCKS: Final[Mapping[str, LockUnits]] = MappingProxyType({})
_FLOOR: Final = Share(4.0)
_NO_SOURCES: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of spool.toml.  Sizes are bytes, durations seconds; None where nothing is ever removed or cut off."""

    default_lock: str = "box"
    default_wall_s: float = 86_400.0
    cwd: str = "~"
    shell: tuple[str, ...] = ("/bin/sh",)
    umask: int = 0o022
    durability: Durability = Durability.FULL
    env: Mapping[str, str] = field(default_factory=lambda: _NO_ENV)
    locks: Mapping[str, LockUnits] = field(default_factory=lambda: _NO_LOCKS)
    order: Order = Order.BACKFILL
    memory_floor: int | Share = _FLOOR
    guard: bool = True
    patience_s: float = 5.0
    unknown_memory: int | Share = 0
    disk_floor: int = 1_000_000_000
    keep_done_s: float | None = None
    keep_refused_s: float | None = None
    keep_log_s: float | None = None
    log_limit: int | None = None
    shared: bool = False
    sources: Mapping[str, int] = field(default_factory=lambda: _NO_SOURCES, compare=False)
    """The keys that the file sets, as "memory.floor", each with its line."""

    def source(self, key: str) -> str:
        """Where a setting comes from, for people: "spool.toml default_wall", or "default"."""
        return f"spool.toml {key}" if key in self.sources else "default"


def parse_settings(data: bytes) -> Settings:
    """The settings in the bytes of a spool.toml; an empty one gives the defaults."""
    document = toml.read(data)
    if not document.readable:
        raise SettingsError(document.problems)
    faults = Faults(_TOP)
    good: dict[str, Any] = {}
    said: list[tuple[str, ...]] = []
    for key, value in document.table.items():
        if key in _TOP:
            _take(_TOP[key], value, (key,), faults, good)
            said += [(key,), *((key, name) for name in value)] if isinstance(value, dict) else [(key,)]
        elif key in _TABLES:
            inner = values.table(value, (key,), _TABLES[key].keys(), faults) or {}
            for name in (name for name in inner if name in _TABLES[key]):
                _take(_TABLES[key][name], inner[name], (key, name), faults, good)
                said.append((key, name))
        else:
            values.unknown_key((key,), (*_TOP, *_TABLES), faults)
    values.check_misplaced(document, _TOP, faults)
    problems = [*document.problems, *(document.problem(path, words) for path, words in faults.found)]
    if problems:
        raise SettingsError(problems)
    lines = {toml.key_name(path): (document.places.place(path) or (0, 0))[0] for path in said}
    return Settings(**good, sources=MappingProxyType(lines))


_Check = Callable[[object, Path, Faults], Any]


def _take(key: tuple[str, _Check], value: object, path: Path, faults: Faults, good: dict[str, Any]) -> None:
    attribute, check = key
    before = len(faults.found)
    checked = check(value, path, faults)
    if len(faults.found) == before:
        good[attribute] = checked


_UMASK: Final = re.compile(r"0?[0-7]{3}")
_UNIT: Final = re.compile(r"[!-+\--~]{1,128}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _shell(value: object, path: Path, faults: Faults) -> tuple[str, ...] | None:
    if isinstance(value, str):
        program = values.text(value, path, faults)
        if program is not None and any(c.isspace() for c in program):
            faults.add(path, 'a shell with arguments must be an array such as ["/bin/bash", "-e"]')
        return None if program is None else (program,)
    if not isinstance(value, list) or not value:
        faults.add(path, f'must be a path in quotes or an array such as ["/bin/sh"], not {"empty" if value == [] else shown(value)}')
        return None
    parts = [values.text(part, (*path, index), faults) for index, part in enumerate(value)]
    return tuple(part for part in parts if part is not None)


def _umask(value: object, path: Path, faults: Faults) -> int | None:
    if isinstance(value, str) and _UMASK.fullmatch(value):
        return int(value, 8)
    faults.add(path, f'must be three octal digits in quotes, such as "022", not {shown(value)}')
    return None


def _locks(value: object, path: Path, faults: Faults) -> Mapping[str, LockUnits] | None:
    if not isinstance(value, dict):
        faults.add(path, f"must be a table such as {{ gpu = 2 }}, not {shown(value)}")
        return None
    locks: dict[str, LockUnits] = {}
    for name, what in value.items():
        where = (*path, name)
        values.lock_name(name, where, faults)
        if isinstance(what, dict):
            values.table(what, where, ("units", "env"), faults)
            units = _units(what.get("units", 1), (*where, "units"), faults)
            env = _variable(what["env"], (*where, "env"), faults) if "env" in what else None
            locks[name] = LockUnits(units, env)
        else:
            locks[name] = LockUnits(_units(what, where, faults))
    return MappingProxyType(locks)


def _units(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    if not isinstance(value, list):
        if isinstance(value, (str, float)):
            faults.add(path, f'must be a number of units, or their names such as ["0", "1"], not {shown(value)}')
            return ()
        count = values.integer(value, path, faults, 1, values.MAX_UNITS)
        return tuple(map(str, range(count or 0)))
    if not value or len(value) > values.MAX_UNITS:
        faults.add(path, f"must name from 1 to {values.MAX_UNITS} units")
        return ()
    seen: set[str] = set()
    for index, unit in enumerate(value):
        if not isinstance(unit, str):
            faults.add((*path, index), f"a unit's name must be text in quotes, not {shown(unit)}")
        elif not _UNIT.fullmatch(unit):
            faults.add((*path, index), f"{shown(unit)} is no name of a unit: it is ASCII without blanks and commas, at most 128 characters")
        elif unit in seen:
            faults.add((*path, index), f"there is a unit {shown(unit)} already")
        else:
            seen.add(unit)
    return tuple(unit for unit in value if isinstance(unit, str))


def _variable(value: object, path: Path, faults: Faults) -> str | None:
    if isinstance(value, str) and _VARIABLE.fullmatch(value):
        return value
    faults.add(path, f"must be the name of a variable in quotes: letters, digits and _, not {shown(value)}")
    return None


def _keep(value: object, path: Path, faults: Faults) -> float | None:
    seconds = values.duration(value, path, faults, none=True)
    return None if seconds == NO_LIMIT else seconds


def _log_limit(value: object, path: Path, faults: Faults) -> int | None:
    if value == "none":
        return None
    limit = values.size(value, path, faults)
    if limit == 0:
        faults.add(path, 'must be more than 0; say "none" for no limit')
    return limit


_TOP: Final[Mapping[str, tuple[str, _Check]]] = {
    "default_lock": ("default_lock", values.lock_name),
    "default_wall": ("default_wall_s", partial(values.duration, none=True)),
    "cwd": ("cwd", values.text),
    "shell": ("shell", _shell),
    "umask": ("umask", _umask),
    "durability": ("durability", partial(values.choice, kinds=Durability)),
    "env": ("env", values.environment),
    "locks": ("locks", _locks),
}
_TABLES: Final[Mapping[str, Mapping[str, tuple[str, _Check]]]] = {
    "order": {"policy": ("order", partial(values.choice, kinds=Order))},
    "memory": {
        "floor": ("memory_floor", values.amount),
        "guard": ("guard", values.boolean),
        "patience": ("patience_s", partial(values.duration, zero=True)),
        "unknown": ("unknown_memory", values.amount),
    },
    "disk": {"floor": ("disk_floor", values.size)},
    "keep": {"done": ("keep_done_s", _keep), "refused": ("keep_refused_s", _keep), "log": ("keep_log_s", _keep)},
    "log": {"limit": ("log_limit", _log_limit)},
    "spool": {"shared": ("shared", values.boolean)},
}
KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {key: attribute for key, (attribute, _) in _TOP.items()}
    | {f"{name}.{key}": attribute for name, keys in _TABLES.items() for key, (attribute, _) in keys.items()}
)
"""Every key of spool.toml, as "memory.floor": the attribute of `Settings` that it sets."""

_DEFAULT_TEXT: Final = """\
# The settings of this spool, read again when this file changes.  Every key is optional; a # in front is the default.

# default_lock = "box"      # what a job takes that names no lock: with one lock for all, jobs run one at a time
# default_wall = "24h"      # how long a job may run that does not say
# cwd = "~"                 # where a job runs that does not say
# shell = ["/bin/sh"]       # what runs a script without a #! line
# umask = "022"
# durability = "full"       # "fast": no syncs, so a power cut may undo the last moves

[env]                       # for every job
PATH = {path}

[locks]                     # a lock that is not named here has one unit
# gpu = 2                   # two units, "0" and "1"
# gpu = ["0", "1"]          # the same, by name
# gpu = {{ units = ["0", "1"], env = "CUDA_VISIBLE_DEVICES" }}

[order]
# policy = "backfill"       # "strict": no job ever passes an earlier one

[memory]
# floor = "4%"              # this much stays free, of all memory
# guard = true              # stop a job when less than that is free
# patience = "5s"           # for this long
# unknown = 0               # what a job is taken to use that does not say

[disk]
# floor = "1GB"             # with less than this free nothing starts

[keep]                      # "none": for ever
# done = "none"             # such as "90d"
# refused = "none"
# log = "none"

[log]
# limit = "none"            # how large a log may become

[spool]
# shared = false            # true: also on a network or synced folder, where its promises may not hold
"""


def default_settings_text(path_env: str) -> bytes:
    """The spool.toml that `init` writes: every default as a comment, and PATH as it is where init ran."""
    return _DEFAULT_TEXT.format(path=tomli_w.dumps({"v": path_env})[4:-1]).encode("utf-8", "replace")
