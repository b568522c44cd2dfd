"""spooling - a real spool for a test, real spoolers on it, jobs that leave witnesses, and waiting on conditions.

Owns the processes that it starts: spoolers by their pid, jobs by their supervisors' records.  Waits on conditions with a deadline, never for a time.
What has been dropped through it is remembered, so that `Spool.check` can hold the whole spool to the invariants.
"""

from __future__ import annotations

import errno
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

import invariants
import tomli_w

from jobspec import trace
from spoold import slots
from spoold.layout import Layout
from spoold.lockfile import is_locked
from spoold.model import Stage
from spoold.store import Store

PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.02
SETTINGS: Final = 'durability = "fast"\n[disk]\nfloor = 0\n[env]\nPATH = "/usr/local/bin:/usr/bin:/bin"\n'
COMMAND: Final = (sys.executable, "-m", "spoold.cli")
REPOSITORY: Final = str(pathlib.Path(__file__).resolve().parent.parent)
T = TypeVar("T")


def until(what: Callable[[], T | None], text: str | Callable[[], str], patience_s: float = PATIENCE_S) -> T:
    """The first true answer; AssertionError with the text if there is none in time."""
    end = time.monotonic() + patience_s
    while True:
        answer = what()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience_s:g} s: {text if isinstance(text, str) else text()}")
        time.sleep(LOOK_S)


def command(*args: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run `spoold` with these arguments to its end."""
    return subprocess.run([*COMMAND, *args], cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S, **more)


class Spooler:
    """A spooler process.  Its log is what it says on standard error."""

    def __init__(self, spool: Spool, *args: str) -> None:
        spool.spoolers += 1
        self._log = spool.root.parent / f"spooler.{spool.spoolers}.log"
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen([*COMMAND, "--spool", str(spool.root), "run", *args], cwd=REPOSITORY, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self, text: str = "") -> list[str]:
        """The lines of its log that contain this text."""
        return [line for line in self._log.read_text(errors="replace").splitlines() if text in line]

    def until_said(self, text: str) -> str:
        """The first line with this text."""
        return until(lambda: self.said(text), lambda: f"{text!r} in the spooler's log:\n{self._log.read_text(errors='replace')}")[0]

    def until_up(self) -> Self:
        """It has recovered and turns."""
        until(lambda: self.said("spoold runs on") or self.process.poll() is not None, "the spooler is up")
        assert self.process.poll() is None, "\n".join(self.said())
        return self

    def wait(self) -> int:
        """Its exit code, when it ends by itself."""
        return self.process.wait(PATIENCE_S)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.terminate()
        return self.wait()

    def kill(self) -> None:
        self.process.kill()
        self.wait()


class Spool:
    """A spool below a directory of the test's own.  Beside it lie the witnesses that jobs leave and the gates that keep jobs running."""

    def __init__(self, root: pathlib.Path, settings: str = SETTINGS) -> None:
        self.root = root
        self.layout = Layout(str(root))
        self.witness = root.parent / "witness"
        self.gates = root.parent / "gates"
        self.gates.mkdir(exist_ok=True)
        self.dropped: Counter[bytes] = Counter()
        self.spoolers = 0
        self._running: list[Spooler] = []
        Store(self.layout, durable=False).make()
        self.settings(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """End every process that was started here."""
        for spooler in self._running:
            if spooler.process.poll() is None:
                spooler.stop()
        self._end_runs()

    def _end_runs(self) -> None:
        for number in slots.numbers(self.layout):
            slot = self.layout.slot(number)
            start = slots.read(slot).start
            if start is not None and is_locked(slot.supervisor_lock):
                try:
                    os.kill(start.supervisor, signal.SIGUSR1)  # it holds S, so it is still the one that wrote this
                except ProcessLookupError:
                    pass
        until(
            lambda: not any(is_locked(self.layout.slot(n).supervisor_lock) or is_locked(self.layout.slot(n).job_lock) for n in slots.numbers(self.layout)),
            "every run has ended; a job that ignores TERM needs a short grace",
        )

    # spoolers ---------------------------------------------------------------------------------------------------------

    def start(self, *args: str) -> Spooler:
        """A spooler that is up."""
        return self.launch(*args).until_up()

    def launch(self, *args: str) -> Spooler:
        """A spooler, not waited for."""
        spooler = Spooler(self, *args)
        self._running.append(spooler)
        return spooler

    def run_until_empty(self) -> Spooler:
        """A spooler that works until nothing is left to do."""
        spooler = self.launch("--until-empty")
        code = spooler.wait()
        assert code == 0, "\n".join(spooler.said())
        return spooler

    # files ------------------------------------------------------------------------------------------------------------

    def settings(self, text: str) -> None:
        """Replace spool.toml whole."""
        new = self.root / ".spool.toml.new"
        new.write_text(text)
        new.rename(self.root / "spool.toml")

    def path(self, stage: Stage, entry: str = "") -> pathlib.Path:
        return pathlib.Path(self.layout.entry(stage, entry) if entry else self.layout.stage(stage))

    def entries(self, stage: Stage) -> list[str]:
        return sorted(os.listdir(self.layout.stage(stage)))

    def drop(self, entry: str, text: bytes) -> pathlib.Path:
        """Write a file into incoming/ as most programs do, and remember it."""
        self.expect(text)
        path = self.path(Stage.INCOMING, entry)
        path.write_bytes(text)
        return path

    def expect(self, text: bytes) -> bytes:
        """This text is about to be dropped by other means."""
        self.dropped[text] += 1
        return text

    def forget(self, text: bytes) -> None:
        """The user took this one out of the spool."""
        self.dropped[text] -= 1

    def why(self, entry: str) -> str:
        """The reason beside a refused file."""
        return self.path(Stage.REFUSED, entry.removesuffix(".toml") + ".why").read_text()

    def trace(self, stage: Stage, entry: str) -> tuple[dict[str, Any], ...]:
        return trace.read(self.path(stage, entry).read_bytes())

    def steps(self, stage: Stage, entry: str) -> list[str]:
        return [step["step"] for step in self.trace(stage, entry)]

    def outcome(self, entry: str) -> str:
        """How the last run of a file in done/ ended."""
        return str(self.trace(Stage.DONE, entry)[-1]["outcome"])

    # jobs -------------------------------------------------------------------------------------------------------------

    def job(self, name: str, *, gate: bool = False, do: str = "", **fields: Any) -> bytes:
        """A job's text, unlike any other's of this spool.  Its script leaves witnesses of its beginning and its end, and waits at its gate between."""
        lock = fields.get("lock", "box")
        locks = [lock] if isinstance(lock, str) else list(lock)
        held = " ".join(f'{one}="$SPOOLD_LOCK_{one.upper()}"' for one in locks)
        lines = [f"echo begin {name} $SPOOLD_RUN {held} >> {self.witness}"]
        if gate:
            os.mkfifo(self.gates / name)
            lines.append(f"read _ < {self.gates / name}")
        if do:
            lines.append(do)
        lines.append(f"echo end {name} $SPOOLD_RUN {held} >> {self.witness}")
        return tomli_w.dumps({"script": "\n".join(lines) + "\n", **fields, "meta": {"witness": name}}).encode()

    def open_gate(self, name: str) -> None:
        """Let one job that waits at this gate go on."""

        def opened() -> bool:
            try:
                fd = os.open(self.gates / name, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return False
            os.write(fd, b"go\n")
            os.close(fd)
            return True

        until(opened, f"{name} is at its gate")

    def began(self) -> list[str]:
        """The names of the jobs that began, in order, once for each run."""
        return [name for what, name, *_ in self.witnessed() if what == "begin"]

    def witnessed(self) -> list[list[str]]:
        try:
            return [line.split() for line in self.witness.read_text().splitlines()]
        except FileNotFoundError:
            return []

    # conditions -------------------------------------------------------------------------------------------------------

    def until_in(self, stage: Stage, *entries: str) -> None:
        """These are in that stage."""

        def there() -> bool:
            found = self.entries(stage)
            return all(entry in found for entry in entries)

        until(there, lambda: f"{', '.join(entries)} in {stage.value}/; there are: {self.everything()}")

    def until_gone(self, stage: Stage, entry: str) -> None:
        until(lambda: entry not in self.entries(stage), f"{entry} has left {stage.value}/")

    def until_begun(self, name: str, times: int = 1) -> None:
        """The job's own process is at work."""
        until(lambda: self.began().count(name) >= times, lambda: f"{name} begins; there are: {self.everything()}")

    def until_refused(self, entry: str) -> str:
        """It lies in refused/; the reason."""
        self.until_in(Stage.REFUSED, entry)
        return self.why(entry)

    def until_done(self, entry: str) -> str:
        """It lies in done/ with its whole account; the outcome."""
        self.until_in(Stage.DONE, entry)
        until(lambda: "ended" in self.steps(Stage.DONE, entry), f"{entry} has its account")
        return self.outcome(entry)

    def everything(self) -> dict[str, list[str]]:
        return {stage.value: self.entries(stage) for stage in Stage}

    def check(self, *, idle: bool = True, unordered: tuple[str, ...] = ()) -> None:
        """Every invariant of the design, for all that was dropped."""
        invariants.check(self.layout, self.dropped, self.witness, idle=idle, unordered=unordered)
