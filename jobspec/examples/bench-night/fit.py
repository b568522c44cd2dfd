"""fit - which files of the bench night to drop into a spool: one path a line, for `cp $(python fit.py SPOOL) SPOOL/incoming/`.

The job files as they are where their memory can come free on this box, else copies of them under build/bench-night/fitted with every share
made smaller by the same factor, so that the demo asks a laptop at work for no more than it has.  Nothing at all while a night that was
broken off is still in the spool: it is to go on, and no NAME may be live twice.
Owns build/bench-night/fitted and, for a new night, clears what an old one left in build/bench-night.  What it has to say goes to standard
error.  Never writes to a spool.  Fails: OSError if the checkout cannot be written.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from picture import where

from spoold import host

NIGHT = Path(__file__).resolve().parent
RESULTS = NIGHT.parents[2] / "build" / "bench-night"
SHARE = re.compile(r'^memory = "(\d+)%"', re.MULTILINE)
FLOOR = 4.0
"""The spool's default `[memory] floor`, in points of RAM."""
SPARE = 4.0
"""Points of RAM that a browser may take while the night runs."""


def factor(shares: list[int], available: float) -> float:
    """What to multiply the shares with so that the biggest fits into `available` points of RAM; 1 if it does already."""
    room = max(1.0, available - FLOOR - SPARE)
    return min(1.0, room / max(shares))


def fitted(text: str, by: float) -> str:
    """A job file with its share of the memory made smaller, at least one point."""
    return SHARE.sub(lambda share: f'memory = "{max(1, int(int(share[1]) * by))}%"', text)


def main(spool: Path) -> None:
    files = sorted(NIGHT.glob("[0-9]*.toml"))
    there = where(spool)
    if there:
        jobs = ", ".join(f"{name} in {stage}/" for name, stage in there.items())
        print(f"A night is in the spool already ({jobs}): it goes on, nothing is dropped.", file=sys.stderr)
        return
    if RESULTS.exists():
        shutil.rmtree(RESULTS)
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    memory = host.memory_status()
    available = 100 * memory.available / memory.total
    by = factor([int(share) for text in texts.values() for share in SHARE.findall(text)], available)
    if by < 1:
        said = f"{available:.0f} % of the memory is available, too little for the night: its shares are taken times {by:.2f}."
        print(said, file=sys.stderr)
        (RESULTS / "fitted").mkdir(parents=True)
    for path, text in texts.items():
        small = fitted(text, by) if by < 1 else text
        if small != text:
            path = RESULTS / "fitted" / path.name
            path.write_text(small, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
