"""changes - what is changed in a process under test before the product runs in it: constants, the clock, the boot, failpoints.

Owns the list of what can be changed.  Light, and importable under `python -I -S`, for each launcher loads it too.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from typing import Any


def change(changes: dict[str, Any]) -> None:
    """In a process under test: `set` gives constants other values, `shift` is a file with the seconds by which the clock is wrong, `boot` names the boot,
    `old_disk`: the file system knows no rename that replaces nothing, `power` has the power
    fail, `plan` arms failpoints."""
    for path, value in changes.get("set", {}).items():
        module, _, name = path.rpartition(".")
        if module in sys.modules or not changes.get("launcher"):
            where = __import__(module, fromlist=["_"])
            assert hasattr(where, name), f"{path} is no more"
            setattr(where, name, value)
    if changes.get("shift"):
        _shift_clock(changes["shift"])
    if changes.get("boot"):
        from spoold import host

        host.boot_id = lambda: changes["boot"]  # type: ignore[assignment]
    if changes.get("old_disk"):
        from spoold import host_linux

        host_linux._renameat2 = _unknown
    if changes.get("power"):
        import powercut

        powercut.arm(changes["power"])
    if changes.get("plan"):
        import failpoints

        failpoints.arm(changes["plan"])


def _unknown(src: str, dst: str, flags: int) -> None:
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), src, None, dst)


def _shift_clock(path: str) -> None:
    import mmap
    import struct

    with open(path, "r+b") as file:
        shift = mmap.mmap(file.fileno(), 8)
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + struct.unpack("d", shift[:8])[0]
    time.time_ns = lambda: real_ns() + int(struct.unpack("d", shift[:8])[0] * 1e9)
