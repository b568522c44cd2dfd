"""ledger - jobs that a user took out of ready/ while another job waited for them.

Owns the file .spoold/withdrawn, one line a withdrawal: seconds since the epoch, the number and the NAME.  A file in done/ or refused/ speaks for itself;
this is for those of which nothing is left.  Torn or foreign lines are passed over.  Fails: a full disk costs the memory of it after a restart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from typing import Final

from jobspec.names import is_name
from spoold.model import Ended, Fate
from spoold.store import Store

MOST_BYTES: Final = 1024 * 1024


class Ledger:
    """Withdrawals that somebody still waits for."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, seq: int, name: str, at: float) -> None:
        """Remember a withdrawal."""
        try:
            fd = os.open(self._store.layout.withdrawn, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return
        try:
            os.write(fd, f"{at:.3f} {seq} {name}\n".encode("ascii"))
        except OSError:
            pass
        finally:
            os.close(fd)

    def read(self, asked: Set[str]) -> list[Ended]:
        """The withdrawals of these NAMEs; what nobody asks about any more is forgotten."""
        kept = [ended for ended in self._lines() if ended.name in asked]
        text = "".join(f"{ended.at:.3f} {ended.seq} {ended.name}\n" for ended in kept)
        try:
            if text or os.path.exists(self._store.layout.withdrawn):
                self._store.write_private(self._store.layout.withdrawn, text.encode("ascii"))
        except OSError:
            pass
        return kept

    def _lines(self) -> Iterator[Ended]:
        try:
            with open(self._store.layout.withdrawn, encoding="ascii", errors="replace") as file:
                text = file.read(MOST_BYTES)
        except OSError:
            return
        for line in text.splitlines():
            at, _, job = line.partition(" ")
            seq, _, name = job.partition(" ")
            try:
                moment, number = float(at), int(seq)
            except ValueError:
                continue
            if is_name(name):
                yield Ended(seq=number, name=name, at=moment, how=Fate.WITHDRAWN)
