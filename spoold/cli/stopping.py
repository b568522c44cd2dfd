"""stopping - `stop` and `again`: out of running/, and out of done/ or refused/ to run once more.

Owns nothing but the renames that a user would make with mv.  The spooler does what they mean.
Fails: NoSuchError for a job that is not there, SpoolError where the new name is taken.
"""

from __future__ import annotations

import sys
import time

import click

from jobspec import trace
from jobspec.names import BadNameError, parse_file_name, show
from spoold import claim
from spoold.archive import names_of
from spoold.cli.completing import Job
from spoold.cli.ends import LOOK_S, Awaited, Waiting, end_text
from spoold.cli.jobs import ENDED, Jobs, Place
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import complain, say
from spoold.errors import NoSuchError, SpoolError
from spoold.model import Stage, fold
from spoold.store import Store


@verb(
    "stop",
    examples="""
spoold stop g52                 TERM, its grace, KILL; outcome stopped
spoold stop --requeue g52       and queue it again
spoold stop --wait 'bench-*'
""",
)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", type=Job(Stage.RUNNING))
@click.option("--requeue", is_flag=True, help="Queue it again; it keeps its number.")
@click.option("--wait", is_flag=True, help="Return when its processes are gone.")
@pass_session
def stop(session: Session, jobs: tuple[str, ...], requeue: bool, wait: bool) -> int:
    """Stop running jobs.

    Their files leave running/, and the spooler ends their processes: TERM, the grace of the job, KILL.

    A job that waits is kept from starting by `hold`, or for good by removing its file.
    """
    store = Store(session.layout)
    places = Jobs(store).some(jobs, (Stage.RUNNING,))
    awaited = [Awaited(store, place.name) for place in places if not place.taken] if wait and not requeue else []
    for place in places:
        if place.taken:
            say(f"{show(place.name)} is being stopped already")
            continue
        try:
            target = _requeue(store, place) if requeue else f"done/{store.move_to_free(_path(store, place), Stage.DONE, place.entry)}"
        except FileNotFoundError:
            raise NoSuchError(f"{show(place.name)} has just ended; `spoold show {show(place.name)}` says how") from None
        store.sync_dirs(store.layout.stage(Stage.READY if requeue else Stage.DONE), store.layout.stage(Stage.RUNNING))
        say(f"{place.file} -> {target}")
    sys.stdout.flush()
    if not awaited and not claim.is_held(session.layout.owner):
        complain("no spooler runs: the processes are stopped once `spoold run` does")
    waiting = Waiting(session.layout)
    for one in awaited:
        while (end := one.look().end) is None:
            waiting.pause()
        say(end_text(end))
    if wait and requeue:
        _wait_until_gone(store, places)
    return 0


def _path(store: Store, place: Place) -> str:
    return store.layout.entry(place.stage, place.entry)


def _requeue(store: Store, place: Place) -> str:
    try:
        store.move_by_hand(Stage.RUNNING, place.entry, Stage.READY, place.entry)
    except FileExistsError:
        raise SpoolError(f"ready/{show(place.entry)} is there already; rename one of them") from None
    return f"ready/{place.entry}"


def _wait_until_gone(store: Store, places: list[Place]) -> None:
    """Until none of these runs has a process left."""
    from spoold import slots

    names = {place.name for place in places}

    def stopping() -> bool:
        records = (slots.read(store.layout.slot(number)) for number in slots.numbers(store.layout))
        return any(record.live and record.end is None and record.start is not None and record.start.name in names for record in records)

    while stopping():
        time.sleep(LOOK_S)


@verb(
    "again",
    examples="""
spoold again g52            the run of g52 that ended last
spoold again 0050-g52.2     that file
""",
)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", type=Job(*ENDED))
@pass_session
def again(session: Session, jobs: tuple[str, ...]) -> int:
    """Run jobs once more that have ended or were refused.

    Their files go to incoming/, under the name they ran as.
    """
    store = Store(session.layout)
    found = Jobs(store)
    for place in found.some(jobs, ENDED):
        entry = _name_it_ran_as(store, place)
        name = parse_file_name(entry).name
        live = next((other for other in found.live() if fold(other.name) == fold(name)), None)
        if live is not None:
            raise SpoolError(
                f"a job named {show(name)} is live already: {show(live.file)}; wait for its end, or drop a copy under another name"
            )
        try:
            store.move_by_hand(place.stage, place.entry, Stage.INCOMING, entry)
        except FileExistsError:
            raise SpoolError(f"incoming/{show(entry)} is there already; wait until it is accepted") from None
        except FileNotFoundError:
            raise NoSuchError(f"{show(place.file)} is not there any more") from None
        store.sync_dirs(store.layout.stage(Stage.INCOMING), store.layout.stage(place.stage))
        say(f"{show(place.file)} -> incoming/{entry}")
    if not claim.is_held(session.layout.owner):
        complain("no spooler runs: it starts once `spoold run` does")
    return 0


def _name_it_ran_as(store: Store, place: Place) -> str:
    """The file's name without the number that a taken name got."""
    try:
        own = parse_file_name(place.entry)
    except BadNameError as error:
        raise SpoolError(str(error)) from error
    named = names_of(place.entry)
    if len(named) == 1:
        return own.file
    plain = own.file.replace(own.name, named[1][1])
    steps = trace.read(store.open_own(_path(store, place)).data or b"")
    for step in reversed(steps):
        if step.get("step") == "ended" and step.get("name") in (own.name, named[1][1]):
            return own.file if step["name"] == own.name else plain
        if step.get("step") == "accepted" and str(step.get("from", "")).endswith((own.file, f"/{own.name}.toml")):
            return own.file
    # never accepted: the number is that of a taken place if the place is taken
    there = set(store.stage_entries(place.stage))
    return plain if plain in there else own.file
