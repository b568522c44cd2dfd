"""stable - starts spoolers quickly, for tests that start hundreds: everything is imported once, and each spooler is a fork of that process.

Owns the process of its own that imports the product (a test process has threads and may not fork) and what is changed in a spooler before it runs:
whatever `changes` can.  What runs then is `daemon.run`, nothing else.
Commands are JSON lines on stdin, answers on stdout.  Fails: with its traceback on stderr, and then the tests fail too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import IO, Any

from changes import change

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.path.dirname(os.path.dirname(HERE))


class Stable:
    """The test's side."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=HOME)
        self._started: dict[int, int | None] = {}

    def start(self, root: str, log: str, **changes: Any) -> int:
        """A spooler on this spool; its pid.  For `changes` see the module of that name."""
        pid = int(self._ask(do="start", root=root, log=log, changes=changes)["pid"])
        self._started[pid] = None
        return pid

    def status(self, pid: int) -> int | None:
        """How it ended, as `subprocess` would say it; None while it runs."""
        if self._started[pid] is None:
            self._started[pid] = self._ask(do="status", pid=pid)["status"]
        return self._started[pid]

    def end(self, pid: int, number: int) -> int:
        """Signal it if it runs, and wait for its end."""
        while (status := self.status(pid)) is None:
            os.kill(pid, number)
            deadline = time.monotonic() + 10
            while (status := self.status(pid)) is None and time.monotonic() < deadline:
                time.sleep(0.001)
            assert status is not None, f"the spooler did not end within 10 s of signal {number}"
        return status

    def close(self) -> None:
        for pid in self._started:
            self.end(pid, signal.SIGKILL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def _ask(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"the process that starts the spoolers has ended with {self._process.wait(10)}") from None
        answer = json.loads(self._process.stdout.readline())
        assert isinstance(answer, dict)
        return answer


def _serve(stdin: IO[bytes], stdout: IO[bytes]) -> None:
    sys.path[:0] = [HOME, HERE]
    from spoold import daemon, host, spawn  # noqa: F401
    from spoold.layout import Layout  # noqa: F401

    for line in stdin:
        command = json.loads(line)
        if command["do"] == "start":
            pid = os.fork()
            if pid == 0:
                _become_spooler(command)
            answer = {"pid": pid}
        else:
            ended, status = os.waitpid(command["pid"], os.WNOHANG)
            answer = {"status": os.waitstatus_to_exitcode(status) if ended else None}
        stdout.write(json.dumps(answer).encode() + b"\n")
        stdout.flush()


def _become_spooler(command: dict[str, Any]) -> None:
    code = 70
    try:
        os.setsid()
        log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        null = os.open(os.devnull, os.O_RDWR)
        for fd, source in ((0, null), (1, null), (2, log)):
            os.dup2(source, fd)
        from spoold import daemon, spawn
        from spoold.errors import SpooldError
        from spoold.layout import Layout

        changes = command["changes"]
        in_launcher = {key: value for key, value in changes.items() if key in ("set", "shift", "boot", "old_disk", "power")}
        in_launcher |= {"plan": changes.get("supervisor_plan"), "launcher": True}
        spawn._CODE = (
            f"import sys; sys.path[:0] = [{HERE!r}, {HOME!r}]; import spoold.launcher, changes; "
            f"changes.change({in_launcher!r}); spoold.launcher.main(int(sys.argv[2]), *sys.argv[3:])"
        )
        change(changes)
        try:
            code = daemon.run(Layout(command["root"]), **changes.get("run", {}))
        except SpooldError as error:
            print(error, file=sys.stderr)
            code = error.code
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
