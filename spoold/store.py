"""store - list, read, move, record: the only module that renames a job.

Owns every change of a stage directory.  A move never replaces a name that exists; a file is written whole under a private name, synced, and only then
given its place.  Knows nothing of what a file says.  Fails: FileNotFoundError is a race with a user and costs that one move; any other OSError is the
spool itself and is passed up, with everything left where it was.  What cannot be synced after its move has been moved all the same: see `unsynced`.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections.abc import Iterator
from typing import Final

from jobspec.spec import MAX_FILE_BYTES
from spoold import host
from spoold.files import OWN_LIMIT, Ident, Opened, open_file
from spoold.layout import HOLD, NUMBERED_LINKS, WHY, Layout
from spoold.stages import MOVES, Stage

PRIVATE_MODE: Final = 0o700
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""The disk says no: nothing that is written now can be kept, renames may still work."""


class StageGoneError(OSError):
    """A directory of the spool is not there: the spool's trouble, and no race about the file."""

    def __init__(self, directory: str) -> None:
        super().__init__(errno.ENOENT, "the directory is not there", directory)


class ChangedError(Exception):
    """The file is not any more what it was when it was read."""


class Store:
    """One spool's directories.  `durable`: sync what has to survive a power cut."""

    def __init__(self, layout: Layout, *, durable: bool = True) -> None:
        self.layout = layout
        self.durable = durable
        self.unsynced: str | None = None
        """The directory that could not be synced after a move, and why: a power cut now might undo it."""
        self._counter = itertools.count()
        self._numbers: dict[tuple[Stage, str], int] = {}

    # making and reading -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        """All directories and links of a spool, private to their owner; harmless if they are there."""
        for path in (self.layout.root, *(self.layout.stage(stage) for stage in Stage), self.layout.log):
            os.makedirs(path, mode=PRIVATE_MODE, exist_ok=True)
        self.make_private()
        for link, target in NUMBERED_LINKS.items():
            try:
                os.symlink(target, f"{self.layout.root}/{link}")
            except FileExistsError:
                pass

    def make_private(self) -> None:
        """The spooler's own directories; a spool that was cloned or copied has none."""
        for path in (self.layout.private, self.layout.claims, self.layout.new, self.layout.slots, self.layout.log):
            os.makedirs(path, mode=PRIVATE_MODE, exist_ok=True)

    def clear_new(self) -> None:
        """Throw away what was being written when the last spooler ended: none of it had its place yet."""
        for entry in self.entries(self.layout.new):
            try:
                os.unlink(f"{self.layout.new}/{entry}")
            except OSError:
                pass

    def entries(self, directory: str) -> list[str]:
        """The names in a directory, in no order."""
        return os.listdir(directory)

    def stage_entries(self, stage: Stage) -> list[str]:
        return os.listdir(self.layout.stage(stage))

    def inodes(self, stage: Stage) -> Iterator[tuple[str, int]]:
        """Name and inode of every entry, without a look at each file."""
        with os.scandir(self.layout.stage(stage)) as found:
            for entry in found:
                yield entry.name, entry.inode()

    def ident(self, path: str) -> Ident | None:
        """Which file lies there, links not followed; None if there is none."""
        try:
            return Ident.of(os.stat(path, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open_own(self, path: str) -> Opened:
        """`open` for a file of our own, which may have a long trace."""
        return self.open(path, OWN_LIMIT)

    def open(self, path: str, limit: int = MAX_FILE_BYTES) -> Opened:
        """Everything about a file from one descriptor, read only if it is regular and small; raises as `files.open_file` does."""
        return open_file(path, limit)

    # writing ----------------------------------------------------------------------------------------------------------

    def write_new(self, data: bytes) -> str:
        """A private file with these bytes, on the disk if the spool is durable; its path."""
        path = f"{self.layout.new}/{os.getpid()}.{time.time_ns():x}.{next(self._counter)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(path, flags, 0o600)
        except FileNotFoundError:
            self.make_private()
            fd = os.open(path, flags, 0o600)
        try:
            _write(fd, data)
            if self.durable:
                host.sync_file(fd)
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(fd)
        return path

    def discard(self, path: str) -> None:
        """Remove a private file; harmless if it is gone."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def sync_dirs(self, *directories: str) -> None:
        """Make renames durable; the destination comes first: a job in both places can be repaired, in neither it is lost.

        They have happened, whatever the disk says now: to take its no for theirs would make one job into two.
        """
        if not self.durable:
            return
        unsynced = None
        for directory in directories:
            try:
                fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    host.sync_file(fd)
                finally:
                    os.close(fd)
            except OSError as error:
                unsynced = f"{directory}: {error.strerror or error}"
        self.unsynced = unsynced

    def _rename(self, source: str, target: str) -> None:
        """FileNotFoundError means that the source is gone, and nothing else."""
        try:
            host.rename_noreplace(source, target)
        except FileNotFoundError as error:
            directory = os.path.dirname(target)
            if os.path.isdir(directory):
                raise
            raise StageGoneError(directory) from error

    # the way of a job -------------------------------------------------------------------------------------------------

    def claim(self, stage: Stage, entry: str) -> str:
        """Take an entry out of incoming/ (or a foreign one out of ready/): the atomic step of acceptance.  Returns the claim's name."""
        name = f"{time.time_ns():x}.{next(self._counter):x}~{entry}"
        try:
            self._rename(self.layout.entry(stage, entry), self.claim_path(name))
        except StageGoneError:
            self.make_private()
            self._rename(self.layout.entry(stage, entry), self.claim_path(name))
        return name

    def claim_path(self, claim: str) -> str:
        return f"{self.layout.claims}/{claim}"

    def publish(self, data: bytes, entry: str) -> Ident:
        """Give a job file of our own its place in ready/.  Commit point of acceptance.  FileExistsError if the name is taken."""
        new = self.write_new(data)
        target = self.layout.entry(Stage.READY, entry)
        try:
            ident = Ident.of(os.stat(new))
            self._rename(new, target)
        except OSError:
            self.discard(new)
            raise
        self.sync_dirs(self.layout.stage(Stage.READY))
        return ident

    def begin(self, entry: str) -> Ident:
        """ready/ -> running/.  Not synced: from the start record on, the record rules."""
        self._check(Stage.READY, Stage.RUNNING)
        target = self.layout.entry(Stage.RUNNING, entry)
        self._rename(self.layout.entry(Stage.READY, entry), target)
        return Ident.of(os.stat(target, follow_symlinks=False))

    def back_to_ready(self, entry: str) -> None:
        """running/ -> ready/ for a job whose command was never released."""
        self._check(Stage.RUNNING, Stage.READY)
        self._rename(self.layout.entry(Stage.RUNNING, entry), self.layout.entry(Stage.READY, entry))
        self.sync_dirs(self.layout.stage(Stage.READY), self.layout.stage(Stage.RUNNING))

    def rewrite(self, stage: Stage, entry: str, data: bytes) -> Ident:
        """Replace a file's content whole.  FileNotFoundError if it is not there any more: a file that a user took away never comes back."""
        return self._swap(self.write_new(data), self.layout.entry(stage, entry), None)

    def replace_read(self, stage: Stage, entry: str, data: bytes, read: Opened) -> Ident:
        """As `rewrite`, for a file that a user may be writing to: ChangedError, and all is as it was, if it does not say any more what was read."""
        return self._swap(self.write_new(data), self.layout.entry(stage, entry), read)

    def _swap(self, new: str, target: str, read: Opened | None) -> Ident:
        try:
            ident = Ident.of(os.stat(new))
            try:
                host.rename_exchange(new, target)
            except NotImplementedError:
                # no exchange on this file system: a user's move in this very moment would be undone by the rename
                if read is None:
                    os.stat(target, follow_symlinks=False)
                elif not self._says(target, read):
                    raise ChangedError(target) from None
                os.rename(new, target)
                return ident
            if read is not None and not self._says(new, read):
                host.rename_exchange(new, target)
                raise ChangedError(target)
        finally:
            self.discard(new)
        return ident

    def _says(self, path: str, read: Opened) -> bool:
        try:
            opened = self.open_own(path)
        except OSError:
            return False
        return opened.data == read.data and not opened.writer

    def move_to_free(self, source: str, stage: Stage, entry: str) -> str:
        """Move a file into done/ or refused/ under the first free of NAME.toml, NAME.2.toml, …; the name it got.  Not synced."""
        for name in self._free_names(stage, entry):
            try:
                self._rename(source, self.layout.entry(stage, name))
            except FileExistsError:
                continue
            return name
        raise AssertionError("the numbers do not end")

    def add_done(self, data: bytes, entry: str) -> str:
        """Write a job into done/ from our own copy, for one whose file a user took away; the name it got."""
        new = self.write_new(data)
        try:
            name = self.move_to_free(new, Stage.DONE, entry)
        except OSError:
            self.discard(new)
            raise
        self.sync_dirs(self.layout.stage(Stage.DONE))
        return name

    def finish(self, entry: str) -> str:
        """running/ -> done/, the whole account being in the file; the name it got.  Commit point: the rename."""
        self._check(Stage.RUNNING, Stage.DONE)
        name = self.move_to_free(self.layout.entry(Stage.RUNNING, entry), Stage.DONE, entry)
        self.sync_dirs(self.layout.stage(Stage.DONE), self.layout.stage(Stage.RUNNING))
        return name

    def refuse(self, source: str, entry: str, why: str) -> tuple[str, bool]:
        """Put a file (or whatever lies there) into refused/ with the reason beside it.  The name it got, and whether the reason was written.

        The reason comes first, so that no file lies there without; on a full disk the move goes ahead without it.
        """
        for name in self._free_names(Stage.REFUSED, entry):
            target, beside = self.layout.entry(Stage.REFUSED, name), self._why(name)
            if os.path.lexists(target) or os.path.lexists(beside):
                continue
            written = self.write_why(name, why)
            try:
                self._rename(source, target)
            except FileExistsError:
                self.discard(beside)
                continue
            except OSError:
                self.discard(beside)
                raise
            self.sync_dirs(self.layout.stage(Stage.REFUSED), os.path.dirname(source))
            return name, written
        raise AssertionError("the numbers do not end")

    def _why(self, entry: str) -> str:
        return self.layout.entry(Stage.REFUSED, entry.removesuffix(".toml") + WHY)

    def write_why(self, entry: str, why: str) -> bool:
        """The reason beside a refused file; False if the disk is full or read-only."""
        new = None
        try:
            new = self.write_new(why.encode("utf-8", "backslashreplace") + b"\n")
            os.rename(new, self._why(entry))
        except OSError as error:
            if new is not None:
                self.discard(new)
            if error.errno in FULL:
                return False
            if isinstance(error, FileNotFoundError):
                raise StageGoneError(self.layout.stage(Stage.REFUSED)) from error
            raise
        return True

    def sweep_whys(self) -> None:
        """Remove reasons whose file a user has taken away to run it again."""
        entries = set(self.stage_entries(Stage.REFUSED))
        for entry in entries:
            if entry.endswith(WHY) and f"{entry.removesuffix(WHY)}.toml" not in entries:
                self.discard(self.layout.entry(Stage.REFUSED, entry))

    def _free_names(self, stage: Stage, entry: str) -> Iterator[str]:
        yield entry
        # where the last clash ended is a good place to look on: the thousandth run of one job must not try a thousand names
        first = self._numbers.get((stage, entry), 2)
        for number in itertools.count(first):
            self._numbers[(stage, entry)] = number
            yield numbered_entry(entry, number)

    def _check(self, source: Stage, target: Stage) -> None:
        assert target in MOVES[source], f"{source.value} -> {target.value} is no move of the spooler"

    # what users do through the command line ---------------------------------------------------------------------------

    def rename_in_ready(self, entry: str, to: str) -> None:
        """Reorder, hold, release.  FileExistsError if the new name is taken."""
        host.rename_noreplace(self.layout.entry(Stage.READY, entry), self.layout.entry(Stage.READY, to))

    def move_by_hand(self, source: Stage, entry: str, target: Stage, to: str) -> None:
        """The rename that a user would make with mv: stop, again."""
        host.rename_noreplace(self.layout.entry(source, entry), self.layout.entry(target, to))

    def drop(self, data: bytes, entry: str) -> None:
        """Drop a complete file into incoming/: written under a dot name, synced, renamed.  FileExistsError if the name is taken."""
        directory = self.layout.stage(Stage.INCOMING)
        hidden = f"{directory}/.{os.getpid()}.{time.time_ns():x}.new"
        fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _write(fd, data)
            if self.durable:
                host.sync_file(fd)
            host.rename_noreplace(hidden, f"{directory}/{entry}")
        except OSError:
            self.discard(hidden)
            raise
        finally:
            os.close(fd)
        self.sync_dirs(directory)

    def write_private(self, path: str, data: bytes) -> None:
        """Replace one of the spooler's own small files."""
        os.rename(self.write_new(data), path)


def numbered_entry(entry: str, number: int) -> str:
    """The name with a number before its ending, for names that are taken: 0050-g52.2.toml."""
    head, dot, ending = entry.rpartition(".")
    return f"{head}.{number}.{ending}" if dot and head else f"{entry}.{number}"


def held_name(entry: str) -> str | None:
    """The job file name that a file on hold in ready/ stands for, or None if it is none: 0050-g52.hold, 0050-g52.toml.hold."""
    if not entry.endswith(HOLD):
        return None
    plain = entry[: -len(HOLD)]
    return plain if plain.endswith(".toml") else f"{plain}.toml"


def plain_name(entry: str) -> str:
    """The job file's name of an entry in ready/ that may be on hold."""
    return held_name(entry) or entry


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
