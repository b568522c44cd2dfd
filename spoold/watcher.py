"""watcher - "look there, now": turns what the system says of the spool's directories into hints.

Owns the look-out (inotify, FSEvents, or none) and a descriptor that is readable while there are hints.  A hint is no fact: it may be late,
doubled, wrong or missing, and whoever reads it looks for himself and scans regularly all the same.  Never reads a directory, never opens
a file.  Fails: it does not.  Without a look-out `mode` is "polling" and `why` says the reason; hints that are too many or lost become
`everything`.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)

from spoold import inotify, layout
from spoold.inotify import CLOSE_WRITE, CREATE, DELETE, MOVED_FROM, MOVED_TO
from spoold.model import Stage

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver, ObservedWatch

ROOT: Final = "root"
MAX_NAMES: Final = 10_000
RETRY_S: Final = 30.0
"""How long the system is left alone after it refused a look-out."""

_LEAVES: Final = MOVED_FROM | MOVED_TO | DELETE
MASKS: Final[Mapping[str, int]] = {
    Stage.INCOMING.value: CLOSE_WRITE | CREATE | _LEAVES,
    Stage.READY.value: CLOSE_WRITE | CREATE | _LEAVES,
    Stage.RUNNING.value: _LEAVES,
    Stage.DONE.value: _LEAVES,
    Stage.REFUSED.value: _LEAVES,
    ROOT: CLOSE_WRITE | CREATE | _LEAVES,
}


@dataclass(frozen=True, slots=True)
class Hints:
    """Where to look: entries by (label, name), or everywhere."""

    names: frozenset[tuple[str, str]] = frozenset()
    everything: bool = False


class _Pending:
    """The hints that nobody has fetched yet.  Told by the look-out's threads, fetched by the main one."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._lock = threading.Lock()
        self._names: set[tuple[str, str]] = set()
        self._everything = False
        self._told = False

    def tell(self, label: str, name: str | None) -> None:
        with self._lock:
            if name is None or len(self._names) >= MAX_NAMES:
                self._everything = True
                self._names.clear()
            elif not self._everything:
                self._names.add((label, name))
            if not self._told and self._write_fd >= 0:
                self._told = True
                os.write(self._write_fd, b"!")

    def tell_all(self) -> None:
        self.tell("", None)

    def fetch(self) -> Hints:
        with self._lock:
            if self._told:
                os.read(self.read_fd, 1)
                self._told = False
            hints = Hints(frozenset(self._names), self._everything)
            self._names.clear()
            self._everything = False
            return hints

    def close(self) -> None:
        with self._lock:
            os.close(self.read_fd)
            os.close(self._write_fd)
            self.read_fd = self._write_fd = -1
            self._told = False


class _Alarm(logging.Handler):
    """What watchdog only logs (a queue that overflowed, an exception in a callback) means that hints were lost."""

    def __init__(self, pending: _Pending) -> None:
        super().__init__(logging.WARNING)
        self._pending = pending

    def emit(self, record: logging.LogRecord) -> None:
        self._pending.tell_all()


class LookOut(Protocol):
    """What tells of changes: one directory a label."""

    @property
    def mode(self) -> str: ...
    @property
    def why(self) -> str: ...
    def watch(self, label: str, path: str) -> None: ...
    def unwatch(self, label: str) -> None: ...
    def sees(self, label: str) -> bool: ...
    def alive(self) -> bool: ...
    def stop(self) -> None: ...


class _Handler(FileSystemEventHandler):
    """Turns events of watchdog's public interface into hints.  It must not raise: that would end all dispatching."""

    def __init__(self, label: str, path: str, only: frozenset[str] | None, pending: _Pending) -> None:
        self._label = label
        self._path = path
        self._only = only
        self._pending = pending

    def dispatch(self, event: FileSystemEvent) -> None:
        for raw in (event.src_path, event.dest_path):
            path = os.fsdecode(raw)
            if not path:
                continue
            directory, _, name = path.rpartition("/")
            if directory == self._path:
                if self._only is None or name in self._only:
                    self._pending.tell(self._label, name)
            elif path == self._path:
                if event.event_type != "modified":  # that comes beside every event of an entry
                    self._pending.tell_all()
            elif not path.startswith(self._path + "/") and event.event_type != "moved":
                self._pending.tell_all()  # the directory in another spelling: the names cannot be trusted


class Observer:
    """watchdog's public observer: FSEvents on macOS, and on Linux what remains if `Inotify` cannot be used."""

    def __init__(self, observer: BaseObserver, recursive: bool, why: str, only: Mapping[str, frozenset[str]], pending: _Pending) -> None:
        self.mode = "fsevents" if recursive else "inotify"
        self.why = why
        self._observer = observer
        self._recursive = recursive
        self._only = only
        self._pending = pending
        self._watches: dict[str, ObservedWatch] = {}
        with inotify.without_signals():
            observer.start()

    def watch(self, label: str, path: str) -> None:
        # FSEvents has no closed events and sees a whole tree: all events of the stages, and the root is left to the daemon's own look
        if self._recursive and label == ROOT:
            return
        files: list[type[FileSystemEvent]] = [FileClosedEvent, FileCreatedEvent, FileDeletedEvent, FileMovedEvent]
        kinds = [*files, DirCreatedEvent, DirDeletedEvent, DirMovedEvent]
        handler = _Handler(label, path, self._only.get(label), self._pending)
        with inotify.without_signals():
            self._watches[label] = self._observer.schedule(
                handler, path, recursive=self._recursive, event_filter=None if self._recursive else kinds
            )

    def unwatch(self, label: str) -> None:
        watch = self._watches.pop(label, None)
        if watch is not None:
            self._observer.unschedule(watch)

    def sees(self, label: str) -> bool:
        if self._recursive and label == ROOT:
            return True
        watch = self._watches.get(label)
        return watch is not None and any(emitter.watch == watch and emitter.is_alive() for emitter in self._observer.emitters)

    def alive(self) -> bool:
        return self._observer.is_alive()

    def stop(self) -> None:
        self._watches.clear()
        self._observer.stop()
        self._observer.join(5)


class Watcher:
    """Watches the directories of a spool.  `directories` maps a label (a stage's name, or "root") to an absolute real path."""

    def __init__(self, directories: Mapping[str, str]) -> None:
        self._directories = dict(directories)
        inside = {os.path.basename(path) for label, path in directories.items() if label != ROOT}
        self._only = {ROOT: frozenset(inside | {layout.SETTINGS, layout.PAUSED})}
        self._pending = _Pending()
        self._alarm = _Alarm(self._pending)
        self._look_out: LookOut | None = None
        self._watched: dict[str, tuple[int, int]] = {}
        self._why = "it has not been started"
        self._retry_at = 0.0

    @property
    def fd(self) -> int:
        """Readable while there are hints."""
        return self._pending.read_fd

    @property
    def mode(self) -> str:
        """ "inotify", "fsevents" or "polling"."""
        return self._look_out.mode if self._look_out is not None else "polling"

    @property
    def why(self) -> str:
        """Why changes are not heard of at once; empty if they are."""
        return self._look_out.why if self._look_out is not None else self._why

    def start(self) -> None:
        """Begin.  The first hint is to look at everything."""
        for name in ("watchdog", "fsevents"):
            logging.getLogger(name).addHandler(self._alarm)
        self._open()
        self._pending.tell_all()

    def stop(self) -> None:
        """End.  The descriptor is closed."""
        self._close("it has been stopped")
        for name in ("watchdog", "fsevents"):
            logging.getLogger(name).removeHandler(self._alarm)
        self._pending.close()

    def drain(self) -> Hints:
        """The hints since the last time."""
        return self._pending.fetch()

    def healthy(self) -> bool:
        """Whether every directory is being watched, the one that is there now.

        What is not is watched anew, if it can be, and then the hint is to look at everything.  False also while there is no look-out.
        """
        if self._look_out is not None and not self._look_out.alive():
            self._close("its thread has ended")
            self._retry_at = 0.0
        if self._look_out is None:
            if time.monotonic() >= self._retry_at:
                self._open()
                self._pending.tell_all()
            return False
        changed = [label for label, path in self._directories.items() if not self._is_watched(label, path)]
        for label in changed:
            if not self._rewatch(label):
                break
        return not changed

    def _is_watched(self, label: str, path: str) -> bool:
        assert self._look_out is not None
        return self._watched.get(label) == _identity(path) is not None and self._look_out.sees(label)

    def _rewatch(self, label: str) -> bool:
        """False: there is no look-out any more."""
        assert self._look_out is not None
        if self._watched.pop(label, None) is not None:
            self._look_out.unwatch(label)
        try:
            if self._watch(label):
                self._pending.tell_all()
        except (OSError, RuntimeError, inotify.Unexpected) as error:
            self._close(_reason(error))
            return False
        return True

    def _watch(self, label: str) -> bool:
        """Watch one directory.  False if it is not there, or not to be read: that is its own trouble and no other's."""
        assert self._look_out is not None
        path = self._directories[label]
        before = _identity(path)
        if before is None:
            return False
        try:
            self._look_out.watch(label, path)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        if _identity(path) != before:
            self._look_out.unwatch(label)
            return False
        self._watched[label] = before
        return True

    def _open(self) -> None:
        try:
            self._look_out = _look_out(self._only, self._pending)
            for label in self._directories:
                self._watch(label)
        except inotify.Unexpected as error:
            self._close("")
            self._open_public(f"this version of watchdog is not the one that was tried ({error}), so news can be half a second late")
        except (OSError, RuntimeError, ImportError) as error:
            self._close(_reason(error))

    def _open_public(self, why: str) -> None:
        try:
            self._look_out = _public(why, self._only, self._pending)
            for label in self._directories:
                self._watch(label)
        except (OSError, RuntimeError, ImportError) as error:
            self._close(_reason(error))

    def _close(self, why: str) -> None:
        look_out, self._look_out = self._look_out, None
        self._watched.clear()
        self._why = why
        self._retry_at = time.monotonic() + RETRY_S
        if look_out is not None:
            look_out.stop()


def _look_out(only: Mapping[str, frozenset[str]], pending: _Pending) -> LookOut:
    if sys.platform == "linux":
        return inotify.Inotify(MASKS, only, pending.tell)
    return _public("", only, pending)


def _public(why: str, only: Mapping[str, frozenset[str]], pending: _Pending) -> LookOut:
    if sys.platform == "darwin":
        # by name: watchdog's own choice falls back to kqueue, which opens a descriptor for each file
        from watchdog.observers.fsevents import FSEventsObserver

        return Observer(FSEventsObserver(), True, why, only, pending)
    from watchdog.observers.inotify import InotifyObserver

    return Observer(InotifyObserver(), False, why, only, pending)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _reason(error: BaseException) -> str:
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.ENOSPC:
        return "the limit of watched directories is reached (fs.inotify.max_user_watches)"
    if code == errno.EMFILE:
        return "the limit of inotify instances or open files is reached (fs.inotify.max_user_instances, ulimit -n)"
    return f"the system cannot tell of changes: {error}"
