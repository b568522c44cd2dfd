"""Jobs that have ended and whose files cannot be put into done/: they hold nothing, and every look at the spool says so."""

from __future__ import annotations

import json

import pytest
from spooling import Spool, command, until

from spoold.cli import health
from spoold.settings import Settings


def test_two_ended_jobs_that_had_the_same_lock_are_both_shown(spool: Spool) -> None:
    spooler = spool.start()
    spool.drop("0010-first.toml", spool.job("first", gate=True))
    spool.until_begun("first")
    spool.drop("0020-second.toml", spool.job("second", gate=True))
    done = spool.root / "done"
    away = done.rename(spool.root / "done.away")
    spool.open_gate("first")
    spooler.until_said("0010-first has ended and cannot be put away")
    spool.until_begun("second")
    # the one that runs has the lock, the one that has ended has none
    told = command("--spool", str(spool.root), "ls", "--json", "running")
    assert told.returncode == 0, told.stderr
    assert {job["name"]: bool(job["locks"]) for job in json.loads(told.stdout)} == {"first": False, "second": True}
    assert "has ended" in command("--spool", str(spool.root), "why", "first").stdout
    spool.open_gate("second")
    spooler.until_said("0020-second has ended and cannot be put away")
    told = command("--spool", str(spool.root), "ls", "running")
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("has ended") == 2
    told = command("--spool", str(spool.root), "ls", "--json", "running")
    assert [job["locks"] for job in json.loads(told.stdout)] == [{}, {}]
    away.rename(done)
    assert spool.until_done("0010-first.toml") == "ok"
    assert spool.until_done("0020-second.toml") == "ok"
    until(lambda: "has ended" not in command("--spool", str(spool.root), "ls", "running").stdout, "nothing is left in running/")


def test_doctor_names_a_full_disk_also_where_no_floor_is_set(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(disk_floor=0)
    assert [finding.remedy for finding in health._disk(spool.layout, settings)] == [None]
    monkeypatch.setattr(health, "disk_free", lambda path: 0)
    assert "it is full" in str([finding.remedy for finding in health._disk(spool.layout, settings)])
