"""modelsize - how many bytes a model file or folder has.

Owns the meaning of `memory = { model = PATH }`.  Reads a disk, never changes it.  A path that is not there, or cannot be read, is None: it may
still be made by an earlier job.
"""

from __future__ import annotations

import os
from typing import Final

from jobspec.spec import Job, ModelSize

MOST_FILES: Final = 100_000
"""A folder with more is no model; walking it would keep the spooler from its work."""


def model_bytes(job: Job, default_cwd: str) -> int | None:
    """The size of the model that a job names; None if it names none, or if it is not there."""
    return size_of(job.memory.path, job.cwd or default_cwd) if isinstance(job.memory, ModelSize) else None


def size_of(path: str, cwd: str) -> int | None:
    """Bytes of a file, or of all files below a folder.  A link to a file counts as that file, and each file counts once: a folder of a
    download cache is nothing but links, and may have two to one file."""
    home = os.path.expanduser("~")
    path = os.path.join(home, os.path.expanduser(cwd), os.path.expanduser(path))
    try:
        if not os.path.isdir(path):
            return os.stat(path).st_size
        total, files = 0, 0
        counted: set[tuple[int, int]] = set()
        for directory, _, names in os.walk(path):
            for name in names:
                files += 1
                if files > MOST_FILES:
                    return total
                try:
                    found = os.stat(os.path.join(directory, name))
                except OSError:
                    continue  # gone meanwhile, or not ours to look at
                if (found.st_dev, found.st_ino) not in counted:
                    counted.add((found.st_dev, found.st_ino))
                    total += found.st_size
        return total
    except (OSError, ValueError):
        return None
