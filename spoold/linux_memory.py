"""linux_memory - how much memory a Linux box has and how much of it can be had.

Owns the arithmetic: MemAvailable, bounded by every memory cgroup (v2 and v1) that this process is in.  Inside a container the limit of
the cgroup is the box.  Reads small files of /proc and /sys, nothing else.  Fails: `read` raises OSError or ValueError if /proc/meminfo
cannot be read; a cgroup that cannot be read bounds nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from spoold.host_facts import MemoryStatus

NO_LIMIT_V1: Final = 1 << 60
"""v1 has no word for "no limit": it is a number just under 2**63, rounded to pages."""
MEMINFO: Final = frozenset({"MemTotal", "MemFree", "MemAvailable", "Active(file)", "Inactive(file)", "SwapTotal", "SwapFree"})


class Bound(NamedTuple):
    """What one cgroup allows: its limit, and what can still be had below it."""

    limit: int
    available: int
    directory: str


def parse_meminfo(text: str) -> dict[str, int]:
    """What is needed of /proc/meminfo, in bytes."""
    table = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in MEMINFO:
            table[name] = int(rest.removesuffix(" kB")) * 1024
    if not {"MemTotal", "MemFree"} <= table.keys():
        raise ValueError("/proc/meminfo does not say how much memory there is")
    return table


def available_of(meminfo: Mapping[str, int]) -> int:
    """MemAvailable; on kernels before 3.14 what it stands for, without the watermarks."""
    known = meminfo.get("MemAvailable")
    return meminfo["MemFree"] + meminfo.get("Active(file)", 0) + meminfo.get("Inactive(file)", 0) if known is None else known


def unescape(field: str) -> str:
    """A field of mountinfo: space, tab, newline and backslash are octal."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field


class Mount(NamedTuple):
    """One line of mountinfo."""

    root: str
    point: str
    kind: str
    options: str


def parse_mountinfo(text: str) -> list[Mount]:
    mounts = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if dash and len(fields) >= 6:
            mounts.append(Mount(unescape(fields[3]), unescape(fields[4]), tail[0], tail[2] if len(tail) > 2 else ""))
    return mounts


def chains(cgroup: str, mounts: list[Mount]) -> Iterator[tuple[int, str, str]]:
    """(version, directory, top) of each memory hierarchy: this process is in `directory`, which lies in or is `top`."""
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and "memory" not in controllers.split(","):
            continue
        for mount in mounts:
            if mount.kind != ("cgroup2" if version == 2 else "cgroup"):
                continue
            if version == 1 and "memory" not in mount.options.split(","):
                continue
            below = "/" + os.path.relpath(path, mount.root) if path.startswith(mount.root) else "/"
            # a namespace shows groups outside of it as "/../x": what can be seen of them is the mount itself
            yield version, mount.point if "/.." in below or below == "/." else mount.point + below, mount.point
            break


def _number(directory: str, name: str) -> int | None:
    try:
        with open(f"{directory}/{name}", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None  # "max", or a group without that control


def _stat(directory: str) -> dict[str, int]:
    try:
        with open(f"{directory}/memory.stat", encoding="ascii") as file:
            return {name: int(value) for name, _, value in (line.partition(" ") for line in file)}
    except (OSError, ValueError):
        return {}


def bound(version: int, directory: str) -> Bound | None:
    """What one cgroup allows; None if it has no limit.

    Its cache is charged to it and given back on demand, so clean file pages and slabs count as available, as they do in MemAvailable.
    """
    if version == 2:
        limits = [n for n in (_number(directory, "memory.max"), _number(directory, "memory.high")) if n is not None]
        usage, prefix = "memory.current", ""
    else:
        limits = [n for n in (_number(directory, "memory.limit_in_bytes"),) if n is not None and n < NO_LIMIT_V1]
        usage, prefix = "memory.usage_in_bytes", "total_"
    used = _number(directory, usage) if limits else None
    if used is None:
        return None
    limit, stat = min(limits), _stat(directory)
    cache = sum(stat.get(name, 0) for name in (f"{prefix}inactive_file", f"{prefix}active_file", "slab_reclaimable"))
    return Bound(limit, max(0, min(limit, limit - used + cache)), directory)


def bounds(cgroup: str, mounts: list[Mount]) -> list[Bound]:
    """Every limit on the way from this process's cgroups up to what can be seen."""
    found = []
    for version, directory, top in chains(cgroup, mounts):
        while True:
            here = bound(version, directory)
            if here is not None:
                found.append(here)
            if directory == top or not directory.startswith(top):
                break
            directory = os.path.dirname(directory)
    return found


def combine(meminfo: Mapping[str, int], limits: list[Bound]) -> MemoryStatus:
    """The box: the machine, or the tightest cgroup if that is smaller."""
    total, available = meminfo["MemTotal"], available_of(meminfo)
    detail: dict[str, int | str] = {
        "mem_total": total,
        "mem_available": available,
        "swap_total": meminfo.get("SwapTotal", 0),
        "swap_free": meminfo.get("SwapFree", 0),
    }
    for limit in limits:
        available = min(available, limit.available)
        if limit.limit < total:
            total = limit.limit
            detail["cgroup"] = limit.directory
    return MemoryStatus(total, available, detail)


_mounts: list[Mount] | None = None


def read() -> MemoryStatus:
    """The state of memory now."""
    global _mounts
    with open("/proc/meminfo", encoding="ascii") as file:
        meminfo = parse_meminfo(file.read())
    try:
        if _mounts is None:  # the cgroup mounts of a box do not change under a running process
            with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
                _mounts = [mount for mount in parse_mountinfo(file.read()) if mount.kind in ("cgroup", "cgroup2")]
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            limits = bounds(file.read(), _mounts)
    except OSError:
        limits = []
    return combine(meminfo, limits)
