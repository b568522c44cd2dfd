"""messages - what spooler, launcher and supervisors say to each other.

Owns the frame: four bytes of length, one byte of kind, a body; over a stream socket, for not every system has SOCK_SEQPACKET.  A frame
that is cut off by the sender's death is never seen.  Pure: it reads and writes no socket.  Fails: AssertionError on what our own code
cannot have sent.

    kind        from        to          body
    FORK        spooler     launcher    {slot}, with two descriptors: the supervisor's end of a socket pair, and the slot's lock S, held
    FORKED      launcher    spooler     {slot, pid}
    NOT_FORKED  launcher    spooler     {slot, why}
    UP          supervisor  spooler     nothing: it has all that it needs for an order
    ORDER       spooler     supervisor  records.Order
    STOP        spooler     supervisor  {run, outcome}
    STARTED     supervisor  spooler     {run, pid, log, at}
    FAILED      supervisor  spooler     {run, why}: nothing was executed and no start record is left
    ENDED       supervisor  spooler     the end area of the record, which is on disk by then; the supervisor is parked again
    LAST        supervisor  spooler     the same, but the supervisor ends
    FAULT       both        spooler     {text}: a traceback; the sender dies of it
"""

from __future__ import annotations

import enum
import json
from typing import Any, Final

HEADER: Final = 5
LARGEST: Final = 1 << 26


class Kind(enum.IntEnum):
    FORK = 1
    FORKED = 2
    NOT_FORKED = 3
    ORDER = 4
    STOP = 5
    STARTED = 6
    FAILED = 7
    ENDED = 8
    LAST = 9
    FAULT = 10
    UP = 11


def frame(kind: Kind, body: bytes) -> bytes:
    assert len(body) <= LARGEST
    return len(body).to_bytes(4, "big") + bytes((kind,)) + body


def pack(kind: Kind, **table: Any) -> bytes:
    return frame(kind, json.dumps(table, ensure_ascii=False).encode("utf-8", "surrogateescape"))


def unpack(body: bytes) -> dict[str, Any]:
    table = json.loads(body.decode("utf-8", "surrogateescape"))
    assert isinstance(table, dict)
    return table


class Inbox:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def take(self) -> tuple[Kind, bytes] | None:
        """The next frame that is complete."""
        if len(self._bytes) < HEADER:
            return None
        size = int.from_bytes(self._bytes[:4], "big")
        assert size <= LARGEST, f"a frame of {size} bytes"
        if len(self._bytes) < HEADER + size:
            return None
        kind, body = Kind(self._bytes[4]), bytes(self._bytes[HEADER : HEADER + size])
        del self._bytes[: HEADER + size]
        return kind, body
