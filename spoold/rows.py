"""rows - jobs as people see them: one line each, with short words for times, amounts and reasons.

Owns the columns of a listing and its words.  Every text that comes from a file is escaped before it becomes part of a line.  Pure: no clock, no
terminal; a style is a word that the terminal side gives a meaning.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jobspec.names import show
from jobspec.spec import NO_LIMIT
from jobspec.units import format_size
from spoold.model import Outcome, Reason, Rule, Stage
from spoold.view import ENDED_STATE, JobView

SIGNALS: Final[Mapping[int, str]] = {
    1: "HUP",
    2: "INT",
    3: "QUIT",
    6: "ABRT",
    8: "FPE",
    9: "KILL",
    11: "SEGV",
    13: "PIPE",
    14: "ALRM",
    15: "TERM",
}
"""Those that have the same number on Linux and macOS."""

_PAUSED: Final = "paused"
STATES: Final[Mapping[str, str]] = {
    "leftover": "its main process has ended, others go on",
    "term": "being stopped",
    "kill": "being killed",
    "unreachable": "has processes that cannot be stopped",
}

# words ----------------------------------------------------------------------------------------------------------------


def span(seconds: float) -> str:
    """About how long: "0.8s", "42s", "3m12s", "1h31m", "2d4h"; "none" for no limit."""
    if seconds == NO_LIMIT:
        return "none"
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for size, unit, smaller_size, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size * (2 if unit == "d" else 1):
            rest = whole % size // smaller_size
            return f"{whole // size}{unit}{rest}{smaller}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def clock(at: float, now: float) -> str:
    """A moment as short as can be: "14:14" today, "Wed 14:14" within the week, else the date."""
    moment, today = datetime.datetime.fromtimestamp(at), datetime.datetime.fromtimestamp(now)
    days = (moment.date() - today.date()).days
    if days == 0:
        return f"{moment:%H:%M}"
    if abs(days) < 7:
        return f"{moment:%a %H:%M}"
    return f"{moment:%Y-%m-%d}"


def ended_words(job: JobView) -> str:
    """How it ended: "ok after 1h31m", "failed after 12m, exit 1", "withdrawn"."""
    if job.outcome is None:
        return "withdrawn" if job.gone else "refused"
    words = job.outcome.value
    if job.elapsed_s is not None and job.outcome is not Outcome.LOST:
        words += f" after {span(job.elapsed_s)}"
    if job.signal is not None:
        words += f", signal {job.signal}" + (f" ({SIGNALS[job.signal]})" if job.signal in SIGNALS else "")
    elif job.exit:
        words += f", exit {job.exit}"
    return words


def lock_words(locks: Mapping[str, int | tuple[str, ...] | None], many: Collection[str] = ()) -> str:
    """ "gpu", "gpu 0,1 + disk", "cpu x8", "gpu (all)"; `many` are the locks that have more than one unit."""
    words = []
    for lock, units in locks.items():
        if units is None:
            words.append(f"{show(lock)} (all)")
        elif isinstance(units, int):
            words.append(show(lock) if units == 1 else f"{show(lock)} x{units}")
        else:
            words.append(show(lock) if units == ("0",) and lock not in many else f"{show(lock)} {','.join(map(show, units))}")
    return " + ".join(words) if words else "no lock"


def short(reasons: Iterable[Reason], now: float) -> str:
    """All reasons of a job in the fewest words; `why` has the sentences."""
    words: list[str] = []
    after: list[str] = []
    for reason in reasons:
        if reason.rule is Rule.AFTER:
            name = show(str(reason.facts.get("job", "?")))
            after.append(f"{name} (nowhere yet)" if reason.facts.get("state") == "nowhere" else name)
        else:
            words.append(_short(reason, now))
    if after:
        words.insert(0, f"after {_some(list(dict.fromkeys(after)))}")
    # that nothing starts at all is said above the list; here only what else there is
    return "; ".join(dict.fromkeys(word for word in words if word != _PAUSED)) or (_PAUSED if words else "")


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _short(reason: Reason, now: float) -> str:
    facts = reason.facts
    match reason.rule:
        case Rule.LOCK:
            holders = [show(str(holder.get("job", "?"))) for holder in facts.get("held_by", ())]
            wanted = facts.get("wanted", 1)
            amount = "" if wanted == 1 else f" x{wanted}"
            return (
                f"{show(str(facts.get('lock', '?')))}{amount} held by {_some(holders)}"
                if holders
                else f"{show(str(facts.get('lock', '?')))}{amount}"
            )
        case Rule.MEMORY if "missing" in facts:
            return f"memory {format_size(facts['missing'])} short"
        case Rule.ORDER if "job" in facts:
            return f"behind {show(str(facts['job']))}"
        case Rule.HOLD:
            return "on hold"
        case Rule.TIME:
            until = epoch_of(facts.get("until"))
            return show(reason.text) if until is None else f"not before {clock(until, now)}"
        case Rule.PAUSED:
            return _PAUSED
        case _:
            return show(reason.text)


def epoch_of(text: object) -> float | None:
    """Seconds since the epoch of an ISO 8601 text."""
    try:
        return datetime.datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None


# rows -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marks:
    """The signs in front of a row, and what a text that was cut ends in."""

    running: str = ">"
    ok: str = "+"
    bad: str = "x"
    none: str = "-"
    cut: str = ".."


PLAIN: Final = Marks()
FINE: Final = Marks(running="▸", ok="✓", bad="✗", none="·", cut="…")


@dataclass(frozen=True, slots=True)
class Cell:
    """A text of a row, printable ASCII or a mark, and the style to show it in."""

    text: str
    style: str = ""


Row = tuple[Cell, Cell, Cell, Cell]
"""A mark or the place, the NAME, what it does or waits for, and when."""


def row(job: JobView, now: float, marks: Marks, *, spooler: bool = True) -> Row:
    """One job in one line.  `spooler`: somebody will start what is free to start."""
    match job.stage:
        case Stage.RUNNING:
            return _running_row(job, now, marks)
        case Stage.READY:
            return _ready_row(job, now, marks, spooler)
        case Stage.INCOMING:
            text = "; ".join(show(reason.text) for reason in job.reasons) or "dropped, not read yet"
            return Cell(marks.none, "dim"), Cell(show(job.name)), Cell(text), Cell("")
        case Stage.DONE | Stage.REFUSED:
            return _ended_row(job, now, marks)


def _running_row(job: JobView, now: float, marks: Marks) -> Row:
    elapsed = span(int(job.elapsed_s or 0.0))
    words = [f"{elapsed}, no wall clock" if job.wall_s is None or job.wall_s == NO_LIMIT else f"{elapsed} of {span(job.wall_s)}"]
    words.append(lock_words(job.locks, job.many))
    if job.used:
        words.append(format_size(job.used))
    style = ""
    if job.state == ENDED_STATE:
        words.insert(0, "has ended, not put away yet")
        style = "warn"
    elif not job.supervised:
        words.insert(0, "its supervisor is gone")
        style = "bad"
    elif job.state in STATES:
        words.insert(0, STATES[job.state])
        style = "warn"
    until = "" if job.deadline is None else f"until {clock(job.deadline, now)}"
    return Cell(marks.running, "good"), Cell(show(job.name), "bold"), Cell(", ".join(words), style), Cell(until, "dim")


def _ready_row(job: JobView, now: float, marks: Marks, spooler: bool) -> Row:
    text = short(job.reasons, now) or ("starts now" if spooler else "free to start")
    broken = any(reason.rule is Rule.REFUSED for reason in job.reasons)
    by = "" if job.latest_start is None or not job.reasons else f"by {clock(job.latest_start, now)}"
    mark = Cell(marks.none, "dim") if job.place is None else Cell(str(job.place), "dim")
    return (
        mark,
        Cell(show(job.name), "dim" if job.held else ""),
        Cell(text, "bad" if broken else "dim" if job.held else ""),
        Cell(by, "dim"),
    )


def _ended_row(job: JobView, now: float, marks: Marks) -> Row:
    ok = job.outcome is Outcome.OK
    words = [ended_words(job)]
    if job.outcome is not None and job.peak_memory:
        words.append(format_size(job.peak_memory))
    if job.stage is Stage.REFUSED:
        words = [f"refused: {show(job.reasons[0].text)}" if job.reasons else "refused"]
    mark = Cell(marks.none, "dim") if job.gone else Cell(marks.ok, "good") if ok else Cell(marks.bad, "bad")
    when = "" if job.ended_at is None else clock(job.ended_at, now)
    return mark, Cell(show(job.name)), Cell(", ".join(words), "" if ok or job.gone else "bad"), Cell(when, "dim")


def table(rows: Sequence[Row], width: int, marks: Marks, *, most_name: int = 40) -> list[list[Cell]]:
    """Rows in columns that fit into `width`: marks and places to the right, names as wide as they have to be, the rest for the text."""
    if not rows:
        return []
    first = max(len(cells[0].text) for cells in rows)
    name = min(max(len(cells[1].text) for cells in rows), max(8, min(most_name, width // 4)))
    last = max(len(cells[3].text) for cells in rows)
    middle = max(10, width - first - name - last - (8 if last else 6))
    middle = min(middle, max(len(cells[2].text) for cells in rows))
    lines = []
    for mark, named, text, when in rows:
        line = [
            Cell(f"  {mark.text:>{first}}  ", mark.style),
            Cell(f"{cut(named.text, name, marks):<{name}}", named.style),
            Cell("  "),
            Cell(f"{cut(text.text, middle, marks):<{middle}}" if when.text else cut(text.text, middle, marks), text.style),
        ]
        if when.text:
            line += [Cell("  "), Cell(f"{when.text:>{last}}", when.style)]
        lines.append(line)
    return lines


def cut(text: str, width: int, marks: Marks) -> str:
    """The text, or as much of it as fits."""
    return text if len(text) <= width else text[: max(0, width - len(marks.cut))] + marks.cut


def cut_front(text: str, width: int, marks: Marks) -> str:
    """The text, or as much of its end as fits: of a path that is what tells it from others."""
    return text if len(text) <= width else marks.cut + text[len(text) - max(8, width - len(marks.cut)) :]
