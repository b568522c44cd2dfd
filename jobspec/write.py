"""write - `Job` to the text of a job file, by tomli-w.

Owns the order in which the fields stand, and that `parse(write(job)) == job`.  Writes only what the job says: what is None or empty by
default has no line.  Fails: ValueError for text that TOML cannot hold, as a command line of bytes that are no UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import tomli_w

from jobspec.names import show
from jobspec.spec import Job, LockRequest, ModelSize, Retry, RetryOn, Share
from jobspec.units import format_duration, format_share

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_TEXT: Final = re.compile(r"[ !#-\[\]-~]*")


def write(job: Job) -> bytes:
    """The bytes that `parse` reads as this job.  But for `meta` there is no header in them: a line may be added at the end."""
    lines = []
    for key, value in (
        ("note", job.note),
        ("command", job.command),
        ("script", job.script),
        ("cwd", job.cwd),
        ("stdin", job.stdin),
        ("after", job.after or None),
        ("after_ok", job.after_ok or None),
        ("after_failed", job.after_failed or None),
        ("lock", _lock(job.lock)),
        ("memory", _memory(job.memory)),
        ("wall", None if job.wall_s is None else format_duration(job.wall_s)),
        ("grace", None if job.grace_s is None else format_duration(job.grace_s)),
        ("nice", job.nice),
        ("not_before", job.not_before),
        ("give_up", None if job.give_up_s is None else format_duration(job.give_up_s)),
        ("retry", _retry(job.retry)),
        ("keep_awake", job.keep_awake or None),
    ):
        if isinstance(value, str) and "\n" in value and "\r" not in value:
            lines.append(tomli_w.dumps({key: value}, multiline_strings=True))
        elif value is not None:
            lines.append(f"{key} = {inline(value)}\n")
    lines += [f"env.{dotted_key(name)} = {inline(value)}\n" for name, value in job.env.items()]
    if job.meta:
        lines.append("\n" + tomli_w.dumps({"meta": dict(job.meta)}))
    try:
        return "".join(lines).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f'"{show(error.object[error.start : error.end])}" is no UTF-8, and a job file has to be') from None


def inline(value: object) -> str:
    """A value on one line, as tomli-w would write it but for tables and arrays, which it spreads over several."""
    # what is plain needs no writer, and its time is on the way of every job
    if isinstance(value, str) and _PLAIN_TEXT.fullmatch(value):
        return f'"{value}"'
    if type(value) in (int, float, datetime):
        return str(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{dotted_key(k)} = {inline(v)}" for k, v in value.items()) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(inline, value)) + "]"
    return tomli_w.dumps({"v": value})[4:-1]


def dotted_key(key: str) -> str:
    """A key as it stands before = or a dot."""
    return key if _PLAIN_KEY.fullmatch(key) else tomli_w.dumps({key: 0})[:-5]


def _lock(lock: tuple[LockRequest, ...] | None) -> str | list[str] | dict[str, int | str] | None:
    if lock is None:
        return None
    if any(request.units != 1 for request in lock):
        return {request.name: "all" if request.units is None else request.units for request in lock}
    return lock[0].name if len(lock) == 1 else [request.name for request in lock]


def _memory(memory: int | Share | ModelSize | None) -> int | str | dict[str, int | str] | None:
    match memory:
        case Share():
            return format_share(memory)
        case ModelSize(path=path, margin=margin):
            return {"model": path, "margin": format_share(margin) if isinstance(margin, Share) else margin}
        case _:
            return memory


def _retry(retry: Retry | None) -> dict[str, Any] | None:
    if retry is None:
        return None
    on = [outcome.value for outcome in RetryOn if outcome in retry.on]
    return {"times": retry.times, "delay": format_duration(retry.delay_s), "on": on}
