"""member - one slot of the pool: the supervisor in it, or what is known of the one that was.

Owns a slot's descriptors on the spooler's side: the socket to its supervisor, the record, and what tells of an adopted one's exit.
Never decides what an end means, that is the pool's.  Fails: a supervisor that cannot be spoken to any more is found gone by the next read.
"""

from __future__ import annotations

import enum
import os
import socket
from collections.abc import Iterator
from typing import Final

from spoold.layout import Slot
from spoold.messages import Inbox, Kind
from spoold.orphans import Orphans

CHUNK: Final = 1 << 16


class State(enum.Enum):
    PARKED = "has no run"
    RUNNING = "has an order, and we speak with it"
    WATCHED = "has a run, and we do not speak with it: it was another spooler's, or it is dying"
    ORPHANED = "is dead, processes of its run are not"
    ENDED = "its run has ended and is not yet retired"


class Member:
    """One slot in use.  `run` is 0 while it is parked."""

    def __init__(self, number: int, slot: Slot, record: int, sock: socket.socket | None) -> None:
        self.number = number
        self.slot = slot
        self.record = record
        self.state = State.PARKED
        self.run = 0
        self.pid = 0
        """The supervisor's, if it was another spooler's and can be signalled."""
        self.pause_s = 0.0
        """How often a look at S has to tell whether its supervisor lives."""
        self.up = False
        """Its supervisor waits for an order, and not the order for its supervisor."""
        self.fault: str | None = None
        self.orphans: Orphans | None = None
        self.exit_fd = -1
        self._socket = sock
        self._inbox = Inbox()
        self._unsent = bytearray()
        if sock is not None:
            sock.setblocking(False)

    @property
    def fd(self) -> int:
        """To poll; -1: nothing tells of it by itself."""
        return self.exit_fd if self._socket is None else self._socket.fileno()

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def on_disk(self) -> bool:
        """Its record is the one that its path names."""
        try:
            there = os.stat(self.slot.record, follow_symlinks=False)
        except OSError:
            return False
        here = os.fstat(self.record)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def send(self, data: bytes) -> None:
        """Whatever the socket does not take now is sent later, by `flush`."""
        self._unsent += data
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent and self._socket is not None:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()  # it is gone: the next read says so

    def read(self) -> Iterator[tuple[Kind, bytes]]:
        """What the supervisor has said.  When that is its end, it is disconnected afterwards."""
        while self._socket is not None:
            try:
                data = self._socket.recv(CHUNK)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if not data:
                self.disconnect()
                return
            self._inbox.feed(data)
            while (message := self._inbox.take()) is not None:
                yield message

    def disconnect(self) -> None:
        """Parked, a supervisor ends by this."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._unsent.clear()

    def stop_watching(self) -> None:
        if self.exit_fd >= 0:
            os.close(self.exit_fd)
            self.exit_fd = -1

    def close(self) -> None:
        self.disconnect()
        self.stop_watching()
        if self.record >= 0:
            os.close(self.record)
            self.record = -1
