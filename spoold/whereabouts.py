"""whereabouts - where the file of a run lies, found again by whoever comes after a spooler that died.

Owns the match between a start record and a file: by the place that it was given, else by the claim that its acceptance left in its trace, so that a
file of the same NAME and text from another life is never taken for it.  Also undoes the halves of a rename on file systems where a rename that replaces
nothing takes two steps.  Reads, and removes only a second name of one file.  Fails: OSError if a directory of the spool cannot be listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobspec import trace
from jobspec.names import BadNameError, parse_file_name
from spoold import host
from spoold.archive import Archive, snapshot
from spoold.files import Ident
from spoold.model import Stage
from spoold.records import StartRecord
from spoold.store import Store, held_name

Steps = Sequence[Mapping[str, Any]]
LIVE: Final = (Stage.READY, Stage.INCOMING, Stage.RUNNING)
ENDED: Final = (Stage.DONE, Stage.REFUSED)


@dataclass(frozen=True, slots=True)
class Found:
    """A run's file: the stage and the name there, None if it is nowhere.  `accounted`: a file carries this run's end, and nothing is left to do."""

    stage: Stage | None
    entry: str
    accounted: bool


class Whereabouts:
    """One look at a spool on which no spooler has worked yet."""

    def __init__(self, store: Store, archive: Archive) -> None:
        self._store = store
        self._archive = archive
        archive.refresh()

    def of(self, start: StartRecord, newer: Iterable[StartRecord], *, same_boot: bool) -> Found:
        """The file of this run.  `newer` are later runs that were not retired either: what lies in running/ is theirs."""
        newer = tuple(newer)
        path = self._store.layout.entry(Stage.RUNNING, start.file)
        if os.path.lexists(path) and start.file not in {one.file for one in newer}:
            steps = self._steps(Stage.RUNNING, start.file)
            # queued again after this run, and on its way into the next
            return Found(Stage.RUNNING, start.file, _carries(steps, start) and steps[-1].get("step") != "ended")
        candidates = list(self._candidates(start.name))
        for stage, entry in candidates:
            if _carries(self._steps(stage, entry), start):
                return Found(stage, entry, True)
        if any(_carries(_history(one), start) for one in newer):
            return Found(None, "", True)
        for stage, entry in candidates:
            if (stage is Stage.RUNNING and entry == start.file) or not self._belongs(stage, entry, start, same_boot):
                continue
            return Found(stage, entry, False)
        return Found(None, "", False)

    def published(self, claim: str, live: Iterable[StartRecord]) -> bool:
        """The job of this claim was accepted, only the claim's removal is missing.  `live`: a run may be all that is left of a job."""
        token, _, entry = claim.partition("~")
        try:
            name = parse_file_name(held_name(entry) or entry).name
        except BadNameError:
            return False
        histories = [self._steps(stage, found) for stage, found in self._candidates(name)]
        return any(token in _claims(steps) for steps in (*histories, *map(_history, live)))

    def _candidates(self, name: str) -> Iterator[tuple[Stage, str]]:
        """Every file of this NAME."""
        for stage in LIVE:
            for entry in self._store.stage_entries(stage):
                try:
                    found = parse_file_name(held_name(entry) or entry).name
                except BadNameError:
                    continue
                if found == name:
                    yield stage, entry
        for stage in ENDED:
            for entry in self._archive.entries_of(stage, name):
                yield stage, entry

    def _data(self, stage: Stage, entry: str) -> bytes:
        try:
            return self._store.open_own(self._store.layout.entry(stage, entry)).data or b""
        except OSError:
            return b""

    def _steps(self, stage: Stage, entry: str) -> Steps:
        return trace.read(self._data(stage, entry))

    def _belongs(self, stage: Stage, entry: str, start: StartRecord, same_boot: bool) -> bool:
        data = self._data(stage, entry)
        claims, wanted = _claims(trace.read(data)), _claims(_history(start))
        if claims and claims[-1:] == wanted[-1:]:
            return True
        # after a power cut the file may be as it was before it was accepted; else such a one was dropped since
        return not same_boot and stage in LIVE and claims == wanted[:-1] and trace.split(data)[0] == trace.split(snapshot(start))[0]

    # half a rename ----------------------------------------------------------------------------------------------------

    def finish_moves(self) -> list[str]:
        """Remove the earlier of two names that one file has, where a crash between link and unlink can have left both; what was removed.

        Where the system renames in one step, two names are the work of a user, and stay.
        """
        linked: dict[tuple[int, int], list[str]] = {}
        layout = self._store.layout
        for directory in (layout.stage(Stage.INCOMING), layout.stage(Stage.READY), layout.claims, layout.stage(Stage.RUNNING)):
            for entry in self._store.entries(directory):
                ident = self._linked(f"{directory}/{entry}")
                if ident is not None:
                    linked.setdefault((ident.dev, ident.ino), []).append(f"{directory}/{entry}")
        if not linked or self._renames_at_once():
            return []
        for stage in (Stage.REFUSED, Stage.DONE):
            for entry, inode in self._store.inodes(stage):
                for (_, known), paths in linked.items():
                    if inode == known:
                        paths.append(layout.entry(stage, entry))
        waiting, done = (layout.stage(Stage.INCOMING), layout.stage(Stage.READY)), layout.stage(Stage.DONE)
        earlier = [
            path
            for paths in linked.values()
            for path in paths[:-1]
            # no move of ours goes that way: somebody linked a job that has ended, to have it run again
            if not (os.path.dirname(path) in waiting and os.path.dirname(paths[-1]) == done)
        ]
        for path in earlier:
            os.unlink(path)
        return earlier

    def _linked(self, path: str) -> Ident | None:
        try:
            found = os.stat(path, follow_symlinks=False)
        except OSError:
            return None
        return Ident.of(found) if found.st_nlink > 1 else None

    def _renames_at_once(self) -> bool:
        one, other = self._store.write_new(b""), self._store.write_new(b"")
        try:
            host.rename_exchange(one, other)
        except NotImplementedError:
            return False
        finally:
            self._store.discard(one)
            self._store.discard(other)
        return True


def _history(start: StartRecord) -> Steps:
    return trace.read(snapshot(start))


def _claims(steps: Steps) -> list[str]:
    """The claims of all acceptances: they name a job's lives."""
    return [str(step.get("claim", "")) for step in steps if step.get("step") == "accepted"]


def _carries(steps: Steps, start: StartRecord) -> bool:
    """The end of this very run is among these steps: run numbers may begin anew, claims do not."""
    wanted = _claims(_history(start))[-1:]
    claim: list[str] = []
    for step in steps:
        if step.get("step") == "accepted":
            claim = [str(step.get("claim", ""))]
        elif step.get("step") == "ended" and step.get("run") == start.run and claim in (wanted, []):
            return True
    return False
