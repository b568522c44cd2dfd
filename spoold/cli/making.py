"""making - `init` and `run`: make a spool, and be its spooler.

Owns what a new spool contains.  Never replaces a file that is there.  Fails: SpoolError if the place is no good for a spool.
"""

from __future__ import annotations

import os

import click

from spoold.cli.program import Session, pass_session, verb
from spoold.cli.spools import VARIABLE
from spoold.cli.terminal import complain, say, tilde
from spoold.errors import SpoolError
from spoold.layout import LOG, NUMBERED_LINKS, SETTINGS, Layout
from spoold.model import Stage


@verb(
    "init",
    examples="""
spoold init              makes ./spool (or what --spool or $SPOOLD_SPOOL names)
spoold init ~/spool      a spool that is found from everywhere
""",
)
@click.argument("directory", required=False, metavar="[DIR]", type=click.Path())
@pass_session
def init(session: Session, directory: str | None) -> int:
    """Make a spool.

    Its directories, and a spool.toml that says what can be set.  PATH goes into spool.toml as it is now, for the jobs.  In a spool that is
    there already only what is missing is made.
    """
    from spoold import host
    from spoold.settings import default_settings_text
    from spoold.store import Store
    from spoold.survey import read_settings

    layout = Layout(os.path.realpath(directory or session.option or os.environ.get(VARIABLE) or "spool"))
    _refuse_foreign(layout)
    store = Store(layout)
    new = not any(os.path.isdir(layout.stage(stage)) for stage in Stage)
    names = (*(stage.value for stage in Stage), LOG, SETTINGS, *NUMBERED_LINKS)
    missing = [name for name in names if not os.path.lexists(f"{layout.root}/{name}")]
    try:
        store.make()
        if not os.path.lexists(layout.settings):
            store.write_private(layout.settings, default_settings_text(os.environ.get("PATH") or os.defpath))
    except OSError as error:
        raise SpoolError(f"cannot make {error.filename or layout.root}: {error.strerror}") from error
    place = host.file_system(layout.root)
    if not place.local and not read_settings(layout)[0].shared:
        complain(f"{place.why}; `spoold run` will not run here unless [spool] shared = true in spool.toml")
    shown = tilde(layout.root)
    if new:
        say(f"{shown} is a spool now.  `spoold run` is its spooler; settings are in {shown}/spool.toml.")
    elif missing:
        say(f"{shown}: made what was missing ({', '.join(missing)}).")
    else:
        say(f"{shown} is a spool already; nothing was changed.")
    return 0


def _refuse_foreign(layout: Layout) -> None:
    """A directory with other things in it is not taken over by a slip of the keyboard."""
    try:
        there = [entry for entry in os.listdir(layout.root) if not entry.startswith(".")]
    except FileNotFoundError:
        return
    except OSError as error:
        raise SpoolError(f"{layout.root}: {error.strerror}") from error
    if there and not any(os.path.isdir(layout.stage(stage)) for stage in Stage):
        raise SpoolError(f"{layout.root} is not empty and no spool; name a directory that is new: `spoold init {layout.root}/spool`")


@verb(
    "run",
    examples="""
spoold run                       until it is stopped; jobs go on without it
spoold run --until-empty         until nothing is left to do
* * * * * spoold --spool ~/spool run --quiet-if-running       in a crontab
""",
)
@click.option("--until-empty", is_flag=True, help="End when nothing is left to do.")
@click.option("--quiet-if-running", is_flag=True, help="If there is a spooler already, exit 0 in silence.")
@pass_session
def run(session: Session, until_empty: bool, quiet_if_running: bool) -> int:
    """Be the spooler of a spool.

    Accept what is dropped, start what may start, put away what has ended.
        One spooler a spool.  It can be stopped and started again at any moment without touching a running job.
    """
    from spoold.daemon import run as be_the_spooler

    return be_the_spooler(session.layout, until_empty=until_empty, quiet_if_running=quiet_if_running)
