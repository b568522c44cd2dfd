"""spools - which spool the command line means.

Owns the search: --spool, else $SPOOLD_SPOOL, else ./spool, else ~/spool.  Fails: NoSuchError with the command that makes one.
"""

from __future__ import annotations

import os
from typing import Final

from spoold.errors import NoSuchError
from spoold.layout import Layout
from spoold.model import Stage

VARIABLE: Final = "SPOOLD_SPOOL"


def find_spool(option: str | None) -> Layout:
    """The spool that is meant; its root without links."""
    for path, said in ((option, "--spool"), (os.environ.get(VARIABLE), f"${VARIABLE}")):
        if path:
            layout = Layout(os.path.realpath(path))
            if not is_spool(layout):
                raise NoSuchError(f"{path} ({said}) is no spool; `spoold init {path}` makes one")
            return layout
    for path in ("spool", os.path.expanduser("~/spool")):
        layout = Layout(os.path.realpath(path))
        if is_spool(layout):
            return layout
    raise NoSuchError("no spool here: neither ./spool nor ~/spool is one; `spoold init` makes one, --spool DIR names another")


def is_spool(layout: Layout) -> bool:
    """It has the one directory without which nothing can be queued."""
    return os.path.isdir(layout.stage(Stage.READY))
