"""waiting - `wait`: block until jobs have ended, and exit as they did.

Never looks more often than ten times a second.  Fails: NoSuchError for a job that is nowhere, also if it is taken away meanwhile.
"""

from __future__ import annotations

import sys

import click

from spoold.cli.completing import JOB
from spoold.cli.ends import Awaited, Waiting, end_text, exit_code
from spoold.cli.jobs import ENDED, Jobs
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import complain, say
from spoold.errors import NoSuchError
from spoold.store import Store


@verb(
    "wait",
    examples="""
spoold wait g52 && ./next.sh
spoold wait 'bench-*'         all that are queued now
spoold wait @                 the last one submitted
""",
)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", type=JOB)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing about how they ended.")
@pass_session
def wait(session: Session, jobs: tuple[str, ...], quiet: bool) -> int:
    """Wait until jobs have ended, and exit as the job did.

    Of several the first one counts that did not end well, in the order given.  The exit code is the job's own; 128 + N after signal N; 124
    for the wall clock, 137 for memory and 143 for a stop if its own is 0; 70 lost, 65 refused, 66 withdrawn.  69 when there has been no
    spooler for half a minute.
    """
    store = Store(session.layout)
    places = Jobs(store).some(jobs)
    awaited = [Awaited(store, place.file if place.stage in ENDED else place.name) for place in places]
    codes: dict[int, int] = {}
    waiting = Waiting(session.layout)
    while True:
        for index, job in enumerate(awaited):
            if index in codes:
                continue
            try:
                standing = job.look()
            except NoSuchError as error:
                codes[index] = error.code
                complain(str(error))
                continue
            if standing.end is None:
                continue
            codes[index] = exit_code(standing.end)
            if standing.end.outcome is None:
                complain(end_text(standing.end))
            elif not quiet:
                say(end_text(standing.end))
                sys.stdout.flush()
        if len(codes) == len(awaited):
            return next((codes[index] for index in range(len(awaited)) if codes[index]), 0)
        waiting.pause()
