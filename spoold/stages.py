"""stages - the directories of a spool that a job goes through, and who may go where.

Owns `MOVES`, the one table of the spooler's own moves.  Pure, and light: the command line needs it without the rest of the model.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class Stage(enum.Enum):
    """A directory of the spool; its value is the directory's name."""

    INCOMING = "incoming"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"


MOVES: Final[Mapping[Stage, frozenset[Stage]]] = MappingProxyType(
    {
        Stage.INCOMING: frozenset({Stage.READY, Stage.REFUSED}),
        Stage.READY: frozenset({Stage.RUNNING, Stage.REFUSED}),
        Stage.RUNNING: frozenset({Stage.DONE, Stage.REFUSED, Stage.READY}),
        Stage.DONE: frozenset(),
        Stage.REFUSED: frozenset(),
    }
)
"""The spooler's own moves.  Users may move what they like; what that means is in the design's table."""
