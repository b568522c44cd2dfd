"""command - what will be executed for a job, and the sentence that says why it cannot be.

Owns the search along the job's own PATH, the reading of `#!` lines, and the sentences for a command, script, cwd or stdin that is of no
use.  Works in the current directory, which is the job's by then.  Never executes anything.  Fails: Unstartable, with one sentence for the
author of the job file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import Final

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
FIRST_LINE: Final = 256
"""The kernel looks no further for the end of a `#!` line."""
LONGEST: Final = 1500


class Unstartable(Exception):
    """The command can not be executed; the sentence says why and what to do."""


def shown(text: str) -> str:
    """Any string as one line that a terminal cannot be harmed by."""
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def enter(cwd: str) -> None:
    """Make the job's directory the current one."""
    try:
        os.chdir(cwd)
    except FileNotFoundError:
        raise Unstartable(f"cwd {shown(cwd)} does not exist") from None
    except NotADirectoryError:
        raise Unstartable(f"cwd {shown(cwd)} is not a directory") from None
    except PermissionError:
        raise Unstartable(f"cwd {shown(cwd)} may not be entered: no permission") from None
    except (OSError, ValueError) as error:
        raise Unstartable(f"cwd {shown(cwd)} cannot be entered: {_reason(error)}") from None


def open_stdin(path: str) -> int:
    """A descriptor for the job's standard input."""
    try:
        # without O_NONBLOCK the open of a FIFO waits for a writer, and no wall clock runs yet
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        raise Unstartable(f"stdin {shown(path)} does not exist") from None
    except PermissionError:
        raise Unstartable(f"stdin {shown(path)} may not be read: no permission") from None
    except (OSError, ValueError) as error:
        raise Unstartable(f"stdin {shown(path)} cannot be opened: {_reason(error)}") from None
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise Unstartable(f"stdin {shown(path)} is a directory")
    os.set_blocking(fd, True)
    return fd


def locate(name: str, env: Mapping[str, str]) -> str:
    """The file that `name` means to the job: as a path if it has a slash, else by the job's PATH."""
    if "\0" in name:
        raise Unstartable(f"command {shown(name)} holds a NUL character")
    if "/" in name:
        return name
    if not name:
        raise Unstartable("the command is an empty string")
    path = env.get("PATH", DEFAULT_PATH)
    useless = None
    for directory in path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            useless = useless or candidate
    if useless is not None:
        raise Unstartable(f"{shown(useless)} may not be executed: no permission (chmod +x makes it a command)")
    origin = f"PATH={shown(path)}" if "PATH" in env else f"{path} (the job has no PATH)"
    hint = f"; ./{shown(name)} is here, and `.` is not on PATH" if os.path.isfile(name) else ""
    raise Unstartable(f"command not found: {shown(name)} is in no directory of {origin}{hint}")


def first_line(head: bytes) -> tuple[str, str | None] | None:
    """The interpreter that a `#!` line names and its one argument, read as the kernel reads it; None if there is no such line."""
    if not head.startswith(b"#!"):
        return None
    words = head[2:FIRST_LINE].partition(b"\n")[0].partition(b"\0")[0].strip(b" \t")
    ends = [at for at in (words.find(b" "), words.find(b"\t")) if at >= 0]
    interpreter, argument = (words[: min(ends)], words[min(ends) :].strip(b" \t")) if ends else (words, b"")
    return (os.fsdecode(interpreter), os.fsdecode(argument) or None) if interpreter else None


def explain(path: str, error: OSError | ValueError) -> Unstartable:
    """Why the system would not execute `path`."""
    name = shown(path)
    if isinstance(error, ValueError):
        return Unstartable(f"{name} cannot be started: {error} in its arguments or environment")
    if error.errno == errno.E2BIG:
        return Unstartable(f"{name} cannot be started: its arguments and environment are longer than this system allows")
    if os.path.isdir(path):
        return Unstartable(f"{name} is a directory, not a command")
    if not os.path.lexists(path):
        return Unstartable(f"command not found: {name} does not exist" + ("" if path.startswith("/") else f" in {shown(os.getcwd())}"))
    if not os.path.exists(path):
        return Unstartable(f"command not found: {name} is a symbolic link to a file that does not exist")
    wanted = first_line(_head(path))
    if error.errno == errno.EACCES and not os.access(path, os.X_OK):
        return Unstartable(f"{name} may not be executed: no permission (chmod +x makes it a command)")
    if wanted is not None and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENOEXEC):
        interpreter = wanted[0]
        if interpreter.endswith("\r"):
            why = f"{name} ends its lines in CR LF: the interpreter in its first line, {shown(interpreter)}, does not exist"
            return Unstartable(why)
        what = "may not be executed" if os.path.exists(interpreter) else "does not exist"
        return Unstartable(f"{name} wants the interpreter {shown(interpreter)} in its first line, which {what}")
    if error.errno == errno.ENOENT:
        return Unstartable(f"{name} is there, but the loader or library that it needs is not")
    if error.errno == errno.ENOEXEC:
        return Unstartable(f"{name} is no program that this system runs and has no #! line: put its interpreter in front, or give it one")
    if error.errno == errno.ETXTBSY:
        return Unstartable(f"{name} is being written by somebody: text file busy")
    return Unstartable(f"{name} cannot be started: {_reason(error)}")


def _head(path: str) -> bytes:
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(FIRST_LINE)
    except OSError:
        return b""


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
