"""complaints - what tomllib objects to, in words for the author of the file.

Owns the table from its messages to sentences with a remedy.  A message that is not in the table is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from jobspec.names import show
from jobspec.places import Statement

_ZERO: Final = re.compile(r"[+-]?0[0-9_]+")
_WORD: Final = re.compile(r"[^\s\"'\[\]{},=#]+")


def in_words(message: str, text: str, offset: int, statement: Statement | None) -> str:
    """The sentence for a message of tomllib about a place in a text."""
    for start, words in _WORDS:
        if message.startswith(start):
            return words if isinstance(words, str) else words(text, offset, statement)
    return f"this is no TOML: {show(message)}"


def _value_of(text: str, statement: Statement | None) -> str:
    """What stands behind the = in the line of a statement."""
    if statement is None or statement.header:
        return ""
    line = text[statement.start :].partition("\n")[0]
    return line.partition("=")[2].partition("#")[0].strip()


def _no_value(text: str, offset: int, statement: Statement | None) -> str:
    word = _WORD.match(text, offset)
    if word is None:
        return "there is no value"
    if word[0].lower() in ("true", "false"):
        return f"say {word[0].lower()}, in small letters"
    if text[offset - 1 : offset] in ("+", "-", ".") or word[0][0] in "+-.0123456789":
        return f"{show(word[0], 40)} is no number; text needs quotes"
    return f'text needs quotes: "{show(word[0], 40)}"'


def _more_than_a_value(text: str, offset: int, statement: Statement | None) -> str:
    value = _value_of(text, statement)
    word = _WORD.match(value)
    if not value:
        return "there is more in this line than a header"
    if word is None or word[0] != value:
        return "there is more in this line than one key and one value; text needs quotes"
    if _ZERO.fullmatch(value):
        return f"{show(value, 40)} is no number: it starts with a zero"
    return f'text needs quotes: "{show(value, 40)}"'


def _illegal(text: str, offset: int, statement: Statement | None) -> str:
    char = text[offset : offset + 1]
    if char == "\n":
        return 'a string ends in the line where it starts; one of several lines stands between """ and """'
    return f"the character {show(char)} cannot stand here: in a string between double quotes say \\u{ord(char or ' '):04x}"


def _no_key(text: str, offset: int, statement: Statement | None) -> str:
    return f"{show(text[offset : offset + 1])} cannot start a key" if text[offset : offset + 1].strip() else "there is no key"


_TWICE: Final = "this was already given in another form, and what stands in the file twice has no meaning"

_WORDS: Final[tuple[tuple[str, str | Callable[[str, int, Statement | None], str]], ...]] = (
    ("Invalid value", _no_value),
    ("Expected newline or end of document", _more_than_a_value),
    ("Expected '=' after a key", "there is no = after the key"),
    ("Invalid initial character for a key", _no_key),
    ("Invalid statement", _no_key),
    ("Illegal character", _illegal),
    ("Found invalid character", _illegal),
    ("Unterminated string", "the string that starts here is not closed"),
    ("Expected \"'", "the string that starts here is not closed"),
    ("Unescaped '\\' in a string", "a \\ between double quotes starts an escape: say \\\\, or put the text between single quotes"),
    ("Invalid hex value", "there are hexadecimal digits missing after the \\u or \\U"),
    ("Escaped character is not a Unicode scalar value", "there is no such character in Unicode"),
    ("Unclosed array", "a comma or the closing ] of the array is missing"),
    ("Unclosed inline table", "a comma or the closing } of the table is missing; it has to stand in one line"),
    ("Expected ']", "the closing bracket of the header is missing"),
    ("Invalid date or datetime", "there is no such date or time"),
    ("Cannot overwrite a value", _TWICE),
    ("Cannot declare", _TWICE),
    ("Cannot redefine", _TWICE),
    ("Cannot mutate", _TWICE),
    ("Duplicate inline table key", _TWICE),
)
