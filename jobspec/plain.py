"""plain - the plain part of TOML in one regular expression, because reading is on the way of every job.

Owns a short cut: bare keys without dots, strings without escapes, numbers, dates, arrays and inline tables of these, headers of one key.
It gives what tomllib gives, several times as fast, or None: whatever is not plain, and whatever is wrong, is for tomllib to say.
Linear in the text: no part of the expression can match the same characters in two ways.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

_TEXT: Final = r"[^\x00-\x08\x0a-\x1f\x7f]*"
_END: Final = rf"[ \t]*(?:#{_TEXT})?"
_KEY: Final = r"[A-Za-z0-9_-]+"
_STRING: Final = r'"[^"\\\x00-\x08\x0a-\x1f\x7f]*"'
_LITERAL: Final = r"'[^'\x00-\x08\x0a-\x1f\x7f]*'"
_INTEGER: Final = r"-?(?:0|[1-9][0-9]{0,17})"
_FLOAT: Final = rf"{_INTEGER}\.[0-9]{{1,17}}"
_DATE: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{6})?(?:[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
)
_SCALAR: Final = rf"{_STRING}|{_LITERAL}|true|false|{_DATE}|{_FLOAT}|{_INTEGER}"
_ARRAY: Final = rf"\[[ \t\n]*(?:(?:{_SCALAR})[ \t\n]*(?:,[ \t\n]*(?:{_SCALAR})[ \t\n]*)*(?:,[ \t\n]*)?)?\]"
_PAIR: Final = rf"{_KEY}[ \t]*=[ \t]*(?:{_SCALAR}|{_ARRAY})"
_INLINE: Final = rf"\{{[ \t]*(?:{_PAIR}[ \t]*(?:,[ \t]*{_PAIR}[ \t]*)*)?\}}"
_PROSE: Final = r'[^"\\\x00-\x08\x0b-\x1f\x7f]*'
_SCRIPT: Final = rf'"""\n?({_PROSE}(?:"(?!""){_PROSE})*)"""'

_STATEMENT: Final = re.compile(
    rf"(?:{_END}\n)*[ \t]*(?:({_KEY})[ \t]*=[ \t]*"
    rf'(?:"([^"\\\x00-\x08\x0a-\x1f\x7f]*)"|({_SCALAR})|({_ARRAY})|({_INLINE})|{_SCRIPT})'
    rf"|\[({_KEY})\]|\[\[({_KEY})\]\]){_END}(?:\n|\Z)"
)
_NOTHING: Final = re.compile(rf"(?:{_END}\n)*{_END}\Z")
_ELEMENT: Final = re.compile(_SCALAR)
_ITEM: Final = re.compile(rf"({_KEY})[ \t]*=[ \t]*(?:({_SCALAR})|({_ARRAY}))")

_KEYED, _STRINGED, _SCALED, _LISTED, _TABLED, _SCRIPTED, _HEADED, _REPEATED = range(1, 9)


def read_plain(text: str) -> dict[str, Any] | None:
    """The table of a text with newlines as line ends, or None."""
    root: dict[str, Any] = {}
    table = root
    repeated: set[str] = set()
    pos = 0
    match = _STATEMENT.match
    try:
        while found := match(text, pos):
            pos = found.end()
            kind = found.lastindex
            if kind == _HEADED:
                name = found[_HEADED]
                if name in root:
                    return None
                table = root[name] = {}
            elif kind == _REPEATED:
                name = found[_REPEATED]
                table = {}
                if name in repeated:
                    root[name].append(table)
                elif name in root:
                    return None
                else:
                    repeated.add(name)
                    root[name] = [table]
            else:
                key = found[_KEYED]
                if key in table:
                    return None
                if kind in (_STRINGED, _SCRIPTED):
                    table[key] = found[kind]
                elif kind == _SCALED:
                    table[key] = _scalar(found[_SCALED])
                elif kind == _LISTED:
                    table[key] = _array(found[_LISTED])
                else:
                    pairs = _ITEM.findall(found[_TABLED])
                    inner = {name: _scalar(scalar) if scalar else _array(array) for name, scalar, array in pairs}
                    if len(inner) != len(pairs):
                        return None
                    table[key] = inner
    except ValueError:
        return None  # no such date
    return root if _NOTHING.match(text, pos) else None


def _array(text: str) -> list[Any]:
    return [_scalar(element) for element in _ELEMENT.findall(text)]


def _scalar(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    if text == "true":
        return True
    if text == "false":
        return False
    if ":" in text:
        return datetime.fromisoformat(text)
    return float(text) if "." in text else int(text)
