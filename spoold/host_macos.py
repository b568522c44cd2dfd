"""host_macos - what spoold asks of macOS.

Owns the answers of the host seam on a Mac, put together from `macos_libc` (the calls), `macos_structs`, `macos_memory` and `macos_tree`
(what they mean).  Standard library only and importable under `python -I -S`, on other systems too.  Never decides what to do with an
answer.  Fails: as each function says; a process that vanishes while it is looked at is left out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Sequence
from typing import Final

from spoold import macos_libc, macos_memory, macos_structs, macos_tree
from spoold.host_facts import FileSystem, MemoryStatus, Process, judge
from spoold.host_rename import CANNOT, rename_by_link
from spoold.macos_tree import Entry
from spoold.run_evidence import Evidence, belonging

CLOCK_UPTIME_RAW: Final = 8
F_FULLFSYNC: Final = 51
RENAME_SWAP: Final = 2
RENAME_EXCL: Final = 4
VM_STAT: Final = "/usr/bin/vm_stat"
VM_STAT_TIMEOUT_S: Final = 2


def awake() -> float:
    """Seconds awake, from an arbitrary start: stands still while the box sleeps, which CLOCK_MONOTONIC does not here."""
    return time.clock_gettime(CLOCK_UPTIME_RAW)


def boot_id() -> str:
    """Names this boot of the box; a step of the clock does not change it."""
    return macos_libc.sysctl("kern.bootsessionuuid").partition(b"\0")[0].decode("ascii")


def host_id() -> str:
    """Names the box."""
    try:
        return macos_libc.host_uuid()
    except (OSError, AttributeError):
        return os.uname().nodename


def memory_status() -> MemoryStatus:
    """The box's memory now.  OSError or ValueError if it cannot be read."""
    memsize = int.from_bytes(macos_libc.sysctl("hw.memsize"), "little")
    return macos_memory.status(memsize, _pages(), _pressure_level(), _swap_used())


def _pages() -> macos_memory.Pages:
    import subprocess  # not needed by a supervisor, which starts a third faster without

    # vm_stat first: being Apple's it is answered by the kernel each time, others are given an answer of up to a second ago
    try:
        said = subprocess.check_output([VM_STAT], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=VM_STAT_TIMEOUT_S)
        pages = macos_memory.parse_vm_stat(said.decode("ascii", "replace"))
        if pages.available >= 0:
            return pages
    except (OSError, ValueError, subprocess.SubprocessError):
        pass
    return macos_memory.parse_vm_info64(macos_libc.vm_info64(), macos_libc.kernel_page_size())


def _pressure_level() -> int | None:
    try:
        return int.from_bytes(macos_libc.sysctl("kern.memorystatus_vm_pressure_level"), "little")
    except OSError:
        return None


def _swap_used() -> int | None:
    try:
        return macos_memory.parse_swapusage(macos_libc.sysctl("vm.swapusage"))
    except (OSError, ValueError):
        return None


# processes ------------------------------------------------------------------------------------------------------------


def become_subreaper() -> bool:
    """There is no such thing here."""
    return False


def _unique_ids(pid: int, zombies_too: int = 0) -> tuple[int, int]:
    return macos_structs.parse_unique_ids(
        macos_libc.pid_info(pid, macos_structs.PIDUNIQIDENTIFIERINFO, zombies_too, macos_structs.UNIQIDENTIFIERINFO_SIZE)
    )


def _snapshot() -> list[Entry]:
    """Every process that lives, of every user."""
    entries = []
    for pid in macos_libc.all_pids():
        try:
            info = macos_structs.parse_short_info(
                macos_libc.pid_info(pid, macos_structs.PIDT_SHORTBSDINFO, 0, macos_structs.SHORTBSDINFO_SIZE)
            )
            own, maker = _unique_ids(pid)
            session = os.getsid(pid)
        except (OSError, ValueError):
            continue
        entries.append(Entry(Process(pid, info.ppid, own, info.name, info.zombie), maker, info.group, session, info.uid))
    return entries


def descendants(root: int) -> list[Process]:
    """The processes below `root` as far as one look shows them: what `root` forked, and theirs."""
    snapshot = _snapshot()
    ids = [entry.process.start for entry in snapshot if entry.process.pid == root]
    return [entry.process for entry in macos_tree.gather(snapshot, ids, None, {root})]


class Tracker:
    """What a supervisor knows of its tree: see `macos_tree`."""

    def __init__(self, root_pid: int) -> None:
        self._family = macos_tree.Family(root_pid)

    def begin(self, main_pid: int) -> None:
        """A new job starts with this process, which leads its session.  Call it before that process is reaped."""
        try:
            main_id = _unique_ids(main_pid, zombies_too=1)[0]
        except (OSError, ValueError):
            main_id = None
        self._family.begin(main_pid, main_id)

    def look(self) -> list[Process]:
        """Every process of the job that lives and could be followed."""
        return self._family.update(_snapshot())


def tree_memory(pids: Sequence[int], exact: bool) -> tuple[int, str]:
    """Bytes that these processes are charged with: the number that Activity Monitor shows, exact or not."""
    total = 0
    for pid in pids:
        try:
            total += macos_structs.parse_footprint(macos_libc.rusage(pid))
        except (OSError, ValueError):
            continue
    return total, "footprint"


def processes_of_run(marker: bytes, lock_path: str, session: int, parent: int) -> list[Process]:
    """The processes of a run whose supervisor was killed, zombies left out.

    Own-user processes that hold `lock_path` open, or were executed with the environment entry `marker`, or are in `session`, and what
    they forked; never the caller, its ancestors, `parent` or what it forked: orphans do not come to it here.
    """
    snapshot = _snapshot()
    spared = macos_tree.ancestors(os.getpid(), snapshot)
    if parent:
        spared |= {parent} | {entry.process.pid for entry in snapshot if entry.process.ppid == parent}
    try:
        holders = set(macos_libc.pids_with_open(lock_path))
    except OSError:
        holders = set()
    uid = os.geteuid()
    evidence = [
        Evidence(
            entry.process.pid,
            holds_lock=entry.process.pid in holders,
            environment=_environment(entry.process.pid),
            in_session=bool(session) and entry.session == session,
        )
        for entry in snapshot
        if entry.uid == uid and entry.process.pid not in spared
    ]
    ours = belonging(evidence, marker)
    ids = [entry.process.start for entry in snapshot if entry.process.pid in ours]
    return [entry.process for entry in macos_tree.gather(snapshot, ids, None, spared) if not entry.process.zombie]


def _environment(pid: int) -> frozenset[bytes]:
    try:
        return macos_structs.parse_environment(macos_libc.process_arguments(pid))
    except OSError:
        return frozenset()


def signal_process(process: Process, sig: int) -> bool:
    """Send a signal to this process.  False: it is gone.  True: it is there, and was signalled if that is allowed."""
    try:
        if _unique_ids(process.pid)[0] != process.start:
            return False
        os.kill(process.pid, sig)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def exit_fd(pid: int) -> int:
    """A descriptor that polls readable when that process has ended.  OSError if it is gone."""
    return macos_libc.kqueue_with(macos_structs.exit_event(pid))


# files ----------------------------------------------------------------------------------------------------------------


def sync_file(fd: int) -> None:
    """fsync that empties the drive's cache too, where the drive can."""
    try:
        fcntl.fcntl(fd, F_FULLFSYNC)
    except OSError as error:
        if error.errno not in CANNOT | {errno.ENOTTY}:
            raise
        os.fsync(fd)


sync_data = sync_file


def rename_noreplace(src: str, dst: str) -> None:
    """Rename, or FileExistsError if `dst` is there.  Atomic where the file system can."""
    try:
        macos_libc.rename_with(src, dst, RENAME_EXCL)
    except OSError as error:
        if error.errno not in CANNOT:
            raise
    else:
        return
    rename_by_link(src, dst)


def rename_exchange(a: str, b: str) -> None:
    """Swap two names that both exist.  NotImplementedError where the file system cannot."""
    try:
        macos_libc.rename_with(a, b, RENAME_SWAP)
    except OSError as error:
        if error.errno in CANNOT:
            raise NotImplementedError(f"the file system of {a} cannot swap two names") from error
        raise


def has_writer(fd: int) -> bool | None:
    """The system cannot say: leases need an entitlement of Apple's."""
    return None


def file_system(path: str) -> FileSystem:
    """What `path` lies on, and whether a spool can live there."""
    try:
        kind, local = macos_structs.parse_statfs(macos_libc.statfs(path))
    except OSError:
        return judge("unknown", False, path)
    return judge(kind, not local, path)
