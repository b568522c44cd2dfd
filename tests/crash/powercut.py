"""powercut - the power fails at the n-th disk call: every process ends at once, and what was not synced may be gone.

Owns a journal of undo entries that spooler and supervisors write before each disk call, and its rollback after the cut.  The model is that of ext4, XFS and
APFS: changes of names come to the disk in their order, so that a sync of any directory or new file brings all before it; the bytes of a file come by
fsync or fdatasync of that file, or by chance.  Standard library only and importable under `python -I -S`, for each launcher loads it too.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import stat
from collections.abc import Callable
from typing import Any

CHANGES = ("unlink", "rename", "link", "mkdir", "open", "write", "pwrite", "ftruncate", "fsync", "fdatasync", "_renameat2")


class PowerCut:
    """The journal of this process and of those that are forked from it.  `beside` is a directory on the same file system, outside of the spool."""

    def __init__(self, root: str, beside: str, at: int) -> None:
        self._root = root
        self._journal = f"{beside}/journal"
        self._kept = f"{beside}/kept"
        self._dark = f"{beside}/dark"
        self._at = at
        self._real = {name: getattr(os, name) for name in CHANGES if hasattr(os, name)}
        self._count = 0

    def arm(self) -> None:
        from spoold import host_linux

        self._real["_renameat2"] = host_linux._renameat2
        for name in CHANGES:
            module: Any = host_linux if name == "_renameat2" else os
            setattr(module, name, self._wrapped(name, getattr(self, f"_before_{name.lstrip('_')}")))

    def _wrapped(self, name: str, before: Callable[..., dict[str, Any] | None]) -> Callable[..., Any]:
        real = self._real[name]

        def call(*args: Any, **kwargs: Any) -> Any:
            fd = self._real["open"](self._journal, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)  # the entry and the call that it undoes are one step for all others
                entry = before(*args, **kwargs)
                if entry is None:
                    return real(*args, **kwargs)
                number = len(os.pread(fd, 1 << 24, 0).splitlines()) + 1
                if number > self._at or os.path.exists(self._dark):
                    os.close(self._real["open"](self._dark, os.O_WRONLY | os.O_CREAT, 0o600))
                    os.kill(os.getpid(), signal.SIGKILL)
                done = real(*args, **kwargs)  # one that fails has changed nothing
                self._real["write"](fd, json.dumps(entry).encode() + b"\n")
                return done
            finally:
                os.close(fd)

        return call

    def _below(self, path: Any) -> bool:
        return isinstance(path, str) and path.startswith(self._root)

    def _file(self, fd: int) -> tuple[str, os.stat_result] | None:
        found = os.fstat(fd)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            return None
        path = os.readlink(f"/proc/self/fd/{fd}")
        return (path, found) if self._below(path) else None

    def _keep(self, path: str) -> str:
        self._count += 1
        kept = f"{self._kept}/{os.getpid()}.{self._count}"
        self._real["link"](path, kept)
        return kept

    def _before_unlink(self, path: Any, **kwargs: Any) -> dict[str, Any] | None:
        return {"undo": "restore", "path": path, "kept": self._keep(path)} if self._below(path) and os.path.lexists(path) else None

    def _before_rename(self, source: Any, target: Any, **kwargs: Any) -> dict[str, Any] | None:
        if not self._below(target) or not os.path.lexists(source):
            return None
        return {"undo": "rename", "path": source, "target": target, "kept": self._keep(target) if os.path.lexists(target) else None}

    def _before_renameat2(self, source: str, target: str, flags: int) -> dict[str, Any] | None:
        if not self._below(target):
            return None
        return {"undo": "exchange" if flags == 2 else "rename", "path": source, "target": target, "kept": None}

    def _before_link(self, source: Any, target: Any, **kwargs: Any) -> dict[str, Any] | None:
        return {"undo": "unlink", "path": target} if self._below(target) else None

    def _before_mkdir(self, path: Any, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        return {"undo": "rmdir", "path": path} if self._below(path) and not os.path.lexists(path) else None

    def _before_open(self, path: Any, flags: int, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        created = flags & os.O_CREAT and self._below(path) and not os.path.lexists(path)
        return {"undo": "unlink", "path": path} if created else None

    def _before_write(self, fd: int, data: bytes) -> dict[str, Any] | None:
        found = self._file(fd)
        if found is None:
            return None
        return {"undo": "truncate", "path": found[0], "size": found[1].st_size, "ino": found[1].st_ino}

    def _before_pwrite(self, fd: int, data: bytes, at: int) -> dict[str, Any] | None:
        found = self._file(fd)
        if found is None:
            return None
        before = b""
        if at < found[1].st_size:
            with open(found[0], "rb") as file:
                before = os.pread(file.fileno(), len(data), at)
        return {"undo": "bytes", "path": found[0], "at": at, "bytes": before.decode("latin-1"), "size": found[1].st_size, "ino": found[1].st_ino}

    def _before_ftruncate(self, fd: int, size: int) -> dict[str, Any] | None:
        return None

    def _before_fsync(self, fd: int) -> dict[str, Any] | None:
        found = self._file(fd)
        return None if found is None else {"sync": "names", "ino": found[1].st_ino}

    def _before_fdatasync(self, fd: int) -> dict[str, Any] | None:
        found = self._file(fd)
        return None if found is None else {"sync": "bytes", "ino": found[1].st_ino}


def arm(plan_json: str) -> None:
    """Called in the process under test, before the product runs."""
    PowerCut(**json.loads(plan_json)).arm()


def entries(beside: str) -> list[dict[str, Any]]:
    try:
        with open(f"{beside}/journal", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def roll_back(beside: str, chance: random.Random) -> int:
    """Make the disk what it may be after the cut; how many changes were lost.  Every process of the spool has ended."""
    made = entries(beside)
    synced = max((number for number, entry in enumerate(made) if entry.get("sync") == "names"), default=-1)
    names = [number for number, entry in enumerate(made) if entry.get("undo") in ("restore", "rename", "exchange", "unlink", "rmdir") and number > synced]
    # of the names that were not synced a tail is lost
    first_lost = chance.choice([*names, len(made)])
    lost = 0
    for number in range(len(made) - 1, -1, -1):
        entry = made[number]
        if number in names:
            gone = number >= first_lost
        elif entry.get("undo") in ("truncate", "bytes"):
            gone = chance.random() < 0.5 and not any(later.get("ino") == entry["ino"] and "sync" in later for later in made[number:])
        else:
            gone = False
        if gone:
            _undo(entry)
            lost += 1
    os.unlink(f"{beside}/journal")
    os.unlink(f"{beside}/dark")
    shutil.rmtree(f"{beside}/kept")
    os.mkdir(f"{beside}/kept")
    return lost


def _undo(entry: dict[str, Any]) -> None:
    path = entry["path"]
    match entry["undo"]:
        case "restore":
            os.link(entry["kept"], path)
        case "rename":
            os.rename(entry["target"], path)
            if entry["kept"] is not None:
                os.link(entry["kept"], entry["target"])
        case "exchange":
            os.rename(path, f"{path}.exchanged")
            os.rename(entry["target"], path)
            os.rename(f"{path}.exchanged", entry["target"])
        case "unlink":
            os.unlink(path)
        case "rmdir":
            os.rmdir(path)
        case "truncate":
            if os.path.exists(path):
                os.truncate(path, entry["size"])
        case "bytes":
            if os.path.exists(path):
                with open(path, "r+b") as file:
                    file.seek(entry["at"])
                    file.write(entry["bytes"].encode("latin-1"))
                    file.truncate(max(entry["size"], 0))
