"""host_linux - what spoold asks of a Linux kernel.

Owns the clock, the names of box and boot, renameat2, leases and kinds of file systems; `linux_processes` and `linux_memory` are its
other parts.  Standard library only and importable under `python -I -S`; ctypes is loaded when first needed.  Never decides what to do
with an answer.  Fails: as each function says.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from typing import Any, Final

from spoold import linux_memory
from spoold.host_facts import FileSystem, MemoryStatus, judge
from spoold.host_rename import CANNOT, rename_by_link

RENAME_NOREPLACE: Final = 1
RENAME_EXCHANGE: Final = 2
AT_FDCWD: Final = -100
SYS_RENAMEAT2: Final = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347, "armv7l": 382, "i686": 353}

NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "orangefs", "pvfs2"}
    | {"gfs2", "ocfs2", "coda", "davfs", "virtiofs", "vboxsf", "prl_fs", "vmhgfs"}
)

_libc: Any = None


def _c() -> Any:
    global _libc
    if _libc is None:
        import ctypes

        _libc = ctypes.CDLL(None, use_errno=True)
    return _libc


def _errno() -> int:
    import ctypes

    return ctypes.get_errno()


def awake() -> float:
    """Seconds awake, from an arbitrary start: stands still while the box sleeps."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def boot_id() -> str:
    """Names this boot of the box; a step of the clock does not change it."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def host_id() -> str:
    """Names the box."""
    return os.uname().nodename


def memory_status() -> MemoryStatus:
    """The box's memory now.  OSError or ValueError if it cannot be read."""
    return linux_memory.read()


def sync_file(fd: int) -> None:
    os.fsync(fd)


def sync_data(fd: int) -> None:
    os.fdatasync(fd)


def _renameat2(src: str, dst: str, flags: int) -> None:
    libc, source, target = _c(), os.fsencode(src), os.fsencode(dst)
    if hasattr(libc, "renameat2"):
        done = libc.renameat2(AT_FDCWD, source, AT_FDCWD, target, flags)
    elif (number := SYS_RENAMEAT2.get(os.uname().machine)) is not None:
        done = libc.syscall(number, AT_FDCWD, source, AT_FDCWD, target, flags)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), src, None, dst)
    if done != 0:
        code = _errno()
        raise OSError(code, os.strerror(code), src, None, dst)


def rename_noreplace(src: str, dst: str) -> None:
    """Rename, or FileExistsError if `dst` is there.  Atomic where the file system can."""
    try:
        _renameat2(src, dst, RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in CANNOT:
            raise
    else:
        return
    rename_by_link(src, dst)


def rename_exchange(a: str, b: str) -> None:
    """Swap two names that both exist.  NotImplementedError where the file system cannot."""
    try:
        _renameat2(a, b, RENAME_EXCHANGE)
    except OSError as error:
        if error.errno in CANNOT:
            raise NotImplementedError(f"the file system of {a} cannot swap two names") from error
        raise


def has_writer(fd: int) -> bool | None:
    """Whether anybody has the file of this read-only descriptor open for writing; None: the system cannot say."""
    try:
        # a writer that opens meanwhile makes the kernel send a signal, and the default one, SIGIO, kills
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def file_system(path: str) -> FileSystem:
    """What `path` lies on, and whether a spool can live there."""
    real = os.path.realpath(path)
    kind = "unknown"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = linux_memory.parse_mountinfo(file.read())
    except OSError:
        return judge(kind, False, path)
    longest = -1
    for mount in mounts:
        inside = mount.point == "/" or real == mount.point or real.startswith(mount.point + "/")
        if inside and len(mount.point) >= longest:  # of two at one point the later hides the earlier
            longest, kind = len(mount.point), mount.kind
    return judge(kind, kind in NETWORK, path)
