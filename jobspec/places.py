"""places - where each key of a TOML text stands, and whether the text is safe to parse.

Owns the small tokenizer that maps a path of keys ("locks", "gpu", "units"; an int for the element of an array) to its place in the
text.  It also finds what TOML forbids but names badly (a key that stands twice) and what would hurt: nesting and dotted keys without
end.  It is no judge of TOML: it goes on wherever tomllib might, and stops where tomllib stops too, so that what it has not seen is
never parsed.  Linear in the text, which is the one thing that it must be.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from typing import Final

Path = tuple[str | int, ...]

MAX_DEPTH: Final = 32
"""How many keys and array elements may stand above each other, dotted keys counted by their parts."""

BASIC: Final = r'"(?!"")[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"'
LITERAL: Final = r"'(?!'')[^'\n]*'"
MULTI_BASIC: Final = r'"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*"{3,5}'
MULTI_LITERAL: Final = r"'''[^']*(?:'(?!'')[^']*)*'{3,5}"

_STRING: Final = re.compile("|".join((MULTI_BASIC, MULTI_LITERAL, BASIC, LITERAL)))
_KEY_PART: Final = re.compile(f"[ \t]*(?:([A-Za-z0-9_-]+)|({BASIC})|({LITERAL}))[ \t]*")
_GAP: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SCALAR: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9:.+Zz-]*|[^\s,\[\]{}#\"'=]+")
_END_OF_LINE: Final = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|([\s\S]))")
_LETTER: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement at the top of the text: a header, or a key with its value.  `end` is None if the tokenizer stopped inside."""

    start: int
    path: Path
    header: bool
    end: int | None


@dataclass(slots=True)
class Places:
    """What the tokenizer found.  Offsets count characters."""

    text: str
    keys: dict[Path, int] = field(default_factory=dict)
    again: list[tuple[Path, int]] = field(default_factory=list)
    """Keys that stand a second time."""
    statements: list[Statement] = field(default_factory=list)
    too_deep: tuple[Path, int] | None = None
    stopped: int | None = None
    """Where it stopped, short of the end: at no valid TOML, or at `too_deep`."""
    _line_starts: list[int] = field(default_factory=list)

    def place(self, path: Path) -> tuple[int, int] | None:
        """Line and column of a path, or of the nearest thing around it that has a place."""
        while path and path not in self.keys:
            path = path[:-1]
        if not path:
            return None
        if not self._line_starts:
            self._line_starts = [0, *(newline.end() for newline in re.finditer("\n", self.text))]
        line = bisect.bisect_right(self._line_starts, self.keys[path])
        return line, self.keys[path] - self._line_starts[line - 1] + 1

    def in_header(self, path: Path) -> bool:
        """Does this path stand below a header of its parent, so that it may have been meant for the top?"""
        at = self.keys.get(path, -1)
        return any(s.header and s.path == path[:-1] and s.start < at for s in self.statements)

    def statement_at(self, offset: int) -> Statement | None:
        """The last statement that starts at or before an offset."""
        index = bisect.bisect_right(self.statements, offset, key=lambda statement: statement.start)
        return self.statements[index - 1] if index else None


def line_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def find_places(text: str) -> Places:
    """Tokenize a text whose line ends are newlines."""
    tokenizer = _Tokenizer(text)
    try:
        tokenizer.document()
    except _Stopped as stop:
        tokenizer.found.stopped = stop.offset
    return tokenizer.found


class _Stopped(Exception):
    def __init__(self, offset: int) -> None:
        self.offset = offset


class _Tokenizer:
    """Recursive, and never deeper than MAX_DEPTH."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.found = Places(text)
        self.defined: set[Path] = set()
        self.lengths: dict[Path, int] = {}

    def document(self) -> None:
        header: Path = ()
        text = self.text
        while True:
            self.pos = self.skip(_GAP)
            if self.pos == len(text):
                return
            start = self.pos
            is_header = text[start] == "["
            path: Path = ()
            end = None
            try:
                if is_header:
                    path = header = self.header()
                else:
                    path = self.key(header)
                    self.after("=")
                    self.value(path)
                ends = _END_OF_LINE.match(text, self.pos)
                if ends is None:
                    raise _Stopped(self.pos)
                self.pos = end = ends.end()
            finally:
                self.found.statements.append(Statement(start, path, is_header, end))

    def skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.pos)
        return match.end() if match else self.pos

    def after(self, token: str) -> None:
        if not self.text.startswith(token, self.pos):
            raise _Stopped(self.pos)
        self.pos += len(token)

    def header(self) -> Path:
        start = self.pos
        several = self.text.startswith("[[", start)
        self.pos += 2 if several else 1
        parts = self.parts(())
        path: Path = ()
        for name, offset in parts[:-1]:
            path = self.last_element((*path, name))
            self.found.keys.setdefault(path, offset)
        path = (*path, parts[-1][0])
        if several:
            index = self.lengths.get(path, 0)
            self.lengths[path] = index + 1
            self.found.keys.setdefault(path, parts[-1][1])
            path = (*path, index)
        self.note(path, parts[-1][1])
        self.after("]]" if several else "]")
        return path

    def last_element(self, path: Path) -> Path:
        """A header that goes through an array of tables means its last element."""
        return (*path, self.lengths[path] - 1) if path in self.lengths else path

    def key(self, above: Path) -> Path:
        """The dotted key here; each of its parts has a place, the last one must be new."""
        parts = self.parts(above)
        path = above
        for name, offset in parts[:-1]:
            path = (*path, name)
            self.found.keys.setdefault(path, offset)
        path = (*path, parts[-1][0])
        self.note(path, parts[-1][1])
        return path

    def note(self, path: Path, offset: int) -> None:
        if path in self.defined:
            self.found.again.append((path, offset))
        else:
            self.defined.add(path)
            self.found.keys.setdefault(path, offset)

    def parts(self, above: Path) -> list[tuple[str, int]]:
        parts: list[tuple[str, int]] = []
        while True:
            match = _KEY_PART.match(self.text, self.pos)
            if match is None:
                raise _Stopped(self.pos)
            kind = match.lastindex or 0
            token = match[kind]
            name = token if kind == 1 else token[1:-1] if kind == 3 else _unescape(token[1:-1])
            parts.append((name, match.start(kind)))
            self.check_depth((*above, *(n for n, _ in parts)), match.start(kind))
            self.pos = match.end()
            if not self.text.startswith(".", self.pos):
                return parts
            self.pos += 1

    def check_depth(self, path: Path, offset: int) -> None:
        if len(path) > MAX_DEPTH:
            self.found.too_deep = (path, offset)
            raise _Stopped(offset)

    def value(self, path: Path) -> None:
        self.pos = self.skip(_GAP) if path and isinstance(path[-1], int) else self.skip(_BLANKS)
        char = self.text[self.pos : self.pos + 1]
        if char == "[":
            self.array(path)
        elif char == "{":
            self.inline_table(path)
        else:
            match = (_STRING if char in ("'", '"') else _SCALAR).match(self.text, self.pos)
            if match is None:
                raise _Stopped(self.pos)
            self.pos = match.end()

    def array(self, path: Path) -> None:
        self.pos += 1
        index = 0
        while True:
            self.pos = self.skip(_GAP)
            if self.text.startswith("]", self.pos):
                self.pos += 1
                return
            element = (*path, index)
            self.check_depth(element, self.pos)
            self.found.keys[element] = self.pos
            self.value(element)
            self.pos = self.skip(_GAP)
            if not self.text.startswith("]", self.pos):
                self.after(",")
            index += 1

    def inline_table(self, path: Path) -> None:
        self.pos += 1
        while True:
            self.pos = self.skip(_GAP)
            if self.text.startswith("}", self.pos):
                self.pos += 1
                return
            key = self.key(path)
            self.after("=")
            self.value(key)
            self.pos = self.skip(_GAP)
            if not self.text.startswith("}", self.pos):
                self.after(",")


_BLANKS: Final = re.compile(r"[ \t]*")


def _unescape(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code:
            return chr(int(code, 16)) if int(code, 16) < 0x110000 else "?"
        return _LETTER.get(match[4], match[4])

    return _ESCAPE.sub(char, text) if "\\" in text else text
