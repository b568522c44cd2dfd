"""failpoints - cuts a process off, or has the disk say no, at its n-th disk call.

Owns the wrappers around the calls by which a spooler or a supervisor changes the disk.  Loaded into the process under test only, before the product
runs; the product knows nothing of it.  Standard library only and importable under `python -I -S`, for the launcher loads it too.
A disk call is one that changes something below the spool: what a process reads makes no difference to where it can be cut off.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
BY_PATH = ("mkdir", "unlink", "rename", "link", "symlink", "truncate")
BY_DESCRIPTOR = ("write", "pwrite", "ftruncate", "fsync", "fdatasync")
KILL_BEFORE, KILL_AFTER, COUNT = "before", "after", "count"
ERRORS = {name: getattr(errno, name) for name in ("ENOSPC", "EIO", "EROFS", "EDQUOT", "EACCES")}
NOT_ALLOWED = {
    "ENOSPC": frozenset({"open", "write", "mkdir", "link", "symlink"}),
    "EDQUOT": frozenset({"open", "write", "mkdir", "link", "symlink"}),
    "EROFS": frozenset({"open", "write", "pwrite", "ftruncate", "mkdir", "unlink", "rename", "link", "symlink", "_renameat2"}),
    "EIO": frozenset({*BY_PATH, *BY_DESCRIPTOR, "open", "_renameat2"}),
}
"""What a disk in this state refuses for as long as it is so: on a full one renames, and writes in place, still work."""
GETPATH = 50
"""fcntl of macOS: the path of a descriptor."""


@dataclass(frozen=True)
class Plan:
    """What is to happen at the `at`-th disk call below `root` (and, if it is an error, at the `span - 1` that follow).

    `counter` is a file that all processes of one kind share: the number of calls so far, and a line for each.  `mode` is one of the words above or the
    name of an errno.  `only` restricts the calls to those of this name.  `while_there`: the disk says so as long as this file exists, instead of counting.
    """

    root: str
    counter: str
    mode: str = COUNT
    at: int = 0
    span: int = 1
    only: str | None = None
    while_there: str | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Failpoints:
    """The armed plan of this process and of those that are forked from it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._real = {name: getattr(os, name) for name in ("open", "close", "write", "fstat")}

    def arm(self) -> None:
        for name in BY_PATH:
            self._wrap(os, name, lambda args: self._below(args[0]) or (len(args) > 1 and self._below(args[1])))
        for name in BY_DESCRIPTOR:
            if hasattr(os, name):
                self._wrap(os, name, lambda args: self._on_disk(args[0]))
        self._wrap(os, "open", lambda args: bool(args[1] & WRITING) and self._below(args[0]))
        if sys.platform == "linux":
            from spoold import host_linux

            self._wrap(host_linux, "_renameat2", lambda args: self._below(args[0]))
        else:
            from spoold import host

            for name in ("rename_noreplace", "rename_exchange"):
                self._wrap(host, name, lambda args: self._below(args[0]))

    def _below(self, path: object) -> bool:
        return isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(self._plan.root)

    def _path(self, fd: int) -> str:
        if sys.platform == "linux":
            return os.readlink(f"/proc/self/fd/{fd}")
        return os.fsdecode(fcntl.fcntl(fd, GETPATH, bytes(1024)).rstrip(b"\0"))

    def _on_disk(self, fd: int) -> bool:
        mode = self._real["fstat"](fd).st_mode
        return (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and self._below(self._path(fd))

    def _next(self, name: str, args: tuple[Any, ...]) -> int:
        """Several supervisors count together; the file is opened anew each time, for forks would share one lock."""
        where = self._path(args[0]) if isinstance(args[0], int) else " ".join(str(arg) for arg in args[:2] if isinstance(arg, str))
        line = f"{name} {where.replace(self._plan.root, '')}\n".encode("utf-8", "replace")
        fd = self._real["open"](self._plan.counter, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            number = len(os.pread(fd, 1 << 24, 0).splitlines()) + 1
            self._real["write"](fd, line)
            return number
        finally:
            self._real["close"](fd)

    def _wrap(self, module: Any, name: str, concerns: Callable[[tuple[Any, ...]], bool]) -> None:
        real = getattr(module, name)
        plan = self._plan
        code = ERRORS.get(plan.mode)

        def call(*args: Any, **kwargs: Any) -> Any:
            if (plan.only is not None and name != plan.only) or not concerns(args):
                return real(*args, **kwargs)
            if plan.while_there is not None:
                if name in NOT_ALLOWED[plan.mode] and os.path.exists(plan.while_there) and (name != "open" or args[1] & os.O_CREAT or plan.mode == "EROFS"):
                    raise _error(code, args)
                return real(*args, **kwargs)
            number = self._next(name, args)
            if code is not None and plan.at <= number < plan.at + plan.span:
                raise _error(code, args)
            if plan.mode == KILL_BEFORE and number == plan.at:
                os.kill(os.getpid(), signal.SIGKILL)
            done = real(*args, **kwargs)
            if plan.mode == KILL_AFTER and number == plan.at:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        setattr(module, name, call)


def _error(code: int | None, args: tuple[Any, ...]) -> OSError:
    assert code is not None
    return OSError(code, os.strerror(code), args[0] if isinstance(args[0], str) else None)


def arm(plan_json: str) -> None:
    """Called in the process under test, before the product runs."""
    Failpoints(Plan(**json.loads(plan_json))).arm()


def calls(path: str) -> list[str]:
    """What was called, in order."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []
