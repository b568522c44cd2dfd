"""terminal - where the command's words go: styles, width, signs that the terminal can show.

Owns standard output and standard error of the verbs.  Colour only on a terminal, and not if NO_COLOR is set or TERM is dumb.
Fails: BrokenPipeError passes to `main`, which knows that it is none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

from jobspec.names import show

if TYPE_CHECKING:
    # what a row is made of is needed by those who make one; `submit` does without
    from spoold.rows import Cell, Marks

_STYLES: Final = {"bold": "1", "dim": "2", "bad": "31", "good": "32", "warn": "33", "head": "1"}
_MOST_ERROR: Final = 2000


@dataclass(frozen=True, slots=True)
class Screen:
    """What standard output can show.  `height` None: it is no terminal, and nothing needs to be left out."""

    width: int
    height: int | None
    colour: bool
    marks: Marks

    @classmethod
    def now(cls) -> Screen:
        """Standard output as it is."""
        from spoold.rows import FINE, PLAIN

        marks = FINE if _encodes(sys.stdout, "".join((FINE.running, FINE.ok, FINE.bad, FINE.none, FINE.cut))) else PLAIN
        if not _is_terminal(sys.stdout):
            return cls(max(80, _columns() or 1000), None, False, marks)
        try:
            size = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            size = os.terminal_size((80, 24))
        return cls(_columns() or size.columns or 80, size.lines or 24, _colour(), marks)

    def paint(self, cells: Iterable[Cell]) -> str:
        """One line."""
        return "".join(
            f"\x1b[{_STYLES[cell.style]}m{cell.text}\x1b[0m" if self.colour and cell.style else cell.text for cell in cells
        ).rstrip()

    def show(self, lines: Iterable[Iterable[Cell]]) -> None:
        """Lines of cells, written at once."""
        sys.stdout.write("".join(f"{self.paint(line)}\n" for line in lines))


def _columns() -> int | None:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and columns.isascii() and 0 < int(columns) < 10000 else None


def _colour() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _encodes(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def say(text: str = "") -> None:
    """One line on standard output; it must be safe to show."""
    sys.stdout.write(f"{text}\n")


def say_json(value: Any) -> None:
    """One document on standard output, in ASCII; of a list, one element a line."""
    import json

    if isinstance(value, list):
        lines = ",\n ".join(map(json.dumps, value))
        sys.stdout.write(f"[{lines}]\n")
    else:
        sys.stdout.write(f"{json.dumps(value, indent=2)}\n")


def complain(text: str) -> None:
    """One sentence on standard error, whatever is in it.  Nobody may be there to read it."""
    try:
        sys.stderr.write(f"spoold: {show(text, _MOST_ERROR)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def tilde(path: str) -> str:
    """A path for people: the home directory as ~."""
    home = os.path.expanduser("~")
    short = f"~{path[len(home) :]}" if home != "/" and (path == home or path.startswith(f"{home}/")) else path
    return show(short, 500)
