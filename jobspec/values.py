"""values - one TOML value to one typed value, or the reason why not.

Owns the checks that job files and spool.toml share.  Types are told apart strictly: a bool is no int, a number in quotes is no number.
Every check notes what is wrong in `Faults` and goes on, so that all of it is reported; it returns None for a value that is no good.
"""

from __future__ import annotations

import datetime
import difflib
import enum
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

from jobspec.errors import MAX_PROBLEMS
from jobspec.names import show
from jobspec.places import Path
from jobspec.spec import NO_LIMIT, Share
from jobspec.toml import Document
from jobspec.units import MAX_DURATION_S, MAX_SIZE, parse_amount, parse_duration, parse_size

E = TypeVar("E", bound=enum.Enum)

MAX_LOCK_NAME: Final = 64
MAX_UNITS: Final = 10_000
LOCK_PATTERN: Final = r"[A-Za-z_][A-Za-z0-9_.-]*"
_LOCK_NAME: Final = re.compile(LOCK_PATTERN)
_INT64: Final = 2**63


@dataclass(slots=True)
class Faults:
    """What is wrong so far: paths of keys and sentences.  `top` are the keys that stand at the top of this kind of file."""

    top: Collection[str]
    found: list[tuple[Path, str]] = field(default_factory=list)

    def add(self, path: Path, text: str) -> None:
        self.found.append((path, text))


def shown(value: object) -> str:
    """A TOML value in a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{show(value, 40)}"'
    if isinstance(value, int):
        return str(value) if -_INT64 <= value < _INT64 else "a number of more than 64 bits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return "an array"
    if isinstance(value, dict):
        return "a table"
    return str(value)


_OTHER_WORDS: Final = {
    "cmd": "command",
    "run": "command",
    "exec": "command",
    "argv": "command",
    "args": "command",
    "timeout": "wall",
    "time_limit": "wall",
    "walltime": "wall",
    "max_time": "wall",
    "depends": "after",
    "depends_on": "after",
    "needs": "after",
    "requires": "after_ok",
    "gpu": "lock",
    "gpus": "lock",
    "resources": "lock",
    "ram": "memory",
    "mem": "memory",
    "environment": "env",
    "dir": "cwd",
    "workdir": "cwd",
    "directory": "cwd",
    "start": "not_before",
    "deadline": "give_up",
    "description": "note",
    "comment": "note",
    "retries": "retry",
}


def nearest(key: str, known: Collection[str]) -> str | None:
    """The known key that somebody may have meant."""
    plain = key[:64].lower().replace("-", "_")
    if _OTHER_WORDS.get(plain) in known:
        return _OTHER_WORDS[plain]
    close = difflib.get_close_matches(plain, known, n=1)
    return close[0] if close else None


def unknown_key(path: Path, known: Collection[str], faults: Faults) -> None:
    """Refuse a key, with the nearest known one.  Nobody reads more of them than are reported, so the search ends there too."""
    if len(path) > 1 and path[-1] in faults.top:
        faults.add(path, f"this belongs to the top of the file: put it above {path[0]}")
        return
    near = nearest(str(path[-1]), known) if len(faults.found) < MAX_PROBLEMS else None
    faults.add(path, f"unknown key, did you mean {near}?" if near else f"unknown key; there are {', '.join(known)}")


def table(value: object, path: Path, known: Collection[str], faults: Faults) -> dict[str, Any] | None:
    """A table with these keys only."""
    if not isinstance(value, dict):
        faults.add(path, f"must be a table, not {shown(value)}")
        return None
    for key in value:
        if key not in known:
            unknown_key((*path, key), known, faults)
    return value


def text(value: object, path: Path, faults: Faults, what: str = "text in quotes") -> str | None:
    """A string that is not empty and could be handed to the system."""
    if not isinstance(value, str):
        faults.add(path, f"must be {what}, not {shown(value)}")
    elif not value:
        faults.add(path, "must not be empty")
    elif "\0" in value:
        faults.add(path, "must not contain a NUL character")
    else:
        return value
    return None


def boolean(value: object, path: Path, faults: Faults) -> bool | None:
    if isinstance(value, bool):
        return value
    faults.add(path, f"must be true or false, not {shown(value)}")
    return None


def integer(value: object, path: Path, faults: Faults, low: int, high: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        faults.add(path, f"must be a whole number, not {shown(value)}")
    elif not low <= value <= high:
        faults.add(path, f"must be from {low} to {high}, not {shown(value)}")
    else:
        return value
    return None


def choice(value: object, path: Path, faults: Faults, kinds: type[E]) -> E | None:
    """A member of an enum by its value."""
    words = [str(kind.value) for kind in kinds]
    if isinstance(value, str) and value in words:
        return kinds(value)
    near = nearest(value, words) if isinstance(value, str) else None
    hint = f", did you mean {near}?" if near else ""
    faults.add(path, f"must be one of {', '.join(words)}, not {shown(value)}{hint}")
    return None


def duration(value: object, path: Path, faults: Faults, *, zero: bool = False, none: bool = False) -> float | None:
    """Seconds; `none` allows "none", which is NO_LIMIT, and `zero` allows no time at all."""
    if none and value == "none":
        return NO_LIMIT
    if isinstance(value, str):
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            hint = ' (or "none")' if none and value.lower() in ("", "no", "never", "inf", "infinite", "unlimited", "none") else ""
            faults.add(path, f"{error}{hint}")
            return None
    elif isinstance(value, int) and not isinstance(value, bool):
        if not -MAX_DURATION_S <= value <= MAX_DURATION_S:
            faults.add(path, "must be at most a hundred years")
            return None
        seconds = float(value)
    else:
        faults.add(path, f'must be a duration such as "1h30m", or whole seconds, not {shown(value)}')
        return None
    if seconds < 0 or (seconds == 0 and not zero):
        faults.add(path, "must not be negative" if zero else "must be longer than zero")
        return None
    return seconds


def amount(value: object, path: Path, faults: Faults) -> int | Share | None:
    """Bytes, or a share of the box's RAM."""
    if isinstance(value, str):
        try:
            return parse_amount(value)
        except ValueError as error:
            faults.add(path, str(error))
            return None
    return _bytes(value, path, faults, 'a size such as "37GB", a share such as "79%", or bytes')


def size(value: object, path: Path, faults: Faults) -> int | None:
    """Bytes."""
    if isinstance(value, str):
        try:
            return parse_size(value)
        except ValueError as error:
            faults.add(path, str(error))
            return None
    return _bytes(value, path, faults, 'a size such as "37GB", or bytes')


def _bytes(value: object, path: Path, faults: Faults, what: str) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        faults.add(path, f"must be {what}, not {shown(value)}")
    elif not 0 <= value <= MAX_SIZE:
        faults.add(path, "must not be negative" if value < 0 else "is more than any box has")
    else:
        return value
    return None


def environment(value: object, path: Path, faults: Faults) -> Mapping[str, str] | None:
    """Variables for a process."""
    if not isinstance(value, dict):
        faults.add(path, f'must be a table such as {{ NAME = "value" }}, not {shown(value)}')
        return None
    good: dict[str, str] = {}
    for name, content in value.items():
        where = (*path, name)
        if not name or "=" in name or "\0" in name:
            faults.add(where, "the name of a variable must not be empty, nor contain = or NUL")
        elif not isinstance(content, str):
            quoted = f', say "{shown(content)}"' if isinstance(content, (int, float)) else ""
            faults.add(where, f"must be text in quotes{quoted}, not {shown(content)}")
        elif "\0" in content:
            faults.add(where, "must not contain a NUL character")
        else:
            good[name] = content
    return MappingProxyType(good)


def check_misplaced(document: Document, known: Collection[str], faults: Faults) -> None:
    """Refuse what stands below the header [env] and bears the name of a key of the file itself: it was meant for the top."""
    env = document.table.get("env")
    for name in env if isinstance(env, dict) else ():
        if name in known and document.places.in_header(("env", name)):
            meant = f'env = {{ {name} = "..." }} if it is one'
            faults.add(("env", name), f"this stands below [env] and so is a variable; put it above [env], or say {meant}")


def lock_name(value: object, path: Path, faults: Faults) -> str | None:
    if not isinstance(value, str):
        faults.add(path, f"the name of a lock must be text in quotes, not {shown(value)}")
    elif len(value) > MAX_LOCK_NAME or not _LOCK_NAME.fullmatch(value):
        rule = f"it has letters, digits, _ . -, starts with a letter or _, and has at most {MAX_LOCK_NAME} characters"
        faults.add(path, f"{shown(value)} is no name of a lock: {rule}")
    else:
        return value
    return None


def free_table(value: object, path: Path, faults: Faults) -> Mapping[str, Any] | None:
    """Any table that can be written again: TOML promises no integer of more than 64 bits."""
    if not isinstance(value, dict):
        faults.add(path, f"must be a table, not {shown(value)}")
        return None
    _check_integers(value, path, faults)
    return MappingProxyType(value)


def _check_integers(value: object, path: Path, faults: Faults) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_integers(inner, (*path, key), faults)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check_integers(inner, (*path, index), faults)
    elif isinstance(value, int) and not -_INT64 <= value < _INT64:
        faults.add(path, "a whole number must fit into 64 bits")


def moment(value: object, path: Path, faults: Faults) -> datetime.datetime | None:
    """A date with a time; years that every clock can count with."""
    if isinstance(value, datetime.datetime):
        if 1970 <= value.year <= 9998:
            return value
        faults.add(path, f"the year must be from 1970 to 9998, not {value.year}")
    elif isinstance(value, datetime.date):
        faults.add(path, f"a time is missing after the date: say {value}T00:00:00 for the start of that day")
    elif isinstance(value, datetime.time):
        faults.add(path, f"a date is missing before the time: say it like 2026-12-02T{value}")
    elif isinstance(value, str):
        faults.add(path, "must be a date with a time, without quotes: 2026-12-02T22:00:00")
    else:
        faults.add(path, f"must be a date with a time, such as 2026-12-02T22:00:00, not {shown(value)}")
    return None
