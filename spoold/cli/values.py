"""values - what an option of `submit` may say: durations, sizes, locks, times, lists of outcomes.

Owns the short forms of the command line; what they share with a job file is read by jobspec.  Fails: click's usage error, with the sentence.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

import click

from jobspec.names import show
from jobspec.spec import NO_LIMIT, LockRequest, RetryOn
from jobspec.units import parse_amount, parse_duration


class Words(click.ParamType[Any]):
    """A value that one of jobspec's readers reads."""

    def __init__(self, name: str, read: Any) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def wall(text: str) -> float:
    return NO_LIMIT if text == "none" else duration(text)


def duration(text: str) -> float:
    return parse_duration(f"{text}s" if text.isdecimal() else text)


def lock(text: str) -> LockRequest:
    name, equals, units = text.partition("=")
    if not equals:
        return LockRequest(name)
    if units == "all":
        return LockRequest(name, None)
    if not (units.isascii() and units.isdecimal() and int(units) > 0):
        raise ValueError(f"{show(text)}: say NAME, NAME=2 or NAME=all")
    return LockRequest(name, int(units))


def moment(text: str) -> datetime.datetime:
    """A date with a time; a time alone is the next such."""
    try:
        time = datetime.time.fromisoformat(text)
    except ValueError:
        try:
            if len(text) <= len("2026-12-02"):
                raise ValueError
            return datetime.datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{show(text)} is no time: say 22:00 or 2026-12-02T22:00") from None
    now = datetime.datetime.now(time.tzinfo)
    moment = datetime.datetime.combine(now.date(), time)
    return moment if moment > now else moment + datetime.timedelta(days=1)


def retry_on(text: str) -> frozenset[RetryOn]:
    try:
        return frozenset(RetryOn(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"{show(text)}: say some of {', '.join(on.value for on in RetryOn)}, with commas between them") from None


DURATION: Final = Words("duration", duration)
AMOUNT: Final = Words("size", parse_amount)
LOCK: Final = Words("lock", lock)
MOMENT: Final = Words("time", moment)
OUTCOMES: Final = Words("outcomes", retry_on)
WALL: Final = Words("duration", wall)
