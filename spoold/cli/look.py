"""look - the jobs of a spool as views: what runs, what waits, what was dropped, what has ended.

Owns the step from a survey, or from one file in done/ or refused/, to `JobView`s.  Reads and changes nothing.
Fails: as the survey does; a file that is gone or unreadable is shown by its name alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from jobspec import trace
from jobspec.errors import JobSpecError
from jobspec.parse import parse
from jobspec.spec import Job
from spoold.admission import read_history
from spoold.archive import names_of, newest, snapshot
from spoold.cli.jobs import Place
from spoold.layout import HOLD, WHY, Layout
from spoold.model import Ready, Reason, Rule, Stage
from spoold.settings import Settings
from spoold.store import Store
from spoold.survey import Survey, survey
from spoold.view import ENDED_STATE, JobView, of_ended, of_entry, of_ready, of_running

_WHY_LIMIT: Final = 16 * 1024


def look(layout: Layout) -> Survey:
    """The whole spool, now."""
    return survey(layout, time.time())


def running_views(found: Survey) -> list[JobView]:
    """What runs, the longest first."""
    views = []
    for name, run in found.runs.items():
        live = found.queue.live(name)
        if live is None or isinstance(live, Ready):
            continue
        data = snapshot(run.start)
        history = read_history(trace.read(data))
        accepted = None if history is None else history.accepted_at
        view = of_running(live, run.start, run.figures, job_in(data), found.box, accepted_at=accepted, supervised=run.supervised, now=found.now)
        views.append(replace(view, state=ENDED_STATE) if run.ended else view)
    views.sort(key=lambda view: (view.started_at or 0.0, view.name))
    for entry in found.unrecorded:
        seq, name = _name(entry)
        views.append(of_entry(Stage.RUNNING, entry, name, seq, Reason(Rule.REFUSED, "no run is recorded for it")))
    return views


def ready_views(found: Survey) -> list[JobView]:
    """What waits, in order; what is no job as it stands comes last."""
    views = []
    place = 0
    for job in found.queue.in_order():
        if not job.held:
            place += 1
        views.append(
            of_ready(
                job,
                file=f"{Stage.READY.value}/{job.file}",
                place=None if job.held else place,
                latest=found.latest.get(job.name),
                reasons=found.reasons.get(job.name, ()),
            )
        )
    for unread in found.unread:
        seq, name = _name(unread.entry.removesuffix(HOLD))
        views.append(of_entry(Stage.READY, unread.entry, name, seq, Reason(Rule.REFUSED, unread.why), held=unread.entry.endswith(HOLD)))
    return views


def incoming_views(found: Survey) -> list[JobView]:
    """What was dropped and is not accepted yet."""
    views = []
    for entry in found.incoming:
        seq, name = _name(entry)
        views.append(of_entry(Stage.INCOMING, entry, name, seq))
    return views


def _name(entry: str) -> tuple[int | None, str]:
    named = names_of(entry)
    return named[0] if named else (None, entry.removesuffix(".toml"))


def ended_view(store: Store, stage: Stage, entry: str, settings: Settings, name: str | None = None) -> JobView | None:
    """One file in done/ or refused/; None if it is gone."""
    path = store.layout.entry(stage, entry)
    ident = store.ident(path)
    if ident is None:
        return None
    seq, own = _name(entry)
    try:
        data = store.open_own(path).data
    except OSError:
        data = None
    history = trace.read(data) if data is not None else ()
    if stage is Stage.DONE and history:
        ran_as = history[-1].get("name")
        own = ran_as if isinstance(ran_as, str) and any(ran_as == name for _, name in names_of(entry)) else own
    job = None if data is None else job_in(data)
    why = read_why(store, entry) if stage is Stage.REFUSED else None
    at = ident.ctime_ns / 1e9
    return of_ended(stage, entry, name or own, seq, job, history, default_wall_s=settings.default_wall_s, at=at, why=why)


def ended_views(store: Store, stage: Stage, settings: Settings, last: int | None = None) -> Iterator[JobView]:
    """What lies in done/ or refused/, the newest last; `last`: only so many."""
    entries = newest(store, stage)
    for entry in entries if last is None else entries[-last:] if last else []:
        view = ended_view(store, stage, entry, settings)
        if view is not None:
            yield view


def read_why(store: Store, entry: str) -> str | None:
    """The reason beside a refused file, in one line."""
    try:
        fd = os.open(
            store.layout.entry(Stage.REFUSED, entry.removesuffix(".toml") + WHY), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        )
    except OSError:
        return None
    try:
        return " ".join(os.read(fd, _WHY_LIMIT).decode("utf-8", "replace").split())
    except OSError:
        return None
    finally:
        os.close(fd)


def job_in(data: bytes) -> Job | None:
    """The job in a file, or None if it is none."""
    try:
        return parse(trace.split(data)[0])
    except JobSpecError:
        return None


def view_of(found: Survey, store: Store, place: Place) -> JobView:
    """The view of one job, wherever it is by now."""
    live = [*running_views(found), *ready_views(found), *incoming_views(found)]
    there = next((view for view in live if view.file == place.file), None)
    if there is None and place.stage in (Stage.DONE, Stage.REFUSED):
        there = ended_view(store, place.stage, place.entry, found.settings, place.name)
    if there is None:
        there = next((view for view in live if view.name == place.name), None)
    moved_on = Reason(Rule.REFUSED, "it has just moved on; ask again")
    return there if there is not None else of_entry(place.stage, place.entry, place.name, place.seq, moved_on)
