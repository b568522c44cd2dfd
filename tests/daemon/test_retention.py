"""[keep]: old records and logs go, each on its own clock, and nothing else does."""

from __future__ import annotations

import datetime
import os
import time

from spooling import SETTINGS, Spool, until

from spoold.model import Stage

DAY_S = 86_400.0


def age(path: os.PathLike[str], days: float) -> None:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))


def test_nothing_is_removed_by_default(spool: Spool) -> None:
    old = spool.path(Stage.DONE, "0010-old.toml")
    old.write_text('command = ["true"]\n')
    age(old, 10_000)
    spool.run_until_empty()
    assert old.exists()


def test_records_reasons_and_logs_that_are_too_old_go_and_younger_ones_stay(spool: Spool) -> None:
    spool.settings(f'{SETTINGS}[keep]\ndone = "90d"\nrefused = "30d"\nlog = "7d"\n')
    log = spool.root / "log"
    files = {
        spool.path(Stage.DONE, "0010-old.toml"): 91,
        spool.path(Stage.DONE, "0010-young.toml"): 89,
        spool.path(Stage.DONE, "notes.txt"): 1000,
        spool.path(Stage.REFUSED, "0020-old.toml"): 31,
        spool.path(Stage.REFUSED, "0020-old.why"): 31,
        spool.path(Stage.REFUSED, "0020-young.toml"): 29,
        spool.path(Stage.REFUSED, "0020-young.why"): 31,
        log / "0010-old.log": 8,
        log / "0010-young.log": 6,
    }
    for path, days in files.items():
        path.write_text('command = ["true"]\n')
        age(path, days)
    spooler = spool.start()
    spooler.until_said("3 old files removed")
    assert {path.name for path in files if path.exists()} == {"0010-young.toml", "notes.txt", "0020-young.toml", "0020-young.why", "0010-young.log"}


def test_what_a_ready_job_waits_for_is_kept(spool: Spool) -> None:
    spool.start()
    spool.drop("0010-first.toml", spool.job("first"))
    spool.until_done("0010-first.toml")
    spool.drop("0020-held.toml", spool.job("held", after="first", not_before=datetime.datetime(2099, 1, 1)))
    spool.until_in(Stage.READY, "0020-held.toml")
    age(spool.path(Stage.DONE, "0010-first.toml"), 100)
    other = spool.path(Stage.DONE, "0030-other.toml")
    other.write_text('command = ["true"]\n')
    age(other, 100)
    spool.settings(f'{SETTINGS}[keep]\ndone = "90d"\n')
    until(lambda: not other.exists(), "the other one is gone")
    assert spool.path(Stage.DONE, "0010-first.toml").exists()
