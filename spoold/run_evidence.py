"""run_evidence - which processes belong to a run whose supervisor was killed.

Owns the judgement; `linux_processes` and `host_macos` gather the evidence.  Pure.  What it says is stopped with SIGKILL, so a process
that something speaks against is left out, and a session's number alone proves nothing: pids come round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one process of the own user.  `environment` is empty if it is empty or cannot be read."""

    pid: int
    holds_lock: bool = False
    environment: frozenset[bytes] = frozenset()
    stray: bool = False
    """It was handed to the launcher as an orphan."""
    in_session: bool = False
    """It is in the session of the run's main process."""


def belonging(evidence: Iterable[Evidence], marker: bytes) -> set[int]:
    """The pids of those that belong to the run with this environment entry."""
    prefix = marker.partition(b"=")[0] + b"="
    proven: set[int] = set()
    session: set[int] = set()
    session_is_ours = False
    for one in evidence:
        ours = one.holds_lock or marker in one.environment
        if not ours and any(entry.startswith(prefix) for entry in one.environment):
            continue  # of another run
        if ours or one.stray or (one.in_session and not one.environment):
            proven.add(one.pid)
            session_is_ours = session_is_ours or one.in_session
        elif one.in_session:
            session.add(one.pid)
    return proven | session if session_is_ours else proven
