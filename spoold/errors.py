"""errors - what can go wrong, whose fault it is, and the exit code that says so.

Owns the exit codes (sysexits.h) and one exception for each owner of a failure: the user of the command, the spool itself.
A job's own failure is no exception: it is an outcome.  A broken invariant is an AssertionError and is never caught.
"""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """Exit codes of the command line, after sysexits.h."""

    OK = 0
    USAGE = 64
    BAD_JOB = 65
    NO_INPUT = 66
    NO_SPOOLER = 69
    INTERNAL = 70
    CANNOT_WRITE = 73
    ANOTHER_RUNS = 75
    BAD_SETTINGS = 78


class SpooldError(Exception):
    """One sentence for the user: what is wrong and what to do about it."""

    code: Exit = Exit.INTERNAL


class UsageError(SpooldError):
    """The command was called wrongly."""

    code = Exit.USAGE


class NoSuchError(SpooldError):
    """There is no such spool or job."""

    code = Exit.NO_INPUT


class NoSpoolerError(SpooldError):
    """A spooler is needed and none runs."""

    code = Exit.NO_SPOOLER


class AnotherRunsError(SpooldError):
    """Another spooler owns this spool."""

    code = Exit.ANOTHER_RUNS


class SpoolError(SpooldError):
    """The spool itself fails: full, read-only, gone, on a file system that cannot keep its promises."""

    code = Exit.CANNOT_WRITE


class BadSettingsError(SpooldError):
    """spool.toml cannot be used."""

    code = Exit.BAD_SETTINGS
