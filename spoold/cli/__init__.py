"""cli - the command line: arguments in, exit code out.

Owns the boundary at which every error becomes one sentence on standard error and a code of sysexits.h.  Imports nothing at first: a verb pays
for what it uses.  Never shows a traceback unless SPOOLD_DEBUG is set.  A closed pipe is no error; Ctrl-C ends in silence with 130.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """What `spoold` does; the exit code."""
    try:
        _mend_streams()
        try:
            code = _run(sys.argv[1:] if argv is None else list(argv))
            sys.stdout.flush()
        except BrokenPipeError:
            # the reader has what it wanted
            _drop_output()
            return 0
        except OSError as error:
            code = _say(_what_failed(error), 73, error)
            _drop_output()
    except KeyboardInterrupt:
        return 130
    return code


def _drop_output() -> None:
    """What cannot be written is forgotten: Python would complain once more when it flushes at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _mend_streams() -> None:
    """Standard streams that are closed would give their numbers to the next file that is opened; and no text may fail to be printed."""
    for fd, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _run(argv: list[str]) -> int:
    import click

    from spoold.cli.program import program
    from spoold.errors import Exit, SpooldError

    if "_SPOOLD_COMPLETE" in os.environ:
        program.main(argv, prog_name="spoold")
    try:
        with program.make_context("spoold", argv) as context:
            code = program.invoke(context)
            return code if isinstance(code, int) else Exit.OK
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        message = error.format_message().strip().removesuffix(".")
        context_of = getattr(error, "ctx", None)
        path = context_of.command_path if context_of is not None else "spoold"
        return _say(f"{message[:1].lower()}{message[1:]}; `{path} --help` says more", Exit.USAGE)
    except SpooldError as error:
        return _say(str(error), error.code)
    except (KeyboardInterrupt, OSError):
        raise
    except Exception as error:
        text = f"internal error: {type(error).__name__}: {error}; SPOOLD_DEBUG=1 shows where: please report it with what that says"
        return _say(text, Exit.INTERNAL, error)


def _what_failed(error: OSError) -> str:
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return f"{where}{error.strerror or error}"


def _say(text: str, code: int, error: BaseException | None = None) -> int:
    from spoold.cli.terminal import complain

    if error is not None and os.environ.get("SPOOLD_DEBUG"):
        import traceback

        traceback.print_exception(error)
    complain(text)
    return code
