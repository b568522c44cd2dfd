"""write - `Job` to the text of a job file, by tomli-w.

Owns the order in which the fields stand, and that `parse(write(job)) == job`.  Writes only what the job says: what is None or empty by
default has no line.
"""

from __future__ import annotations

from typing import Any

import tomli_w

from jobspec.spec import Job, LockRequest, ModelSize, Retry, RetryOn, Share
from jobspec.units import format_duration, format_share


def write(job: Job) -> bytes:
    """The bytes that `parse` reads as this job."""
    table: dict[str, Any] = {}
    for key, value in (
        ("note", job.note),
        ("command", None if job.command is None else list(job.command)),
        ("script", job.script),
        ("cwd", job.cwd),
        ("stdin", job.stdin),
        ("after", list(job.after) or None),
        ("after_ok", list(job.after_ok) or None),
        ("after_failed", list(job.after_failed) or None),
        ("lock", _lock(job.lock)),
        ("memory", _memory(job.memory)),
        ("wall", None if job.wall_s is None else format_duration(job.wall_s)),
        ("grace", None if job.grace_s is None else format_duration(job.grace_s)),
        ("nice", job.nice),
        ("not_before", job.not_before),
        ("give_up", None if job.give_up_s is None else format_duration(job.give_up_s)),
        ("keep_awake", job.keep_awake or None),
        ("env", dict(job.env) or None),
        ("retry", _retry(job.retry)),
        ("meta", dict(job.meta) or None),
    ):
        if value is not None:
            table[key] = value
    return tomli_w.dumps(table).encode()


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
