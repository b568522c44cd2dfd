"""orders - what a supervisor is told about one run: command, folder, environment, limits.

Owns the environment of a job: the box's identity, `[env]` of spool.toml, the job's own, then SPOOLD_*; nothing of the spooler's own.
Pure: who the user is and where the spool lies are arguments.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from typing import Final

from jobspec.spec import NO_LIMIT
from spoold.layout import Layout
from spoold.model import Ready, Stage
from spoold.records import Order
from spoold.settings import Durability, Settings

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def lock_variable(lock: str) -> str:
    """SPOOLD_LOCK_GPU for the lock gpu."""
    return "SPOOLD_LOCK_" + "".join(c if c.isalnum() else "_" for c in lock.upper())


def environment(
    job: Ready, run: int, locks: Mapping[str, tuple[str, ...]], settings: Settings, layout: Layout, identity: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of a run, but for what only its supervisor knows (SPOOLD_DEADLINE)."""
    env = {"PATH": DEFAULT_PATH, **identity, **settings.env, **job.job.env}
    for lock, units in locks.items():
        said = settings.locks.get(lock)
        if said is not None and said.env is not None:
            env[said.env] = ",".join(units)
    env |= {
        "SPOOLD_JOB": job.name,
        "SPOOLD_RUN": str(run),
        "SPOOLD_SPOOL": layout.root,
        "SPOOLD_STAGE_DIR": layout.stage(Stage.RUNNING),
        "SPOOLD_MEMORY": str(job.memory or 0),
        "SPOOLD_WALL": "none" if job.wall_s == NO_LIMIT else f"{job.wall_s:.3f}".rstrip("0").rstrip("."),
    }
    return env | {lock_variable(lock): ",".join(units) for lock, units in locks.items()}


def make_order(
    job: Ready,
    run: int,
    text: bytes,
    locks: Mapping[str, tuple[str, ...]],
    *,
    settings: Settings,
    layout: Layout,
    identity: Mapping[str, str],
    now: float,
    waited_for: Sequence[str],
) -> Order:
    """The order for one run of a ready job; `text` is its file as it was read and checked."""
    spec = job.job
    home = identity.get("HOME", "/")
    cwd = expand(spec.cwd or settings.cwd, home)
    since = max(job.accepted_at, job.not_before or 0.0)
    return Order(
        run=run,
        job=job.file.removesuffix(".toml"),
        seq=job.seq,
        name=job.name,
        file=job.file,
        text=text.decode("utf-8", "surrogateescape"),
        argv=None if spec.command is None else list(spec.command),
        script=spec.script,
        shell=list(settings.shell),
        cwd=cwd,
        env=environment(job, run, locks, settings, layout, identity),
        stdin=None if spec.stdin is None else expand(spec.stdin, home, cwd),
        log_number=job.runs + 1,
        wall_s=None if job.wall_s == NO_LIMIT else job.wall_s,
        grace_s=job.grace_s,
        nice=spec.nice or 0,
        umask=settings.umask,
        locks={lock: list(units) for lock, units in locks.items()},
        memory=job.memory or 0,
        waited_s=max(0.0, now - since),
        waited_for=list(waited_for),
        sync=settings.durability is Durability.FULL,
        log_limit=settings.log_limit,
    )


def expand(path: str, home: str, start: str | None = None) -> str:
    """A leading ~ is the home directory; a relative path starts at `start`, else there too."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.join(start or home, path)
