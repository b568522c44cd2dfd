"""launching - the spooler's end of the launcher: starts it, asks it for supervisors, starts it again when it has died.

Owns the launcher's process and the socket to it.  Never waits for a fork: what is asked for lies in the socket until the launcher is up.
Fails: SpoolError if there is no launcher and none can be started; it is the caller's to try again later.
"""

from __future__ import annotations

import logging
import socket
import subprocess
from typing import Final

from spoold import spawn
from spoold.errors import SpoolError
from spoold.messages import Inbox, Kind, pack, unpack

CHUNK: Final = 1 << 16
LEAVE_S: Final = 5.0

log: Final = logging.getLogger(__name__)


class Launching:
    """A launcher, as far as there is one.  `refused` tells by slot why a supervisor could not be forked."""

    def __init__(self, root: str, durability: str) -> None:
        self._root = root
        self._durability = durability
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._inbox = Inbox()
        self.refused: dict[int, str] = {}

    @property
    def fd(self) -> int:
        """To poll; -1: there is no launcher."""
        return -1 if self._socket is None else self._socket.fileno()

    @property
    def pid(self) -> int:
        """0: there is no launcher."""
        return 0 if self._process is None or self._socket is None else self._process.pid

    def start(self) -> None:
        """Nothing if there is one."""
        if self._socket is not None:
            return
        self._bury()
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise SpoolError(f"the launcher cannot be started: {error.strerror}") from error
        try:
            self._process = spawn.start_launcher(theirs.fileno(), self._root, self._durability)
        except OSError as error:
            ours.close()
            raise SpoolError(f"the launcher cannot be started: {error.strerror}") from error
        finally:
            theirs.close()
        ours.setblocking(False)
        self._socket, self._inbox = ours, Inbox()

    def fork(self, number: int, end: int, lock: int) -> None:
        """Ask for a supervisor.  Both descriptors stay the caller's to close."""
        for last_try in (False, True):
            self.start()
            assert self._socket is not None
            try:
                socket.send_fds(self._socket, [pack(Kind.FORK, slot=number)], [end, lock])
            except OSError as error:
                if isinstance(error, ConnectionError):
                    self._gone()
                    if not last_try:
                        continue  # it has died since it was last heard of
                raise SpoolError(f"the launcher cannot be asked for a supervisor: {error.strerror}") from error
            return

    def read(self) -> None:
        """What it has said.  Its end is noticed here."""
        while self._socket is not None:
            try:
                data = self._socket.recv(CHUNK)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if not data:
                self._gone()
                return
            self._inbox.feed(data)
            while (message := self._inbox.take()) is not None:
                kind, body = message
                if kind is Kind.NOT_FORKED:
                    answer = unpack(body)
                    self.refused[answer["slot"]] = answer["why"]
                elif kind is Kind.FAULT:
                    log.error("the launcher died of a fault of its own:\n%s", unpack(body)["text"])
                else:
                    assert kind is Kind.FORKED, kind.name

    def close(self) -> None:
        """It ends by itself when it has done what it was asked."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._bury()

    def _gone(self) -> None:
        assert self._socket is not None
        self._socket.close()
        self._socket = None
        log.warning("the launcher has ended")

    def _bury(self) -> None:
        if self._process is not None:
            try:
                self._process.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                log.warning("the launcher, pid %d, does not end", self._process.pid)
            self._process = None
