"""dates - the box's clock as it can be relied on: it may be set back or forward, and what happened later still has the later date.

Owns the last dates that were given and the size of a step of the clock.  Pure: the clock's date and the time awake are arguments.  Fails: never.
"""

from __future__ import annotations

from typing import Final

STEP_S: Final = 1.0
"""A smaller difference is the clock being slewed, or a slow turn."""
BELIEVED_S: Final = 26 * 3600.0
"""A date that is further ahead is one of a clock that was wrong: it must not be handed on."""


class Dates:
    """What happens now is never dated before what happened already."""

    def __init__(self) -> None:
        self._accepted = float("-inf")
        self._latest = float("-inf")
        self._offset: float | None = None

    def happened(self, at: float) -> None:
        """Something is on record with this date."""
        self._latest = max(self._latest, at)

    def was_accepted(self, at: float) -> None:
        """A job that is live was accepted at this date."""
        self._accepted = max(self._accepted, at)
        self.happened(at)

    def date(self, now: float) -> float:
        """The date of what happens now."""
        if self._latest - now > BELIEVED_S:
            self._latest = now
        return max(now, self._latest)

    def ended(self, at: float) -> float:
        """The date of an end that was just seen: whoever was accepted before was accepted while it was live."""
        if STEP_S <= self._accepted - at <= BELIEVED_S:
            at = self._accepted
        self.happened(at)
        return at

    def step(self, now: float, tick: float) -> float:
        """By how much the clock has been set since the last call, in seconds; 0 if it has not.  Sleep is a step forward, for it is no time awake."""
        offset, before = now - tick, self._offset
        self._offset = offset
        return 0.0 if before is None or abs(offset - before) < STEP_S else offset - before
