"""The guard on a real box: a floor above what is free stops the right run, once, and says so."""

from __future__ import annotations

import psutil
from spooling import SETTINGS, Spool

from spoold.model import Stage


def test_under_the_floor_the_run_that_declared_nothing_is_stopped_and_the_outcome_says_memory(spool: Spool) -> None:
    total = psutil.virtual_memory().total
    spool.settings(SETTINGS)
    spool.start()
    spool.drop("0010-modest.toml", spool.job("modest", gate=True, lock=[], memory=total // 4))
    spool.drop("0020-greedy.toml", spool.job("greedy", gate=True, lock=[], do="sleep 1"))
    spool.until_begun("modest")
    spool.until_begun("greedy")
    spool.settings(f'{SETTINGS}[memory]\nfloor = "99%"\npatience = "100ms"\n')
    assert spool.until_done("0020-greedy.toml") == "memory"
    spool.settings(SETTINGS)
    spool.open_gate("modest")
    assert spool.until_done("0010-modest.toml") == "ok"


def test_it_warns_once_and_stops_nobody_where_it_is_switched_off(spool: Spool) -> None:
    spool.settings(f'{SETTINGS}[memory]\nfloor = "99%"\npatience = "0s"\nguard = false\n')
    spooler = spool.start()
    spool.drop("0010-free.toml", spool.job("free", gate=True, lock=[]))
    spool.until_begun("free")
    spool.settings(f'{SETTINGS}[memory]\nfloor = "99%"\npatience = "1h"\nguard = true\n')
    spooler.until_said("memory is low")
    spool.open_gate("free")
    assert spool.until_done("0010-free.toml") == "ok"
    assert len(spooler.said("memory is low")) <= 2, "said when it begins and when it is over"


def test_a_run_that_asks_to_be_repeated_after_memory_is_queued_again(spool: Spool) -> None:
    spool.start()
    spool.drop("0010-again.toml", spool.job("again", gate=True, lock=[], grace="1s", retry={"times": 1, "delay": "1h", "on": ["memory"]}))
    spool.until_begun("again")
    spool.settings(f'{SETTINGS}[memory]\nfloor = "99%"\npatience = "100ms"\n')
    spool.until_in(Stage.READY, "0010-again.toml")
    assert spool.steps(Stage.READY, "0010-again.toml") == ["accepted", "started", "ended", "requeued"]
    assert spool.trace(Stage.READY, "0010-again.toml")[2]["outcome"] == "memory"
