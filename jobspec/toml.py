"""toml - bytes to a table, or every problem, in bounded time and memory.

Owns the way to tomllib, for job files and spool.toml alike.  tomllib is asked only after the text was found harmless: of bounded
size, UTF-8 without NUL, not nested without end.  Whatever it raises becomes a `Problem` in plain words with line and column.  Where
one statement is no TOML for a reason that cannot reach further, it is set aside and the rest is still read, so that the author
learns everything at once.  Never raises on any bytes.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from jobspec.complaints import in_words
from jobspec.errors import MAX_PROBLEMS, Problem
from jobspec.names import show
from jobspec.places import MAX_DEPTH, Path, Places, Statement, find_places, line_column
from jobspec.plain import read_plain
from jobspec.spec import MAX_FILE_BYTES

_BOM: Final = b"\xef\xbb\xbf"
_MAX_READ: Final = 128 * 1024
"""How much text is parsed in all while statements are set aside."""

# what is not closed runs to where TOML gives up, so that no quote is looked at twice: time stays linear
COMMENT_OR_STRING: Final = re.compile(
    r"#[^\n]*"
    r'|"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*(?:"{3,5}|\\?\Z)'
    r"|'''[^']*(?:'(?!'')[^']*)*(?:'{3,5}|\Z)"
    r'|"(?!"")[^"\\\n]*(?:\\[^\n][^"\\\n]*)*(?:"|\\?(?=\n)|\\?\Z)'
    r"|'(?!'')[^'\n]*(?:'|(?=\n)|\Z)"
)
_WHERE: Final = re.compile(r" \(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)\Z")
_LONG_NUMBER: Final = re.compile(r"[0-9_]{1000,}")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


class Document:
    """A TOML text as far as it could be read.

    `lost` holds the keys at the top whose value could not be read.  `readable` is False when nothing can be said about the rest.
    """

    __slots__ = ("_places", "lost", "problems", "readable", "table", "text")

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.table: dict[str, Any] = {}
        self.problems: list[Problem] = []
        self.lost: set[str] = set()
        self.readable = True
        self._places: Places | None = None

    @property
    def places(self) -> Places:
        """Made when somebody asks: a file without a fault never needs it."""
        if self._places is None:
            self._places = find_places(self.text)
        return self._places

    def problem(self, path: Path, text: str) -> Problem:
        """A fault at a path of keys."""
        line, column = self.places.place(path) or (None, None)
        return Problem(line, column, key_name(path), text)

    def fault(self, offset: int, path: Path, text: str) -> None:
        """A fault at a place."""
        self.problems.append(Problem(*line_column(self.text, offset), key_name(path), text))

    def set_aside(self, start: int, end: int, path: Path) -> None:
        """Blank a statement; lines and columns of the others stay."""
        self.text = self.text[:start] + re.sub(r"[^\n]", " ", self.text[start:end]) + self.text[end:]
        self._places = None
        if path:
            self.lost.add(str(path[0]))


def key_name(path: Path) -> str:
    """A path of keys as people write it; an element goes by its array."""
    parts = (part for part in path if isinstance(part, str))
    return show(".".join(p if _PLAIN_KEY.fullmatch(p) else f'"{show(p, 40)}"' for p in parts), 80)


def read(data: bytes) -> Document:
    """Read a TOML file."""
    if len(data) > MAX_FILE_BYTES:
        return _unreadable(Problem(None, None, "", f"the file has {len(data)} bytes, and {MAX_FILE_BYTES} are the most"))
    data = data.removeprefix(_BOM)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return _unreadable(_no_utf8(data, error))
    if "\0" in text:
        place = line_column(text, text.index("\0"))
        return _unreadable(Problem(*place, "", "there is a NUL byte: this is no text, or it is UTF-16; save it as UTF-8"))
    if "\r" in text:
        lone = re.search(r"\r(?!\n)", text)
        if lone is not None:
            place = line_column(text, lone.start())
            return _unreadable(Problem(*place, "", "a carriage return stands alone: lines end in LF or CR LF"))
        text = text.replace("\r\n", "\n")
    document = Document(text)
    plain = read_plain(text)
    if plain is not None:
        document.table = plain
        return document
    budget = _MAX_READ
    while document.readable and not _read_once(document, go_on=budget > 0):
        budget -= len(text)
    return document


def _unreadable(problem: Problem) -> Document:
    document = Document()
    document.problems.append(problem)
    document.readable = False
    return document


def _no_utf8(data: bytes, error: UnicodeDecodeError) -> Problem:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return Problem(1, 1, "", "the file is UTF-16; save it as UTF-8")
    before = data[: error.start].decode()
    return Problem(*line_column(before, len(before)), "", f"the byte 0x{data[error.start]:02x} is no UTF-8; save the file as UTF-8")


def _read_once(document: Document, *, go_on: bool) -> bool:
    """Is the table there?  If not, there is a problem more, and a statement less or nothing more to read."""
    text = document.text
    if _may_be_deep(text):
        places = document.places
        if places.too_deep is not None:
            path, offset = places.too_deep
            document.fault(offset, path[:1], f"this goes more than {MAX_DEPTH} levels deep")
            document.readable = False
            return False
        if places.stopped is not None:
            text = _seen(text, places.stopped)
    try:
        document.table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        _complain(document, str(error), go_on=go_on)
        return False
    except (ValueError, RecursionError):
        _complain_of_number(document, go_on=go_on)
        return False
    if text is document.text:
        return True
    _give_up(document, document.places.stopped or 0, "this is no TOML", go_on=go_on)
    return False


def _may_be_deep(text: str) -> bool:
    """No level without one of these characters outside of strings, so few of them cannot be many levels."""
    return _marks(text) >= MAX_DEPTH and _marks(COMMENT_OR_STRING.sub("", text)) >= MAX_DEPTH


def _marks(text: str) -> int:
    return text.count(".") + text.count("[") + text.count("{")


def _seen(text: str, stopped: int) -> str:
    """The part of a text that the tokenizer has seen, with the rest of its line where that is harmless, for a better message."""
    end = text.find("\n", stopped)
    line = text[stopped:] if end < 0 else text[stopped:end]
    return text[: stopped + len(line)] if _marks(line) < MAX_DEPTH else text[:stopped]


def _complain(document: Document, message: str, *, go_on: bool) -> None:
    where = _WHERE.search(message)
    offset = len(document.text)
    if where is not None and where[1]:
        line_start = 0
        for _ in range(int(where[1]) - 1):
            line_start = document.text.index("\n", line_start) + 1
        offset = line_start + int(where[2]) - 1
    if document.places.again:
        _complain_of_repeats(document)
        return
    if where is not None and not where[1] and document.places.stopped is not None:
        offset = document.places.stopped
    statement = document.places.statement_at(offset)
    what = message[: where.start()] if where else message
    _give_up(document, offset, in_words(what, document.text, offset, statement), go_on=go_on)


def _complain_of_repeats(document: Document) -> None:
    places = document.places
    repeated: dict[int, Statement] = {}
    for path, offset in places.again[:MAX_PROBLEMS]:
        first = line_column(places.text, places.keys[path])[0]
        document.fault(offset, path, f"this stands a second time, the first is in line {first}")
        statement = places.statement_at(offset)
        if statement is None or statement.header or statement.end is None:
            document.readable = False
        else:
            repeated[statement.start] = statement
    more = len(places.again) - MAX_PROBLEMS
    if more > 0:
        document.problems.append(Problem(None, None, "", f"{more} keys more stand a second time"))
        document.readable = False
    for statement in repeated.values():
        assert statement.end is not None
        document.set_aside(statement.start, statement.end, statement.path)


def _complain_of_number(document: Document, *, go_on: bool) -> None:
    hidden = COMMENT_OR_STRING.sub(lambda m: " " * len(m[0]), document.text)
    number = _LONG_NUMBER.search(hidden)
    if number is None:
        _give_up(document, 0, "this is no TOML that can be read", go_on=False)
    else:
        _give_up(document, number.start(), f"a number of {len(number[0])} digits", go_on=go_on)


def _give_up(document: Document, offset: int, text: str, *, go_on: bool) -> None:
    """Note a fault, and set its statement aside if that ends where its line ends, whatever is wrong in it."""
    statement = document.places.statement_at(offset)
    document.fault(offset, statement.path if statement else (), text)
    if statement is None or not go_on or statement.header:
        document.readable = False
        return
    end = document.text.find("\n", statement.start)
    end = len(document.text) if end < 0 else end
    line = document.text[statement.start : end]
    outside = COMMENT_OR_STRING.sub("", line)
    reaches_further = '"""' in line or "'''" in line or any(outside.count(a) != outside.count(b) for a, b in ("[]", "{}"))
    if offset > end or reaches_further:
        document.readable = False
    else:
        document.set_aside(statement.start, end, statement.path)
