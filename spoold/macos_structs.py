"""macos_structs - the structures in which macOS answers questions about processes and file systems.

Owns offsets and sizes.  Pure: bytes in, facts out, so that it is tested on any system.  Fails: ValueError if an answer is too short.
"""

from __future__ import annotations

import os
import struct
from typing import Final, NamedTuple

PIDT_SHORTBSDINFO: Final = 13
SHORTBSDINFO_SIZE: Final = 64
PIDUNIQIDENTIFIERINFO: Final = 17
UNIQIDENTIFIERINFO_SIZE: Final = 56
SZOMB: Final = 5

RUSAGE_V0: Final = 0
RUSAGE_V0_SIZE: Final = 96
RUSAGE_V4: Final = 4
RUSAGE_V4_SIZE: Final = 296
_PHYS_FOOTPRINT: Final = 72

STATFS_SIZE: Final = 2168
MNT_LOCAL: Final = 0x1000
_F_FLAGS: Final = 64
_F_FSTYPENAME: Final = 72

EVFILT_PROC: Final = -5
EV_ADD: Final = 1
NOTE_EXIT: Final = 0x80000000


class ShortInfo(NamedTuple):
    """struct proc_bsdshortinfo: what everybody may know of every process."""

    pid: int
    ppid: int
    group: int
    zombie: bool
    name: str
    uid: int


def _need(answer: bytes, size: int) -> None:
    if len(answer) < size:
        raise ValueError(f"{len(answer)} bytes instead of {size}")


def _text(raw: bytes) -> str:
    return os.fsdecode(raw.partition(b"\0")[0])


def parse_short_info(answer: bytes) -> ShortInfo:
    _need(answer, SHORTBSDINFO_SIZE)
    pid, ppid, group, status = struct.unpack_from("<4I", answer)
    (uid,) = struct.unpack_from("<I", answer, 36)
    return ShortInfo(pid, ppid, group, status == SZOMB, _text(answer[16:32]), uid)


def parse_unique_ids(answer: bytes) -> tuple[int, int]:
    """The number of a process, which is never used again, and that of the process that forked it."""
    _need(answer, UNIQIDENTIFIERINFO_SIZE)
    own, parent = struct.unpack_from("<2Q", answer, 16)
    return own, parent


def parse_footprint(answer: bytes) -> int:
    """Bytes that a process is charged with, from any version of struct rusage_info: compressed and GPU memory too, no clean file pages."""
    _need(answer, RUSAGE_V0_SIZE)
    return int(struct.unpack_from("<Q", answer, _PHYS_FOOTPRINT)[0])


def parse_environment(procargs: bytes) -> frozenset[bytes]:
    """The environment in an answer of KERN_PROCARGS2: a count, the path, padding, that many arguments, the environment."""
    if len(procargs) < 4:
        return frozenset()
    (count,) = struct.unpack_from("<i", procargs)
    end_of_path = procargs.find(b"\0", 4)
    if end_of_path < 0 or count < 0:
        return frozenset()
    start = end_of_path
    while start < len(procargs) and procargs[start] == 0:
        start += 1
    entries = procargs[start:].split(b"\0")[count:]
    # behind the environment come the loader's own strings, parted from it by an empty one
    return frozenset(entries[: entries.index(b"")] if b"" in entries else entries)


def parse_statfs(answer: bytes) -> tuple[str, bool]:
    """The kind of a file system, and whether it is local."""
    _need(answer, _F_FSTYPENAME + 16)
    (flags,) = struct.unpack_from("<I", answer, _F_FLAGS)
    return _text(answer[_F_FSTYPENAME : _F_FSTYPENAME + 16]), bool(flags & MNT_LOCAL)


def exit_event(pid: int) -> bytes:
    """A struct kevent that asks to be told when a process has ended."""
    return struct.pack("<QhHIqQ", pid, EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, 0)
