"""follow - watch a bench night that another spooler works on: a line for each move, until none of its jobs is left.

Reads the spool's folders and the one-spooler lock; never writes.
Fails: exit 69 if that spooler has gone and jobs of the night are left.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from picture import NIGHT, where

from spoold.claim import is_held
from spoold.layout import Layout

ENDED: Final = "ended"
LOOKS: Final = 3
"""A job between two stages can be missed by one look, and a spooler that is being restarted holds no lock for a moment."""


def main(spool: Path) -> int:
    owner = Layout(os.path.realpath(spool)).owner
    last = dict.fromkeys(NIGHT, ENDED)
    gone = alone = 0
    while gone < LOOKS and alone < LOOKS:
        now = where(spool)
        for name, stage in last.items():
            if now.get(name, ENDED) != stage:
                print(f"{name}: {stage} -> {now.get(name, ENDED)}" if stage != ENDED else f"{name}: {now[name]}", flush=True)
        last = {name: now.get(name, ENDED) for name in NIGHT}
        gone = 0 if now else gone + 1
        alone = 0 if is_held(owner) else alone + 1
        time.sleep(0.2)
    return 0 if gone >= LOOKS else 69


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
