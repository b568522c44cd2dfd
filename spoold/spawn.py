"""spawn - the one module that makes processes.

Owns fork, posix_spawn and subprocess.  The spooler only ever starts the launcher, by an exec; only the launcher forks, for it is small and
has one thread; only a supervisor spawns jobs.  Never decides what to run.  Standard library only, and imported under `python -I -S`.
Fails: OSError as the system gives it; ValueError for a NUL in an argument or an environment.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import subprocess

_CODE: Final = "import sys; sys.path.append(sys.argv[1]); from spoold.launcher import main; main(int(sys.argv[2]), *sys.argv[3:])"
_RESET: Final = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


def start_launcher(end: int, root: str, durability: str) -> subprocess.Popen[bytes]:
    """A launcher that is spoken to over the descriptor `end`, which stays the caller's to close.

    It keeps our stderr until it has imported what it needs, so that a broken installation is seen.
    """
    import subprocess  # here, for the launcher and the supervisors import this module and never need it

    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # -S and -I: nothing of the user's Python settings; utf8: job files are UTF-8, whatever the locale that the spooler was given
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _CODE, home, str(end), root, durability]
    return subprocess.Popen(command, pass_fds=(end,), start_new_session=True, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def fork_supervisor() -> int:
    """Called by the launcher alone.  0 in the child."""
    return os.fork()


def spawn_job(path: str, argv: list[str], env: Mapping[str, str], *, stdin: int, output: int, lock: int, lock_as: int) -> int:
    """The job's main process: a session of its own, default signals, descriptors 0, 1, 2 and its lock; all others are close-on-exec."""
    actions = [
        (os.POSIX_SPAWN_DUP2, stdin, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
        (os.POSIX_SPAWN_DUP2, lock, lock_as),
    ]
    return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_RESET)
