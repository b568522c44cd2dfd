"""showing - `show`: one job with every setting and its source, what its run uses now, and its history as people read it.

Owns the account of a trace in words.  Reads only.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import click

from jobspec import trace
from jobspec.names import show as escaped
from jobspec.spec import Job
from jobspec.units import format_size
from spoold.admission import epoch
from spoold.archive import snapshot
from spoold.cli.completing import JOB
from spoold.cli.effective import effective
from spoold.cli.explaining import Line, explain
from spoold.cli.jobs import Jobs, Place
from spoold.cli.look import job_in, look, view_of
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import say_json, tilde
from spoold.identity import login_environment
from spoold.model import Stage
from spoold.modelsize import model_bytes
from spoold.rows import SIGNALS, STATES, Cell, span
from spoold.store import Store
from spoold.survey import Survey
from spoold.view import JobView


@verb(
    "show",
    examples="""
spoold show g52
spoold show --json g52 | jq .peak_memory
""",
)
@click.argument("job", metavar="JOB", type=JOB)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the job.")
@pass_session
def show(session: Session, job: str, as_json: bool) -> int:
    """Show one job: settings with their sources, figures, history."""
    store = Store(session.layout)
    place = Jobs(store).one(job)
    found = look(session.layout)
    view = view_of(found, store, place)
    if as_json:
        say_json(view.as_json())
        return 0
    screen = session.screen
    data = _data(store, found, place, view)
    lines = [*explain(found, view, screen.width)]
    if view.note:
        lines.append([Cell(f"  {escaped(view.note, 500)}", "dim")])
    lines += [[], [Cell("file      ", "dim"), Cell(f"{tilde(session.layout.root)}/{escaped(view.file)}")]]
    if view.log is not None:
        lines.append([Cell("log       ", "dim"), Cell(f"{tilde(session.layout.root)}/{escaped(view.log)}")])
    lines += _figures(view)
    spec = None if data is None else job_in(data)
    if spec is not None:
        lines += [[], *_settings(found, spec)]
    steps = () if data is None else trace.read(data)
    if steps:
        lines += [[], *([Cell(f"{at}  ", "dim"), Cell(text)] for at, text in history(steps))]
    screen.show(lines)
    return 0


def _data(store: Store, found: Survey, place: Place, view: JobView) -> bytes | None:
    """The job's file; of a run, what was started: later edits never reach it."""
    if view.stage is Stage.RUNNING and view.name in found.runs:
        return snapshot(found.runs[view.name].start)
    try:
        return store.open_own(f"{store.layout.root}/{view.file}").data
    except OSError:
        return None


def _figures(view: JobView) -> list[Line]:
    """What the run uses now."""
    if view.stage is not Stage.RUNNING or view.used is None:
        return []
    words = [f"{format_size(view.used)} of memory now, {format_size(view.peak_memory or 0)} at most"]
    if view.memory:
        words.append(f"{format_size(view.memory)} declared")
    words.append("1 process" if view.processes == 1 else f"{view.processes} processes")
    if view.pid is not None:
        words.append(f"pid {view.pid}")
    if view.state in STATES:
        words.append(STATES[view.state])
    return [[Cell("uses      ", "dim"), Cell(", ".join(words))]]


def _settings(found: Survey, job: Job) -> list[Line]:
    size = model_bytes(job, found.settings.cwd)
    lines = effective(job, found.settings, total=found.box.total, model_bytes=size, identity=login_environment())
    return [[Cell(line.key, "bold"), Cell(f" {line.value}"), Cell(f", {line.source}", "dim")] for line in lines]


def history(steps: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The steps of a job, each with its time.  It is what the file says, whoever wrote it."""
    lines = []
    for step in steps:
        at = epoch(step.get("at"))
        lines.append(("?" * 19 if at is None else _second(at), _step(step)))
    return lines


def _second(at: float) -> str:

    return f"{datetime.datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"


def _step(step: Mapping[str, Any]) -> str:
    def text(key: str) -> str:
        return escaped(str(step.get(key, "?")), 500)

    match step.get("step"):
        case "accepted":
            return f"accepted from {text('from')}, uid {text('uid')}"
        case "started":
            return _started(step)
        case "ended":
            return _ended(step)
        case "requeued":
            return f"queued again: {text('why')}"
        case other:
            return escaped(str(other))


def _started(step: Mapping[str, Any]) -> str:
    words = [f"started as run {escaped(str(step.get('run', '?')))}, pid {escaped(str(step.get('pid', '?')))}"]
    locks = step.get("locks")
    if isinstance(locks, dict) and locks:
        named = (
            f"{lock} {','.join(map(str, units))}" if isinstance(units, list) and units != ["0"] else str(lock)
            for lock, units in locks.items()
        )
        words.append("with " + " + ".join(escaped(lock) for lock in named))
    if isinstance(memory := step.get("memory"), int) and memory:
        words.append(format_size(memory))
    if isinstance(waited := step.get("waited_s"), int | float) and waited >= 1:
        words.append(f"waited {span(waited)}")
    reasons = step.get("waited_for")
    if isinstance(reasons, list) and reasons:
        words.append(f"for: {escaped('; '.join(map(str, reasons)), 500)}")
    return ", ".join(words)


def _ended(step: Mapping[str, Any]) -> str:
    words = [f"ended {escaped(str(step.get('outcome', '?')))}"]
    if isinstance(elapsed := step.get("elapsed_s"), int | float):
        words[0] += f" after {span(elapsed)}"
    if isinstance(number := step.get("signal"), int):
        words.append(f"signal {number}" + (f" ({SIGNALS[number]})" if number in SIGNALS else ""))
    elif "exit" in step:
        words.append(f"exit {escaped(str(step['exit']))}")
    if isinstance(cpu := step.get("cpu_s"), int | float):
        words.append(f"cpu {span(cpu)}")
    if isinstance(peak := step.get("peak_memory"), int) and peak:
        words.append(f"{format_size(peak)} at most")
    if isinstance(left := step.get("leftover"), list) and left:
        words.append(f"left over: {escaped('; '.join(map(str, left)), 500)}")
    if "why" in step:
        words.append(escaped(str(step["why"]), 500))
    return ", ".join(words)
