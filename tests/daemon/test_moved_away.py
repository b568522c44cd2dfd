"""A spool that is moved, removed or shut away under a spooler that works on it."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from spooling import Spool, until

from spoold.model import Stage


def test_a_spooler_ends_when_its_spool_is_moved_away_and_makes_nothing_in_its_place(spool: Spool, tmp_path: pathlib.Path) -> None:
    spooler = spool.start()
    spool.drop("0010-first.toml", spool.job("first", gate=True))
    spool.until_begun("first")
    spool.drop("0020-second.toml", spool.job("second", after="first"))
    spool.until_in(Stage.READY, "0020-second.toml")
    away = tmp_path / "away"
    spool.root.rename(away)
    assert spooler.wait() == 73
    assert spooler.said("it was moved or removed")
    assert not spool.root.exists()
    away.rename(spool.root)
    spool.start()
    spool.open_gate("first")
    assert spool.until_done("0010-first.toml") == "ok"
    assert spool.until_done("0020-second.toml") == "ok"
    assert spool.began() == ["first", "second"]


def test_a_spooler_goes_on_when_only_the_private_directory_was_removed(spool: Spool) -> None:
    spooler = spool.start()
    shutil.rmtree(spool.layout.private)
    spooler.until_said("taken again")
    spool.drop("0010-first.toml", spool.job("first"))
    assert spool.until_done("0010-first.toml") == "ok"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_spooler_outlives_a_private_directory_that_cannot_be_looked_into(spool: Spool) -> None:
    spooler = spool.start()
    private = pathlib.Path(spool.layout.private)
    private.chmod(0)
    try:
        spool.drop("0010-first.toml", spool.job("first"))
        until(lambda: len(spooler.said("ermission denied")) > 0 or spooler.process.poll() is not None, "the trouble is said")
        assert spooler.process.poll() is None
    finally:
        private.chmod(0o700)
    assert spool.until_done("0010-first.toml") == "ok"
