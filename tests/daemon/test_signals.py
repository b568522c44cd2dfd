"""SIGTERM and SIGINT end the spooler at once without touching a job; SIGHUP reads the settings again."""

from __future__ import annotations

import os
import signal
import time

import pytest
from spooling import Spool, until

from spoold import slots
from spoold.lockfile import is_locked
from spoold.model import Stage


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_spooler_at_once_and_no_job(spool: Spool, number: signal.Signals) -> None:
    spooler = spool.start()
    spool.drop("0010-a.toml", spool.job("a", gate=True))
    spool.drop("0020-b.toml", spool.job("b"))
    spool.until_begun("a")
    spool.until_in(Stage.READY, "0020-b.toml")
    began = time.monotonic()
    os.kill(spooler.pid, number)
    assert spooler.wait() == 0
    assert time.monotonic() - began < 1.0
    assert is_locked(spool.layout.slot(1).job_lock), "the job is gone"
    assert spool.entries(Stage.RUNNING) == ["0010-a.toml"]
    assert spool.entries(Stage.READY) == ["0020-b.toml"]
    assert spooler.said("these go on under their supervisors: a")
    spool.open_gate("a")
    until(lambda: slots.read(spool.layout.slot(1)).end is not None, "its end is on record")
    assert spool.entries(Stage.READY) == ["0020-b.toml"], "something was started"
    spool.start()
    assert spool.until_done("0010-a.toml") == "ok"
    assert spool.until_done("0020-b.toml") == "ok"
    spool.check()


def test_a_signal_ends_the_spooler_at_once_also_when_there_is_much_to_do(spool: Spool) -> None:
    for number in range(500):
        spool.drop(f"{1000 + number}-j{number}.toml", spool.job(f"j{number}", after=["never"]))
    spooler = spool.start()
    began = time.monotonic()
    os.kill(spooler.pid, signal.SIGTERM)
    assert spooler.wait() == 0
    assert time.monotonic() - began < 1.0
    assert len(spool.entries(Stage.INCOMING)) + len(spool.entries(Stage.READY)) + len(os.listdir(spool.layout.claims)) == 500


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_the_spooler_begins_harms_nothing(spool: Spool, number: signal.Signals) -> None:
    spool.drop("0010-a.toml", spool.job("a"))
    for pause_s in (0.1, 0.2, 0.3, 0.4, 0.5):
        spooler = spool.launch()
        time.sleep(pause_s)
        os.kill(spooler.pid, number)
        # one that comes before the spooler's first line is the system's to answer, and that answer is an end
        if number == signal.SIGHUP and spooler.process.poll() is None:
            spooler.process.terminate()
        spooler.wait()
    spool.start()
    assert spool.until_done("0010-a.toml") == "ok"
    spool.check()
    assert spool.began() == ["a"]


def test_hup_reads_the_settings_again_and_touches_no_job(spool: Spool) -> None:
    spooler = spool.start()
    spool.drop("0010-a.toml", spool.job("a", gate=True))
    spool.drop("0020-b.toml", spool.job("b", gate=True))
    spool.until_begun("a")
    # written in place, which no event has to tell of
    with open(spool.root / "spool.toml", "a") as file:
        file.write("[locks]\nbox = 2\n")
    os.kill(spooler.pid, signal.SIGHUP)
    spooler.until_said("the new settings are in force")
    spool.until_begun("b")
    assert sorted(spool.entries(Stage.RUNNING)) == ["0010-a.toml", "0020-b.toml"]
    for name in ("a", "b"):
        spool.open_gate(name)
    spool.until_done("0020-b.toml")
    assert spooler.process.poll() is None


def test_a_bad_spool_toml_at_hup_is_said_and_leaves_the_last_good_settings(spool: Spool) -> None:
    spooler = spool.start()
    spool.settings("[locks]\nbox = 0\n")
    os.kill(spooler.pid, signal.SIGHUP)
    spooler.until_said("the last good settings stay in force")
    spool.drop("0010-a.toml", spool.job("a"))
    assert spool.until_done("0010-a.toml") == "ok"


def test_a_hundred_hups_in_a_row_cost_nothing(spool: Spool) -> None:
    spooler = spool.start()
    spool.drop("0010-a.toml", spool.job("a", gate=True))
    spool.until_begun("a")
    for _ in range(100):
        os.kill(spooler.pid, signal.SIGHUP)
    spool.drop("0020-b.toml", spool.job("b", lock=[]))
    assert spool.until_done("0020-b.toml") == "ok"
    spool.open_gate("a")
    assert spool.until_done("0010-a.toml") == "ok"
    spool.check(unordered=("b",))
