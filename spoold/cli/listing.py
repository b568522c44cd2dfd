"""listing - `ls`: the jobs of some stages, one a line or as JSON.

Owns the order of the list: what runs, what waits in order, what was dropped; on request what was done or refused, the newest last.  Reads only.
"""

from __future__ import annotations

import click

from spoold.cli.look import ended_views, incoming_views, look, ready_views, running_views
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import say_json
from spoold.model import Stage
from spoold.rows import row, table
from spoold.store import Store
from spoold.view import JobView


@verb(
    "ls",
    examples="""
spoold ls                     what runs, waits and was dropped
spoold ls done --last 20      the twenty that ended last
spoold ls --json | jq '.[] | select(.stage == "ready") | .name'
""",
)
@click.argument("stages", nargs=-1, metavar="[STAGE]...", type=click.Choice([stage.value for stage in Stage]))
@click.option("--last", type=click.IntRange(min=0), metavar="N", help="Of done and refused, only the last N.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list of jobs.")
@pass_session
def ls(session: Session, stages: tuple[str, ...], last: int | None, as_json: bool) -> int:
    """List the queue, with reasons and latest starts.

    A line is the place (1 is next) or a mark, the NAME, what it does or waits for, and when it ends or starts at the latest.  STAGE is
    incoming, ready, running, done or refused.  Without one: all that have not ended.
    """
    wanted = tuple(dict.fromkeys(Stage(stage) for stage in stages)) or (Stage.RUNNING, Stage.READY, Stage.INCOMING)
    found = look(session.layout)
    views: list[JobView] = []
    for stage in wanted:
        match stage:
            case Stage.RUNNING:
                views += running_views(found)
            case Stage.READY:
                views += ready_views(found)
            case Stage.INCOMING:
                views += incoming_views(found)
            case Stage.DONE | Stage.REFUSED:
                views += ended_views(Store(session.layout), stage, found.settings, last)
    if as_json:
        say_json([view.as_json() for view in views])
        return 0
    screen = session.screen
    screen.show(
        table([row(view, found.now, screen.marks, spooler=found.spooler is not None) for view in views], screen.width, screen.marks)
    )
    return 0
