"""usage - what the processes of one run use: memory now and at its peak, processor time.

Owns when to look and how exactly, so that looking costs next to nothing: often at first, then once a second, less often where a look is
expensive.  Reads nothing but what `host` offers.  Fails: never; what cannot be read counts nothing.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from typing import Final

from spoold import host

FIRST_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5)
THEN_S: Final = 1.0
SELDOM_S: Final = 15.0
SHARE: Final = 100
"""A look that costs c is followed by none for SHARE * c."""
EXACT_SHARE: Final = 200
"""The same for counting shared pages once, which has the kernel walk through all of them."""
MAXRSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


class Usage:
    """Figures of one run, from its spawn on."""

    def __init__(self, now: float) -> None:
        self.memory = 0
        self.kind = "rss"
        self.processes = 1
        self.cpu_s = 0.0
        self.due = now + FIRST_S[0]
        self._peak = 0
        self._largest_reaped = 0
        self._looks = 0
        self._exact_at = now
        self._shared = 1.0

    @property
    def peak(self) -> int:
        """The most that was seen, or that one process alone reports of itself.

        A spawned process starts with the size of its supervisor as its own peak: a report that says no more than that says nothing.
        """
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return max(self._peak, self._largest_reaped * MAXRSS_UNIT if self._largest_reaped > own else 0)

    def reaped(self, of: resource.struct_rusage) -> None:
        """A process has ended; `of` counts it and what it has waited for."""
        self.cpu_s += of.ru_utime + of.ru_stime
        self._largest_reaped = max(self._largest_reaped, of.ru_maxrss)

    def look(self, tree: Sequence[host.Process], now: float) -> None:
        """Measure.  `now` is when finding the tree began."""
        pids = [process.pid for process in tree]
        self.processes = len(pids)
        self.memory, self.kind = host.tree_memory(pids, False)
        walk_s = self._count_shared_once(pids) if len(pids) > 1 and self.kind == "rss" else 0.0
        self._peak = max(self._peak, self.memory)
        interval = FIRST_S[self._looks] if self._looks < len(FIRST_S) else THEN_S
        self._looks += 1
        end = host.awake()
        self.due = end + min(SELDOM_S, max(interval, SHARE * (end - now - walk_s)))

    def _count_shared_once(self, pids: Sequence[int]) -> float:
        """Processes that share a model would count it once each: the exact count, or the cheap one scaled as the last exact one was.

        What it took, in seconds: that has a limit of its own.
        """
        begin = end = host.awake()
        if begin >= self._exact_at:
            exact, kind = host.tree_memory(pids, True)
            end = host.awake()
            self._exact_at = end + EXACT_SHARE * (end - begin)
            self._shared = exact / self.memory if kind == "pss" and 0 < exact < self.memory else 1.0
        if self._shared < 1.0:
            self.memory, self.kind = int(self.memory * self._shared), "pss"
        return end - begin
