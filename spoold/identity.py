"""identity - who the jobs run as, in environment variables: HOME USER LOGNAME SHELL LANG TMPDIR.

Owns the part of a job's environment that comes from the account and not from whatever started the spooler: launchd and cron set little of it.
Never passes anything else of the spooler's environment on.
"""

from __future__ import annotations

import os
import pwd
import sys
from typing import Final

PASSED_ON: Final = ("LANG", "TMPDIR")


def login_environment() -> dict[str, str]:
    """The account's variables; LANG and TMPDIR are the spooler's own if it has them."""
    try:
        account = pwd.getpwuid(os.geteuid())
        home, user, shell = account.pw_dir, account.pw_name, account.pw_shell
    except KeyError:
        home, user, shell = os.environ.get("HOME", "/"), str(os.geteuid()), ""
    env = {
        "HOME": os.environ.get("HOME") or home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": shell or "/bin/sh",
        "LANG": "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8",
    }
    env |= {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
    return env
