"""poolside - a spool without a spooler: a pool, orders for it, and waiting on conditions.

As a program it is a pool owner that can be killed: orders in on stdin, one JSON line each, events out on stdout.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from spoold import host
from spoold.layout import Layout
from spoold.pool import Ended, Event, Failed, Pool, Started
from spoold.records import Figures, Order

PATIENCE_S = 20.0
PYTHON = [sys.executable, "-I", "-S", "-c"]
T = TypeVar("T")


def until(what: Callable[[], T | None], text: str) -> T:
    """The first true answer."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        answer = what()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"not within {PATIENCE_S} s: {text}")


def is_gone(pid: int) -> bool:
    """No such process, or a zombie that its parent has not collected yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def an_order(run: int, argv: list[str] | None = None, **more: Any) -> Order:
    fields: dict[str, Any] = {
        "run": run,
        "job": f"0010-j{run}",
        "seq": 10,
        "name": f"j{run}",
        "file": f"0010-j{run}.toml",
        "text": 'command = ["true"]\n',
        "argv": argv,
        "script": None,
        "shell": ["/bin/sh"],
        "cwd": "/",
        "env": {"PATH": "/usr/bin:/bin"},
        "stdin": None,
        "log_number": 1,
        "wall_s": 60.0,
        "grace_s": 5.0,
        "nice": 0,
        "umask": 0o022,
        "locks": {"box": ["0"]},
        "memory": 0,
        "waited_s": 0.0,
        "waited_for": [],
        "sync": False,
    }
    return Order(**(fields | more))


class Poolside:
    """A pool on a spool of its own."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.layout = Layout(str(root))
        for directory in ("log", ".spoold/slots"):
            (root / directory).mkdir(parents=True, exist_ok=True)
        self.pool = Pool(self.layout, sync=False)
        self.events: list[Event] = []

    def __enter__(self) -> Self:
        self.pool.open()
        return self

    def __exit__(self, *_: object) -> None:
        running = self.running()
        for run in running:
            self.pool.stop(run, "stopped")
        for run in running:
            self.ended(run)
        self.pool.close()

    def running(self) -> set[int]:
        over = {event.run for event in self.events if isinstance(event, Ended | Failed)}
        return set(self.pool._runs) - over

    def start(self, argv: list[str] | None = None, **more: Any) -> int:
        """The number of the new run."""
        run = self.pool.next_run()
        self.pool.start(an_order(run, argv, **more))
        return run

    def turn(self, longest_s: float = 0.05) -> None:
        """Wait as a spooler does, then collect."""
        now = host.awake()
        at = self.pool.next_look(now)
        poll = select.poll()
        for fd in self.pool.fds():
            poll.register(fd, select.POLLIN)
        poll.poll(1000 * min(longest_s, max(0.0, longest_s if at is None else at - now)))
        self.events += self.pool.collect(host.awake())

    def until(self, what: Callable[[], T | None], text: str) -> T:
        """The first true answer, turning meanwhile."""

        def turned() -> T | None:
            self.turn()
            return what()

        return until(turned, text)

    def of(self, run: int, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind) and event.run == run]

    def started(self, run: int) -> Started:
        return self.until(lambda: self.of(run, Started), f"run {run} started; {self.events}")[0]

    def ended(self, run: int) -> Ended:
        return self.until(lambda: self.of(run, Ended), f"run {run} ended; {self.events}")[0]

    def failed(self, run: int) -> Failed:
        return self.until(lambda: self.of(run, Failed), f"run {run} failed; {self.events}")[0]

    def does(self, argv: list[str] | None = None, **more: Any) -> Ended:
        """One whole run, retired."""
        run = self.start(argv, **more)
        ended = self.ended(run)
        self.pool.retire(run)
        return ended

    def log(self, ended: Ended | int) -> str:
        run = ended if isinstance(ended, int) else ended.run
        return (self.root / "log" / f"0010-j{run}.log").read_text(errors="surrogateescape")

    def figures(self, run: int) -> Figures:
        return self.until(lambda: self.pool.figures(run), f"figures of run {run}")

    def pids(self, run: int, count: int = 1) -> list[int]:
        """The pids that a job has written, one a line, into its log."""

        def written() -> list[int] | None:
            lines = self.log(run).split("\n")[:-1] if (self.root / "log" / f"0010-j{run}.log").exists() else []
            return [int(line) for line in lines] if len(lines) >= count else None

        return self.until(written, f"{count} pids of run {run}")


class Owner:
    """A pool owner that is a process of its own, so that it can be killed."""

    def __init__(self, root: pathlib.Path) -> None:
        home = os.path.dirname(os.path.dirname(os.path.abspath(host.__file__)))
        command = [sys.executable, __file__, str(root)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": home}
        )

    def tell(self, order: Order) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(dataclasses.asdict(order)) + "\n")
        self.process.stdin.flush()

    def says(self) -> dict[str, Any]:
        """The next event."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the pool owner has ended"
        said: dict[str, Any] = json.loads(line)
        return said

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def _events(side: Poolside) -> Iterator[Event]:
    poll = select.poll()
    poll.register(0, select.POLLIN)
    told = 0
    while True:
        if poll.poll(0):
            line = sys.stdin.readline()
            if not line:
                return
            side.pool.start(Order(**json.loads(line)))
            print(json.dumps({"kind": "Ordered"}), flush=True)
        side.turn(0.01)
        yield from side.events[told:]
        told = len(side.events)


if __name__ == "__main__":
    the_side = Poolside(pathlib.Path(sys.argv[1]))
    the_side.pool.open()
    print(json.dumps({"kind": "Open", "pid": os.getpid()}), flush=True)
    for the_event in _events(the_side):
        print(json.dumps({"kind": type(the_event).__name__} | dataclasses.asdict(the_event)), flush=True)
