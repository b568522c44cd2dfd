"""launcher - one small process that forks the supervisors.

Owns nothing on disk.  Executed by the spooler with the standard library only, in a session of its own, with every descriptor from 3 up
closed but its socket; one thread, so that it may fork without exec.  Asked by FORK it forks a supervisor and hands it what came along: its
end of a socket pair, and the slot's lock S, which has been held without a gap since the spooler took it.  A subreaper where the system has
that, so that the orphans of a killed supervisor come to it, are found there by the spooler, and are reaped.  Ends when the spooler has gone
and what it asked for is done.
Fails: NOT_FORKED if there is no process to be had.  Its own death costs the spooler a new launcher and no run.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import traceback
from typing import Final, NoReturn

from spoold import host, spawn
from spoold.layout import Layout
from spoold.messages import Inbox, Kind, pack, unpack
from spoold.supervisor import Bell, supervise

MOST_DESCRIPTORS: Final = 1 << 16
DURABLE: Final = "full"
DIED_OF_A_FAULT: Final = 70
CHUNK: Final = 4096
MOST_AT_ONCE: Final = 16


def main(end: int, root: str, durability: str) -> NoReturn:
    """`end` is our end of the socket pair with the spooler."""
    os.closerange(3, end)
    os.closerange(end + 1, min(MOST_DESCRIPTORS, os.sysconf("SC_OPEN_MAX")))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    os.set_inheritable(end, False)
    launcher = Launcher(socket.socket(fileno=end), Layout(root), durability == DURABLE)
    # from here on nobody reads our stderr, and a supervisor that held it would keep the spooler's pipe open for ever
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    gc.collect()
    gc.freeze()  # else the first collection in each supervisor would copy every page that they share
    try:
        launcher.serve()
    except BaseException:
        launcher.tell(pack(Kind.FAULT, text=traceback.format_exc()))
        raise
    sys.exit(0)


class Launcher:
    """The loop that forks and reaps."""

    def __init__(self, spooler: socket.socket, layout: Layout, durable: bool) -> None:
        self._spooler = spooler
        self._layout = layout
        self._durable = durable
        self._boot = host.boot_id()
        self._box = host.host_id()
        host.become_subreaper()
        self._inbox = Inbox()
        self._descriptors: list[int] = []
        self._bell = Bell()
        self._bell.catch(signal.SIGCHLD)

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._spooler, select.POLLIN)
        poll.register(self._bell.fd, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if self._bell.rung():
                _reap()
            if self._spooler.fileno() in ready and not self._hear():
                return

    def _hear(self) -> bool:
        """Do what is asked.  False: the spooler has gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._spooler, CHUNK, MOST_AT_ONCE)
        except ConnectionError:
            return False
        self._inbox.feed(data)
        self._descriptors += descriptors
        while (request := self._inbox.take()) is not None:
            kind, body = request
            assert kind is Kind.FORK, kind.name
            # both come in the order in which they were sent, whatever one read gathers
            end, lock = self._descriptors.pop(0), self._descriptors.pop(0)
            self._fork(unpack(body)["slot"], end, lock)
        return bool(data)

    def _fork(self, number: int, end: int, lock: int) -> None:
        # they arrive inheritable where MSG_CMSG_CLOEXEC is missing; nothing is executed before this
        os.set_inheritable(end, False)
        os.set_inheritable(lock, False)
        try:
            pid = spawn.fork_supervisor()
        except OSError as error:
            # told before the descriptors are closed: the spooler sees the reason before it sees the end
            self.tell(pack(Kind.NOT_FORKED, slot=number, why=f"no supervisor could be forked: {error.strerror}"))
        else:
            if pid == 0:
                self._become_supervisor(number, end)
            self.tell(pack(Kind.FORKED, slot=number, pid=pid))
        os.close(end)
        os.close(lock)  # S stays held by the child's copy, which it never closes

    def _become_supervisor(self, number: int, end: int) -> NoReturn:
        code = DIED_OF_A_FAULT
        try:
            self._bell.take_down()
            self._spooler.close()
            for fd in self._descriptors:
                os.close(fd)  # of those that are forked after this one: another slot's S must not outlive its supervisor here
            supervise(self._layout, number, end, self._boot, self._box, self._durable)
            code = 0
        finally:
            os._exit(code)  # never back into the launcher's loop

    def tell(self, message: bytes) -> None:
        """A message to the spooler."""
        try:
            self._spooler.sendall(message)
        except ConnectionError:
            pass  # the next read sees that the spooler has gone


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
