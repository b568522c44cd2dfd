"""slots - the slot directories as the spooler sees them: which there are, what their records say, whether they are free.

Owns the making of a slot's directory and the mark that retires a record; everything else in a record is its supervisor's.  Never unlinks.
Fails: OSError as the system gives it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spoold import lockfile, records
from spoold.layout import Layout, Slot
from spoold.records import Figures, RunRecord

BEGINNING: Final = 4096
NO_RECORD: Final = RunRecord(start=None, figures=None, end=None, retired=None)


def numbers(layout: Layout) -> list[int]:
    """The slots on disk; what has a slot's name and is no directory is none."""
    try:
        with os.scandir(layout.slots) as found:
            names = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def sound(slot: Slot) -> bool:
    """Its files are files, or not there yet.  One that is something else is of no use, and to open it might block for ever."""
    for path in (slot.record, slot.supervisor_lock, slot.job_lock, slot.script):
        try:
            mode = os.stat(path, follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            return False
    return True


def read(slot: Slot) -> RunRecord:
    """What a slot's record says, by name."""
    fd = _open(slot.record)
    if fd is None:
        return NO_RECORD
    try:
        return read_record(fd)
    finally:
        os.close(fd)


def _open(path: str) -> int | None:
    """A record to read; None if there is none, or something else in its place."""
    try:
        if not stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode):
            return None
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None


def read_record(fd: int) -> RunRecord:
    """What a record says; of each area no more is read than its header claims."""
    return records.decode_areas(
        _area(fd, records.START_AT, records.START_SIZE),
        _area(fd, records.FIGURES_AT, records.FIGURES_SIZE),
        _area(fd, records.END_AT, records.END_SIZE),
        _area(fd, records.RETIRED_AT, records.RETIRED_SIZE),
    )


def _area(fd: int, at: int, size: int) -> bytes:
    area = os.pread(fd, min(size, BEGINNING), at)
    length = records.sealed_length(area)
    if len(area) < length <= size:
        area += os.pread(fd, length - len(area), at + len(area))
    return area


def read_figures(fd: int) -> Figures | None:
    return records.decode_figures(_area(fd, records.FIGURES_AT, records.FIGURES_SIZE))


def retire(fd: int, run: int) -> None:
    """The run's file is where it belongs.  Not synced: if the mark is lost, the end that stands beside it is found once more."""
    os.pwrite(fd, records.encode_retired(run), records.RETIRED_AT)


def last_run(slot: Slot) -> int:
    """The highest number of a run that any area of the record names, also one that is as good as absent."""
    fd = _open(slot.record)
    if fd is None:
        return 0
    try:
        start = records.decode_start(os.pread(fd, records.START_SIZE, records.START_AT))
        figures = read_figures(fd)
        end = records.decode_end(os.pread(fd, records.END_SIZE, records.END_AT))
        retired = records.decode_retired(os.pread(fd, records.RETIRED_SIZE, records.RETIRED_AT))
    finally:
        os.close(fd)
    return max(0, retired or 0, *(area.run for area in (start, figures, end) if area is not None))


@dataclass(frozen=True, slots=True)
class Taken:
    """A slot that is ours: `lock` holds S, `record` is open for reading and for the retired mark."""

    number: int
    slot: Slot
    lock: int
    record: int


def take(layout: Layout, except_for: Iterable[int]) -> Taken:
    """The first slot that is free: S can be had, T is free, and its record is retired or says nothing."""
    used = set(except_for)
    number = 0
    while True:
        number += 1
        if number in used:
            continue
        slot = layout.slot(number)
        try:
            os.makedirs(slot.dir, mode=0o700, exist_ok=True)
        except FileExistsError:
            continue  # something else has its name
        if not sound(slot):
            continue
        lock = lockfile.take(slot.supervisor_lock)
        if lock is None:
            continue
        record = -1
        try:
            if not lockfile.is_locked(slot.job_lock):
                record = os.open(slot.record, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                if not read_record(record).live:
                    taken, lock, record = Taken(number, slot, lock, record), -1, -1
                    return taken
        finally:
            for fd in (lock, record):
                if fd >= 0:
                    os.close(fd)
