"""trust - whose files and directories the spooler believes in.

Owns one rule: what somebody else could have written is not run.  A group that is the owner's own private group counts as the owner, since many
systems make files group-writable by default.  Never changes a mode; says the command that does.
"""

from __future__ import annotations

import functools
import os
import stat


def distrust(uid: int, gid: int, mode: int, spooler_uid: int) -> str | None:
    """Why a job file of this owner and mode is not taken, or None."""
    if uid not in (spooler_uid, 0):
        return f"it belongs to uid {uid}, and this spooler takes only files of uid {spooler_uid}; copy it in as that user"
    if mode & stat.S_IWOTH:
        return "everybody may write to it; chmod go-w it and drop it again"
    if mode & stat.S_IWGRP and not private_group(uid, gid):
        return "its group may write to it; chmod go-w it and drop it again"
    return None


def distrust_directory(path: str, st: os.stat_result, spooler_uid: int) -> str | None:
    """Why a directory of the spool, or its spool.toml, cannot be used, with the command that mends it, or None."""
    if st.st_uid not in (spooler_uid, 0):
        return f"{path} belongs to uid {st.st_uid}, not to you (uid {spooler_uid}): chown it, or use a spool of your own"
    if st.st_mode & stat.S_IWOTH or (st.st_mode & stat.S_IWGRP and not private_group(st.st_uid, st.st_gid)):
        return f"others may write to {path}, so anybody could run commands as you: chmod go-w {path}"
    return None


@functools.lru_cache(maxsize=64)
def private_group(uid: int, gid: int) -> bool:
    """The group has the user's own name and nobody else in it."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == gid and all(member == user.pw_name for member in group.gr_mem)
