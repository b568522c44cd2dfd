"""adoption - what becomes of a run whose supervisor cannot be asked: it was another spooler's, or it has died.

Owns the watch over such a supervisor, by S and by its exit, and the verdict when it is gone, which the disk gives: an end record, no start
record, or a start without an end, whose processes are then looked for.  Never takes S that cannot be read for S that is free.
Fails: OSError if the record cannot be read; nothing has changed then, and the next call tries again.
"""

from __future__ import annotations

from typing import Final

from spoold import host, slots
from spoold.events import Ended, Failed
from spoold.lockfile import is_locked
from spoold.member import Member, State
from spoold.orphans import BOX_WENT_DOWN, KILLED, Orphans, lost
from spoold.records import StartRecord

SOON_S: Final = 0.01
LATER_S: Final = 1.0
NEVER_STARTED: Final = "its supervisor ended before the job was started"


def lives(member: Member) -> bool:
    """Its supervisor holds S, or nobody can say."""
    try:
        return is_locked(member.slot.supervisor_lock)
    except OSError:
        return True


def watch(member: Member, start: StartRecord) -> None:
    """Begin to watch a supervisor that another spooler's launcher forked."""
    member.state, member.run, member.pause_s = State.WATCHED, start.run, LATER_S
    try:
        member.exit_fd = host.exit_fd(start.supervisor)
        member.pid = start.supervisor
    except ProcessLookupError:
        pass  # S may still be held: by a supervisor that another pid namespace numbers
    except OSError:
        member.pid = start.supervisor
    if not lives(member):
        # only S that is held after the descriptor was opened proves that the pid had not been recycled before
        member.stop_watching()
        member.pid = 0
        member.pause_s = 0.0


def lose(member: Member) -> None:
    """Its socket has closed although it has a run: it is dying, and its S will be free in a moment."""
    member.state, member.pause_s = State.WATCHED, SOON_S


def look(member: Member, *, boot: str, launcher: int, refused: str | None, now: float) -> Ended | Failed | None:
    """The verdict, when there is one.  `refused` is the launcher's reason why there never was a supervisor."""
    if member.state is State.WATCHED:
        if lives(member):
            return None
        # no descriptor says it again if the record cannot be read now
        member.stop_watching()
        member.pause_s = LATER_S
        record = slots.read_record(member.record)
        start = record.start
        if start is None or not record.live or start.run != member.run:
            return Failed(member.run, refused or NEVER_STARTED)
        if record.end is not None:
            return _end(member, Ended(member.run, member.number, record.end))
        if start.boot != boot:
            return _end(member, Ended(member.run, member.number, lost(start, record.figures, BOX_WENT_DOWN, [])))
        member.state, member.orphans = State.ORPHANED, Orphans(member.slot, start, record.figures)
    orphans = member.orphans
    if orphans is None or now < orphans.due or not orphans.look(launcher, now):
        return None
    record = slots.read_record(member.record)
    assert record.start is not None
    member.orphans = None
    why = KILLED if member.fault is None else f"its supervisor failed: {member.fault.strip().splitlines()[-1]}"
    return _end(member, Ended(member.run, member.number, lost(record.start, record.figures, why, orphans.names)))


def _end(member: Member, ended: Ended) -> Ended:
    member.state = State.ENDED
    return ended
