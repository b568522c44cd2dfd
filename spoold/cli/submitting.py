"""submitting - `submit`: options to a job file, and the file into incoming/.

Owns the way from the command line to a `Job`, and the NAME that a job gets which was given none.  The file is complete, checked and on the disk
before it has its name in incoming/.  Imports little: a shell that submits a thousand jobs pays for it a thousand times.
Fails: UsageError for an option, BadJobError for what makes no job; then nothing was queued.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from jobspec.names import BadNameError, parse_file_name, show, suggest
from jobspec.spec import MAX_FILE_BYTES, Job, ModelSize, Retry, RetryOn, Share
from spoold.cli.jobs import Jobs
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import complain, say
from spoold.cli.values import AMOUNT, DURATION, LOCK, MOMENT, OUTCOMES, WALL
from spoold.errors import Exit, SpooldError, UsageError
from spoold.model import fold
from spoold.store import Store

_WHOLE: Final = "\0whole"
_OF_THE_SHELL: Final = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
_MOST_TRIES: Final = 100


class BadJobError(SpooldError):
    """What was asked for makes no job."""

    code = Exit.BAD_JOB


@verb(
    "submit",
    examples="""
spoold submit -- ./bench.sh --model q4
spoold submit --name g52 --lock gpu --memory 37GB --wall 12h -- ./bench.sh
spoold submit --after-ok g52 --note "what came of it" -- ./summary.py
echo "make && make test" | spoold submit --script - --wait
""",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--script", metavar="FILE", help="Run this script instead of a command; - reads it from standard input.")
@click.option("--name", metavar="NAME", help="The job's identity; else made from the command.")
@click.option("--seq", type=click.IntRange(min=0), metavar="N", help="Its number; else it comes last.")
@click.option("--after", multiple=True, metavar="JOB", help="Start when that job has ended; may be repeated, as the next two.")
@click.option("--after-ok", multiple=True, metavar="JOB", help="Start when that job has ended well; else be refused.")
@click.option("--after-failed", multiple=True, metavar="JOB", help="Start when that job has failed; else be refused.")
@click.option(
    "--lock",
    "locks",
    multiple=True,
    type=LOCK,
    metavar="NAME[=N]",
    help="Hold this lock, N of its units or =all; may be repeated.",
)
@click.option("--no-lock", is_flag=True, help="Hold no lock, not even the default one.")
@click.option("--memory", type=AMOUNT, metavar="SIZE", help='The most it will use: 37GB, or "79%" of all.')
@click.option("--memory-of", metavar="PATH", help="It will use as much as that file or folder is large.")
@click.option("--margin", type=AMOUNT, metavar="SIZE", help="What comes on top of --memory-of.")
@click.option("--wall", type=WALL, metavar="TIME", help="How long it may run: 90m, 12h, none.")
@click.option("--grace", type=DURATION, metavar="TIME", help="The time between TERM and KILL.")
@click.option("--nice", type=click.IntRange(-20, 20), metavar="N", help="How far it steps back for others.")
@click.option("--cwd", metavar="DIR", help="Where it runs; else here.")
@click.option("--stdin", metavar="FILE", help="Its standard input; else /dev/null.")
@click.option(
    "--env",
    "env",
    multiple=True,
    is_flag=False,
    flag_value=_WHOLE,
    metavar="[NAME[=VALUE]]",
    help="Give it this variable, or (alone) all that are set here.",
)
@click.option("--not-before", type=MOMENT, metavar="TIME", help="Do not start before: 22:00 or 2026-12-02T22:00.")
@click.option("--give-up", type=DURATION, metavar="TIME", help="Refuse it if it has not started within this time.")
@click.option("--retry", type=click.IntRange(min=1), metavar="N", help="Run it again up to N times.")
@click.option("--retry-delay", type=DURATION, metavar="TIME", help="Wait so long before it runs again.")
@click.option("--retry-on", type=OUTCOMES, metavar="LIST", help="After which outcomes: failed (the default), wall, memory, lost.")
@click.option("--keep-awake", is_flag=True, help="Keep the box from sleeping while it runs.")
@click.option("--note", metavar="TEXT", help="What this is for.")
@click.option("--wait", is_flag=True, help="Follow its output, and exit as it exits.")
@click.option("--dry-run", is_flag=True, help="Print the job file, queue nothing.")
@pass_session
def submit(session: Session, /, *, name: str | None, seq: int | None, wait: bool, dry_run: bool, **said: Any) -> int:
    """Queue a command or a script; print the job's name.

    Writes a job file and drops it into the spool.  The job runs in the directory where you are.  Of the environment it sees what spool.toml
    says, and what --env adds.
    """
    job = _job(said)
    data = _checked(job)
    if dry_run:
        if name is not None or seq is not None:
            _entry(name or _base(said), seq)
        sys.stdout.write(data.decode())
        return 0
    store = Store(session.layout)
    name = _queue(store, data, name, _base(said), seq)
    say(name)
    sys.stdout.flush()
    if not _spooler_runs(store):
        complain("no spooler runs: it is queued, and starts once `spoold run` does")
    if not wait:
        return 0
    from spoold.cli.following import follow

    return follow(store, name)


def _spooler_runs(store: Store) -> bool:
    from spoold import claim

    return claim.is_held(store.layout.owner)


def _job(said: Mapping[str, Any]) -> Job:
    """The job that the options describe."""
    command, script = said["command"], said["script"]
    if bool(command) == (script is not None):
        raise UsageError(
            "submit needs a command after --, or --script FILE" if not command else "submit takes a command or --script, not both"
        )
    if said["no_lock"] and said["locks"]:
        raise UsageError("--no-lock and --lock contradict each other")
    if said["memory"] is not None and said["memory_of"] is not None:
        raise UsageError("--memory and --memory-of contradict each other")
    if said["margin"] is not None and said["memory_of"] is None:
        raise UsageError("--margin belongs to --memory-of")
    if said["retry"] is None and (said["retry_delay"] is not None or said["retry_on"] is not None):
        raise UsageError("--retry-delay and --retry-on belong to --retry N")
    memory: int | Share | ModelSize | None = said["memory"]
    if said["memory_of"] is not None:
        memory = ModelSize(_absolute(said["memory_of"]), said["margin"] or 0)
    retry = None
    if said["retry"] is not None:
        retry = Retry(times=said["retry"], delay_s=said["retry_delay"] or 0.0, on=said["retry_on"] or frozenset({RetryOn.FAILED}))
    return Job(
        command=tuple(command) or None,
        script=None if script is None else _read_script(script),
        cwd=_here() if said["cwd"] is None else _absolute(said["cwd"]),
        env=_environment(said["env"]),
        stdin=None if said["stdin"] is None else _absolute(said["stdin"]),
        after=tuple(dict.fromkeys(said["after"])),
        after_ok=tuple(dict.fromkeys(said["after_ok"])),
        after_failed=tuple(dict.fromkeys(said["after_failed"])),
        lock=() if said["no_lock"] else tuple(said["locks"]) or None,
        memory=memory,
        wall_s=said["wall"],
        grace_s=said["grace"],
        nice=said["nice"],
        not_before=said["not_before"],
        give_up_s=said["give_up"],
        retry=retry,
        keep_awake=said["keep_awake"],
        note=said["note"],
    )


def _here() -> str:
    """The current directory by the name that the shell knows it by."""
    try:
        here = os.getcwd()
        logical = os.environ.get("PWD", "")
        return logical if os.path.isabs(logical) and os.path.samefile(logical, here) else here
    except OSError as error:
        raise UsageError(f"the current directory cannot be told ({error.strerror}); say --cwd DIR") from error


def _absolute(path: str) -> str:
    return path if path.startswith("~") else os.path.normpath(os.path.join(_here(), path))


def _read_script(path: str) -> str:
    try:
        if path == "-":
            return sys.stdin.buffer.read(MAX_FILE_BYTES + 1).decode()
        with open(path, "rb") as file:
            return file.read(MAX_FILE_BYTES + 1).decode()
    except OSError as error:
        raise UsageError(f"{show(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{show(path)} is no text in UTF-8, and a job file can hold nothing else; submit it as a command") from error


def _environment(said: tuple[str, ...]) -> dict[str, str]:
    env: dict[str, str] = {}
    for word in said:
        name, equals, value = word.partition("=")
        if word == _WHOLE:
            env |= {
                key: value
                for key, value in os.environ.items()
                if key not in _OF_THE_SHELL and key.isidentifier() and not key.startswith("SPOOLD_")
            }
        elif equals:
            env[name] = value
        elif name in os.environ:
            env[name] = os.environ[name]
        else:
            raise UsageError(f"--env {show(name)}: there is no such variable here; --env {show(name)}=VALUE sets it")
    return env


def _checked(job: Job) -> bytes:
    """The bytes of a file that reads as this job."""
    from jobspec.errors import JobSpecError
    from jobspec.parse import parse
    from jobspec.write import write

    try:
        data = write(job)
        parse(data)
    except JobSpecError as error:
        raise BadJobError(
            "; ".join(f"{problem.key}: {problem.text}" if problem.key else problem.text for problem in error.problems)
        ) from error
    except ValueError as error:
        raise BadJobError(str(error)) from error
    return data


def _base(said: Mapping[str, Any]) -> str:
    """A NAME after what is run, made to fit the grammar."""
    path = said["script"] if said["script"] is not None else said["command"][0]
    base = os.path.basename("script" if path == "-" else path)
    return parse_file_name(suggest(f"{base}.toml")).name[:100]


def _entry(name: str, seq: int | None) -> str:
    """The file's name.  A NAME must stay what it was, with the number in front or without."""
    entry = f"{name}.toml" if seq is None else f"{seq:04d}-{name}.toml"
    try:
        good = parse_file_name(entry).name == name
    except BadNameError as error:
        raise UsageError(f"--name {show(name)}: {error}") from error
    if not good:
        raise UsageError(f"--name {show(name)}: digits and a dash in front are a number; say --seq")
    return entry


def _queue(store: Store, data: bytes, name: str | None, base: str, seq: int | None) -> str:
    """Drop the file under its name, which no live job has; the NAME."""
    wanted = base if name is None else name
    _entry(wanted, seq)
    with _one_at_a_time(store):
        live = {fold(place.name): place.file for place in Jobs(store).live()}
        for attempt in range(1, _MOST_TRIES):
            tried = wanted if attempt == 1 else f"{wanted}-{attempt}"
            if fold(tried) in live:
                if name is not None:
                    raise BadJobError(f"a job named {show(name)} is live already: {show(live[fold(tried)])}; give this one another --name")
                continue
            try:
                store.drop(data, _entry(tried, seq))
            except FileExistsError:
                live[fold(tried)] = f"incoming/{tried}.toml"
                continue
            # @ is a convenience: it need not survive a power cut
            Store(store.layout, durable=False).write_private(store.layout.last_submitted, f"{tried}\n".encode())
            return tried
    raise BadJobError(f"{show(wanted)} and a hundred names like it are taken; say --name")


@contextlib.contextmanager
def _one_at_a_time(store: Store) -> Iterator[None]:
    """Two that submit at the same moment do not choose the same name."""
    store.make_private()
    fd = os.open(store.layout.private, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
