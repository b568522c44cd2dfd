"""lockfile - who holds a slot's locks, and taking one.

Owns the two probes of S and T.  Held is a fact, free is only a fact of that moment.  Never unlinks a lock file.
Fails: OSError if the system cannot say (no descriptor left, say): that must never be taken for "free".
"""

from __future__ import annotations

import fcntl
import os


def is_locked(path: str) -> bool:
    """Somebody holds the lock.  A file that is not there is held by nobody."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def take(path: str) -> int | None:
    """The lock, held by the descriptor that comes back; None if somebody else has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return fd
