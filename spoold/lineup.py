"""lineup - the keys of the ready jobs: all in order, and in lines of those that are judged alike.

Owns which jobs a decision has to look at.  Jobs that only locks, memory and the order can keep waiting stand in one line a shape; the others are
special and are judged one by one, but for those that are parked: only an event can make something of them.
Pure, and knows jobs by key only.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence

from spoold.waiting import Key

Shape = tuple[tuple[tuple[str, int | None], ...], int, float]
"""Units of each lock (None: all), bytes of memory, seconds."""


class Lineup:
    """Every change is one method, so that the lines cannot disagree."""

    def __init__(self) -> None:
        self.order: list[Key] = []
        self._special: list[Key] = []
        self._parked: set[Key] = set()
        self._shapes: dict[Shape, list[Key]] = {}
        self._give_ups: list[tuple[float, Key]] = []

    def add(self, key: Key, shape: Shape | None, give_up_at: float | None) -> None:
        """A job without a shape is special."""
        bisect.insort(self.order, key)
        bisect.insort(self._special if shape is None else self._shapes.setdefault(shape, []), key)
        if give_up_at is not None:
            bisect.insort(self._give_ups, (give_up_at, key))

    def drop(self, key: Key, shape: Shape | None, give_up_at: float | None) -> None:
        """With the shape and the give_up that it was added with."""
        _remove(self.order, key)
        if key in self._parked:
            self._parked.remove(key)
        elif shape is None:
            _remove(self._special, key)
        else:
            line = self._shapes[shape]
            _remove(line, key)
            if not line:
                del self._shapes[shape]
        if give_up_at is not None:
            del self._give_ups[bisect.bisect_left(self._give_ups, (give_up_at, key))]

    @property
    def special(self) -> Sequence[Key]:
        """In order, without those that are parked."""
        return self._special

    @property
    def shapes(self) -> Mapping[Shape, Sequence[Key]]:
        """All that are not special, in order, by what they ask for."""
        return self._shapes

    def park(self, key: Key) -> None:
        """A special job that is not looked at until `unpark`."""
        _remove(self._special, key)
        self._parked.add(key)

    def unpark(self, key: Key) -> None:
        """Nothing if it is not parked."""
        if key in self._parked:
            self._parked.remove(key)
            bisect.insort(self._special, key)

    def gave_up(self, now: float) -> list[Key]:
        """Jobs whose `give_up` has passed, the first one first."""
        return [key for _, key in self._give_ups[: self._passed(now)]]

    def next_give_up(self, now: float) -> float | None:
        """The first `give_up` that has not passed."""
        at = self._passed(now)
        return self._give_ups[at][0] if at < len(self._give_ups) else None

    def _passed(self, now: float) -> int:
        return bisect.bisect_right(self._give_ups, now, key=lambda entry: entry[0])


def _remove(keys: list[Key], key: Key) -> None:
    at = bisect.bisect_left(keys, key)
    assert keys[at] == key
    del keys[at]
