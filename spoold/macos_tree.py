"""macos_tree - the processes of a job on a system that gives orphans away.

Owns the reasoning.  macOS has no subreaper: the child of a process that ended has parent 1 at once.  But each process bears the number
of the one that forked it, and that number is never used again, so whoever is looked at while he lives can be followed: from look to look
the members are those of the last look, whom they forked, and who shares their groups and sessions.  What forks twice between two looks
and leaves its session is lost.  Pure: snapshots come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spoold.host_facts import Process


@dataclass(frozen=True, slots=True)
class Entry:
    """One process in a snapshot.  `process.start` is its never repeated number, `forked_by` that of its maker."""

    process: Process
    forked_by: int
    group: int
    session: int
    uid: int


def gather(snapshot: Sequence[Entry], ids: Iterable[int], groups: Iterable[int] | None, spared: Iterable[int]) -> list[Entry]:
    """Everybody who is one of `ids`, was forked by one, is below one, or is in one of `groups` or in the group of somebody found.

    `groups` None: groups and sessions say nothing.  `spared` are pids, groups and sessions that are never ours.
    """
    known, never = set(ids), set(spared)
    trusted = None if groups is None else set(groups) - never
    pids: set[int] = set()
    members: dict[int, Entry] = {}
    found = True
    while found:
        found = False
        for entry in snapshot:
            process = entry.process
            if process.start in members or process.pid in never:
                continue
            kin = process.start in known or entry.forked_by in known or process.ppid in pids
            if kin or (trusted is not None and (entry.group in trusted or entry.session in trusted)):
                members[process.start] = entry
                known.add(process.start)
                pids.add(process.pid)
                if trusted is not None:
                    trusted |= {entry.group, entry.session} - never
                found = True
    return list(members.values())


class Family:
    """One job's processes, remembered from look to look.  `supervisor` is outside of it."""

    def __init__(self, supervisor: int) -> None:
        self._supervisor = supervisor
        self._ids: set[int] = set()
        self._groups: set[int] = set()

    def begin(self, main_pid: int, main_id: int | None) -> None:
        """A new job: its main process leads its group and its session."""
        self._ids = set() if main_id is None else {main_id}
        self._groups = {main_pid}

    def update(self, snapshot: Sequence[Entry]) -> list[Process]:
        """The members that live now.

        Only they are remembered.  A child of somebody who has ended since the last look is there already, and a group's number that
        nobody of ours has any more may soon be a stranger's.
        """
        outside = {self._supervisor, 0, 1}
        for entry in snapshot:
            if entry.process.pid == self._supervisor:
                outside |= {entry.group, entry.session}
        members = gather(snapshot, self._ids, self._groups, outside)
        self._ids = {entry.process.start for entry in members}
        self._groups = {number for entry in members for number in (entry.group, entry.session)} - outside
        return [entry.process for entry in members if not entry.process.zombie]


def ancestors(pid: int, snapshot: Sequence[Entry]) -> set[int]:
    """A process and all above it, by pid."""
    parents = {entry.process.pid: entry.process.ppid for entry in snapshot}
    line = {pid}
    while (pid := parents.get(pid, 0)) > 0 and pid not in line:
        line.add(pid)
    return line
