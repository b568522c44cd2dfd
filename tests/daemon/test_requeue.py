"""A job that is queued again still knows what it waited for."""

from __future__ import annotations

from spooling import Spool

from spoold.model import Stage


def test_a_retried_job_whose_predecessor_ended_before_the_last_restart_runs_again(spool: Spool) -> None:
    spooler = spool.start()
    spool.drop("0010-first.toml", spool.job("first"))
    spool.until_done("0010-first.toml")
    spool.drop("0020-second.toml", spool.job("second", gate=True, do="exit 1", after="first", retry={"times": 1}))
    spool.until_begun("second")
    spooler.kill()
    spool.start()
    spool.open_gate("second")
    spool.until_begun("second", times=2)
    spool.open_gate("second")
    assert spool.until_done("0020-second.toml") == "failed"


def test_a_job_that_was_moved_back_from_running_waits_for_nobody_that_has_ended(spool: Spool) -> None:
    spool.start().stop()
    spool.run_until_empty()
    spool.drop("0010-first.toml", spool.job("first"))
    spool.run_until_empty()
    spooler = spool.start()
    spool.drop("0020-second.toml", spool.job("second", gate=True, after_ok="first", grace="1s"))
    spool.until_begun("second")
    spool.path(Stage.RUNNING, "0020-second.toml").rename(spool.path(Stage.READY, "0020-second.toml"))
    spool.until_begun("second", times=2)
    spool.open_gate("second")
    assert spool.until_done("0020-second.toml") == "ok"
    spooler.stop()
