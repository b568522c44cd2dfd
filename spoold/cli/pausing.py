"""pausing - `pause` and `resume`: the file PAUSED, while which nothing new starts.

Owns its text when it is made here.  Running jobs go on.
"""

from __future__ import annotations

import os

import click

from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import say, tilde


@verb(
    "pause",
    examples="""
spoold pause
spoold pause "the box is needed until 18:00"
""",
)
@click.argument("text", nargs=-1, metavar="[TEXT]")
@pass_session
def pause(session: Session, text: tuple[str, ...]) -> int:
    """Let nothing new start.  TEXT is shown as the reason; running jobs go on."""
    from spoold.store import Store

    store = Store(session.layout)
    store.make_private()
    again = os.path.lexists(session.layout.paused)
    store.write_private(session.layout.paused, f"{' '.join(text)}\n".encode("utf-8", "backslashreplace"))
    say(f"{tilde(session.layout.root)} is paused{' as it was, with this text' if again else ''}; `spoold resume` lets jobs start again")
    return 0


@verb("resume", examples="spoold resume")
@pass_session
def resume(session: Session) -> int:
    """Let jobs start again."""
    try:
        os.unlink(session.layout.paused)
    except FileNotFoundError:
        say(f"{tilde(session.layout.root)} was not paused")
    else:
        say(f"{tilde(session.layout.root)} goes on")
    return 0
