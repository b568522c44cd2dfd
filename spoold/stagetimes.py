"""stagetimes - the times of the stages' directories: which has changed since it was listed, and by whom.

Owns when a directory is listed again: when its time has changed, and a large one not too often.  Two clocks, as in `pickup`: `tick` counts time awake.
Never lists one itself.  Fails: OSError from `if_changed` if a directory cannot be asked for its time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from spoold import host
from spoold.layout import Layout
from spoold.model import Stage

SCAN_SHARE: Final = 100
"""A scan that took so long is not repeated before a hundred times that has passed."""
YOUNG_NS: Final = 2_000_000_000
"""A directory that changed less than this ago is listed again: a change within the clock's grain leaves the same time."""


class StageTimes:
    """What is known of the stages as directories."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._listed: dict[Stage, int] = {}
        self._next_list: dict[Stage, float] = {}
        self._ready: int | None = None

    def forget(self) -> None:
        """Anything may have changed: list each again."""
        self._listed.clear()

    def if_changed(self, stage: Stage, tick: float, scan: Callable[[], object]) -> None:
        """Scan a directory if its time has changed since the last scan."""
        mtime = os.stat(self._layout.stage(stage)).st_mtime_ns
        if self._listed.get(stage) == mtime or tick < self._next_list.get(stage, 0.0):
            return
        began = host.awake()
        scan()
        self._next_list[stage] = tick + SCAN_SHARE * (host.awake() - began)
        self._listed[stage] = mtime if time.time_ns() - mtime > YOUNG_NS else -1

    def note_ready(self) -> None:
        """At the end of a turn: what changed ready/ until now is our own work, or known from an event."""
        self._ready = self._time_of_ready()

    @property
    def ready_was_touched(self) -> bool:
        """Somebody changed ready/ after the last turn, and the event may still be on its way."""
        return self._time_of_ready() != self._ready

    def _time_of_ready(self) -> int | None:
        try:
            return os.stat(self._layout.stage(Stage.READY)).st_mtime_ns
        except OSError:
            return None
