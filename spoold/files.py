"""files - one file as a descriptor saw it: which it is, what it says, and whether somebody is writing it.

Owns the one way in which a file is read that anybody may have put there: never through a link, never blocking on a FIFO, never more than a bound,
everything from one descriptor.  Never changes anything.  Fails: OSError as the system gives it.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final

from jobspec.spec import MAX_FILE_BYTES
from spoold import host

OWN_LIMIT: Final = 3 * MAX_FILE_BYTES
"""Files of our own: a text of the greatest size and the trace below it."""


@dataclass(frozen=True, slots=True)
class Ident:
    """Which file this is, and whether anybody has touched it since: device, inode, bytes, times in ns, owner, mode."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    uid: int
    gid: int
    mode: int

    @classmethod
    def of(cls, st: os.stat_result) -> Ident:
        return cls(st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_uid, st.st_gid, st.st_mode)

    @property
    def regular(self) -> bool:
        return stat.S_ISREG(self.mode)

    def same_file(self, other: Ident) -> bool:
        return (self.dev, self.ino) == (other.dev, other.ino)

    def same_content(self, other: Ident) -> bool:
        """Same file, and nothing has been written since.  A rename changes ctime, so it does not count."""
        return self.same_file(other) and (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


@dataclass(frozen=True, slots=True)
class Opened:
    """A file as one descriptor saw it.  `data` is None if it is larger than a job file may be; `writer`: somebody has it open for writing."""

    ident: Ident
    data: bytes | None
    writer: bool | None


def open_file(path: str, limit: int) -> Opened:
    """Everything about a file from one descriptor, read only if it is regular and not larger than `limit`.

    Raises FileNotFoundError if it is gone, PermissionError if it may not be read, OSError(ELOOP, ENXIO) for links and sockets.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        ident = Ident.of(os.fstat(fd))
        if not ident.regular:
            return Opened(ident, None, None)
        writer = host.has_writer(fd)
        if ident.size > limit:
            return Opened(ident, None, writer)
        data = _read(fd, limit + 1)
        after = Ident.of(os.fstat(fd))
        if not writer and not ident.same_content(after):
            writer = True
        return Opened(after, data if len(data) <= limit else None, writer)
    finally:
        os.close(fd)


def _read(fd: int, limit: int) -> bytes:
    data = b""
    while len(data) < limit:
        chunk = os.read(fd, limit - len(data))
        if not chunk:
            break
        data += chunk
    return data
