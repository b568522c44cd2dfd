"""units - sizes, shares of RAM, durations, both ways.

Owns the words for amounts.  Whole numbers throughout: a size is bytes, a duration has a resolution of one millisecond, so that what
is written is what is read back.  Fails: ValueError with a sentence that says what would do.
"""

from __future__ import annotations

import re
from typing import Final

from jobspec.names import show
from jobspec.spec import Share

MAX_SIZE: Final = 2**63 - 1
MAX_DURATION_S: Final = 36_500 * 86_400
_MAX_TEXT: Final = 64

_SIZES: Final = {
    "B": 1,
    **{f"{letter}B": 1000 ** (i + 1) for i, letter in enumerate("KMGTPE")},
    **{f"{letter}IB": 1024 ** (i + 1) for i, letter in enumerate("KMGTPE")},
}
_SIZE: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?[ ]?([A-Za-z]*)")
_SHARE: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,6}))?[ ]?%")
_SHOWN: Final = (("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12), ("PB", 10**15), ("EB", 10**18))

_TICKS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_PART: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?[ ]?(ms|[dhms])")
_ONE_PART: Final = re.compile(r"([0-9]{1,12})([dhms])")
_SECONDS: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_BARE: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def parse_size(text: str) -> int:
    """Bytes of "37GB", "37 GiB", "1.5TB".  A fraction of a byte is rounded to the nearest one."""
    match = _SIZE.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise ValueError(f'"{show(text, 40)}" is no size: say it like "37GB", "37GiB" or "1.5TB"')
    whole, part, unit = match[1], match[2] or "", match[3].upper()
    factor = _SIZES.get(unit)
    if factor is None:
        raise ValueError(_why_no_size(text, unit))
    scale: int = 10 ** len(part)
    size: int = (int(whole + part) * factor * 2 + scale) // (2 * scale)
    if size > MAX_SIZE:
        raise ValueError(f'"{show(text, 40)}" is more than any box has')
    return size


def _why_no_size(text: str, unit: str) -> str:
    number = text[: len(text) - len(unit)].rstrip()
    if not unit:
        return f'"{text}" has no unit: say "{number}GB" or "{number}GiB", or bytes as a number without quotes'
    if f"{unit}B" in _SIZES:
        letter = unit[0]
        return f'"{text}" may mean two sizes: say "{number}{letter}B" (powers of 1000) or "{number}{letter}iB" (of 1024)'
    return f'"{text}" has no unit of size: there are B, kB, MB, GB, TB and KiB, MiB, GiB, TiB'


def format_size(size: int) -> str:
    """"37.0GB": one decimal in powers of 1000, whole bytes below that."""
    sign, size = ("-", -size) if size < 0 else ("", size)
    if size < 1000:
        return f"{sign}{size}B"
    tenths, shown = 0, ""
    for unit, factor in _SHOWN:
        tenths, shown = (size * 20 + factor) // (factor * 2), unit
        if tenths < 10_000:
            break  # else it would read as 1000.0 of this unit
    return f"{sign}{tenths // 10}.{tenths % 10}{shown}"


def parse_share(text: str) -> Share:
    """The share of "79%": more than 0, at most 100, with up to six decimals."""
    match = _SHARE.fullmatch(text)
    if match is None:
        raise ValueError(f'"{show(text, 40)}" is no share: say it like "79%", with at most six decimals')
    percent = float(f"{match[1]}.{match[2] or 0}")
    if not 0 < percent <= 100:
        raise ValueError(f'"{show(text, 40)}" is no share of something: it must be more than 0% and at most 100%')
    return Share(percent)


def format_share(share: Share) -> str:
    """"79%", which `parse_share` takes back."""
    return f"{share.percent:.6f}".rstrip("0").rstrip(".") + "%"


def parse_amount(text: str) -> int | Share:
    """A size or a share; "0%" is 0 bytes."""
    if text.endswith("%"):
        match = _SHARE.fullmatch(text)
        return 0 if match and not float(f"{match[1]}.{match[2] or 0}") else parse_share(text)
    return parse_size(text)


def parse_duration(text: str) -> float:
    """Seconds of "90m", "1h30m", "3d", "500ms", to the millisecond."""
    if len(text) > _MAX_TEXT:
        raise _no_duration(text)
    if match := _ONE_PART.fullmatch(text):
        seconds = int(match[1]) * _SECONDS[match[2]]
        if seconds <= MAX_DURATION_S:
            return float(seconds)
    ticks = pos = 0
    last = MAX_DURATION_S * 1000 + 1
    for match in _PART.finditer(text):
        if match.start() != pos:
            raise _no_duration(text)
        whole, part = match[1], match[2] or ""
        tick = _TICKS[match[3]]
        if tick >= last:
            raise ValueError(f'"{show(text, 40)}" is no duration: each unit stands once, the longest first, as in "1h30m"')
        last = tick
        amount, rest = divmod(int(whole + part) * tick, 10 ** len(part))
        if rest:
            raise ValueError(f'"{show(text, 40)}" is finer than a millisecond')
        ticks += amount
        pos = match.end()
        if text[pos : pos + 1] == " " and pos + 1 < len(text):
            pos += 1
    if pos != len(text) or not text:
        raise _no_duration(text)
    if ticks > MAX_DURATION_S * 1000:
        raise ValueError(f'"{show(text, 40)}" is longer than a hundred years: say "none" where no limit is meant and allowed')
    return ticks / 1000


def _no_duration(text: str) -> ValueError:
    if _BARE.fullmatch(text) and len(text) <= _MAX_TEXT:
        return ValueError(f'"{text}" has no unit: say "{text}s", "{text}m" or "{text}h", or whole seconds as a number without quotes')
    return ValueError(f'"{show(text, 40)}" is no duration: say it like "90m", "1h30m", "3d" or "500ms"')


def format_duration(seconds: float) -> str:
    """"1h30m", to the millisecond; "none" for what has no limit."""
    if seconds == float("inf"):
        return "none"
    sign, ticks = ("-", round(-seconds * 1000)) if seconds < 0 else ("", round(seconds * 1000))
    parts = []
    for unit, tick in _TICKS.items():
        amount, ticks = divmod(ticks, tick)
        if amount:
            parts.append(f"{amount}{unit}")
    return sign + "".join(parts) if parts else "0s"
