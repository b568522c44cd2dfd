"""claim - the one-spooler lock, and whether a lock file is held by somebody.

Owns flock.  A lock says who lives, never a pid or a command line.  Never unlinks a lock file: unlink and recreate gives two holders.
Fails: AnotherRunsError if the spool has its spooler, SpoolError if the lock cannot be made.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import Final

from spoold.errors import AnotherRunsError, SpoolError
from spoold.lockfile import is_locked

PROBE_TRIES: Final = 20
PROBE_PAUSE_S: Final = 0.01


class OwnerLock:
    """Held by the spooler for as long as it lives; the file's text names it for people only."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def take(self) -> None:
        """Become the spooler of this spool.  `spoold ls` probes the lock for a moment, so a few tries are made."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise SpoolError(f"cannot open {self._path}: {error.strerror}") from error
        for attempt in range(PROBE_TRIES):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                    os.close(fd)
                    raise SpoolError(f"cannot lock {self._path}: {error.strerror}; the spool needs a local file system with flock") from error
                if attempt == PROBE_TRIES - 1:
                    os.close(fd)
                    raise AnotherRunsError("another spooler runs on this spool") from error
                time.sleep(PROBE_PAUSE_S)
        self._fd = fd
        if not self.still_ours():
            self.drop()
            raise AnotherRunsError(f"{self._path} was replaced while it was being locked; start again")
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        except OSError:
            pass  # the lock counts; on a full disk nobody's name is on it

    def still_ours(self) -> bool:
        """The path still names the file that is locked, or nobody can say: the lock that is held is held."""
        try:
            there = os.stat(self._path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        here = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def drop(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_held(path: str) -> bool:
    """Somebody holds the flock of this file; a lock that cannot be read is not called free."""
    try:
        return is_locked(path)
    except OSError:
        return True


def owner_pid(path: str) -> int | None:
    """The pid that the owner file names, for people only."""
    try:
        with open(path, "rb") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None
