"""inotify - a look-out over single directories that wakes the moment the kernel speaks.

Owns one inotify descriptor of watchdog's and the thread that reads it.  watchdog's own emitters pair renames and hold back everything
behind a rename out of a directory for half a second, which for a spooler is every job; here the reading thread is asked directly, with
an event mask of our own.  That interface of watchdog (7.1) is not promised: whatever does not look as expected raises `Unexpected`, and
`watcher` takes the public one.  Never reads a directory, never decides what an event means.  Fails: OSError if the kernel refuses.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import InotifyEvent, InotifyFD

CLOSE_WRITE: Final = 0x8
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
ONLYDIR: Final = 0x01000000
EXCL_UNLINK: Final = 0x04000000

METHODS: Final = ("add_callback", "remove_callbacks", "read_events", "handle_event")
"""What is called here, and what calls us."""

Tell = Callable[[str, str | None], None]
"""Takes a label and the name of the entry that changed; None: everything may have."""


class Unexpected(Exception):
    """This watchdog is built otherwise than the one that was tried."""


@contextmanager
def without_signals() -> Iterator[None]:
    """Threads that are started inside never take a signal away from the main one, which waits for them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Directory:
    """What one watch calls, from the reading thread.  It must not raise: that would end the thread."""

    def __init__(self, label: str, path: str, tell: Tell, only: frozenset[str] | None) -> None:
        self.label = label
        self.path = path
        self.tell = tell
        self.only = only
        self.live = True

    def on_event(self, event: InotifyEvent) -> None:
        if not event.name:  # of the directory itself: deleted, moved, unmounted
            self.tell(self.label, None)
            return
        name = os.fsdecode(event.name)
        if self.only is not None and name not in self.only:
            return
        if event.mask & CREATE and self.only is None and not self._is_whole(name):
            return
        self.tell(self.label, name)

    def _is_whole(self, name: str) -> bool:
        """A link, a pipe or a directory is complete when it appears and says nothing more; a plain new file is only being written."""
        try:
            status = os.lstat(f"{self.path}/{name}")
        except OSError:
            return False
        return not stat.S_ISREG(status.st_mode) or status.st_nlink > 1

    def on_watch_deleted(self, wd: int) -> None:
        self.live = False
        self.tell(self.label, None)

    def on_queue_overflow(self) -> None:
        self.tell(self.label, None)


class Inotify:
    """Watches directories by label."""

    mode: Final = "inotify"
    why: Final = ""

    def __init__(self, masks: Mapping[str, int], only: Mapping[str, frozenset[str]], tell: Tell) -> None:
        try:
            from watchdog.observers.inotify_c import InotifyFD
        except ImportError as error:
            raise Unexpected(str(error)) from error
        missing = [name for name in METHODS if not hasattr(InotifyFD, name)]
        if missing:
            raise Unexpected(f"InotifyFD has no {missing[0]}")
        self._masks = masks
        self._only = only
        self._tell = tell
        self._watches: dict[str, tuple[Any, _Directory]] = {}
        self._fd: InotifyFD = InotifyFD()
        descriptor = getattr(self._fd, "_inotify_fd", None)
        if isinstance(descriptor, int):
            os.set_inheritable(descriptor, False)  # it is made without close-on-exec
        with without_signals():
            self._fd.start()

    def watch(self, label: str, path: str) -> None:
        """Watch this directory under that label.  OSError if it cannot be; Unexpected as above."""
        directory = _Directory(label, path, self._tell, self._only.get(label))
        mask: Any = self._masks[label] | DELETE_SELF | MOVE_SELF | ONLYDIR | EXCL_UNLINK
        callback: Any = directory
        number: Any = id(directory)
        try:
            wd = self._fd.add_callback(os.fsencode(path), mask, callback, number)
        except (TypeError, AttributeError) as error:
            raise Unexpected(str(error)) from error
        self._watches[label] = (wd, directory)
        if wd == -1:  # a directory that may not be read: watchdog keeps silent about that error
            self.unwatch(label)
            raise PermissionError(f"{path} may not be read")

    def unwatch(self, label: str) -> None:
        """Forget this directory."""
        wd, directory = self._watches.pop(label)
        if directory.live:
            number: Any = id(directory)
            self._fd.remove_callbacks([(wd, number)])

    def sees(self, label: str) -> bool:
        """Whether the kernel still watches this directory, whatever it is called by now."""
        return label in self._watches and self._watches[label][1].live

    def alive(self) -> bool:
        return self._fd.is_alive()

    def stop(self) -> None:
        for _, directory in self._watches.values():
            directory.tell = _nobody
        self._watches.clear()
        self._fd.stop()
        self._fd.join(5)


def _nobody(label: str, name: str | None) -> None:
    pass
