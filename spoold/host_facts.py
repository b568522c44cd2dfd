"""host_facts - the nouns of the host seam: a process, a file system, the state of memory.

Owns what `host_linux` and `host_macos` answer with, and the judgement whether a file system can carry a spool.  Asks nothing of the
system but where a path's links lead.  Standard library only: the supervisor imports it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Process:
    """One process as it was seen.  (pid, start) is its identity: a recycled pid has another start time.

    `start` is in ticks of the system's own choice.  `name` is the short command name as the process set it: escape it before showing it.
    """

    pid: int
    ppid: int
    start: int
    name: str
    zombie: bool = False


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What a path lies on.  `why` is empty if `local`, else the sentence that says why it is not."""

    kind: str
    local: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """The box's memory in bytes.  `detail` holds what the numbers were made from, for show."""

    total: int
    available: int
    detail: Mapping[str, int | str] = field(default_factory=dict)


SYNCED_FOLDERS: Final[Mapping[str, str]] = {
    "dropbox": "Dropbox",
    "onedrive": "OneDrive",
    "google drive": "Google Drive",
    "googledrive": "Google Drive",
    "mobile documents": "iCloud Drive",
    "icloud drive": "iCloud Drive",
    "cloudstorage": "a cloud storage provider",
}


def synced_by(path: str) -> str | None:
    """Who synchronizes the folder that holds `path`, told by the parts of the path; None if nobody is known to."""
    for part in path.lower().split("/"):
        # "OneDrive - Example Ltd", "GoogleDrive-u@example.org", "Dropbox (Personal)"
        for folder, owner in SYNCED_FOLDERS.items():
            if part == folder or part.startswith((folder + " -", folder + "-", folder + " (")):
                return owner
    return None


def judge(kind: str, network: bool, path: str) -> FileSystem:
    """Whether a spool can keep its promises on a file system of this kind at this path."""
    if network:
        return FileSystem(kind, False, f"{path} is on {kind}, a file system that other boxes share: locks there are not only this box's")
    if kind.startswith(("fuse.", "macfuse", "osxfuse")) or kind in ("fuse", "fusefs"):
        return FileSystem(kind, False, f"{path} is on {kind}, a file system in user space: it promises neither locks nor atomic renames")
    # a provider's folder may be named only in the path as it was given, or only where its links lead
    owner = synced_by(path) or synced_by(os.path.realpath(path))
    if owner is not None:
        return FileSystem(kind, False, f"{path} is synchronized by {owner}, which copies, evicts and duplicates files")
    return FileSystem(kind, True)
