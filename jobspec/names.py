"""names - `SEQ-NAME.toml`: grammar, order, next number, and names made safe to show.

Owns what a job's file may be called.  Never looks at a disk: an entry is a str as `os.listdir` gives it, bytes that are no UTF-8
as lone surrogates.  Fails: BadNameError, with the sentence and a name that would do.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

SUFFIX: Final = ".toml"
MAX_FILE_NAME: Final = 200
MAX_DIGITS: Final = 18
STEP: Final = 10
_WIDTH: Final = 4
_LAST: Final = 10**MAX_DIGITS - 1
_MAX_BARE: Final = MAX_FILE_NAME - MAX_DIGITS - 1
"""A file without SEQ has to leave room for the one that it gets."""

NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._+@-]*"
_NAME: Final = re.compile(NAME_PATTERN)
_FILE: Final = re.compile(rf"(?:([0-9]+)-)?({NAME_PATTERN})\.toml")
_NUMBERED: Final = re.compile(r"([0-9]+)-(.*)", re.DOTALL)
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9._+@-]+")


class BadNameError(ValueError):
    """No name for a job file.  `text` says why, `suggestion` is a file name that would do."""

    def __init__(self, text: str, suggestion: str) -> None:
        self.text: Final = text
        self.suggestion: Final = suggestion
        super().__init__(text, suggestion)

    def __str__(self) -> str:
        return f"{self.text}; {self.suggestion} would do"


@dataclass(frozen=True, slots=True)
class FileName:
    """A job file's name in its two parts: the digits as they are written, or None, and the NAME."""

    digits: str | None
    name: str

    @property
    def seq(self) -> int | None:
        return None if self.digits is None else int(self.digits)

    @property
    def job(self) -> str:
        """What a run is called by: "0050-g52"."""
        return self.name if self.digits is None else f"{self.digits}-{self.name}"

    @property
    def file(self) -> str:
        return self.job + SUFFIX

    @property
    def key(self) -> tuple[int, str]:
        """Order in the queue; what has no number yet comes last, as it gets the next one."""
        return (_LAST + 1 if self.digits is None else int(self.digits), self.name)


def is_candidate(entry: str) -> bool:
    """Is this entry meant to be a job?  Dot files never are, AppleDouble twins among them."""
    return entry.endswith(SUFFIX) and not entry.startswith(".")


def stem(entry: str) -> str:
    """An entry without its .toml."""
    return entry.removesuffix(SUFFIX)


def is_name(text: str) -> bool:
    """Is this a NAME by its letters?  Says nothing about its length."""
    return _NAME.fullmatch(text) is not None


def parse_file_name(file: str) -> FileName:
    """The parts of a job file's name.  Digits and a dash in front are always SEQ; digits alone are a NAME."""
    match = _FILE.fullmatch(file)
    if match is None or (match[1] is None and _NUMBERED.match(file)):
        raise BadNameError(_why_not(file), suggest(file))
    digits, name = match.groups()
    if digits is not None and len(digits) > MAX_DIGITS:
        raise BadNameError(f"the number in {_quoted(file)} has {len(digits)} digits, and {MAX_DIGITS} are the most", suggest(file))
    if len(file) > MAX_FILE_NAME:
        raise BadNameError(f"{_quoted(file)} is {len(file)} bytes long, and {MAX_FILE_NAME} are the most", suggest(file))
    if digits is None and len(file) > _MAX_BARE:
        text = f"{_quoted(file)} is {len(file)} bytes long, and {_MAX_BARE} are the most before it has a number"
        raise BadNameError(text, suggest(file))
    return FileName(digits, name)


def _quoted(file: str) -> str:
    return f'"{show(file, 60)}"'


def _why_not(file: str) -> str:
    if not file.endswith(SUFFIX):
        return f"{_quoted(file)} does not end in {SUFFIX}"
    core = stem(file)
    numbered = _NUMBERED.fullmatch(core)
    name = numbered[2] if numbered else core
    if not name:
        return f"{_quoted(file)} has no NAME" + (f" after {show(numbered[1], 20)}-" if numbered else "")
    bad = _NOT_IN_NAME.search(name)
    if bad:
        return f"{_quoted(file)} has a character that a NAME cannot have: {_quoted(bad[0][0])}"
    return f'the NAME in {_quoted(file)} starts with "{name[0]}", and it must start with a letter or a digit'


def suggest(file: str) -> str:
    """A file name that would do, as much like this one as can be."""
    core = stem(file)
    numbered = _NUMBERED.fullmatch(core)
    digits, name = (numbered[1], numbered[2]) if numbered else (None, core)
    # decomposed, so that an accent is dropped and its letter stays
    plain = "".join(c for c in unicodedata.normalize("NFKD", name[:MAX_FILE_NAME]) if not unicodedata.combining(c))
    name = _NOT_IN_NAME.sub("-", plain).lstrip("._+@-").rstrip("-") or "job"
    if digits is not None and len(digits) > MAX_DIGITS:
        digits = digits.lstrip("0")[:MAX_DIGITS].rjust(_WIDTH, "0")
    if digits is None:
        # cleaning must not turn the start of a NAME into a number
        start = _NUMBERED.match(name)
        name = name if start is None else f"{start[1]}_{start[2]}"
    head = "" if digits is None else f"{digits}-"
    room = (_MAX_BARE if digits is None else MAX_FILE_NAME) - len(head) - len(SUFFIX)
    return f"{head}{name[:room]}{SUFFIX}"


def next_file(name: str, last_seq: int | None) -> FileName:
    """The name that a job without SEQ gets: the next multiple of ten after the last one queued.

    After the largest number there is no next: then it shares that number, and the NAME decides.
    """
    seq = STEP if last_seq is None else (last_seq // STEP + 1) * STEP
    return FileName(f"{min(seq, _LAST):0{_WIDTH}d}", name)


def numbered(file: FileName, n: int) -> str:
    """The n-th name for a file whose own is taken: "0050-g52.2.toml"."""
    return f"{file.job}.{n}{SUFFIX}"


def safe_entry(entry: str) -> str:
    """An entry of any bytes, made safe to be a file's name here and to be shown: printable ASCII, visible, at most 200 bytes.

    A name that is all this comes back unchanged; bytes that are not become %XX.
    """
    raw = entry.encode("utf-8", "surrogateescape") if _escapable(entry) else entry.encode("utf-8", "surrogatepass")
    safe = "".join(chr(b) if 0x20 <= b < 0x7F and b not in b"/\\" else f"%{b:02X}" for b in raw)
    if safe[:1] in (".", "-", " "):
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    if safe.endswith(" "):
        safe = f"{safe[:-1]}%20"
    if len(safe) > MAX_FILE_NAME:
        suffix = SUFFIX if safe.endswith(SUFFIX) else ""
        import hashlib  # slow to import, and hardly ever needed

        mark = f"~{hashlib.sha256(raw).hexdigest()[:12]}{suffix}"
        safe = safe[: MAX_FILE_NAME - len(mark)] + mark
    return safe or "%"


def _escapable(text: str) -> bool:
    return all(not "\ud800" <= c <= "\udfff" or "\udc80" <= c <= "\udcff" for c in text)


def show(text: str, limit: int = 200) -> str:
    """A text of any origin for a terminal, a log or a message: printable ASCII on one line, shortened to `limit` characters.

    Bytes that were no UTF-8 appear as the bytes they are.
    """
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    shown = "".join(map(_shown, text[: limit + 1]))
    return shown if len(text) <= limit and len(shown) <= limit else f"{shown[: max(0, limit - 3)]}..."


def _shown(char: str) -> str:
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return char
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
