"""host_rename - a rename that replaces nothing, on file systems that know no such call.

Owns the way around: a hard link cannot replace a name either.  Standard library only.  Fails: FileExistsError if the new name is taken;
OSError as rename(2) and link(2) do.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

CANNOT: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What a system says if it, or the file system, has no such call."""


def rename_by_link(src: str, dst: str) -> None:
    """Link and unlink; what cannot be linked is looked for first, which is not atomic but all that is left."""
    if stat.S_ISREG(os.lstat(src).st_mode):
        try:
            os.link(src, dst, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in CANNOT | {errno.EPERM, errno.EMLINK}:
                raise
        else:
            try:
                os.unlink(src)
            except OSError:
                os.unlink(dst)  # who is told that it failed must not find it done by half
                raise
            return
    if os.path.lexists(dst):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), src, None, dst)
    os.rename(src, dst)
