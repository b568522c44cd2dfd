"""explaining - `why`: every reason for which a job waits, how one ended, or why nothing runs.

Owns the account in words.  Without a spooler it gives the same answer: nothing is asked of one.  Reads only.
"""

from __future__ import annotations

import textwrap

import click

from jobspec.names import show
from spoold.cli.completing import JOB
from spoold.cli.ends import end_text
from spoold.cli.jobs import Jobs
from spoold.cli.look import job_in, look, ready_views, running_views, view_of
from spoold.cli.overview import warnings
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import say_json
from spoold.dependencies import when
from spoold.model import Reason, Rule, Stage
from spoold.rows import Cell, lock_words, span
from spoold.store import Store
from spoold.survey import Survey
from spoold.view import ENDED_STATE, JobView

Line = list[Cell]


@verb(
    "why",
    examples="""
spoold why g52
spoold why                    why nothing starts, or what holds the box
spoold why 'bench-*' --json
""",
)
@click.argument("jobs", nargs=-1, metavar="[JOB]...", type=JOB)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list of jobs; without a JOB an object about the spool.")
@pass_session
def why(session: Session, jobs: tuple[str, ...], as_json: bool) -> int:
    """Say why a job waits, or how it ended.

    Every reason: which rule, who holds what since when, how much memory is missing, and when the job starts at the latest.  For a job that
    has ended it says how, for one that was refused why.  Without a JOB it answers for the box.
    """
    store = Store(session.layout)
    places = Jobs(store).some(jobs) if jobs else []
    found = look(session.layout)
    if not jobs:
        return _box(session, found, as_json)
    views = [view_of(found, store, place) for place in places]
    if as_json:
        say_json([view.as_json() for view in views])
        return 0
    screen = session.screen
    for index, view in enumerate(views):
        screen.show([[]] if index else [])
        screen.show(explain(found, view, screen.width))
    return 0


def explain(found: Survey, view: JobView, width: int) -> list[Line]:
    """The account of one job."""
    name = Cell(show(view.name), "bold")
    match view.stage:
        case Stage.RUNNING:
            return [[name, Cell(f" {_running(view)}")]]
        case Stage.READY:
            return _waiting(found, view, width)
        case Stage.INCOMING:
            return [[name, Cell(" was dropped and is not accepted yet")], *_reasons(_dropped(found, view), width)]
        case Stage.DONE | Stage.REFUSED:
            text = end_text(view, "" if view.ended_at is None else when(view.ended_at)).removeprefix(show(view.name))
            return [
                [name, Cell(line)] if index == 0 else [Cell(f"  {line}")]
                for index, line in enumerate(_wrapped(text, width, len(view.name)))
            ]


def _wrapped(text: str, width: int, used: int) -> list[str]:
    first, *others = textwrap.wrap(text, max(40, width - 2), initial_indent=" " * used, break_long_words=False, break_on_hyphens=False) or [
        ""
    ]
    return [first[used:] if first[:used].isspace() or not used else first, *others]


def _running(view: JobView) -> str:
    if view.started_at is None:
        return "lies in running/, but no run is recorded for it: only the spooler starts jobs"
    if view.state == ENDED_STATE:
        return f"has ended, started {when(view.started_at)}; its file is not put away yet: is the disk full, or done/ not to be written to?"
    words = f"runs since {when(view.started_at)} ({span(int(view.elapsed_s or 0.0))}) with {lock_words(view.locks, view.many)}"
    words += ", without a wall clock" if view.deadline is None else f", at the latest until {when(view.deadline)}"
    return words if view.supervised else f"{words}; its supervisor is gone, the spooler decides what becomes of it"


def _waiting(found: Survey, view: JobView, width: int) -> list[Line]:
    name = Cell(show(view.name), "bold")
    spooler = found.spooler is not None
    if not view.reasons:
        text = "starts at the next turn of the spooler" if spooler else "is free to start"
        return [[name, Cell(f" {text}")], *_reasons([] if spooler else [_no_spooler()], width)]
    head = " will be refused" if any(reason.rule is Rule.REFUSED for reason in view.reasons) else " waits"
    if view.place is not None:
        head += f" in place {view.place}"
    if view.latest_start is not None:
        head += f" and starts at the latest {when(view.latest_start)}"
    reasons = list(view.reasons) if spooler else [_no_spooler(), *view.reasons]
    return [[name, Cell(head)], *_reasons(reasons, width)]


def _no_spooler() -> Reason:
    return Reason(Rule.PAUSED, "no spooler runs; `spoold run` is one")


def _dropped(found: Survey, view: JobView) -> list[Reason]:
    """What can be told about a file in incoming/."""
    reasons = [] if found.spooler is not None else [_no_spooler()]
    try:
        opened = Store(found.layout).open(f"{found.layout.root}/{view.file}")
    except OSError:
        return reasons
    if opened.writer:
        reasons.append(Reason(Rule.TIME, "somebody has it open for writing"))
    if opened.data is None or job_in(opened.data) is None:
        reasons.append(Reason(Rule.REFUSED, f"it does not read as a job; `spoold check {show(view.file)}` in the spool says why"))
    return reasons


def _reasons(reasons: list[Reason], width: int) -> list[Line]:
    """One a line, the rule in front."""
    lines: list[Line] = []
    for reason in reasons:
        first, *others = textwrap.wrap(show(reason.text, 4000), max(40, width - 12), break_long_words=False, break_on_hyphens=False) or [""]
        lines.append([Cell(f"  {reason.rule.value:<8}", "warn"), Cell(first)])
        lines += [[Cell(f"{'':10}{line}")] for line in others]
    return lines


def _box(session: Session, found: Survey, as_json: bool) -> int:
    """Why does nothing start, or what holds the box."""
    running, ready = running_views(found), ready_views(found)
    if as_json:
        say_json(
            {
                "spool": found.layout.root,
                "spooler": found.spooler,
                "paused": found.box.paused,
                "closed": found.box.closed,
                "settings_problem": found.settings_problem,
                "running": [view.as_json() for view in running],
                "ready": [view.as_json() for view in ready],
            }
        )
        return 0
    screen = session.screen
    lines: list[Line] = [[Cell(text, style)] for style, text in warnings(found)]
    for view in running:
        lines += explain(found, view, screen.width)
    for view in ready:
        lines += explain(found, view, screen.width)
    if not running and not ready:
        lines.append([Cell("Nothing runs and nothing waits.")])
    screen.show(lines)
    return 0
