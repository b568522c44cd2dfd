"""trace - the history of a job, below the text of the user in the same file.

Owns the marker line and everything from it to the end of the file: one `[[trace]]` table a step, and an end line.  The bytes above
never change: `split` gives back what the user wrote, with or without a newline at its end.  The whole file is valid TOML wherever
the text alone is.  Headers are written by hand, and what nests is written inline: tomli-w alone would turn a short list of
tables into an array, which after the last table of the user would land inside of it.

Never believes a history: it is what the file says, whoever wrote it.  Never raises on a damaged one: what is good up to the damage
counts, and the rest is kept as comments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from jobspec import toml
from jobspec.spec import MAX_FILE_BYTES
from jobspec.write import dotted_key, inline

MARKER: Final = "# ---- spoold: the job's history, written by the spooler; the job ends here ----"
_BARE_MARKER: Final = "# ---- spoold: the job's history, written by the spooler; the job ends here, without a newline ----"
END: Final = "# ---- spoold: end of the history ----"
"""A history that is cut off has lost this line, and then its last entry may have lost something too."""

_MARKER: Final = MARKER.encode()
_BARE: Final = _BARE_MARKER.encode()
_END: Final = b"\n" + END.encode()
_MARKER_START: Final = MARKER[:60].encode()
_MARKER_LINE: Final = re.compile(rb"^(?:%s|(%s))\r?$" % (re.escape(_MARKER), re.escape(_BARE)), re.MULTILINE)
_COMMENT_OR_STRING: Final = re.compile(toml.COMMENT_OR_STRING.pattern.encode())
_BLOCK_START: Final = re.compile(rb"^(?=\[\[trace\]\])", re.MULTILINE)
_LEFT_OUT: Final = re.compile(rb"^# ([0-9]{1,9}) older (?:entry|entries) left out[^\n]*\n?", re.MULTILINE)
_COMMENTS: Final = re.compile(rb"(?:[ \t]*(?:#[^\x00-\x08\x0a-\x1f\x7f]*)?\r?\n)*\Z")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def split(data: bytes) -> tuple[bytes, bytes]:
    """The user's text and the history below it; together they are the file again."""
    start = data.find(_MARKER_START)
    found = _MARKER_LINE.search(data, start) if start >= 0 else None
    if found is None:
        return data, b""
    at = found.start()
    if b'"""' in data[:at] or b"'''" in data[:at]:
        # a line that looks like the marker may be part of a string of the user
        lines = {line.start(): line for line in _MARKER_LINE.finditer(data, at)}
        at = next((token.start() for token in _COMMENT_OR_STRING.finditer(data) if token.start() in lines), -1)
        if at < 0:
            return data, b""
        found = lines[at]
    if found[1] is not None:
        # an editor that turned every line end into CR LF turned this one too
        at -= 2 if found[0].endswith(b"\r") else 1
    return data[: max(at, 0)], data[max(at, 0) :]


def read(data: bytes) -> tuple[dict[str, Any], ...]:
    """The entries of the history, oldest first, up to the first damage."""
    return tuple(entry for entry, _ in _sift(split(data)[1])[1])


def append(data: bytes, *entries: Mapping[str, Any], limit: int = MAX_FILE_BYTES) -> bytes:
    """The whole file with these entries added.  Values that are None are left out.

    Where the file would pass `limit`, the oldest entries go, and a comment says how many.  The entries given here always stay: below
    a text of nearly that size they make the file larger, because an account that is missing is worse.
    """
    text, history = split(data)
    head, good, damaged = _sift(history)
    gone = sum(int(match[1]) for match in _LEFT_OUT.finditer(head))
    old = [(0, _LEFT_OUT.sub(b"", head)), *((1, block) for _, block in good), (0, _as_comments(damaged))]
    start = _MARKER + b"\n" if not text or text.endswith(b"\n") else b"\n" + _BARE + b"\n"
    end = b"".join(map(_block, entries)) + END.encode() + b"\n"
    room = limit - len(text) - len(start) - len(end) - sum(len(part) for _, part in old)
    first = 0
    while first < len(old) and room < len(_note(gone)):
        is_entry, part = old[first]
        gone += is_entry
        room += len(part)
        first += 1
    return b"".join((text, start, _note(gone), *(part for _, part in old[first:]), end))


def stray_line(text: bytes, history: bytes) -> int | None:
    """The first line below a history that is neither blank nor a comment, by its number in the file: nobody would ever read it."""
    end = history.rfind(_END) + len(_END)
    if end < len(_END) or not history[end:].strip():
        return None
    number = text.count(b"\n") + history.count(b"\n", 0, end) + 1
    for line in history[end:].split(b"\n"):
        if line.strip() and not line.lstrip().startswith(b"#"):
            return number
        number += 1
    return None


def _note(gone: int) -> bytes:
    return b"" if not gone else b"# %d older %s left out to keep the file small\n" % (gone, b"entry" if gone == 1 else b"entries")


def _block(entry: Mapping[str, Any]) -> bytes:
    lines = "".join([f"{dotted_key(key)} = {inline(value)}\n" for key, value in entry.items() if value is not None])
    return f"[[trace]]\n{lines}\n".encode("utf-8", "replace")


def _sift(history: bytes) -> tuple[bytes, list[tuple[dict[str, Any], bytes]], bytes]:
    """The comments on top, the good entries with their bytes, and what is left from the first damage on."""
    if not history:
        return b"", [], b""
    start = history.find(b"\n", 2) + 1 or len(history)
    end = history.rfind(_END)
    whole = end >= start - 1
    body = history[start : end + 1] if whole else history[start:]
    rest = history[end + len(_END) :].lstrip(b"\r\n") if whole else b""
    if rest and not rest.endswith(b"\n"):
        rest += b"\n"
    head, *blocks = _BLOCK_START.split(body)
    if not _COMMENTS.match(head) or not _is_utf8(head):
        return b"", [], body + rest
    good: list[tuple[dict[str, Any], bytes]] = []
    entries = _entries(body) if whole else None
    if entries is not None and len(entries) == len(blocks):
        return head, list(zip(entries, blocks, strict=True)), rest
    complete = len(blocks) if whole else len(blocks) - 1
    for block in blocks[: max(0, complete)]:
        entries = _entries(block)
        if entries is None or len(entries) != 1:
            break
        good.append((entries[0], block))
    return head, good, b"".join(blocks[len(good) :]) + rest


def _entries(body: bytes) -> list[dict[str, Any]] | None:
    """The entries of a text that holds nothing else."""
    document = toml.read(body)
    entries = document.table.pop("trace", [])
    sound = not document.problems and not document.table and isinstance(entries, list) and all(isinstance(e, dict) for e in entries)
    return entries if sound else None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _as_comments(damaged: bytes) -> bytes:
    if not damaged.strip():
        return b""
    text = damaged.decode("utf-8", "backslashreplace").replace("\r\n", "\n").rstrip("\n")
    shown = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    return "".join(f"# {line}\n" for line in shown.split("\n")).encode()
