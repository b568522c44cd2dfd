"""commandline - the real command as a subprocess, and spools in any state to call it on.

A spool is made of files, so most states are built with the program's own writers and need no spooler; where one is needed, it is a real one.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobspec import trace
from spoold import claim, records
from spoold.archive import accepted_entry, ended_entry, started_entry
from spoold.layout import Layout
from spoold.model import Stage
from spoold.records import EndRecord, Figures, StartRecord
from spoold.store import Store

ROOT = Path(__file__).resolve().parents[2]
TRUE = 'command = ["true"]\n'
T0 = 1_790_000_000.0


class Box:
    """One spool and the command called on it."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.layout = Layout(str(root / "spool"))
        self.store = Store(self.layout, durable=False)
        self.home = root
        self.env = {
            "PATH": os.defpath,
            "HOME": str(root),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": str(cache),
            "PYTHONWARNINGS": "error",
        }
        self.held: list[int] = []
        self.store.make()

    # calling ----------------------------------------------------------------------------------------------------------

    def argv(self, *args: str, spool: bool = True) -> list[str]:
        return [sys.executable, "-m", "spoold.cli", *(("--spool", self.layout.root) if spool else ()), *args]

    def call(
        self, *args: str, spool: bool = True, env: Mapping[str, str] | None = None, stdin: bytes = b"", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(*args, spool=spool),
            input=stdin,
            capture_output=True,
            env={**self.env, **(env or {})},
            cwd=cwd or self.home,
            timeout=60,
        )
        out, err = done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape")
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def ok(self, *args: str, **more: Any) -> str:
        """What it prints, and it must exit 0."""
        done = self.call(*args, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *args: str) -> Any:
        return json.loads(self.ok(*args))

    def begin(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        """The command, not waited for."""
        return subprocess.Popen(
            self.argv(*args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env,
            cwd=self.home,
            **more,
        )

    def on_terminal(self, *args: str, columns: int = 80, lines: int = 24, env: Mapping[str, str] | None = None) -> str:
        """What a terminal of that size gets to see, escape sequences and all."""
        ours, theirs = pty.openpty()
        try:
            fcntl.ioctl(theirs, 0x5414 if sys.platform != "darwin" else 0x80087467, _size(lines, columns))
            process = subprocess.Popen(
                self.argv(*args),
                stdin=theirs,
                stdout=theirs,
                stderr=subprocess.PIPE,
                env={**self.env, "TERM": "xterm", **(env or {})},
                cwd=self.home,
            )
            os.close(theirs)
            theirs = -1
            seen = b""
            while True:
                try:
                    block = os.read(ours, 65536)
                except OSError:
                    break
                if not block:
                    break
                seen += block
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
            return seen.decode().replace("\r\n", "\n")
        finally:
            os.close(ours)
            if theirs >= 0:
                os.close(theirs)

    # states -----------------------------------------------------------------------------------------------------------

    def ready(self, entry: str, text: str = TRUE, at: float | None = None) -> Path:
        """A job that was accepted."""
        accepted = accepted_entry(time.time() if at is None else at, f"incoming/{entry}", os.geteuid(), "c1")
        self.store.publish(trace.append(text.encode(), accepted), entry)
        return self.path(Stage.READY, entry)

    def running(self, entry: str, text: str = TRUE, *, run: int = 1, **start: Any) -> StartRecord:
        """A run that is going on, as its supervisor wrote it down; this process stands for the supervisor and holds its lock."""
        at = time.time() - 60
        data = trace.append(text.encode(), accepted_entry(at - 60, f"incoming/{entry}", os.geteuid(), "c1"))
        self.path(Stage.RUNNING, entry).write_bytes(data)
        record = _start(entry, data, run, at, **start)
        slot = self.layout.slot(run)
        os.makedirs(slot.dir, exist_ok=True)
        self.held.append(held := os.open(slot.supervisor_lock, os.O_RDWR | os.O_CREAT, 0o600))
        fcntl.flock(held, fcntl.LOCK_EX)
        figures = Figures(run=run, pid=4711, at=at, memory=2_000_000_000, peak=3_000_000_000, kind="pss", cpu_s=5.0, processes=2)
        area = bytearray(records.RECORD_SIZE)
        for at_byte, sealed in ((records.START_AT, records.encode_start(record)), (records.FIGURES_AT, records.encode_figures(figures))):
            area[at_byte : at_byte + len(sealed)] = sealed
        Path(slot.record).write_bytes(area)
        return record

    def end_run(self, entry: str, run: int, **end: Any) -> None:
        """The run's end, put away as a spooler does."""
        data = self.path(Stage.RUNNING, entry).read_bytes()
        start = _start(entry, data, run, time.time() - 60)
        self.store.rewrite(Stage.RUNNING, entry, trace.append(data, started_entry(start, 4711), ended_entry(start, _end(run, **end))))
        self.store.finish(entry)
        with open(self.layout.slot(run).record, "r+b") as file:
            file.seek(records.RETIRED_AT)
            file.write(records.encode_retired(run))

    def done(self, entry: str, text: str = TRUE, *, run: int = 1, at: float = T0, name: str | None = None, **end: Any) -> Path:
        """A job that ran from `at` for a minute and a half."""
        data = trace.append(text.encode(), accepted_entry(at - 60, f"incoming/{entry}", os.geteuid(), "c1"))
        start = _start(entry, data, run, at, **({} if name is None else {"name": name}))
        path = self.path(Stage.DONE, entry)
        path.write_bytes(trace.append(data, started_entry(start, 4711), ended_entry(start, _end(run, at + 90, **end))))
        return path

    def refused(self, entry: str, why: str, text: str = "comand = 1\n") -> Path:
        path = self.path(Stage.REFUSED, entry)
        path.write_text(text)
        path.with_suffix(".why").write_text(why + "\n")
        return path

    def let_go(self) -> None:
        """The supervisors that this process stands for are gone."""
        while self.held:
            os.close(self.held.pop())

    def path(self, stage: Stage, entry: str) -> Path:
        return Path(self.layout.entry(stage, entry))

    def names(self, stage: Stage) -> list[str]:
        return sorted(os.listdir(self.layout.stage(stage)))

    # the spooler ------------------------------------------------------------------------------------------------------

    @contextmanager
    def spooler(self, *args: str) -> Iterator[subprocess.Popen[bytes]]:
        """A real one, until the end of the block; no job of it outlives that."""
        log = open(self.home / "spooler.log", "ab")  # noqa: SIM115 - it is closed below, after the process
        process = subprocess.Popen(self.argv("run", *args), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=self.home)
        try:
            wait_until(lambda: claim.is_held(self.layout.owner) or process.poll() is not None)
            yield process
        finally:
            for stage in (Stage.INCOMING, Stage.READY, Stage.RUNNING):
                for entry in self.names(stage):
                    self.path(stage, entry).unlink(missing_ok=True)
            try:
                wait_until(lambda: not self._busy() or process.poll() is not None)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                process.wait(30)
                log.close()

    def _busy(self) -> bool:
        from spoold import slots

        return any(slots.read(self.layout.slot(number)).live for number in slots.numbers(self.layout))


def _size(lines: int, columns: int) -> bytes:
    import struct

    return struct.pack("HHHH", lines, columns, 0, 0)


def _start(entry: str, data: bytes, run: int, at: float, **more: Any) -> StartRecord:
    seq, _, name = entry.removesuffix(".toml").partition("-")
    said: dict[str, Any] = {
        "run": run,
        "job": entry.removesuffix(".toml"),
        "seq": int(seq),
        "name": name,
        "file": entry,
        "started_at": at,
        "boot": "boot",
        "host": "host",
        "supervisor": 1,
        "wall_s": 3600.0,
        "grace_s": 30.0,
        "locks": {"box": ["0"]},
        "memory": 0,
        "log": f"log/{entry.removesuffix('.toml')}.log",
        "waited_s": 12.0,
        "waited_for": ["box held by other"],
        "text": data.decode(),
    }
    return StartRecord(**{**said, **more})


def _end(run: int, at: float | None = None, **more: Any) -> EndRecord:
    said: dict[str, Any] = {
        "run": run,
        "outcome": "ok",
        "exit": 0,
        "ended_at": time.time() if at is None else at,
        "elapsed_s": 90.0,
        "peak_memory": 5_000_000,
    }
    if "signal" in more:
        said["exit"] = None
    return EndRecord(**{**said, **more})


def wait_until(condition: Callable[[], Any], timeout_s: float = 30.0) -> None:
    """Until it holds; an AssertionError if it never does."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        select.select([], [], [], 0.01)
