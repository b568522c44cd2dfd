"""rig - a spool whose spoolers are cut off and started again, and the judgement at the end.

Owns the lives of a spooler on a spool of `spooling`, and what has to come out for each job that was dropped: how often its command ran and how it
ended.  The invariants themselves are `invariants`' to check.  Fails: AssertionError with the spool's tree, the spoolers' log and the witnesses.
"""

from __future__ import annotations

import os
import pathlib
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import invariants
import psutil
from spooling import Spool
from stable import Stable

from jobspec import trace
from jobspec.names import is_candidate, parse_file_name
from spoold import slots
from spoold.errors import Exit
from spoold.lockfile import is_locked
from spoold.model import Stage
from spoold.store import Store

PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.003
SETTINGS: Final = '[memory]\nfloor = 0\nguard = false\n[disk]\nfloor = 0\n[env]\nPATH = "/usr/local/bin:/usr/bin:/bin"\n'
QUICK: Final = {
    "spoold.pickup.BAD_FOR_S": 0.05,
    "spoold.pickup.WRITER_LOOK_S": 0.02,
    "spoold.shelf.AWAY_S": 0.1,
    "spoold.runs.TAKEN_AFTER_S": 0.03,
    "spoold.runs.FIRST_PAUSE_S": 0.02,
    "spoold.runs.LONGEST_PAUSE_S": 0.1,
    "spoold.door.FIRST_PAUSE_S": 0.02,
    "spoold.door.LONGEST_PAUSE_S": 0.1,
    "spoold.starting.FIRST_PAUSE_S": 0.02,
    "spoold.starting.LONGEST_PAUSE_S": 0.1,
    "spoold.crank.LOOK_S": 0.05,
    "spoold.adoption.LATER_S": 0.05,
    "spoold.pool.LATER_S": 0.05,
    "spoold.escalation.LINGER_S": 0.02,
}
"""Waits that are there for people and editors, made short: what is tested is the order of things."""


@dataclass(slots=True)
class Expected:
    """What is right for one job: how often its command runs, and how it ends at last ("refused" is an end here)."""

    runs: tuple[int, ...]
    ends: tuple[str, ...]
    text: bytes


class Rig(Spool):
    """A spool whose spooler is killed again and again; `begin` gives it a new one."""

    def __init__(self, stable: Stable, directory: pathlib.Path, *, quick: bool = True, settings: str = SETTINGS) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory / "spool", settings)
        self.directory = directory
        self.store = Store(self.layout)
        self.stable = stable
        self.pid = 0
        self.lives = 0
        self.expected: dict[str, Expected] = {}
        self.in_every_life: dict[str, Any] = {}
        self.may_lose = False
        """A supervisor may be killed: the outcome lost is right for everybody, and with it whatever follows from that."""
        self.may_lose_logs = False
        """What a job said is not synced."""
        self.bad_disk = False
        """The disk says no now and then: a spooler may refuse to begin, and what cannot be removed stays until the next one begins."""
        self._log = directory / "spooler.log"
        self.quick = dict(QUICK) if quick else {}
        self._pidfd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """End everything that belongs to this spool."""
        if self.pid:
            self.stable.end(self.pid, signal.SIGKILL)
        self.forget_spooler()
        end = time.monotonic() + PATIENCE_S
        while left := self.processes():
            assert time.monotonic() < end, f"still there: {left}"
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(LOOK_S)

    # the spooler's lives ----------------------------------------------------------------------------------------------

    def begin(self, **changes: Any) -> None:
        """A new life of the spooler; for `changes` see the module `changes`."""
        self.forget_spooler()
        changes = {**self.in_every_life, **changes}
        changes["set"] = self.quick | changes.get("set", {})
        self.pid = self.stable.start(str(self.root), str(self._log), **changes)
        self.lives += 1
        if sys.platform == "linux":
            self._pidfd = os.pidfd_open(self.pid)

    def forget_spooler(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    @property
    def alive(self) -> bool:
        if self._pidfd >= 0 and not select.select([self._pidfd], [], [], 0)[0]:
            return True
        return self.pid != 0 and self.stable.status(self.pid) is None

    def kill(self) -> None:
        self.stable.end(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Tell it to end, which it does at once and well."""
        status = self.stable.end(self.pid, signal.SIGTERM)
        # a signal that comes before the first line of the spooler is the system's to answer
        assert status in (0, -signal.SIGKILL, -signal.SIGTERM), self.account(f"the spooler ended with {status}")

    def keep_alive(self) -> None:
        """One that was cut off is started again; one that ended by itself is a fault, unless it could not begin."""
        if not self.alive:
            status = self.stable.status(self.pid)
            refused = self.bad_disk and status == Exit.CANNOT_WRITE
            assert status == -signal.SIGKILL or refused, self.account(f"the spooler ended by itself with {status}")
            self.begin()

    def said(self, text: str) -> list[str]:
        """The lines with this text in the logs of all lives."""
        return [line for line in self._log.read_text(errors="replace").splitlines() if text in line] if self._log.exists() else []

    # jobs -------------------------------------------------------------------------------------------------------------

    def queue(self, entry: str, *, runs: Iterable[int] = (1,), ends: Iterable[str] = ("ok",), **fields: Any) -> None:
        """Drop a job that bears witness, as `cp` does it; what has to come out of it is written down."""
        name = name_of(entry)
        text = self.job(name, **fields)
        self.expected_of(name, text, runs, ends)
        self.drop(entry, text)

    def expected_of(self, name: str, text: bytes, runs: Iterable[int] = (1,), ends: Iterable[str] = ("ok",)) -> None:
        """What has to come out of a job that is dropped by other means."""
        self.expected[name] = Expected(tuple(runs), tuple(ends), text)

    def places(self, name: str) -> list[str]:
        """Every file of this NAME."""
        return [f"{stage.value}/{entry}" for stage in Stage for entry in self.entries(stage) if is_candidate(entry) and name_of(entry) == name]

    def place(self, stage: Stage, name: str) -> pathlib.Path | None:
        entry = next((entry for entry in self.entries(stage) if is_candidate(entry) and name_of(entry) == name), None)
        return None if entry is None else self.path(stage, entry)

    # waiting ----------------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
        """Until this holds; the spooler is kept alive meanwhile."""
        end = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < end, self.account(f"not within {patience_s:g} s: {what}")
            self.keep_alive()
            time.sleep(LOOK_S)

    def until_without_spooler(self, condition: Callable[[], object], what: str) -> None:
        """Until this holds while nobody is the spooler."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, self.account(f"not within {PATIENCE_S:g} s: {what}")
            time.sleep(LOOK_S)

    def until_up(self) -> None:
        """The spooler of this life has recovered and turns."""
        self.until(lambda: self.said(f"spoold runs on {self.root}, pid {self.pid}"), "the spooler is up")

    def is_settled(self) -> bool:
        """Every job has ended."""
        if any(map(is_candidate, [*self.entries(Stage.RUNNING), *self.entries(Stage.INCOMING), *self.entries(Stage.READY)])):
            return False
        there = {name_of(entry) for stage in (Stage.DONE, Stage.REFUSED) for entry in self.entries(stage)}
        return self.expected.keys() <= there

    def until_settled(self, patience_s: float = PATIENCE_S) -> None:
        """Until every job that was dropped has ended, and nothing is left to do."""

        def tidy() -> bool:
            return not os.listdir(self.layout.claims) and not any(slots.read(self.layout.slot(n)).live for n in slots.numbers(self.layout))

        self.until(self.is_settled, "every job has ended", patience_s)
        if self.bad_disk:
            self.end()
            self.begin()
            self.until_up()
        self.until(lambda: self.is_settled() and tidy(), "every run is retired, and nothing is left over", patience_s)

    # the judgement ----------------------------------------------------------------------------------------------------

    def judge(self, *, unordered: tuple[str, ...] = ()) -> None:
        """The invariants, and for each job what was expected of it.  The spool has settled."""
        found = invariants.problems(self.layout, self.dropped, self.witness, unordered=unordered)
        found = [problem for problem in found if not (self.may_lose_logs and ": its log " in problem)]
        assert not found, self.account("\n".join(found))
        began = self.began()
        for name, expected in self.expected.items():
            self._judge(name, expected, began.count(name))

    def _judge(self, name: str, expected: Expected, began: int) -> None:
        places = self.places(name)
        assert len(places) == 1, self.account(f"{name} is in {places}")
        path = self.root / places[0]
        steps = trace.read(path.read_bytes())
        ends = [step["outcome"] for step in steps if step["step"] == "ended"]
        end = "refused" if places[0].startswith(Stage.REFUSED.value) else ends[-1]
        lost = ("lost", "refused") if self.may_lose else ()
        assert end in expected.ends + lost, self.account(f"{name} ended {end}")
        assert began <= max(expected.runs), self.account(f"{name} ran {began} times")
        if not self.may_lose:
            assert began in expected.runs, self.account(f"{name} ran {began} times, not {expected.runs}")
            assert began == len(ends), self.account(f"{name} ran {began} times, {len(ends)} ends are on record")

    def supervisors_with_a_run(self) -> list[int]:
        """Their pids, by the records that are not retired."""
        found = []
        for number in slots.numbers(self.layout):
            record = slots.read(self.layout.slot(number))
            start = record.start
            if start is not None and record.live and is_locked(self.layout.slot(number).supervisor_lock):
                found.append(start.supervisor)
        return found

    def launchers(self) -> list[int]:
        """The launcher of the spooler that runs: without one it ends by itself."""
        if not self.alive:
            return []
        children = psutil.Process(self.pid).children()
        return [child.pid for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE and str(self.root) in child.cmdline()]

    def processes(self) -> list[int]:
        """Everything that belongs to this spool: launchers, supervisors, jobs."""
        return [pid for pid, words in _words_of_all() if os.fsencode(self.root) in words]

    def account(self, fault: str) -> str:
        """The fault with everything that is known."""
        tree = subprocess.run(["find", ".", "-type", "f", "-size", "-100k"], cwd=self.root, capture_output=True, text=True, check=False).stdout
        log = self._log.read_text(errors="replace") if self._log.exists() else ""
        witness = self.witness.read_text() if self.witness.exists() else ""
        return f"{fault}\n\n{tree}\n{log[-6000:]}\n{witness}"


def name_of(entry: str) -> str:
    """The NAME of a job file, whatever number its name got when it was taken."""
    try:
        name = parse_file_name(entry).name
    except ValueError:
        return entry
    head, _, number = name.rpartition(".")
    return head if head and number.isdigit() else name


def _words_of_all() -> Iterator[tuple[int, set[bytes]]]:
    """Of every process that can be read: its arguments and the values of its environment."""
    if sys.platform == "linux":
        for entry in os.listdir("/proc"):
            if entry.isdecimal() and int(entry) != os.getpid():
                try:
                    arguments, environment = (pathlib.Path("/proc", entry, name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
                except OSError:
                    continue
                yield int(entry), {*arguments, *(variable.partition(b"=")[2] for variable in environment)}
        return
    for process in psutil.process_iter():
        try:
            yield process.pid, {os.fsencode(word) for word in (*process.cmdline(), *process.environ().values())}
        except psutil.Error:
            continue
