"""errors - what is wrong with a file, all of it at once.

Owns `Problem`, one fault of one file, and `BadFileError`, which carries every one of them.  The texts are made elsewhere and are
safe to print: whatever comes from a file went through `names.show`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MAX_PROBLEMS: Final = 100
"""A file with more of them gets these and the number of the others."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: where it is, which key it concerns ("" for the whole file), and the sentence.

    Lines and columns count from 1, columns in characters.  The place is that of the key, or that of the element in an array;
    None where there is none, as for something missing.
    """

    line: int | None
    column: int | None
    key: str
    text: str

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        return f"{where}{self.key}: {self.text}" if self.key else f"{where}{self.text}"


class BadFileError(ValueError):
    """A file that cannot be used, with every problem in it, in the order of its lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Final = in_order(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


class JobSpecError(BadFileError):
    """No valid job file."""


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """By line and column, each once, what has no place at the end, and no more than people read."""
    unique = dict.fromkeys(problems)
    ordered = sorted(unique, key=lambda p: (p.line is None, p.line or 0, p.column or 0))
    if len(ordered) > MAX_PROBLEMS:
        ordered[MAX_PROBLEMS:] = [Problem(None, None, "", f"and {len(ordered) - MAX_PROBLEMS} more problems")]
    return tuple(ordered)
