"""bench - spoold beside task-spooler in one run: start after `cp`, hand-over, drain, idle cost.

`python -m tests.bench [--rounds N] [--queued N] [--durability full|fast]`.  Prints a table and appends one JSON line to tests/bench/history.jsonl.
The programs take turns, each round in a fresh directory; figures are medians of the rounds' medians, with the smallest and largest.
Needs cc; task-spooler's column is empty where there is no `tsp`.  The first instruction of a job is that of stamp.c, which reads CLOCK_MONOTONIC.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WAIT_S = 120.0
Figures = dict[str, list[float]]


def build_stamp(directory: pathlib.Path) -> pathlib.Path:
    """The job: a C program, so that what is measured is the queue and not an interpreter's start."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        sys.exit("bench: a C compiler is needed (cc)")
    stamp = directory / "stamp"
    subprocess.run([compiler, "-O2", "-o", stamp, HERE / "stamp.c"], check=True)
    return stamp


def read_stamps(path: pathlib.Path) -> list[tuple[str, int]]:
    try:
        lines = path.read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [(label, int(at)) for label, at in (line.split() for line in lines)]


def wait_for(path: pathlib.Path, count: int) -> list[tuple[str, int]]:
    """Stamps, as soon as there are so many."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = read_stamps(path)
        if len(found) >= count:
            return found
        time.sleep(0.002)
    raise SystemExit(f"bench: only {len(read_stamps(path))} of {count} jobs ran within {WAIT_S:g} s")


class Spoold:
    """A spooler on a fresh spool."""

    def __init__(self, directory: pathlib.Path, durability: str, slots: int = 1) -> None:
        self.spool = directory / "spool"
        python = [sys.executable, "-m", "spoold.cli", "--spool", str(self.spool)]
        environment = dict(os.environ, PYTHONPATH=str(ROOT))
        subprocess.run([*python[:3], "init", str(self.spool)], check=True, stdout=subprocess.DEVNULL, env=environment)
        (self.spool / "spool.toml").write_text(f'durability = "{durability}"\n[locks]\nbox = {slots}\n')
        self.log = (directory / "spooler.log").open("wb")
        self.process = subprocess.Popen([*python, "run"], stdout=self.log, stderr=self.log, env=environment)
        end = time.monotonic() + WAIT_S
        while b"spoold runs" not in (directory / "spooler.log").read_bytes():
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit(f"bench: the spooler did not start: {(directory / 'spooler.log').read_text()}")
            time.sleep(0.01)

    def job(self, stamp: pathlib.Path, out: pathlib.Path, label: str, more: str = "") -> str:
        return f'command = ["{stamp}", "{out}", "{label}"]\nwall = "1m"\n{more}'

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.log.close()


@contextlib.contextmanager
def spoold(directory: pathlib.Path, durability: str, slots: int = 1) -> Iterator[Spoold]:
    running = Spoold(directory, durability, slots)
    try:
        yield running
    finally:
        running.close()


@contextlib.contextmanager
def task_spooler(directory: pathlib.Path, slots: int = 1) -> Iterator[Callable[..., None]]:
    """task-spooler with a server of its own; yields a function that queues one command."""
    environment = dict(os.environ, TS_SOCKET=str(directory / "socket"), TMPDIR=str(directory), TS_SLOTS=str(slots), TS_MAXFINISHED="10")

    def queue(*command: object) -> None:
        subprocess.run(["tsp", "-n", *map(str, command)], check=True, env=environment, stdout=subprocess.DEVNULL)

    subprocess.run(["tsp", "-S", str(slots)], check=True, env=environment)
    try:
        yield queue
    finally:
        subprocess.run(["tsp", "-K"], check=False, env=environment)


def start_after_cp(directory: pathlib.Path, stamp: pathlib.Path, durability: str, *, count: int, pause_s: float) -> list[float]:
    """ms from the end of `cp` to the job's first instruction, queue empty."""
    out = directory / "out"
    found = []
    with spoold(directory, durability) as running:
        warm = directory / "warm"
        (directory / "warm.toml").write_text(running.job(stamp, warm, "warm", "lock = []\n"))
        subprocess.run(["cp", directory / "warm.toml", running.spool / "incoming" / "9999-warm.toml"], check=True)
        wait_for(warm, 1)  # the spooler's own start is not what is measured
        time.sleep(0.2)
        for number in range(count):
            source = directory / "job.toml"
            source.write_text(running.job(stamp, out, str(number), "lock = []\n"))
            subprocess.run(["cp", source, running.spool / "incoming" / f"{number:04d}-j{number}.toml"], check=True)
            found.append(time.monotonic_ns())
            if pause_s:
                wait_for(out, number + 1)
                time.sleep(pause_s)
        at = dict(wait_for(out, count))
    return [(at[str(number)] - ended) / 1e6 for number, ended in enumerate(found)]


def start_after_tsp(directory: pathlib.Path, stamp: pathlib.Path, *, count: int, pause_s: float) -> list[float]:
    """The same from the end of tsp's own command."""
    out = directory / "out"
    found = []
    with task_spooler(directory, slots=20) as queue:
        for number in range(count):
            queue(stamp, out, number)
            found.append(time.monotonic_ns())
            if pause_s:
                wait_for(out, number + 1)
                time.sleep(pause_s)
        at = dict(wait_for(out, count))
    return [(at[str(number)] - ended) / 1e6 for number, ended in enumerate(found)]


def gaps(stamps: list[tuple[str, int]]) -> list[float]:
    at = sorted(moment for _, moment in stamps)
    return [(b - a) / 1e6 for a, b in itertools.pairwise(at)]


def drain_spoold(directory: pathlib.Path, stamp: pathlib.Path, durability: str, queued: int, slots: int) -> tuple[list[float], float]:
    """ms between the first instructions of one job and the next with so many queued, and jobs a second."""
    out = directory / "out"
    with spoold(directory, durability, slots) as running:
        (running.spool / "PAUSED").write_text("bench")
        for number in range(queued):
            (running.spool / "incoming" / f".{number}").write_text(running.job(stamp, out, str(number)))
            os.rename(running.spool / "incoming" / f".{number}", running.spool / "incoming" / f"{number:05d}-j{number}.toml")
        end = time.monotonic() + WAIT_S
        while sum(1 for _ in os.scandir(running.spool / "ready")) < queued:
            if time.monotonic() > end:
                sys.exit("bench: the jobs were not accepted")
            time.sleep(0.05)
        time.sleep(1.5)
        (running.spool / "PAUSED").unlink()
        stamps = wait_for(out, queued)
    moments = sorted(at for _, at in stamps)
    return gaps(stamps), (queued - 1) / ((moments[-1] - moments[0]) / 1e9)


def drain_tsp(directory: pathlib.Path, stamp: pathlib.Path, queued: int, slots: int) -> tuple[list[float], float]:
    out = directory / "out"
    gate = directory / "gate"
    with task_spooler(directory, slots) as queue:
        os.mkfifo(gate)
        for _ in range(slots):
            queue("sh", "-c", f"read x < {gate}")
        for number in range(queued):
            queue(stamp, out, number)
        fd = os.open(gate, os.O_RDWR)
        os.write(fd, b"go\n" * slots)
        stamps = wait_for(out, queued)
        os.close(fd)
    moments = sorted(at for _, at in stamps)
    return gaps(stamps), (queued - 1) / ((moments[-1] - moments[0]) / 1e9)


def cpu_s(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> tuple[float, float]:
    """Resident and unshared memory in MB."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().split("\n")
    table = {line.split(":")[0]: int(line.split()[1]) for line in rollup[1:] if line}
    return table["Rss"] / 1000, (table["Private_Clean"] + table["Private_Dirty"]) / 1000


def children_of(pid: int) -> list[int]:
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def idle(directory: pathlib.Path, stamp: pathlib.Path, durability: str, queued: int, seconds: float) -> dict[str, float]:
    """What an idle spooler costs with so many jobs waiting: share of a core, memory of it and of a supervisor."""
    with spoold(directory, durability) as running:
        for number in range(queued):
            (running.spool / "incoming" / f".{number}").write_text(running.job(stamp, directory / "out", str(number), 'after = "never"\n'))
            os.rename(running.spool / "incoming" / f".{number}", running.spool / "incoming" / f"{number:05d}-j{number}.toml")
        end = time.monotonic() + WAIT_S
        while sum(1 for _ in os.scandir(running.spool / "ready")) < queued and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(5)
        pid = running.process.pid
        before, at = cpu_s(pid), time.monotonic()
        time.sleep(seconds)
        share = (cpu_s(pid) - before) / (time.monotonic() - at)
        (running.spool / "incoming" / "00001-sleeper.toml").write_text('command = ["sleep", "30"]\nwall = "1m"\nlock = []\n')
        end = time.monotonic() + WAIT_S
        while not list((running.spool / "running").glob("*.toml")) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(1)
        supervisors = [child for launcher in children_of(pid) for child in children_of(launcher)]
        found = {"idle % of a core": share * 100, "spooler resident MB": memory_of(pid)[0]}
        found["supervisor unshared MB"] = max(memory_of(child)[1] for child in supervisors)
        for job in (running.spool / "running").glob("*.toml"):
            job.unlink()
        time.sleep(1)
        return found


def p99(values: list[float]) -> float:
    return sorted(values)[max(0, round(len(values) * 0.99) - 1)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--queued", type=int, default=1000)
    options.add_argument("--durability", choices=["full", "fast", "both"], default="both")
    options.add_argument("--idle-seconds", type=float, default=20)
    asked = options.parse_args()
    durabilities = ["full", "fast"] if asked.durability == "both" else [asked.durability]
    has_tsp = shutil.which("tsp") is not None
    figures: Figures = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory(prefix="spoold-bench-") as name:
        top = pathlib.Path(name)
        stamp = build_stamp(top)
        fresh = iter(range(10_000))

        def directory() -> pathlib.Path:
            path = top / f"d{next(fresh)}"
            path.mkdir()
            return path

        for _ in range(asked.rounds):
            for what, count, pause_s in (("start, queue empty", 20, 0.05), ("start, 20 within a second", 20, 0.0)):
                if has_tsp:
                    values = start_after_tsp(directory(), stamp, count=count, pause_s=pause_s)
                    note(f"{what}: task-spooler ms", statistics.median(values))
                for durability in durabilities:
                    values = start_after_cp(directory(), stamp, durability, count=count, pause_s=pause_s)
                    note(f"{what}: {durability} ms", statistics.median(values))
                    note(f"{what}: {durability} p99 ms", p99(values))
            for slots in (1, 2):
                if has_tsp:
                    between, rate = drain_tsp(directory(), stamp, min(asked.queued, 900), slots)
                    if slots == 1:
                        note("hand-over: task-spooler ms", statistics.median(between))
                    note(f"drain, {slots} at a time: task-spooler jobs/s", rate)
                for durability in durabilities:
                    between, rate = drain_spoold(directory(), stamp, durability, asked.queued, slots)
                    if slots == 1:
                        note(f"hand-over: {durability} ms", statistics.median(between))
                        note(f"hand-over: {durability} p99 ms", p99(between))
                    note(f"drain, {slots} at a time: {durability} jobs/s", rate)
        for what, value in idle(directory(), stamp, durabilities[0], asked.queued, asked.idle_seconds).items():
            note(f"{what}, {asked.queued} queued", value)
    print(f"{'figure':<58}{'median':>10}{'min':>10}{'max':>10}")
    for what, values in figures.items():
        print(f"{what:<58}{statistics.median(values):>10.3g}{min(values):>10.3g}{max(values):>10.3g}")
    with (HERE / "history.jsonl").open("a") as history:
        history.write(json.dumps({"at": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "figures": {k: statistics.median(v) for k, v in figures.items()}}) + "\n")


if __name__ == "__main__":
    main()
