"""The spooler is killed and started again: what runs goes on, nothing runs twice, and it is back within a second."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from spooling import COMMAND, REPOSITORY, Spool, until

from spoold.errors import Exit
from spoold.model import Stage

BACK_S = 1.0


def test_a_spooler_that_was_killed_goes_on_within_a_second(spool: Spool) -> None:
    first = spool.start()
    for number in range(30):
        spool.drop(f"{100 + number:04}-w{number}.toml", spool.job(f"w{number}", after=["never"]))
    spool.drop("0010-runs.toml", spool.job("runs", gate=True))
    spool.drop("0020-next.toml", spool.job("next"))
    spool.until_begun("runs")
    spool.until_in(Stage.READY, *(f"{100 + number:04}-w{number}.toml" for number in range(30)))
    first.kill()
    spool.open_gate("runs")
    began = time.monotonic()
    spool.start()
    spool.until_done("0020-next.toml")
    took = time.monotonic() - began
    # as long as Python takes to begin is the machine's affair
    bare = time.monotonic()
    subprocess.run([*COMMAND, "--version"], cwd=REPOSITORY, capture_output=True, check=False, timeout=60)
    assert took < BACK_S + 2 * (time.monotonic() - bare), f"{took:.2f} s"
    assert spool.outcome("0010-runs.toml") == "ok"
    spool.check(idle=False)


@pytest.mark.parametrize("quiet", [False, True], ids=["", "--quiet-if-running"])
def test_of_spoolers_that_start_at_once_one_runs_and_the_others_say_so(spool: Spool, quiet: bool) -> None:
    arguments = ["--quiet-if-running"] if quiet else []
    spoolers = [spool.launch(*arguments) for _ in range(4)]
    until(lambda: sum(one.process.poll() is not None for one in spoolers) == 3, "all but one have ended")
    codes = [one.process.poll() for one in spoolers if one.process.poll() is not None]
    assert codes == [Exit.OK if quiet else Exit.ANOTHER_RUNS] * 3
    spool.drop("a.toml", spool.job("a"))
    assert spool.until_done("0010-a.toml") == "ok"
    assert spool.began() == ["a"]
    others = [line for one in spoolers if one.process.poll() is not None for line in one.said()]
    assert (others == []) is quiet, others


def test_a_second_spooler_touches_nothing_while_the_first_works(spool: Spool) -> None:
    spool.start()
    spool.drop("0010-a.toml", spool.job("a", gate=True))
    spool.drop("0020-b.toml", spool.job("b"))
    spool.until_begun("a")
    before = spool.everything()
    for _ in range(3):
        assert spool.launch().wait() == Exit.ANOTHER_RUNS
    assert spool.everything() == before
    assert not os.listdir(spool.layout.new)
    spool.open_gate("a")
    spool.until_done("0020-b.toml")
    spool.check()
