"""picture - what ran when, beside what, and what each job waited for: read from done/ and refused/ alone.

Owns the closing picture of the demo, 80 columns of plain ASCII: a table, a time line, and a sentence for each wait.  Shows only jobs
whose last step was at or after `--since`, so that an old night in done/ is left alone.  Standard library only; it never writes.
Fails: exit 1 if the night left no job to show, or one that did not end well.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

NIGHT: Final = ("g50", "g51", "g52", "quant", "g64-big", "summary")
LIVE: Final = ("incoming", "ready", "running")
WIDTH: Final = 80
CHART: Final = WIDTH - 10
GRID_S: Final = (1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One job of the picture.  Times are seconds since the epoch; a job that never ran has neither start nor end."""

    name: str
    outcome: str
    at: float
    start: float | None = None
    end: float | None = None
    locks: tuple[str, ...] = ()
    peak: int | None = None
    waited_s: float = 0.0
    waited_for: list[str] = field(default_factory=list)
    log: str | None = None
    why: str = ""

    def beside(self, other: Row) -> bool:
        """Both ran at some moment."""
        if self is other or self.start is None or self.end is None or other.start is None or other.end is None:
            return False
        return self.start < other.end and other.start < self.end


def name_of(file: str) -> str:
    """The NAME in `0050-g52.toml`, `0050-g52.2.toml` and `0050-g52.toml.hold`; the night's names have no dot."""
    return file.partition(".")[0].partition("-")[2]


def seconds(value: Any) -> float:
    if not isinstance(value, datetime.datetime):
        raise ValueError(f"{value!r} is no date-time")
    return value.timestamp()


def ran(path: Path) -> Row | None:
    """A job in done/, by the last run in its trace."""
    trace: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8")).get("trace", [])
    started = next((step for step in reversed(trace) if step["step"] == "started"), None)
    ended = next((step for step in reversed(trace) if step["step"] == "ended"), None)
    if started is None or ended is None:
        return None
    return Row(
        name=name_of(path.name),
        outcome=ended["outcome"],
        at=seconds(ended["at"]),
        start=seconds(started["at"]),
        end=seconds(ended["at"]),
        locks=tuple(started.get("locks", ())),
        peak=ended.get("peak_memory"),
        waited_s=started.get("waited_s", 0.0),
        waited_for=list(started.get("waited_for", ())),
        log=started.get("log"),
    )


def refused(path: Path) -> Row:
    """A job in refused/; its reason lies beside it as NAME.why."""
    why = path.with_suffix(".why")
    text = " ".join(why.read_text(encoding="utf-8").split()) if why.exists() else "no reason was written"
    return Row(name=name_of(path.name), outcome="refused", at=path.stat().st_ctime, why=text)


def rows(spool: Path, since: float) -> list[Row]:
    """The night's jobs that ended since then: the latest of each NAME, in the order of their starts."""
    found: dict[str, Row] = {}
    candidates = [ran(path) for path in (spool / "done").glob("*.toml") if name_of(path.name) in NIGHT]
    candidates += [refused(path) for path in (spool / "refused").glob("*.toml") if name_of(path.name) in NIGHT]
    for row in candidates:
        if row is not None and row.at >= since and (row.name not in found or row.at > found[row.name].at):
            found[row.name] = row
    return sorted(found.values(), key=lambda row: (row.start is None, row.start or 0.0, NIGHT.index(row.name)))


def size(count: int | None) -> str:
    return "-" if not count else f"{count / 1e6:.0f} MB"


def table(night: list[Row], zero: float) -> Iterator[str]:
    yield f"{'job':<9}{'outcome':<9}{'from':>7}{'to':>8}{'peak':>9}  {'lock':<6}beside"
    for row in night:
        if row.start is None or row.end is None:
            yield f"{row.name:<9}{row.outcome:<9}{'never ran':>15}"
            continue
        beside = ", ".join(other.name for other in night if row.beside(other)) or "nothing"
        times = f"{row.start - zero:>6.1f}s{row.end - zero:>7.1f}s"
        yield f"{row.name:<9}{row.outcome:<9}{times}{size(row.peak):>9}  {','.join(row.locks) or '-':<6}{beside}"


def chart(night: list[Row], zero: float) -> Iterator[str]:
    """A line a job: dots while it waited, `#` while it ran with a lock, `=` without one."""
    until = max(row.end - zero for row in night if row.end is not None)
    scale = (CHART - 1) / max(until, 0.1)
    grid = next((step for step in GRID_S if step * scale >= 7), GRID_S[-1])
    head = [" "] * CHART
    for tick in range(0, int(until) + 1, grid):
        at = int(tick * scale)
        label = f"{tick}s"
        if at + len(label) <= CHART:
            head[at : at + len(label)] = label
    yield f"{'':10}{''.join(head)}".rstrip()
    for row in night:
        if row.start is None or row.end is None:
            continue
        first, last = int((row.start - zero) * scale), int((row.end - zero) * scale)
        waited = int(max(0.0, row.start - row.waited_s - zero) * scale)
        bar = " " * min(waited, first) + "." * (first - min(waited, first)) + ("#" if row.locks else "=") * (last - first + 1)
        yield f"{row.name:<10}{bar}"
    yield f"{'':10}. waits    # runs with a lock    = runs without one"


def waits(night: list[Row]) -> Iterator[str]:
    for row in night:
        if row.start is None:
            text = row.why
        elif row.waited_for or row.waited_s >= 0.1:
            text = f"{row.waited_s:.1f} s: {'; '.join(row.waited_for) or 'for its turn'}"
        else:
            text = "nothing"
        yield from textwrap.wrap(f"{row.name:<9}{text}", WIDTH, subsequent_indent=" " * 9)


def picture(night: list[Row]) -> Iterator[str]:
    """All of it, line by line."""
    zero = min((row.start - row.waited_s for row in night if row.start is not None), default=0.0)
    yield "What ran when, beside what"
    yield from table(night, zero)
    if any(row.end is not None for row in night):
        yield ""
        yield from chart(night, zero)
    yield ""
    yield "What each waited for"
    yield from waits(night)


def where(spool: Path) -> dict[str, str]:
    """The stage of each of the night's jobs that has not ended."""
    found = {}
    for stage in LIVE:
        for path in (spool / stage).glob("*.toml*"):
            if name_of(path.name) in NIGHT:
                found[name_of(path.name)] = stage
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="the picture of a bench night")
    parser.add_argument("spool", type=Path)
    parser.add_argument("--since", type=float, default=0.0, help="seconds since the epoch")
    asked = parser.parse_args()
    night = rows(asked.spool, asked.since)
    if not night:
        print("no job of the night has ended", file=sys.stderr)
        return 1
    for line in picture(night):
        print(line)
    for row in night:
        if row.name == "summary" and row.log is not None:
            print(f"\nWhat they measured ({asked.spool / row.log})")
            print((asked.spool / row.log).read_text(encoding="utf-8", errors="replace"), end="")
    return 0 if all(row.outcome == "ok" for row in night) else 1


if __name__ == "__main__":
    sys.exit(main())
