"""What the host seam says of processes, on real ones."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spoold import host, linux_processes
from spoold.host import Process

REPOSITORY = Path(__file__).parents[2]
PRELUDE = f"import os, sys, time, json; sys.path.insert(0, {str(REPOSITORY)!r}); from spoold import host\n"
PATIENCE_S = 20
linux = pytest.mark.skipif(sys.platform != "linux", reason="asks a Linux kernel")


def until(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, f"it never came true that {what}"
        time.sleep(0.002)


def pids(processes: list[Process]) -> set[int]:
    return {process.pid for process in processes}


def running(pid: int) -> bool:
    return any(process.pid == pid and not process.zombie for process in host.descendants(os.getpid()))


class Started:
    """Starts processes and ends every one of them, by pid, when the test is over."""

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[bytes]] = []

    def __call__(self, *argv: str, **options: object) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(argv, **options)  # type: ignore[call-overload]
        assert isinstance(child, subprocess.Popen)
        self.children.append(child)
        return child

    def python(self, code: str, *args: str, **options: object) -> subprocess.Popen[bytes]:
        return self(sys.executable, "-I", "-S", "-c", PRELUDE + code, *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)


@pytest.fixture
def start() -> Iterator[Started]:
    started = Started()
    yield started
    for child in started.children:
        below = host.descendants(child.pid)
        child.kill()
        for process in below:
            host.signal_process(process, signal.SIGKILL)
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        child.wait()


def line(child: subprocess.Popen[bytes]) -> list[int]:
    """The next line that a helper prints: JSON."""
    assert child.stdout is not None
    said = child.stdout.readline()
    assert said, "the helper has ended"
    found = json.loads(said)
    assert isinstance(found, list)
    return found


def tell(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"\n")
    child.stdin.flush()


# who is below ---------------------------------------------------------------------------------------------------------


def test_every_generation_below_a_process_is_found(start: Started) -> None:
    child = start("/bin/sh", "-c", "/bin/sh -c '/bin/sleep 60 & wait' & wait")
    until(lambda: {process.name for process in host.descendants(child.pid)} == {"sh", "sleep"}, "both are there")
    by_name = {process.name: process for process in host.descendants(child.pid)}
    assert set(by_name) == {"sh", "sleep"}
    assert by_name["sh"].ppid == child.pid
    assert by_name["sleep"].ppid == by_name["sh"].pid
    assert {child.pid, *pids(host.descendants(child.pid))} <= pids(host.descendants(os.getpid()))
    assert os.getpid() not in pids(host.descendants(os.getpid()))


def test_below_nobody_there_is_nothing(start: Started) -> None:
    child = start("/bin/sh", "-c", "exit 0")
    child.wait()
    assert host.descendants(child.pid) == []


@linux
def test_both_ways_of_looking_agree(start: Started) -> None:
    child = start("/bin/sh", "-c", "/bin/sh -c '/bin/sleep 60 & /bin/sleep 60 & wait' & wait")
    until(lambda: len(host.descendants(child.pid)) == 3, "all are there")
    by_parents = linux_processes._below([child.pid], linux_processes._look_at_all())
    assert set(by_parents) == pids(host.descendants(child.pid))
    by_kernel = linux_processes._children(child.pid)
    assert by_kernel is None or set(by_kernel) < set(by_parents)


@linux
def test_a_name_can_hold_anything_but_mislead_nobody(start: Started, tmp_path: Path) -> None:
    program = tmp_path / "x) R 1 (\n2"
    shutil.copy("/bin/sleep", program)
    child = start(str(program), "60")
    until(lambda: any(process.name == program.name for process in host.descendants(os.getpid())), "it has its name")
    process = next(process for process in host.descendants(os.getpid()) if process.pid == child.pid)
    assert (process.name, process.ppid, process.zombie) == (program.name, os.getpid(), False)


@linux
def test_who_has_ended_is_a_zombie_until_it_is_reaped(start: Started) -> None:
    child = start("/bin/sh", "-c", "exit 0")
    until(lambda: not running(child.pid), "it has ended")
    assert any(process.pid == child.pid and process.zombie for process in host.descendants(os.getpid()))
    assert child.pid not in pids(host.Tracker(os.getpid()).look())
    child.wait()
    assert child.pid not in pids(host.descendants(os.getpid()))


THREADS = """
import ctypes, threading
threading.Thread(target=time.sleep, args=(60,)).start()
print("[]", flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
"""


@linux
def test_a_process_whose_first_thread_has_ended_lives(start: Started) -> None:
    child = start.python(THREADS)
    line(child)
    until(lambda: b"zombie" in Path(f"/proc/{child.pid}/status").read_bytes(), "the kernel calls it a zombie")
    assert child.pid in pids(host.Tracker(os.getpid()).look())


SUPERVISOR = """
host.become_subreaper() or sys.exit(1)
tracker = host.Tracker(os.getpid())
main = os.posix_spawn("/bin/sh", ["sh", "-c", sys.argv[1]], {"PATH": "/usr/bin:/bin"}, setsid=True)
tracker.begin(main)
os.waitpid(main, 0)
sys.stdin.readline()
print(json.dumps([process.pid for process in tracker.look()]), flush=True)
"""


@linux
def test_an_orphan_that_left_its_session_comes_back_to_the_supervisor(start: Started, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    job = f"(setsid sh -c '(exec 3>&- ; echo $$ >{note}.new && mv {note}.new {note} ; exec sleep 60) &' &) ; exit 0"
    supervisor = start.python(SUPERVISOR, job)
    until(note.exists, "the orphan runs")
    until(lambda: {one.name for one in host.descendants(supervisor.pid) if not one.zombie} == {"sleep"}, "only the orphan is left")
    tell(supervisor)
    assert set(line(supervisor)) == pids([one for one in host.descendants(supervisor.pid) if one.name == "sleep"])


# what they use --------------------------------------------------------------------------------------------------------

SHARED = """
block = bytearray(os.urandom(1) * (64 << 20))
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    children.append(pid)
print(json.dumps([os.getpid(), *children]), flush=True)
time.sleep(60)
"""


@linux
def test_a_page_that_four_share_is_counted_once_if_it_has_to_be_exact(start: Started) -> None:
    together = line(start.python(SHARED))
    rss, rss_kind = host.tree_memory(together, exact=False)
    pss, pss_kind = host.tree_memory(together, exact=True)
    assert (rss_kind, pss_kind) == ("rss", "pss")
    assert rss > 4 * (64 << 20)
    assert (64 << 20) < pss < 2 * (64 << 20)


def test_who_has_vanished_uses_nothing(start: Started) -> None:
    child = start("/bin/sh", "-c", "exit 0")
    child.wait()
    for exact in (False, True):
        assert host.tree_memory([child.pid], exact)[0] == 0
        assert host.tree_memory([], exact)[0] == 0
        assert host.tree_memory([os.getpid(), child.pid], exact)[0] > 1 << 20


# signals --------------------------------------------------------------------------------------------------------------


def seen(pid: int) -> Process:
    return next(process for process in host.descendants(os.getpid()) if process.pid == pid)


def test_a_signal_reaches_the_process_that_was_meant(start: Started) -> None:
    child = start("/bin/sleep", "60")
    assert host.signal_process(seen(child.pid), signal.SIGTERM) is True
    assert child.wait(PATIENCE_S) == -signal.SIGTERM


def test_a_stranger_with_the_same_pid_is_not_hit(start: Started) -> None:
    child = start("/bin/sleep", "60")
    process = seen(child.pid)
    before = Process(process.pid, process.ppid, process.start - 1, process.name)
    assert host.signal_process(before, signal.SIGKILL) is False
    assert host.signal_process(process, 0) is True
    assert child.poll() is None


def test_who_is_gone_cannot_be_signalled(start: Started) -> None:
    child = start("/bin/sleep", "60")
    process = seen(child.pid)
    child.kill()
    child.wait()
    assert host.signal_process(process, signal.SIGTERM) is False


@linux
@pytest.mark.parametrize("missing", [(os, "pidfd_open"), (signal, "pidfd_send_signal")])
def test_a_python_that_was_built_without_pidfd_makes_the_call_itself(
    start: Started, monkeypatch: pytest.MonkeyPatch, missing: tuple[object, str]
) -> None:
    monkeypatch.delattr(*missing)
    child = start("/bin/sleep", "60")
    fd = host.exit_fd(child.pid)
    assert not os.get_inheritable(fd)
    assert host.signal_process(seen(child.pid), signal.SIGTERM) is True
    assert select.select([fd], [], [], PATIENCE_S)[0] == [fd]
    os.close(fd)
    child.wait()
    with pytest.raises(ProcessLookupError):
        host.exit_fd(child.pid)


def test_a_descriptor_tells_of_the_end_of_somebody_elses_child(start: Started) -> None:
    child = start("/bin/sh", "-c", "/bin/sleep 60 & wait")
    until(lambda: host.descendants(child.pid), "the grandchild is there")
    grandchild = host.descendants(child.pid)[0]
    fd = host.exit_fd(grandchild.pid)
    assert select.select([fd], [], [], 0)[0] == []
    host.signal_process(grandchild, signal.SIGKILL)
    assert select.select([fd], [], [], PATIENCE_S)[0] == [fd]
    os.close(fd)


def test_there_is_no_descriptor_for_the_end_of_who_is_gone(start: Started) -> None:
    child = start("/bin/sh", "-c", "exit 0")
    child.wait()
    with pytest.raises(OSError, match="No such process"):
        host.exit_fd(child.pid)


# what a killed supervisor left behind ---------------------------------------------------------------------------------

MARKER = b"SPOOLD_TOKEN=7-abc"
PATH = {"PATH": "/usr/bin:/bin"}


def leftovers(lock: Path, session: int = 0, parent: int = 0) -> set[int]:
    return pids(host.processes_of_run(MARKER, str(lock), session, parent))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "job.lock"
    path.touch()
    return path


def sleeping(child: subprocess.Popen[bytes]) -> bool:
    return seen(child.pid).name == "sleep"


@linux
def test_the_environment_names_the_run(start: Started, lock: Path) -> None:
    ours = start("/bin/sleep", "60", env=PATH | {"SPOOLD_TOKEN": "7-abc"})
    others = [start("/bin/sleep", "60", env=PATH | env) for env in ({"SPOOLD_TOKEN": "7-abcd"}, {"X": "SPOOLD_TOKEN=7-abc"}, {})]
    until(lambda: all(map(sleeping, [ours, *others])), "all were executed")
    assert leftovers(lock) == {ours.pid}


@linux
def test_the_inherited_lock_names_the_run_under_any_name(start: Started, lock: Path, tmp_path: Path) -> None:
    with open(lock) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ours = start("/bin/sleep", "60", env={}, pass_fds=[file.fileno()])
        other = start("/bin/sleep", "60", env={})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "job.lock").touch()
    with open(tmp_path / "elsewhere" / "job.lock") as file:
        another = start("/bin/sleep", "60", env={}, pass_fds=[file.fileno()])
    until(lambda: all(map(sleeping, [ours, other, another])), "all were executed")
    assert leftovers(lock) == {ours.pid}
    (tmp_path / "link").symlink_to(tmp_path)
    assert leftovers(tmp_path / "link" / "job.lock") == {ours.pid}


@linux
def test_what_is_below_a_leftover_is_one_too(start: Started, lock: Path) -> None:
    ours = start("/bin/sh", "-c", "env -i /bin/sleep 60 & wait", env=PATH | {"SPOOLD_TOKEN": "7-abc"})
    until(lambda: {one.name for one in host.descendants(ours.pid)} == {"sleep"}, "its child runs")
    assert leftovers(lock) == {ours.pid} | pids(host.descendants(ours.pid))


@linux
def test_a_clean_environment_in_the_session_is_a_leftover(start: Started, lock: Path) -> None:
    ours = start("/bin/sleep", "60", env={}, start_new_session=True)
    until(lambda: sleeping(ours), "it was executed")
    assert leftovers(lock, session=ours.pid) == {ours.pid}
    assert leftovers(lock) == set()


@linux
def test_a_session_of_somebody_with_another_life_is_left_alone(start: Started, lock: Path) -> None:
    shell = start("/bin/sleep", "60", env=PATH, start_new_session=True)
    until(lambda: sleeping(shell), "it was executed")
    assert leftovers(lock, session=shell.pid) == set()


CALLER = """
found = host.processes_of_run(b"SPOOLD_TOKEN=7-abc", "/nonexistent", 0, 0)
print(json.dumps([os.getpid(), *[process.pid for process in found]]), flush=True)
"""


@linux
def test_whoever_asks_never_finds_himself_or_who_started_him(start: Started) -> None:
    marked = PATH | {"SPOOLD_TOKEN": "7-abc"}
    sibling = start("/bin/sleep", "60", env=marked)
    until(lambda: sleeping(sibling), "it was executed")
    program = [sys.executable, "-I", "-S", "-c", PRELUDE + CALLER]
    parent = start("/bin/sh", "-c", '"$@"; read stay', "sh", *program, env=marked, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    caller, *found = line(parent)
    assert caller != parent.pid
    assert found == [sibling.pid]


LAUNCHER = """
host.become_subreaper() or sys.exit(1)
def supervise(job):
    pid = os.fork()
    if pid == 0:
        os.setsid()
        host.become_subreaper()
        if job:
            os.posix_spawn("/bin/sh", ["sh", "-c", job], {}, setsid=True)
        time.sleep(60)
        os._exit(0)
    return pid
print(json.dumps([supervise(sys.argv[1]), supervise("")]), flush=True)
time.sleep(60)
"""


@linux
def test_a_stray_that_shows_nothing_is_found_with_the_launcher(start: Started, lock: Path) -> None:
    launcher = start.python(LAUNCHER, "exec 3<&-; (setsid sh -c 'exec /bin/sleep 61' &); exec /bin/sleep 62")
    supervisor, parked = line(launcher)
    until(lambda: [one.name for one in host.descendants(supervisor) if not one.zombie] == ["sleep", "sleep"], "the job runs")
    job = pids([one for one in host.descendants(supervisor) if one.name == "sleep"])
    assert leftovers(lock, parent=launcher.pid) == set()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: job <= {one.pid for one in host.descendants(launcher.pid) if one.ppid == launcher.pid}, "they came to the launcher")
    assert leftovers(lock, parent=launcher.pid) == job
    assert parked in pids(host.descendants(launcher.pid))
