"""macos_libc - the calls into libSystem that Python does not make.

Owns ctypes.  Every function is one call and its error; what the answers mean is in `macos_structs` and `macos_memory`, which can be
tested anywhere.  Loads nothing when imported.  Fails: OSError with the errno of the call.
"""

from __future__ import annotations

import errno
import functools
import os
from typing import Any, Final

from spoold import macos_memory, macos_structs

PROC_ALL_PIDS: Final = 1
CTL_KERN: Final = 1
KERN_PROCARGS2: Final = 49
HOST_VM_INFO64: Final = 4
MIG_ARRAY_TOO_LARGE: Final = -307
MAX_COUNT: Final = 1024


@functools.cache
def _lib() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _call(name: str, *argtypes: Any) -> Any:
    """A function with its argument types: without them a 64-bit value is cut to 32."""
    import ctypes

    function = getattr(_lib(), name)
    function.argtypes = argtypes
    function.restype = ctypes.c_int
    return function


def _error(*paths: str) -> OSError:
    import ctypes

    code = ctypes.get_errno()
    if len(paths) == 2:
        return OSError(code, os.strerror(code), paths[0], None, paths[1])
    return OSError(code, os.strerror(code), *paths)


def pid_info(pid: int, flavor: int, arg: int, size: int) -> bytes:
    """proc_pidinfo."""
    import ctypes as c

    buffer = c.create_string_buffer(size)
    got = _call("proc_pidinfo", c.c_int, c.c_int, c.c_uint64, c.c_void_p, c.c_int)(pid, flavor, arg, buffer, size)
    if got <= 0:
        raise _error()
    return buffer.raw[:got]


def all_pids() -> list[int]:
    """proc_listpids over all processes; asked again with more room when the answer fills the buffer."""
    import ctypes as c

    call = _call("proc_listpids", c.c_uint32, c.c_uint32, c.c_void_p, c.c_int)
    room = max(1024, call(PROC_ALL_PIDS, 0, None, 0) // 4 + 64)
    while True:
        buffer = (c.c_int * room)()
        got = call(PROC_ALL_PIDS, 0, buffer, room * 4)
        if got <= 0:
            raise _error()
        if got < room * 4:
            return [pid for pid in buffer[: got // 4] if pid > 0]
        room *= 2


def pids_with_open(path: str) -> list[int]:
    """proc_listpidspath: own processes that have this file open."""
    import ctypes as c

    call = _call("proc_listpidspath", c.c_uint32, c.c_uint32, c.c_char_p, c.c_uint32, c.c_void_p, c.c_int)
    room = 4096
    while True:
        buffer = (c.c_int * room)()
        got = call(PROC_ALL_PIDS, 0, os.fsencode(path), 0, buffer, room * 4)
        if got < 0:
            raise _error(path)
        if got < room * 4:
            return [pid for pid in buffer[: got // 4] if pid > 0]
        room *= 2


def rusage(pid: int) -> bytes:
    """proc_pid_rusage, in the version that knows a lifetime's maximum, else in the oldest."""
    import ctypes as c

    call = _call("proc_pid_rusage", c.c_int, c.c_int, c.c_void_p)
    for flavor, size in ((macos_structs.RUSAGE_V4, macos_structs.RUSAGE_V4_SIZE), (macos_structs.RUSAGE_V0, macos_structs.RUSAGE_V0_SIZE)):
        buffer = c.create_string_buffer(size)
        if call(pid, flavor, buffer) == 0:
            return buffer.raw
        error = _error()
        if error.errno != errno.EINVAL:
            break
    raise error


def sysctl(name: str) -> bytes:
    """sysctlbyname."""
    import ctypes as c

    call = _call("sysctlbyname", c.c_char_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_size_t)
    size = c.c_size_t(256)
    buffer = c.create_string_buffer(size.value)
    if call(name.encode("ascii"), buffer, c.byref(size), None, 0) != 0:
        raise _error()
    return buffer.raw[: size.value]


def process_arguments(pid: int) -> bytes:
    """KERN_PROCARGS2: arguments and environment as they were at the exec.  Apple's own binaries show no environment."""
    import ctypes as c

    call = _call("sysctl", c.c_void_p, c.c_uint, c.c_void_p, c.c_void_p, c.c_void_p, c.c_size_t)
    name = (c.c_int * 3)(CTL_KERN, KERN_PROCARGS2, pid)
    size = c.c_size_t(1 << 20)  # ARG_MAX: all that arguments and environment can have together
    buffer = c.create_string_buffer(size.value)
    if call(name, 3, buffer, c.byref(size), None, 0) != 0:
        raise _error()
    return buffer.raw[: size.value]


@functools.cache
def _host_port() -> int:
    import ctypes

    function = _lib().mach_host_self  # each call takes a reference to the port: once is enough
    function.restype = ctypes.c_uint
    return int(function())


def vm_info64() -> bytes:
    """host_statistics64.  The kernel may answer from a cache that was made with a larger count: then that much room is given."""
    import ctypes as c

    call = _call("host_statistics64", c.c_uint, c.c_int, c.c_void_p, c.c_void_p)
    count = c.c_uint(macos_memory.VM_INFO64_COUNT)
    for _ in range(2):
        room = min(count.value, MAX_COUNT)
        buffer = (c.c_uint * room)()
        count = c.c_uint(room)
        code = call(_host_port(), HOST_VM_INFO64, buffer, c.byref(count))
        if code == 0:
            return bytes(buffer)[: count.value * 4]
        if code != MIG_ARRAY_TOO_LARGE:
            break
    raise OSError(errno.EIO, f"host_statistics64 failed with {code}")


def kernel_page_size() -> int:
    """The size of the pages that the kernel counts: under Rosetta not that of the process."""
    import ctypes

    return int(ctypes.c_size_t.in_dll(_lib(), "vm_kernel_page_size").value)


def host_uuid() -> str:
    """gethostuuid: names the box; its host name changes with the network."""
    import ctypes as c

    buffer, wait = c.create_string_buffer(16), (c.c_long * 2)(1, 0)
    if _call("gethostuuid", c.c_void_p, c.c_void_p)(buffer, wait) != 0:
        raise _error()
    return buffer.raw.hex()


def rename_with(src: str, dst: str, flags: int) -> None:
    """renamex_np."""
    import ctypes as c

    if _call("renamex_np", c.c_char_p, c.c_char_p, c.c_uint)(os.fsencode(src), os.fsencode(dst), flags) != 0:
        raise _error(src, dst)


def statfs(path: str) -> bytes:
    """statfs, in the form with 64-bit inode numbers, which on Intel has a name of its own."""
    import ctypes as c

    name = "statfs$INODE64" if hasattr(_lib(), "statfs$INODE64") else "statfs"
    buffer = c.create_string_buffer(macos_structs.STATFS_SIZE)
    if _call(name, c.c_char_p, c.c_void_p)(os.fsencode(path), buffer) != 0:
        raise _error(path)
    return buffer.raw


def kqueue_with(event: bytes) -> int:
    """A kqueue that waits for one event, as a bare descriptor: Python's own object closes its descriptor when it is forgotten."""
    import ctypes as c

    queue = int(_call("kqueue")())
    if queue < 0:
        raise _error()
    if _call("kevent", c.c_int, c.c_char_p, c.c_int, c.c_void_p, c.c_int, c.c_void_p)(queue, event, 1, None, 0, None) < 0:
        error = _error()
        os.close(queue)
        raise error
    os.set_inheritable(queue, False)
    return queue
