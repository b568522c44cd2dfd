"""doctoring - `doctor`: is this spool healthy, is there a spooler, does the environment give jobs what they need.

Owns how findings are shown.  Exits 1 if something needs a remedy.  Fails: NoSuchError if there is nothing that could be a spool.
"""

from __future__ import annotations

import os
import textwrap
from typing import Final

import click

from jobspec.names import show
from spoold.cli.health import examine
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.spools import VARIABLE
from spoold.cli.terminal import say_json, tilde
from spoold.errors import NoSuchError
from spoold.layout import Layout
from spoold.model import Stage
from spoold.rows import Cell

_INDENT: Final = 18


@verb("doctor", examples="spoold doctor\nspoold doctor --json | jq '.checks[] | select(.ok | not)'")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: healthy, and a list of checks.")
@pass_session
def doctor(session: Session, as_json: bool) -> int:
    """Find what keeps a spool from its work.

    Each problem comes with its remedy.  Exits 0 if there is none, else 1.
    """
    layout = _layout(session)
    findings = list(examine(layout))
    healthy = all(finding.remedy is None for finding in findings)
    if as_json:
        say_json({"spool": layout.root, "healthy": healthy, "checks": [finding.as_json() for finding in findings]})
        return 0 if healthy else 1
    screen = session.screen
    lines = []
    for finding in findings:
        good = finding.remedy is None
        mark = Cell(f"  {screen.marks.ok if good else screen.marks.bad}  ", "good" if good else "bad")
        first, *others = _wrapped(finding.text, screen.width)
        lines.append([mark, Cell(f"{finding.check:<13}", "dim" if good else ""), Cell(first)])
        lines += [[Cell(f"{'':{_INDENT}}{line}")] for line in others]
        if finding.remedy is not None:
            lines += [[Cell(f"{'':{_INDENT}}{line}", "warn")] for line in _wrapped(finding.remedy, screen.width)]
    screen.show([[Cell(tilde(layout.root), "bold")], *lines])
    return 0 if healthy else 1


def _wrapped(text: str, width: int) -> list[str]:
    """In lines that fit behind the names of the checks.  A path is never broken: it is there to be copied."""
    return textwrap.wrap(show(text, 1000), max(40, width - _INDENT), break_long_words=False, break_on_hyphens=False) or [""]


def _layout(session: Session) -> Layout:
    """The spool, also one that has lost some of its directories."""
    try:
        return session.layout
    except NoSuchError:
        layout = Layout(os.path.realpath(session.option or os.environ.get(VARIABLE) or "spool"))
        if any(os.path.isdir(layout.stage(stage)) for stage in Stage):
            return layout
        raise
