"""macos_memory - what the numbers that macOS prints about memory mean.

Owns the parsers of `vm_stat`, of host_statistics64 and of vm.swapusage, and the sum that says what can be had: pages that are free, or
hold an unchanged file, or may be thrown away.  Not inactive pages: they hold memory in use.  Not total less used: part of the memory is
in no line.  Pure, so that it is tested against recorded outputs on any system.  Fails: ValueError if an output is not what it should be.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spoold.host_facts import MemoryStatus

FREE: Final = "Pages free"
ACTIVE: Final = "Pages active"
INACTIVE: Final = "Pages inactive"
SPECULATIVE: Final = "Pages speculative"
THROTTLED: Final = "Pages throttled"
WIRED: Final = "Pages wired down"
PURGEABLE: Final = "Pages purgeable"
FILE_BACKED: Final = "File-backed pages"
ANONYMOUS: Final = "Anonymous pages"
OCCUPIED: Final = "Pages occupied by compressor"

VM_INFO64_COUNT: Final = 38
"""32-bit words of the oldest struct vm_statistics64: all that is read here."""
_FIELDS: Final[Mapping[str, int]] = {
    ACTIVE: 4,
    INACTIVE: 8,
    WIRED: 12,
    PURGEABLE: 88,
    SPECULATIVE: 92,
    OCCUPIED: 128,
    THROTTLED: 132,
    FILE_BACKED: 136,
    ANONYMOUS: 140,
}
_FREE_COUNT: Final = 0
_HEADER: Final = re.compile(r"page size of (\d+) bytes")
_LINE: Final = re.compile(r"^([^:]+):\s+(\d+)\.$")


@dataclass(frozen=True, slots=True)
class Pages:
    """Counts of pages by the label that vm_stat gives them, and the size of one."""

    page: int
    counts: Mapping[str, int]

    def bytes(self, label: str) -> int:
        return self.counts.get(label, 0) * self.page

    @property
    def file_backed(self) -> int:
        """Bytes of pages that a file backs.  Where that line is missing: all that can be paged, less what no file backs."""
        if FILE_BACKED in self.counts:
            return self.bytes(FILE_BACKED)
        if not {ACTIVE, INACTIVE, ANONYMOUS} <= self.counts.keys():
            raise ValueError("vm_stat says nothing of file-backed pages")
        return sum(map(self.bytes, (ACTIVE, INACTIVE, SPECULATIVE, THROTTLED))) - self.bytes(ANONYMOUS)

    @property
    def available(self) -> int:
        if FREE not in self.counts:
            raise ValueError("vm_stat says nothing of free pages")
        return self.bytes(FREE) + self.file_backed + self.bytes(PURGEABLE)


def parse_vm_stat(text: str) -> Pages:
    """The output of `vm_stat`.  Whole labels count and unknown ones do not: newer systems have several that end in "free"."""
    lines = text.splitlines()
    header = _HEADER.search(lines[0]) if lines else None
    if header is None:
        raise ValueError("vm_stat gives no page size")
    found = (_LINE.match(line.strip()) for line in lines[1:])
    return Pages(int(header[1]), {match[1].strip('"'): int(match[2]) for match in found if match})


def parse_vm_info64(answer: bytes, page: int) -> Pages:
    """What host_statistics64 fills in, under the labels of vm_stat."""
    if len(answer) < VM_INFO64_COUNT * 4:
        raise ValueError(f"host_statistics64 gave {len(answer)} bytes")
    counts = {label: struct.unpack_from("<I", answer, offset)[0] for label, offset in _FIELDS.items()}
    (free,) = struct.unpack_from("<I", answer, _FREE_COUNT)
    return Pages(page, counts | {FREE: free - counts[SPECULATIVE]})


def parse_swapusage(answer: bytes) -> int:
    """Bytes of swap in use: struct xsw_usage is total, available, used."""
    if len(answer) < 24:
        raise ValueError("vm.swapusage is too short")
    return int(struct.unpack_from("<Q", answer, 16)[0])


def status(memsize: int, pages: Pages, level: int | None, swap_used: int | None) -> MemoryStatus:
    """The box's memory.  `level` is the kernel's own alarm: 1 normal, 2 warning, 4 critical; normal proves nothing."""
    detail: dict[str, int | str] = {
        "free": pages.bytes(FREE),
        "file_backed": pages.file_backed,
        "purgeable": pages.bytes(PURGEABLE),
        "app": pages.bytes(ANONYMOUS) - pages.bytes(PURGEABLE),
        "wired": pages.bytes(WIRED),
        "compressed": pages.bytes(OCCUPIED),
    }
    if level is not None:
        detail["pressure_level"] = level
    if swap_used is not None:
        detail["swap_used"] = swap_used
    return MemoryStatus(memsize, pages.available, detail)
