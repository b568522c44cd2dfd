"""layout - the paths of a spool.

Owns every name below the spool's root.  Pure: it joins strings and never looks at a disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spoold.stages import Stage

NUMBERED_LINKS: Final = {
    "1-incoming": "incoming",
    "2-ready": "ready",
    "3-running": "running",
    "4-done": "done",
    "5-refused": "refused",
}
SETTINGS: Final = "spool.toml"
PAUSED: Final = "PAUSED"
LOG: Final = "log"
PRIVATE: Final = ".spoold"
HOLD: Final = ".hold"
WHY: Final = ".why"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie below `root`, an absolute path without a trailing slash."""

    root: str

    def stage(self, stage: Stage) -> str:
        """The directory of a stage."""
        return f"{self.root}/{stage.value}"

    def entry(self, stage: Stage, entry: str) -> str:
        """One entry of a stage."""
        return f"{self.root}/{stage.value}/{entry}"

    @property
    def log(self) -> str:
        """The directory of the runs' output."""
        return f"{self.root}/{LOG}"

    @property
    def settings(self) -> str:
        return f"{self.root}/{SETTINGS}"

    @property
    def paused(self) -> str:
        return f"{self.root}/{PAUSED}"

    @property
    def private(self) -> str:
        """The spooler's own directory."""
        return f"{self.root}/{PRIVATE}"

    @property
    def owner(self) -> str:
        """The file whose flock says that a spooler runs."""
        return f"{self.private}/owner"

    @property
    def claims(self) -> str:
        """What was taken out of incoming/ and is not yet accepted or refused."""
        return f"{self.private}/claim"

    @property
    def new(self) -> str:
        """Files that are being written; nothing in it is needed after a crash."""
        return f"{self.private}/new"

    @property
    def slots(self) -> str:
        """One directory a supervisor: its locks, its record, its script."""
        return f"{self.private}/slots"

    @property
    def last_submitted(self) -> str:
        """The file that `@` reads: the job name of the last `spoold submit`."""
        return f"{self.private}/last"

    @property
    def withdrawn(self) -> str:
        """The ledger of jobs that a user took out of ready/ while another job waited for them."""
        return f"{self.private}/withdrawn"

    def slot(self, number: int) -> Slot:
        """The files of one supervisor."""
        return Slot(f"{self.slots}/{number}")


@dataclass(frozen=True, slots=True)
class Slot:
    """The files of one supervisor, which runs one job at a time."""

    dir: str

    @property
    def supervisor_lock(self) -> str:
        """S: held by the supervisor for as long as it lives, and by nobody else."""
        return f"{self.dir}/supervisor.lock"

    @property
    def job_lock(self) -> str:
        """T: inherited by every process of the job."""
        return f"{self.dir}/job.lock"

    @property
    def record(self) -> str:
        """The run record, see `records`."""
        return f"{self.dir}/record"

    @property
    def script(self) -> str:
        """The private copy of a job's script."""
        return f"{self.dir}/script"
