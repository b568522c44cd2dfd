"""linux_processes - the processes of a Linux box, as /proc shows them.

Owns the reading of /proc/PID, the tree below a process, the search for what a killed supervisor left behind, pidfds.  Standard library
only; ctypes is loaded when first needed.  Never decides whom to signal.  Fails: a process that vanishes while it is looked at is left
out, it is never an error.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from typing import Final

from spoold.host_facts import Process
from spoold.run_evidence import Evidence, belonging

PR_SET_CHILD_SUBREAPER: Final = 36
SYS_PIDFD_SEND_SIGNAL: Final = 424
SYS_PIDFD_OPEN: Final = 434
"""The same on every architecture."""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def become_subreaper() -> bool:
    """From here on orphans below this process come back to it."""
    import ctypes

    return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


class _Seen:
    """One line of /proc/PID/stat."""

    __slots__ = ("process", "session")

    def __init__(self, line: bytes) -> None:
        # the name may hold anything, brackets and spaces too: it ends at the last bracket
        opening, closing = line.index(b"("), line.rindex(b")")
        fields = line[closing + 2 :].split(b" ")
        # a process whose first thread has ended shows as a zombie while its other threads run on
        zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
        self.process = Process(int(line[:opening]), int(fields[1]), int(fields[19]), os.fsdecode(line[opening + 1 : closing]), zombie)
        self.session = int(fields[3])


def _look(pid: int | str) -> _Seen | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return _Seen(file.read(4096))
    except (OSError, ValueError):
        return None


def _look_at_all() -> dict[int, _Seen]:
    found = (_look(name) for name in os.listdir("/proc") if name.isdecimal())
    return {seen.process.pid: seen for seen in found if seen is not None}


def _children(pid: int) -> list[int] | None:
    """The children by the kernel's own list; None where the kernel has none."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    children: list[int] = []
    missing = 0
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb", buffering=0) as file:
                while chunk := file.readall():
                    children.extend(map(int, chunk.split()))
        except FileNotFoundError:
            missing += 1
        except OSError:
            pass
    return None if missing and not children and os.path.exists(f"/proc/{pid}/task/{tasks[0]}") else children


def _childless() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _below(roots: Iterable[int], all_seen: dict[int, _Seen]) -> dict[int, Process]:
    families: dict[int, list[Process]] = {}
    for seen in all_seen.values():
        families.setdefault(seen.process.ppid, []).append(seen.process)
    found: dict[int, Process] = {}
    todo = list(roots)
    while todo:
        for child in families.get(todo.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                todo.append(child.pid)
    return found


def descendants(root: int) -> list[Process]:
    """Every process below `root`, zombies too, not `root` itself."""
    if root == os.getpid() and _childless():
        return []
    first = _children(root)
    if first is None:
        return list(_below([root], _look_at_all()).values())
    found: dict[int, Process] = {}
    todo = first
    while todo:
        pid = todo.pop()
        seen = _look(pid) if pid not in found else None
        if seen is not None:
            found[pid] = seen.process
            todo.extend(_children(pid) or ())
    return list(found.values())


class Tracker:
    """What a supervisor knows of its tree.  As a subreaper it is given every orphan, so its descendants are all there is."""

    def __init__(self, root_pid: int) -> None:
        self._root = root_pid

    def begin(self, main_pid: int) -> None:
        """A new job starts with this process."""

    def look(self) -> list[Process]:
        """Every process of the job that lives."""
        return [process for process in descendants(self._root) if not process.zombie]


def tree_memory(pids: Sequence[int], exact: bool) -> tuple[int, str]:
    """Bytes that these processes use, and how they were counted: "pss" counts a shared page once, "rss" once for each."""
    total, kind = 0, "pss" if exact else "rss"
    for pid in pids:
        pss = _pss(pid) if exact else None
        if pss is None and (rss := _rss(pid)):
            total, kind = total + rss, "rss"
        total += pss or 0
    return total, kind


def _pss(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb", buffering=0) as file:
            for line in file.read(8192).splitlines():
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass  # gone, not ours to read, or an old kernel: the resident set knows
    return None


def _rss(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            return int(file.read(256).split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0


def processes_of_run(marker: bytes, lock_path: str, session: int, parent: int) -> list[Process]:
    """The processes of a run whose supervisor was killed, zombies left out.

    Own-user processes that hold `lock_path` open, or were executed with the environment entry `marker`, or are in `session`, or were
    handed to `parent` as orphans, and all below them; never the caller, its ancestors, `parent` or the supervisors it forked.
    """
    seen = _look_at_all()
    spared = _ancestors(os.getpid(), seen) | {parent}
    twin = _command_line(parent) if parent else None
    lock = _identity(lock_path)
    uid = os.geteuid()
    evidence = []
    for pid, one in seen.items():
        if pid in spared or one.process.zombie or not _owned_by(pid, uid):
            continue
        stray = bool(parent) and one.process.ppid == parent
        if stray and _command_line(pid) == twin:
            spared.add(pid)  # forked by the launcher and never executed anything: a supervisor
            continue
        holds = lock is not None and _holds(pid, lock, os.path.basename(lock_path))
        evidence.append(Evidence(pid, holds, _environment(pid), stray, bool(session) and one.session == session))
    roots = belonging(evidence, marker)
    found = {pid: seen[pid].process for pid in roots} | _below(roots, seen)
    return [process for pid, process in sorted(found.items()) if pid not in spared and not process.zombie]


def _ancestors(pid: int, seen: dict[int, _Seen]) -> set[int]:
    line = {pid}
    while pid in seen and (pid := seen[pid].process.ppid) not in line:
        line.add(pid)
    return line


def _owned_by(pid: int, uid: int) -> bool:
    # not the owner of /proc/PID: that is root for a process that may not be dumped
    for line in _read(pid, "status").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1]) == uid
    return False


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _command_line(pid: int) -> bytes:
    return _read(pid, "cmdline")


def _environment(pid: int) -> frozenset[bytes]:
    return frozenset(_read(pid, "environ").split(b"\0")) - {b""}


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _holds(pid: int, lock: tuple[int, int], name: str) -> bool:
    directory = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(directory)
    except OSError:
        return False
    for number in numbers:
        try:
            # by name first: a stat of whatever a job has open can hang on a dead server
            if os.path.basename(os.readlink(f"{directory}/{number}")) == name and _identity(f"{directory}/{number}") == lock:
                return True
        except OSError:
            continue
    return False


def signal_process(process: Process, sig: int) -> bool:
    """Send a signal to exactly this process.  False: it is gone.  True: it is there, and was signalled if that is allowed."""
    try:
        fd = exit_fd(process.pid)
    except ProcessLookupError:
        return False
    except OSError:
        fd = -1  # an old kernel, or no descriptor left: the start time alone has to do
    try:
        now = _look(process.pid)
        if now is None or now.process.start != process.start:
            return False
        if fd >= 0:
            _send_signal(fd, sig)
        else:
            os.kill(process.pid, sig)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    finally:
        if fd >= 0:
            os.close(fd)
    return True


def _syscall(number: int, *args: int) -> int:
    """For a Python that was built where the kernel's headers were older than the call."""
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long] * (1 + len(args))
    call.restype = ctypes.c_long
    result = int(call(number, *args))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _send_signal(pidfd: int, sig: int) -> None:
    if hasattr(signal, "pidfd_send_signal"):
        signal.pidfd_send_signal(pidfd, sig)
    else:
        _syscall(SYS_PIDFD_SEND_SIGNAL, pidfd, sig, 0, 0)


def exit_fd(pid: int) -> int:
    """A descriptor that polls readable when that process has ended.  OSError if it is gone."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    fd = _syscall(SYS_PIDFD_OPEN, pid, 0)
    os.set_inheritable(fd, False)
    return fd
