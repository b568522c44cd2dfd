"""escalation - how the processes of a job are made to end: TERM, grace, KILL, and KILL again until none is left.

Owns one table, phase x event -> (phase, action), and the moments at which time itself is an event.  Used for a run by its supervisor and
for what a killed supervisor left behind by the spooler.  Pure: it signals nobody and reads no clock; times are arguments, in seconds on
one clock that stands still while the box sleeps.  Fails: never; an event that means nothing in a phase changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

LINGER_S: Final = 0.5
"""What the main process leaves behind may finish by itself, as `tee` in `> >(tee log)` does."""
PATIENCE_S: Final = 3.0
"""A process that lives so long after KILL hangs in the kernel or is out of reach."""
FIRST_ROUND_S: Final = 0.001
AGAIN_S: Final = 1.0


class Phase(enum.Enum):
    """How far it has come; the value is the `state` of the run's figures."""

    RUNNING = "running"
    LEFTOVER = "leftover"
    TERM = "term"
    KILL = "kill"
    UNREACHABLE = "unreachable"
    GONE = "gone"


class Event(enum.Enum):
    STOP = "somebody wants it to end"
    MAIN_ENDED = "the main process has ended, others have not"
    TIME = "the phase has lasted as long as it may"
    EMPTY = "no process is left"


class Action(enum.Enum):
    NOTHING = "nothing"
    TERM = "TERM to every process, then CONT: a stopped process keeps TERM pending"
    KILL = "KILL to every process"


TABLE: Final[Mapping[tuple[Phase, Event], tuple[Phase, Action]]] = MappingProxyType(
    {
        (Phase.RUNNING, Event.STOP): (Phase.TERM, Action.TERM),
        (Phase.RUNNING, Event.MAIN_ENDED): (Phase.LEFTOVER, Action.NOTHING),
        (Phase.RUNNING, Event.EMPTY): (Phase.GONE, Action.NOTHING),
        (Phase.LEFTOVER, Event.STOP): (Phase.TERM, Action.TERM),
        (Phase.LEFTOVER, Event.TIME): (Phase.TERM, Action.TERM),
        (Phase.LEFTOVER, Event.EMPTY): (Phase.GONE, Action.NOTHING),
        (Phase.TERM, Event.TIME): (Phase.KILL, Action.KILL),
        (Phase.TERM, Event.EMPTY): (Phase.GONE, Action.NOTHING),
        (Phase.KILL, Event.TIME): (Phase.KILL, Action.KILL),
        (Phase.KILL, Event.EMPTY): (Phase.GONE, Action.NOTHING),
        (Phase.UNREACHABLE, Event.TIME): (Phase.UNREACHABLE, Action.KILL),
        (Phase.UNREACHABLE, Event.EMPTY): (Phase.GONE, Action.NOTHING),
    }
)
"""What is not in it changes nothing.  KILL becomes UNREACHABLE by the rounds it has taken, see `step`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """Where one run stands.  `due` is when TIME is to be told; None: time changes nothing."""

    grace_s: float
    phase: Phase = Phase.RUNNING
    since: float = 0.0
    due: float | None = None
    rounds: int = 0

    @property
    def gone(self) -> bool:
        return self.phase is Phase.GONE

    @property
    def stopping(self) -> bool:
        """Its processes have been told to end."""
        return self.phase in (Phase.TERM, Phase.KILL, Phase.UNREACHABLE)

    def step(self, event: Event, now: float) -> tuple[Escalation, Action]:
        """What this event makes of it, and what to do to every process of the run.  TIME before it is due is no event."""
        entry = TABLE.get((self.phase, event))
        if entry is None or (event is Event.TIME and (self.due is None or now < self.due)):
            return self, Action.NOTHING
        phase, action = entry
        since, rounds = (self.since, self.rounds + 1) if phase is self.phase else (now, 0)
        if phase is Phase.KILL and rounds and now - since >= PATIENCE_S:
            phase, since = Phase.UNREACHABLE, now
        return Escalation(grace_s=self.grace_s, phase=phase, since=since, rounds=rounds, due=self._due(phase, now, rounds)), action

    def _due(self, phase: Phase, now: float, rounds: int) -> float | None:
        match phase:
            case Phase.LEFTOVER:
                return now + LINGER_S
            case Phase.TERM:
                return now + self.grace_s
            case Phase.KILL:
                # the first rounds follow each other closely: a tree that forks anew all the time is caught between two forks
                return now + min(AGAIN_S, FIRST_ROUND_S * 2.0 ** min(rounds // 4, 10))
            case Phase.UNREACHABLE:
                return now + AGAIN_S
            case _:
                return None


def named(name: str, pid: int) -> str:
    """A process in a `leftover` list.  Its name is its own choice and may hold anything, so it is shown as plain ASCII."""
    return f"{ascii(name)[1:-1]} (pid {pid})"
