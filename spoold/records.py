"""records - a run on disk, as data: the start record, the figures, the end, the mark that retires them.

Owns the layout of a slot's `record` file, which is written once with zeros and from then on only in place, so that a sync of it needs no
metadata.  Four areas at fixed offsets, each a header line with length and checksum: a torn or zeroed area reads as absent, never as something else.

    area     written by   synced             means
    start    supervisor   before the command may run: an unretired start record forbids a second start, wherever the file lies
    figures  supervisor   never              what the run uses now; for show and for the memory rule
    end      supervisor   before it is told  how the run ended
    retired  spooler      lazily             the run's file is where it belongs; the slot may be used again

Pure, standard library only: the supervisor uses it too.  Never opens a file.  Fails: `decode` returns None, it never raises.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

MAGIC: Final = b"spoold1"
START_AT: Final = 0
START_SIZE: Final = 256 * 1024
FIGURES_AT: Final = START_AT + START_SIZE
FIGURES_SIZE: Final = 4 * 1024
END_AT: Final = FIGURES_AT + FIGURES_SIZE
END_SIZE: Final = 16 * 1024
RETIRED_AT: Final = END_AT + END_SIZE
RETIRED_SIZE: Final = 4 * 1024
RECORD_SIZE: Final = RETIRED_AT + RETIRED_SIZE
HEADER_SIZE: Final = 64
LONG_TEXT: Final = 4096
LONG_NAME: Final = 64
MOST_NAMES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the spooler tells a parked supervisor: everything it needs for one run.

    `text` is the whole job file as it was read and checked (UTF-8), trace included.  `argv` or `script` is set; a script without `#!` is
    run by `shell`.  `env` is complete.  `wall_s` None means none.  `log` is relative to the spool; the supervisor takes the first free
    of log/0050-g52.log, log/0050-g52.2.log, … from `log_number` on.  `locks` maps a lock to its units.  `sync` is durability "full".
    """

    run: int
    job: str
    """SEQ-NAME"""
    seq: int
    name: str
    file: str
    text: str
    argv: list[str] | None
    script: str | None
    shell: list[str]
    cwd: str
    env: dict[str, str]
    stdin: str | None
    log_number: int
    wall_s: float | None
    grace_s: float
    nice: int
    umask: int
    locks: dict[str, list[str]]
    memory: int
    waited_s: float
    waited_for: list[str]
    sync: bool
    log_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """A run that may have been executed.  Times are seconds since the epoch; `boot` names the boot of the box, `host` the box.

    `supervisor` is the pid that held the slot's S when this was written.
    """

    run: int
    job: str
    seq: int
    name: str
    file: str
    started_at: float
    boot: str
    host: str
    supervisor: int
    wall_s: float | None
    grace_s: float
    locks: dict[str, list[str]]
    memory: int
    log: str
    """Relative to the spool."""
    waited_s: float
    waited_for: list[str]
    text: str = ""
    """The snapshot: the whole job file, trace included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a run uses now.  Bytes and seconds.  `pid` is the main process, 0 before it exists; `kind` says how memory was counted."""

    run: int
    pid: int
    at: float
    memory: int
    peak: int
    kind: str
    cpu_s: float
    processes: int
    state: str = "running"
    """running, leftover (main process ended), term or kill (sent), unreachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRecord:
    """How a run ended.  `unstartable` is set, and nothing else means anything, if the command could not be executed at all."""

    run: int
    outcome: str
    exit: int | None = None
    signal: int | None = None
    ended_at: float = 0.0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory: int = 0
    pid: int = 0
    leftover: list[str] = field(default_factory=list)
    unstartable: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One slot's record as it was read."""

    start: StartRecord | None
    figures: Figures | None
    end: EndRecord | None
    retired: int | None

    @property
    def live(self) -> bool:
        """There is a start record that has not been retired."""
        return self.start is not None and self.start.run != self.retired


def _seal(body: bytes, size: int) -> bytes:
    header = b"%s %d %08x\n" % (MAGIC, len(body), zlib.crc32(body))
    area = header + body
    if len(area) > size:
        raise ValueError(f"a record of {len(body)} bytes does not fit into {size}")
    return area


def sealed_length(beginning: bytes) -> int:
    """How many bytes of an area its header claims, from the area's first bytes; 0 if there is no header."""
    newline = beginning.find(b"\n", 0, 64)
    parts = beginning[:newline].split(b" ") if newline >= 0 else []
    if len(parts) != 3 or parts[0] != MAGIC or not parts[1].isdigit():
        return 0
    return newline + 1 + int(parts[1])


def _unseal(area: bytes) -> bytes | None:
    newline = area.find(b"\n", 0, 64)
    if newline < 0:
        return None
    parts = area[:newline].split(b" ")
    if len(parts) != 3 or parts[0] != MAGIC:
        return None
    try:
        length, check = int(parts[1]), int(parts[2], 16)
    except ValueError:
        return None
    body = area[newline + 1 : newline + 1 + length]
    return body if len(body) == length and zlib.crc32(body) == check else None


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")


def encode_start(start: StartRecord) -> bytes:
    """The start area.  The snapshot is kept raw behind the JSON, so that it costs its own length."""
    table = asdict(start)
    text = table.pop("text").encode("utf-8", "surrogateescape")
    head = _dump(table)
    return _seal(b"%d\n" % len(head) + head + text, START_SIZE)


def encode_figures(figures: Figures) -> bytes:
    return _seal(_dump(asdict(figures)), FIGURES_SIZE)


def encode_end(end: EndRecord) -> bytes:
    """The end area.  It always fits, for an end that cannot be written down would be lost: what is too long is cut."""
    body = _dump(asdict(end))
    if len(body) > END_SIZE - HEADER_SIZE:
        leftover = [_cut(name, LONG_NAME) for name in end.leftover[:MOST_NAMES]]
        why, unstartable = (text and _cut(text, LONG_TEXT) for text in (end.why, end.unstartable))
        body = _dump(asdict(replace(end, leftover=leftover, why=why, unstartable=unstartable)))
    return _seal(body, END_SIZE)


def _cut(text: str, size: int) -> str:
    while len(_dump(text)) > size:
        text = text[: len(text) * 3 // 4]
    return text


def encode_retired(run: int) -> bytes:
    return _seal(b"%d" % run, RETIRED_SIZE)


def _table(body: bytes | None) -> dict[str, Any] | None:
    if body is None:
        return None
    try:
        table = json.loads(body.decode("utf-8", "surrogateescape"))
    except ValueError:
        return None
    return table if isinstance(table, dict) else None


def _known(cls: type, table: dict[str, Any]) -> dict[str, Any]:
    names = {f.name for f in fields(cls)}
    return {key: value for key, value in table.items() if key in names}


def decode_start(area: bytes) -> StartRecord | None:
    body = _unseal(area)
    if body is None:
        return None
    size, _, rest = body.partition(b"\n")
    try:
        length = int(size)
    except ValueError:
        return None
    table = _table(rest[:length])
    if table is None:
        return None
    try:
        return StartRecord(**_known(StartRecord, table) | {"text": rest[length:].decode("utf-8", "surrogateescape")})
    except TypeError:
        return None


def decode_figures(area: bytes) -> Figures | None:
    table = _table(_unseal(area))
    try:
        return None if table is None else Figures(**_known(Figures, table))
    except TypeError:
        return None


def decode_end(area: bytes) -> EndRecord | None:
    table = _table(_unseal(area))
    try:
        return None if table is None else EndRecord(**_known(EndRecord, table))
    except TypeError:
        return None


def decode_retired(area: bytes) -> int | None:
    body = _unseal(area)
    try:
        return None if body is None else int(body)
    except ValueError:
        return None


def decode(data: bytes) -> RunRecord:
    """A whole record file."""
    return decode_areas(data[START_AT:FIGURES_AT], data[FIGURES_AT:END_AT], data[END_AT:RETIRED_AT], data[RETIRED_AT:RECORD_SIZE])


def decode_areas(start_area: bytes, figures_area: bytes, end_area: bytes, retired_area: bytes) -> RunRecord:
    """A record's four areas.  Figures and an end that belong to another run than the start record are as good as absent."""
    start, figures, end = decode_start(start_area), decode_figures(figures_area), decode_end(end_area)
    run = start.run if start else None
    return RunRecord(
        start=start,
        figures=figures if figures is not None and figures.run == run else None,
        end=end if end is not None and end.run == run else None,
        retired=decode_retired(retired_area),
    )


def encode_order(order: Order) -> bytes:
    """An order as the body of a message."""
    return _dump({name: getattr(order, name) for name in _ORDER_FIELDS})


_ORDER_FIELDS: Final = tuple(f.name for f in fields(Order))


def decode_order(body: bytes) -> Order:
    """The order in a message of our own spooler: a bad one is a bug and raises."""
    table = json.loads(body.decode("utf-8", "surrogateescape"))
    return Order(**_known(Order, table))
