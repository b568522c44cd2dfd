"""beginning - how a supervisor starts one run.

Owns the order of what must be on disk before a command may run: the log, the script, the start record (synced), only then the spawn; and
the zeroed record file that makes a sync of the record cheap.  Uses spawn for the process.  Never waits for the job.
Fails: NotStarted if the spool or the box is at fault (nothing was executed, no start record is left); Unstartable if the job file is.
"""

from __future__ import annotations

import errno
import os
import resource
import time
from dataclasses import dataclass, replace
from typing import Final

from spoold import command, host, lockfile, records, spawn
from spoold.command import Unstartable
from spoold.layout import LOG, Slot
from spoold.records import Order, StartRecord

LOCK_AS: Final = 220
"""T's descriptor number in a job: out of the way of shells, which use numbers up to 10, 63 and 255 themselves."""
TOKEN: Final = "SPOOLD_TOKEN"
DEADLINE: Final = "SPOOLD_DEADLINE"
CUT: Final = 1 << 15
OOM_SCORE: Final = b"500"
_LOCK_TRIES: Final = 20
_BOX_AT_FAULT: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO})


class NotStarted(Exception):
    """The spool or the box could not start the job now; nothing was executed."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A job whose main process exists.  `log_fd` is open for as long as the log has a limit, else -1."""

    pid: int
    log: str
    log_fd: int
    started_at: float
    awake_at: float


def token(slot: Slot, run: int) -> str:
    """Marks the processes of one run, for the case that their supervisor is killed."""
    return f"{slot.dir}:{run}"


def iso(at: float) -> str:
    """ISO 8601 with offset, to the second."""
    local = time.localtime(at)
    sign, minutes = ("-" if local.tm_gmtoff < 0 else "+"), abs(local.tm_gmtoff) // 60
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}{sign}{minutes // 60:02}:{minutes % 60:02}"


class Desk:
    """Where one supervisor works: the spool's root, its slot, the open record, the names of this boot and box."""

    def __init__(self, root: str, slot: Slot, boot: str, box: str) -> None:
        self.root = root
        self.slot = slot
        self.spoiled = False
        """Its niceness could not be put back: it is of no use for another job."""
        self._boot = boot
        self._box = box
        self._record = -1
        self._synced = False
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._lock_as = LOCK_AS if soft == resource.RLIM_INFINITY or soft > LOCK_AS else soft - 1

    # the record -------------------------------------------------------------------------------------------------------

    def open_record(self, sync: bool) -> int:
        """The record's descriptor.  A new record is filled with zeros once; what a short one holds is kept."""
        if self._record < 0:
            self._record = os.open(self.slot.record, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        size = os.fstat(self._record).st_size
        new = size < records.RECORD_SIZE
        if new and sync:
            # first the names, then the content: a record of full size is one whose names are safe
            for directory in (os.path.dirname(self.slot.dir), self.slot.dir):
                _sync_directory(directory)
        while size < records.RECORD_SIZE:
            size += os.pwrite(self._record, bytes(records.RECORD_SIZE - size), size)
        if sync and (new or not self._synced):
            host.sync_file(self._record)
            self._synced = True
        return self._record

    def write(self, area: bytes, at: int, sync: bool) -> None:
        """One area of the record."""
        fd = self.open_record(sync)
        os.pwrite(fd, area, at)
        if sync:
            host.sync_data(fd)

    # the start --------------------------------------------------------------------------------------------------------

    def begin(self, order: Order) -> Begun:
        """Start the job.  NotStarted or Unstartable; after the latter its end is the caller's to write."""
        os.umask(order.umask)
        lock = -1
        try:
            lock = self._lock_of_job()
            argv = self._argv(order)
            log, output = self._open_log(order)
            begun = None
            try:
                begun = self._run(order, argv, lock, log, output)
            finally:
                if begun is None:
                    os.unlink(f"{self.root}/{log}")
                if begun is None or begun.log_fd < 0:
                    os.close(output)
        except OSError as error:
            raise NotStarted(f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)) from error
        finally:
            if lock >= 0:
                os.close(lock)
            os.chdir("/")
        return begun

    def _lock_of_job(self) -> int:
        """T, on an open file of its own, so that it is free when the last process of this job has closed it."""
        for _ in range(_LOCK_TRIES):
            fd = lockfile.take(self.slot.job_lock)
            if fd is not None:
                return fd
            time.sleep(0.005)  # somebody who only looks whether it is free holds it for a moment
        raise NotStarted("a process of an earlier run in this slot still holds the slot's lock")

    def _argv(self, order: Order) -> list[str]:
        if order.argv is not None:
            return order.argv
        text = (order.script or "").encode("utf-8", "surrogateescape")
        path = self.slot.script
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o700)
        with open(fd, "wb") as file:
            os.fchmod(fd, 0o700)
            file.write(text)
        # the interpreter is executed, not the file: that works where files may not be executed, and while somebody has it open
        wanted = command.first_line(text)
        if wanted is None:
            return [*order.shell, path]
        interpreter, argument = wanted
        return [interpreter, path] if argument is None else [interpreter, argument, path]

    def _open_log(self, order: Order) -> tuple[str, int]:
        """The first log of this job that does not exist yet."""
        number = max(1, order.log_number)
        while True:
            log = f"{LOG}/{order.job}.log" if number == 1 else f"{LOG}/{order.job}.{number}.log"
            try:
                return log, os.open(f"{self.root}/{log}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                number += 1

    def _run(self, order: Order, argv: list[str], lock: int, log: str, output: int) -> Begun:
        started_at = time.time()
        start = StartRecord(
            run=order.run,
            job=order.job,
            seq=order.seq,
            name=order.name,
            file=order.file,
            started_at=started_at,
            boot=self._boot,
            host=self._box,
            supervisor=os.getpid(),
            wall_s=order.wall_s,
            grace_s=order.grace_s,
            locks=order.locks,
            memory=order.memory,
            log=log,
            waited_s=order.waited_s,
            waited_for=order.waited_for,
            text=order.text,
        )
        try:
            area = records.encode_start(start)
        except ValueError:
            # what is refused has a record too; the job file lies in running/, so a cut copy of it will do
            self.write(records.encode_start(replace(start, text=start.text[:CUT])), records.START_AT, order.sync)
            why = f"with its history the job file has {len(order.text)} characters, too many for a record: drop it again without its trace"
            raise Unstartable(why) from None
        try:
            self.write(area, records.START_AT, order.sync)
            pid = self._spawn(order, argv, lock, output, started_at)
        except (OSError, NotStarted):
            self._withdraw(order)
            raise
        awake_at = host.awake()
        return Begun(pid, log, output if order.log_limit is not None else -1, started_at, awake_at)

    def _spawn(self, order: Order, argv: list[str], lock: int, output: int, started_at: float) -> int:
        env = order.env | {TOKEN: token(self.slot, order.run)}
        if order.wall_s is not None:
            env[DEADLINE] = iso(started_at + order.wall_s)
        command.enter(order.cwd)
        if not argv:
            raise Unstartable("the command is empty")
        path = command.locate(argv[0], env)
        stdin = 0 if order.stdin is None else command.open_stdin(order.stdin)
        niceness = self._be_nice(order.nice)
        try:
            pid = spawn.spawn_job(path, argv, env, stdin=stdin, output=output, lock=lock, lock_as=self._lock_as)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in _BOX_AT_FAULT:
                raise NotStarted(f"no process could be made: {error.strerror}") from error
            raise command.explain(path, error) from error
        finally:
            self._be_nice_again(niceness)
            if stdin:
                os.close(stdin)
        _prefer_as_victim(pid)
        return pid

    def _withdraw(self, order: Order) -> None:
        """Nothing was executed: the start record must not forbid the next start."""
        try:
            self.write(records.encode_retired(order.run), records.RETIRED_AT, order.sync)
        except OSError as error:
            # to say "not started" now would contradict the disk; dying leaves the verdict to whoever reads it
            raise RuntimeError(f"the start record of run {order.run} cannot be withdrawn: {error}") from error

    # niceness ---------------------------------------------------------------------------------------------------------

    def _be_nice(self, more: int) -> int | None:
        """Raise our own niceness, for the job inherits it.  What it was, if it was changed."""
        if more == 0:
            return None
        before = os.getpriority(os.PRIO_PROCESS, 0)
        try:
            os.setpriority(os.PRIO_PROCESS, 0, max(-20, min(19, before + more)))
        except PermissionError:
            raise Unstartable(f"nice = {more} is not allowed: only root may make a job more important") from None
        return before

    def _be_nice_again(self, before: int | None) -> None:
        if before is not None:
            try:
                os.setpriority(os.PRIO_PROCESS, 0, before)
            except PermissionError:
                self.spoiled = True


def _prefer_as_victim(pid: int) -> None:
    """If memory runs out the kernel should take the job, not its supervisor.  Only Linux has such a file."""
    try:
        fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, OOM_SCORE)
    except OSError:
        pass  # a wish, not a promise
    finally:
        os.close(fd)


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        host.sync_file(fd)
    finally:
        os.close(fd)
