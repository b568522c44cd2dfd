"""host - the one place where spoold asks the operating system what differs between Linux and macOS.

Owns the choice between `host_linux` and `host_macos`, and the list of what they offer; each name means the same on both.  Standard
library only and importable under `python -I -S`, for the supervisor uses it too.  Never decides anything.  Fails: as each function says.
"""

from __future__ import annotations

import sys

from spoold.host_facts import FileSystem, MemoryStatus, Process

if sys.platform == "darwin":
    from spoold.host_macos import (
        Tracker,
        awake,
        become_subreaper,
        boot_id,
        descendants,
        exit_fd,
        file_system,
        has_writer,
        host_id,
        memory_status,
        processes_of_run,
        rename_exchange,
        rename_noreplace,
        signal_process,
        sync_data,
        sync_file,
        tree_memory,
    )
else:
    from spoold.host_linux import (
        awake,
        boot_id,
        file_system,
        has_writer,
        host_id,
        memory_status,
        rename_exchange,
        rename_noreplace,
        sync_data,
        sync_file,
    )
    from spoold.linux_processes import (
        Tracker,
        become_subreaper,
        descendants,
        exit_fd,
        processes_of_run,
        signal_process,
        tree_memory,
    )

__all__ = [
    "FileSystem",
    "MemoryStatus",
    "Process",
    "Tracker",
    "awake",
    "become_subreaper",
    "boot_id",
    "descendants",
    "exit_fd",
    "file_system",
    "has_writer",
    "host_id",
    "memory_status",
    "processes_of_run",
    "rename_exchange",
    "rename_noreplace",
    "signal_process",
    "sync_data",
    "sync_file",
    "tree_memory",
]
