"""parse - bytes in; a `Job`, or every problem with its line, out.

Owns the fields of a job file and the rules between them.  After `parse` nobody checks again.  Reads the user's text only: what stands
below the trace's marker is history and never believed.  Fails: JobSpecError, with every problem at once, and nothing else, for
any bytes, in bounded time and memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from jobspec import toml, trace
from jobspec.errors import JobSpecError, Problem
from jobspec.names import MAX_FILE_NAME, NAME_PATTERN, BadNameError, is_name, parse_file_name
from jobspec.places import Path
from jobspec.spec import MAX_FILE_BYTES, Job, LockRequest, ModelSize, Retry, RetryOn, Share
from jobspec.values import (
    MAX_UNITS,
    Faults,
    amount,
    boolean,
    check_misplaced,
    duration,
    environment,
    free_table,
    integer,
    lock_name,
    moment,
    shown,
    table,
    unknown_key,
)
from jobspec.values import text as plain_text

MAX_RETRIES: Final = 1000
MIN_NICE: Final = -20
MAX_NICE: Final = 20
_GLOB: Final = re.compile(r"[A-Za-z0-9*?\[][A-Za-z0-9._+@*?\[\]-]*")
_BRACKETS: Final = re.compile(r"\[[^\[\]]+\]")
RETRY_WORDS: Final = {outcome.value: outcome for outcome in RetryOn}
_MODEL_KEYS: Final = ("model", "margin")
_RETRY_KEYS: Final = ("times", "delay", "on")


def parse(data: bytes, *, limit: int = MAX_FILE_BYTES) -> Job:
    """The job in the bytes of a file, with or without a trace.

    `limit` is the greatest size of the whole file; one that the spooler wrote may have a long trace, its text is bound all the same.
    """
    text, history = trace.split(data) if len(data) <= limit else (data, b"")
    document = toml.read(text)
    if not document.readable:
        raise JobSpecError(document.problems)
    faults = Faults(FIELDS)
    values: dict[str, Any] = {}
    for key, value in document.table.items():
        known = FIELDS.get(key)
        if known is not None:
            good = known[1](value, (key,), faults)
            if good is not None:
                values[known[0]] = good
        elif key == "trace":
            faults.add((key,), "this is the history's, which the spooler writes; call your own key meta.trace")
        else:
            unknown_key((key,), FIELDS.keys(), faults)
    _check_together(document, values, faults)
    problems = [*document.problems, *(document.problem(path, words) for path, words in faults.found)]
    stray = trace.stray_line(text, history) if history else None
    if stray is not None:
        problems.append(Problem(stray, 1, "", "this stands below the history and would not be read; put it above the history"))
    if problems:
        raise JobSpecError(problems)
    return Job(**values)


def _check_together(document: toml.Document, values: Mapping[str, Any], faults: Faults) -> None:
    given = [key for key in document.table if key in ("command", "script")]
    if len(given) == 2:
        faults.add((given[1],), f"there is a {given[0]} already, and a job has one of them")
    elif not given and document.lost.isdisjoint(("command", "script")):
        faults.add((), "command or script is missing")
    check_misplaced(document, FIELDS, faults)


def _command(value: object, path: Path, faults: Faults) -> tuple[str, ...] | None:
    if isinstance(value, str):
        faults.add(path, "must be an array with the program and its arguments; for a line of shell say script")
        return None
    if not isinstance(value, list) or not value:
        faults.add(path, 'must be an array such as ["make", "all"]' + (", not empty" if value == [] else f", not {shown(value)}"))
        return None
    good = True
    for index, part in enumerate(value):
        if not isinstance(part, str):
            faults.add((*path, index), f"must be text in quotes, not {shown(part)}")
        elif "\0" in part:
            faults.add((*path, index), "must not contain a NUL character")
        elif not part and index == 0:
            faults.add((*path, index), "the program must not be empty")
        else:
            continue
        good = False
    return tuple(value) if good else None


def _script(value: object, path: Path, faults: Faults) -> str | None:
    script = plain_text(value, path, faults)
    if script is not None and not script.strip():
        faults.add(path, "must not be empty")
        return None
    return script


def _names(value: object, path: Path, faults: Faults) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return (value,) if _check_name(value, path, faults) else None
    if not isinstance(value, list):
        faults.add(path, f"must be a NAME or an array of NAMEs, not {shown(value)}")
        return None
    checked = [_check_name(name, (*path, index), faults) for index, name in enumerate(value)]
    return tuple(dict.fromkeys(value)) if all(checked) else None


def _check_name(name: object, path: Path, faults: Faults) -> bool:
    if not isinstance(name, str):
        faults.add(path, f"must be a NAME in quotes, not {shown(name)}")
        return False
    if len(name) > MAX_FILE_NAME:
        faults.add(path, f"{shown(name)} is longer than a NAME can be")
        return False
    if name.endswith(".toml"):
        try:
            meant = f", {parse_file_name(name).name}"
        except BadNameError:
            meant = ""
        faults.add(path, f"{shown(name)} is the name of a file; say its NAME{meant}")
        return False
    if is_name(name):
        return True
    if not _GLOB.fullmatch(name):
        faults.add(path, f"{shown(name)} can be no NAME: that is {NAME_PATTERN}, and may contain * ? and [...]")
        return False
    if set(_BRACKETS.sub("", name)) & set("[]"):
        faults.add(path, f"{shown(name)} has a bracket without its partner")
        return False
    return True


def _lock(value: object, path: Path, faults: Faults) -> tuple[LockRequest, ...] | None:
    if isinstance(value, str):
        name = lock_name(value, path, faults)
        return None if name is None else (LockRequest(name),)
    requests: list[LockRequest] = []
    count = 0
    if isinstance(value, list):
        count = len(value)
        for index, element in enumerate(value):
            name = lock_name(element, (*path, index), faults)
            if name is not None and any(r.name == name for r in requests):
                faults.add((*path, index), f"{name} is named twice; for two units say lock = {{ {name} = 2 }}")
            elif name is not None:
                requests.append(LockRequest(name))
    elif isinstance(value, dict):
        count = len(value)
        for key, units in value.items():
            name = lock_name(key, (*path, key), faults)
            number = None if units == "all" else _units(units, (*path, key), faults)
            if name is not None and (number is not None or units == "all"):
                requests.append(LockRequest(name, number))
    else:
        faults.add(path, f'must be a name, an array of names or a table such as {{ gpu = 1 }}, not {shown(value)}; [] is none')
        return None
    return tuple(requests) if len(requests) == count else None


def _units(value: object, path: Path, faults: Faults) -> int | None:
    if isinstance(value, str):
        faults.add(path, f'must be a number of units, or "all", not {shown(value)}')
        return None
    return integer(value, path, faults, 1, MAX_UNITS)


def _memory(value: object, path: Path, faults: Faults) -> int | Share | ModelSize | None:
    if not isinstance(value, dict):
        return amount(value, path, faults)
    table(value, path, _MODEL_KEYS, faults)
    if "model" not in value:
        faults.add(path, "model is missing: the file or folder whose size is meant")
        return None
    model = plain_text(value["model"], (*path, "model"), faults, "a path in quotes")
    margin = amount(value.get("margin", 0), (*path, "margin"), faults)
    return None if model is None or margin is None else ModelSize(model, margin)


def _retry(value: object, path: Path, faults: Faults) -> Retry | None:
    if not isinstance(value, dict):
        faults.add(path, f"must be a table such as {{ times = 2 }}, not {shown(value)}")
        return None
    table(value, path, _RETRY_KEYS, faults)
    times = None
    if "times" in value:
        times = integer(value["times"], (*path, "times"), faults, 1, MAX_RETRIES)
    else:
        faults.add(path, "times is missing: how often it may be run again")
    delay = duration(value.get("delay", 0), (*path, "delay"), faults, zero=True)
    on = _retry_on(value.get("on", ["failed"]), (*path, "on"), faults)
    return None if times is None or delay is None or on is None else Retry(times=times, delay_s=delay, on=on)


def _retry_on(value: object, path: Path, faults: Faults) -> frozenset[RetryOn] | None:
    words = RETRY_WORDS
    if not isinstance(value, list) or not value:
        what = "empty: leave retry out instead" if value == [] else shown(value)
        faults.add(path, f"must be an array of {', '.join(words)}, not {what}")
        return None
    for index, word in enumerate(value):
        if not isinstance(word, str) or word not in words:
            faults.add((*path, index), f"must be one of {', '.join(words)}, not {shown(word)}")
    return frozenset(words[word] for word in value if isinstance(word, str) and word in words)


def _note(value: object, path: Path, faults: Faults) -> str | None:
    if isinstance(value, str):
        return value
    faults.add(path, f"must be text in quotes, not {shown(value)}")
    return None


FIELDS: Final[Mapping[str, tuple[str, Callable[[object, Path, Faults], Any]]]] = {
    "command": ("command", _command),
    "script": ("script", _script),
    "cwd": ("cwd", plain_text),
    "env": ("env", environment),
    "stdin": ("stdin", plain_text),
    "after": ("after", _names),
    "after_ok": ("after_ok", _names),
    "after_failed": ("after_failed", _names),
    "lock": ("lock", _lock),
    "memory": ("memory", _memory),
    "wall": ("wall_s", partial(duration, none=True)),
    "grace": ("grace_s", partial(duration, zero=True)),
    "nice": ("nice", partial(integer, low=MIN_NICE, high=MAX_NICE)),
    "not_before": ("not_before", moment),
    "give_up": ("give_up_s", duration),
    "retry": ("retry", _retry),
    "keep_awake": ("keep_awake", boolean),
    "note": ("note", _note),
    "meta": ("meta", free_table),
}
"""The keys of a job file: the attribute of `Job` that each becomes, and its check."""
