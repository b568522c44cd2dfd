"""waiting - who waits for whom: names and globs, and the indexes that tell whom an event concerns.

Owns the meaning of a pattern, and what was last found about each waiting job, which is dropped as soon as anything happens that may change it.
Pure, and knows jobs by key and names only.  What a wait has come to is judged by `dependencies`.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

MOST_PATTERNS: Final = 4096

Key = tuple[int, str]
"""Order in the queue: by number, ties by name."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the `after`s of a ready job have come to: nobody is left to wait for, or why it can never run."""

    satisfied: bool
    refusal: str | None = None


@functools.lru_cache(MOST_PATTERNS)
def is_glob(pattern: str) -> bool:
    return any(c in pattern for c in "*?[")


def matches(pattern: str, name: str) -> bool:
    return _matcher(pattern)(name) is not None


@functools.lru_cache(MOST_PATTERNS)
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(fnmatch.translate(pattern)).match


class Waiting:
    """The ready jobs that wait for others."""

    def __init__(self) -> None:
        self._by_name: dict[str, set[Key]] = {}
        self._globs: dict[Key, tuple[str, ...]] = {}
        self._standing: dict[Key, Standing] = {}
        self.acyclic: set[Key] = set()
        """Jobs from which no cycle can be reached: found by a search, true until somebody comes that one of the others waits for."""

    def add(self, key: Key, patterns: Iterable[str]) -> None:
        globs = []
        for pattern in patterns:
            if is_glob(pattern):
                globs.append(pattern)
            else:
                self._by_name.setdefault(pattern, set()).add(key)
        if globs:
            self._globs[key] = tuple(globs)

    def drop(self, key: Key, patterns: Iterable[str]) -> None:
        self._globs.pop(key, None)
        self._standing.pop(key, None)
        self.acyclic.discard(key)
        for pattern in patterns:
            waiting = self._by_name.get(pattern)
            if waiting is not None:
                waiting.discard(key)
                if not waiting:
                    del self._by_name[pattern]

    def asks_for(self, name: str) -> bool:
        """Some job waits for this very NAME."""
        return name in self._by_name

    @property
    def globbing(self) -> Iterable[Key]:
        return self._globs.keys()

    def asking(self, name: str) -> set[Key]:
        """The jobs that name this NAME, or may mean it by a glob."""
        return self._by_name.get(name, set()) | {key for key, globs in self._globs.items() if _any_matches(globs, name)}

    def is_awaited(self, key: Key) -> bool:
        """Some job waits for this one while it is live: a glob means only what is placed earlier."""
        return key[1] in self._by_name or any(other > key and _any_matches(globs, key[1]) for other, globs in self._globs.items())

    def standing(self, key: Key) -> Standing | None:
        return self._standing.get(key)

    def note(self, key: Key, standing: Standing) -> None:
        self._standing[key] = standing

    def touched(self, name: str) -> Iterator[Key]:
        """This NAME is live, ended or neither in another way than before: those that have to be judged again."""
        for key in self._by_name.get(name, ()):
            if self._standing.pop(key, None) is not None:
                yield key
        for key, globs in self._globs.items():
            if key in self._standing and _any_matches(globs, name):
                del self._standing[key]
                yield key


def _any_matches(globs: tuple[str, ...], name: str) -> bool:
    return any(matches(glob, name) for glob in globs)
