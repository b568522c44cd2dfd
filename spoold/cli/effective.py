"""effective - every setting that a job runs under, each with where it comes from: its own file, spool.toml, or a default.

Owns the lines that `check` and `show` print, "wall 24h, spool.toml default_wall".  Pure: the settings, the box and the account are arguments.
Values are for people; they are escaped here.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jobspec.names import show
from jobspec.spec import DEFAULT_GRACE_S, NO_LIMIT, Job, ModelSize, Share
from jobspec.units import format_share, format_size
from spoold.admission import memory_bytes
from spoold.rows import lock_words
from spoold.settings import Settings

FILE: Final = "job file"
DEFAULT: Final = "default"
_MOST: Final = 400


@dataclass(frozen=True, slots=True)
class Setting:
    """One line: the key, its value, and who says so."""

    key: str
    value: str
    source: str

    def __str__(self) -> str:
        return f"{self.key} {self.value}, {self.source}"

    def as_json(self) -> dict[str, Any]:
        return {"key": self.key, "value": self.value, "source": self.source}


def effective(job: Job, settings: Settings, *, total: int, model_bytes: int | None, identity: Mapping[str, str]) -> list[Setting]:
    """All of them, in the order of the format's reference.  `identity` has the variables of the account."""
    lines: list[Setting] = []

    def say(key: str, value: str, source: str = FILE) -> None:
        lines.append(Setting(key, show(value, _MOST), source))

    def fall_back(key: str, given: object, value: str, setting: str) -> None:
        say(key, value, FILE if given is not None else spool_source(settings, setting))

    if job.command is not None:
        say("command", shlex.join(job.command))
    elif job.script is not None:
        say("script", _script(job.script))
        if not job.script.startswith("#!"):
            say("shell", shlex.join(settings.shell), spool_source(settings, "shell"))
    fall_back("cwd", job.cwd, job.cwd or settings.cwd, "cwd")
    say("stdin", job.stdin or "/dev/null", FILE if job.stdin is not None else DEFAULT)
    for key, names in (("after", job.after), ("after_ok", job.after_ok), ("after_failed", job.after_failed)):
        if names:
            say(key, ", ".join(names))
    locks = {settings.default_lock: 1} if job.lock is None else {request.name: request.units for request in job.lock}
    fall_back("lock", job.lock, lock_words(locks) if locks else "none", "default_lock")
    fall_back("memory", job.memory, _memory(job, settings, total, model_bytes), "memory.unknown")
    wall_s = settings.default_wall_s if job.wall_s is None else job.wall_s
    fall_back("wall", job.wall_s, duration(wall_s), "default_wall")
    say("grace", duration(DEFAULT_GRACE_S if job.grace_s is None else job.grace_s), FILE if job.grace_s is not None else DEFAULT)
    say("nice", str(job.nice or 0), FILE if job.nice is not None else DEFAULT)
    say("umask", f"{settings.umask:03o}", spool_source(settings, "umask"))
    if job.not_before is not None:
        say("not_before", str(job.not_before))
    if job.give_up_s is not None:
        say("give_up", duration(job.give_up_s))
    if job.retry is not None:
        on = ", ".join(sorted(outcome.value for outcome in job.retry.on))
        times = "once" if job.retry.times == 1 else f"{job.retry.times} times"
        say("retry", f"{times} after {on}, {f'{duration(job.retry.delay_s)} later' if job.retry.delay_s else 'at once'}")
    if job.keep_awake:
        say("keep_awake", "true")
    if job.note is not None:
        say("note", job.note)
    for name, value in identity.items():
        if name not in settings.env and name not in job.env:
            say(f"env.{show(name)}", value, "account")
    for name, value in settings.env.items():
        if name not in job.env:
            say(f"env.{show(name)}", value, "spool.toml env")
    for name, value in job.env.items():
        say(f"env.{show(name)}", value)
    return lines


def spool_source(settings: Settings, key: str) -> str:
    """ "spool.toml default_wall", also where that has its default."""
    return f"spool.toml {key}" if key in settings.sources else f"spool.toml {key} (its default)"


def duration(seconds: float) -> str:
    """Exactly, in hours up to two days: "24h", "1h30m", "3d", "none"."""
    if seconds == NO_LIMIT:
        return "none"
    ticks = round(seconds * 1000)
    words = ""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        if unit == "d" and ticks < 2 * size:
            continue
        amount, ticks = divmod(ticks, size)
        words += f"{amount}{unit}" if amount else ""
    return words or "0s"


def _script(script: str) -> str:
    first, *others = script.strip("\n").split("\n")
    return f"{first} (and {len(others)} more line{'' if len(others) == 1 else 's'})" if others else first


def _memory(job: Job, settings: Settings, total: int, model_bytes: int | None) -> str:
    asked = settings.unknown_memory if job.memory is None else job.memory
    size = memory_bytes(job, settings, total, model_bytes)
    amount = "unknown" if size is None else format_size(size)
    if isinstance(asked, Share):
        return f"{format_share(asked)} of {format_size(total)} = {amount}"
    if isinstance(asked, ModelSize):
        margin = format_share(asked.margin) if isinstance(asked.margin, Share) else format_size(asked.margin)
        return f"size of {asked.path}" + (" (not there yet)" if model_bytes is None else "") + f" + {margin} = {amount}"
    return amount if size else "none"
