"""The way of a job: every row of the design's table, and what users do with mv, rm and cp, with a real spooler on a real disk."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import time
from typing import Any

import pytest
from spooling import SETTINGS, Spool, until

from jobspec import trace
from spoold import slots
from spoold.model import Stage

INCOMING, READY, RUNNING, DONE, REFUSED = Stage


def move(spool: Spool, source: Stage, entry: str, target: Stage, to: str = "") -> None:
    spool.path(source, entry).rename(spool.path(target, to or entry))


def busy(spool: Spool, name: str = "busy") -> None:
    """A job that holds the default lock, so that others stay in ready/."""
    spool.drop(f"0001-{name}.toml", spool.job(name, gate=True))
    spool.until_begun(name)


def finish(spool: Spool, name: str = "busy") -> None:
    spool.open_gate(name)
    spool.until_done(f"0001-{name}.toml")


def settle(spool: Spool) -> None:
    """Wait until nothing is left to do, and hold the spool to the invariants."""
    until(lambda: not any(spool.entries(stage) for stage in (INCOMING, READY, RUNNING)), lambda: f"all is done: {spool.everything()}")
    until(lambda: not os.listdir(spool.layout.claims), "no claim is left")


# the straight way ---------------------------------------------------------------------------------------------------------


def test_a_job_goes_its_way_and_its_file_tells_of_it(spool: Spool) -> None:
    spool.start()
    text = spool.job("g52", do="exit 3", note="what this is for")
    spool.drop("g52.toml", text)
    assert spool.until_done("0010-g52.toml") == "failed"
    data = spool.path(DONE, "0010-g52.toml").read_bytes()
    assert trace.split(data)[0] == text
    accepted, started, ended = trace.read(data)
    assert (accepted["step"], accepted["from"], accepted["uid"]) == ("accepted", "incoming/g52.toml", os.geteuid())
    assert (started["step"], started["locks"], started["memory"], started["log"]) == ("started", {"box": ["0"]}, 0, "log/0010-g52.log")
    assert started["waited_s"] < 10
    assert (ended["step"], ended["run"], ended["outcome"], ended["exit"], ended["leftover"]) == ("ended", started["run"], "failed", 3, [])
    assert accepted["at"] <= started["at"] <= ended["at"]
    assert started["pid"] > 1
    settle(spool)
    spool.check()


def test_a_command_that_cannot_be_started_at_all_is_refused(spool: Spool, tmp_path: pathlib.Path) -> None:
    spool.start()
    script = tmp_path / "not-executable"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o644)
    texts = {
        "nowhere": b'command = ["/nowhere/at/all"]\n',
        "nocwd": b'command = ["true"]\ncwd = "/nowhere/at/all"\n',
        "nostdin": b'command = ["true"]\nstdin = "/nowhere/at/all"\n',
        "forbidden": f'command = ["{script}"]\n'.encode(),
    }
    for name, text in texts.items():
        spool.drop(f"{name}.toml", text)
    for number, name in enumerate(texts, 1):
        why = spool.until_refused(f"00{number}0-{name}.toml")
        assert "could not be started" in why
        assert why.count("\n") == 1
    settle(spool)
    spool.check()


def test_retry_runs_again_after_its_delay_and_not_more_often_than_it_says(spool: Spool) -> None:
    spool.start()
    spool.drop("flaky.toml", spool.job("flaky", do="exit 1", retry={"times": 2, "delay": "1s"}))
    spool.drop("other.toml", spool.job("other", do="exit 1", retry={"times": 2, "on": ["lost"]}))
    spool.drop("lucky.toml", spool.job("lucky", do="[ $SPOOLD_RUN -gt 3 ]", retry={"times": 9}))
    assert spool.until_done("0010-flaky.toml") == "failed"
    assert spool.steps(DONE, "0010-flaky.toml") == ["accepted", *["started", "ended", "requeued"] * 2, "started", "ended"]
    steps = spool.trace(DONE, "0010-flaky.toml")
    for before, after in ((3, 4), (6, 7)):
        assert (steps[after]["at"] - steps[before]["at"]).total_seconds() >= 1
    assert spool.began().count("other") == 1
    assert spool.until_done("0030-lucky.toml") == "ok"
    settle(spool)
    spool.check(unordered=("flaky", "lucky"))


# ready/ -------------------------------------------------------------------------------------------------------------------


def test_mv_in_ready_is_the_order(spool: Spool) -> None:
    spool.start()
    busy(spool)
    for name in ("a", "b", "c", "d"):
        spool.drop(f"{name}.toml", spool.job(name))
        spool.until_in(READY, f"00{'abcd'.index(name) + 1}0-{name}.toml")
    move(spool, READY, "0040-d.toml", READY, "0005-d.toml")
    move(spool, READY, "0010-a.toml", READY, "0099-a.toml")
    move(spool, READY, "0030-c.toml", READY, "0030-C2.toml")
    finish(spool)
    settle(spool)
    assert spool.began() == ["busy", "d", "b", "c", "a"]
    assert spool.entries(DONE) == ["0001-busy.toml", "0005-d.toml", "0020-b.toml", "0030-C2.toml", "0099-a.toml"]
    spool.check()


def test_a_job_on_hold_waits_and_keeps_its_name(spool: Spool) -> None:
    spool.start()
    busy(spool)
    for name in ("a", "b", "c"):
        spool.drop(f"{name}.toml", spool.job(name))
    spool.until_in(READY, "0030-c.toml")
    move(spool, READY, "0010-a.toml", READY, "0010-a.hold")
    move(spool, READY, "0020-b.toml", READY, "0020-b.toml.hold")
    spool.drop("0040-a.toml", spool.job("second-a"))
    assert "ready/0010-a.hold" in spool.until_refused("0040-a.toml")
    finish(spool)
    spool.until_done("0030-c.toml")
    assert spool.entries(READY) == ["0010-a.hold", "0020-b.toml.hold"]
    spool.check(unordered=("a", "b"), idle=False)
    move(spool, READY, "0020-b.toml.hold", READY, "0020-b.toml")
    spool.until_done("0020-b.toml")
    move(spool, READY, "0010-a.hold", READY, "0010-a.toml")
    settle(spool)
    assert spool.began() == ["busy", "c", "b", "a"]
    spool.check(unordered=("a", "b"))


def test_a_job_that_is_taken_out_of_ready_is_withdrawn_also_for_those_that_wait(spool: Spool, tmp_path: pathlib.Path) -> None:
    spooler = spool.start()
    busy(spool)
    texts = {how: spool.job(f"x-{how}") for how in ("rm", "out", "done", "refused")}
    for how, text in texts.items():
        spool.drop(f"0010-x-{how}.toml", text)
        spool.drop(f"0020-after-{how}.toml", spool.job(f"after-{how}", lock=[], after=f"x-{how}"))
        spool.drop(f"0030-ok-{how}.toml", spool.job(f"ok-{how}", lock=[], after_ok=f"x-{how}"))
        spool.drop(f"0040-failed-{how}.toml", spool.job(f"failed-{how}", lock=[], after_failed=f"x-{how}"))
    for how in texts:
        spool.until_in(READY, f"0010-x-{how}.toml", f"0020-after-{how}.toml", f"0030-ok-{how}.toml", f"0040-failed-{how}.toml")
    spool.path(READY, "0010-x-rm.toml").unlink()
    spool.path(READY, "0010-x-out.toml").rename(tmp_path / "x.toml")
    move(spool, READY, "0010-x-done.toml", DONE)
    move(spool, READY, "0010-x-refused.toml", REFUSED)
    for how in texts:
        assert f"x-{how} was " in spool.until_refused(f"0030-ok-{how}.toml")
        assert spool.until_done(f"0020-after-{how}.toml") == "ok"
        assert spool.until_done(f"0040-failed-{how}.toml") == "ok"
        assert spooler.said(f"0010-x-{how} was taken out of ready/: withdrawn")
    # what lies in done/ or refused/ is known to those that come later, and to a spooler that was not there
    spooler.stop()
    spooler = spool.start()
    for how in ("done", "refused"):
        spool.drop(f"0050-late-{how}.toml", spool.job(f"late-{how}", lock=[], after_ok=f"x-{how}"))
        assert f"x-{how} was " in spool.until_refused(f"0050-late-{how}.toml")
    finish(spool)
    assert not [name for name in spool.began() if name.startswith("x-")]
    spool.path(REFUSED, "0010-x-refused.toml").unlink()  # the user put it there, without a reason
    for how in ("rm", "out", "refused"):
        spool.forget(texts[how])
    spool.check()


def test_a_withdrawal_is_remembered_over_a_restart_for_those_that_wait(spool: Spool) -> None:
    spooler = spool.start()
    (spool.root / "PAUSED").touch()
    spooler.until_said("paused")
    text = spool.job("x")
    spool.drop("x.toml", text)
    spool.drop("y.toml", spool.job("y", after_ok="x", give_up="1d"))
    spool.drop("z.toml", spool.job("z", after="x"))
    spool.until_in(READY, "0010-x.toml", "0020-y.toml", "0030-z.toml")
    spool.path(READY, "0020-y.toml").rename(spool.path(READY, "0020-y.hold"))
    spool.path(READY, "0010-x.toml").unlink()
    spool.forget(text)
    spooler.until_said("withdrawn")
    spooler.kill()
    (spool.root / "PAUSED").unlink()
    spool.start()
    assert spool.until_done("0030-z.toml") == "ok"
    assert "x was withdrawn" in spool.until_refused("0020-y.toml")
    settle(spool)
    spool.check()


def test_a_file_replaced_in_ready_by_rm_and_cp_is_a_new_job_and_not_refused_for_the_old_one(spool: Spool) -> None:
    spool.start()
    busy(spool)
    first, second = spool.job("g52"), spool.job("g52b")
    spool.drop("0050-g52.toml", first)
    spool.until_in(READY, "0050-g52.toml")
    spool.path(READY, "0050-g52.toml").unlink()
    spool.forget(first)
    spool.drop("0060-g52.toml", second)
    spool.until_in(READY, "0060-g52.toml")
    finish(spool)
    settle(spool)
    assert spool.began() == ["busy", "g52b"]
    spool.check()


def test_mv_from_ready_to_incoming_queues_it_at_the_end(spool: Spool) -> None:
    spool.start()
    busy(spool)
    spool.drop("a.toml", spool.job("a"))
    spool.until_in(READY, "0010-a.toml")
    spool.drop("b.toml", spool.job("b"))
    spool.until_in(READY, "0020-b.toml")
    move(spool, READY, "0010-a.toml", INCOMING, "a.toml")
    spool.until_in(READY, "0030-a.toml")
    finish(spool)
    settle(spool)
    assert spool.began() == ["busy", "b", "a"]
    spool.check()


def test_a_new_file_and_copies_put_directly_into_ready(spool: Spool) -> None:
    spool.start()
    busy(spool)
    spool.path(READY, "0030-new.toml").write_bytes(spool.expect(spool.job("new")))
    spool.path(READY, "bare.toml").write_bytes(spool.expect(spool.job("bare")))
    spool.path(READY, "0020-held.hold").write_bytes(spool.expect(spool.job("held")))
    spool.until_in(READY, "0030-new.toml", "0020-held.hold")
    until(lambda: "bare.toml" not in spool.entries(READY), "bare.toml has a number")
    copied = spool.path(READY, "0030-new.toml").read_bytes()
    spool.expect(trace.split(copied)[0])
    shutil.copy(spool.path(READY, "0030-new.toml"), spool.path(READY, "0010-copy.toml"))
    spool.expect(trace.split(copied)[0])
    shutil.copy(spool.path(READY, "0030-new.toml"), spool.path(READY, "0090-new.toml"))
    assert "ready/0030-new.toml" in spool.until_refused("0090-new.toml")
    until(lambda: len(spool.steps(READY, "0010-copy.toml")) == 2, "the copy is accepted")
    finish(spool)
    spool.until_done("0030-new.toml")
    move(spool, READY, "0020-held.hold", READY, "0020-held.toml")
    settle(spool)
    assert spool.began() == ["busy", "new", "new", "bare", "held"]
    assert spool.trace(DONE, "0030-new.toml")[0]["from"] == "ready/0030-new.toml"
    spool.check(unordered=("held",))


def test_a_cycle_that_a_rename_makes_refuses_every_member_with_the_cycle(spool: Spool) -> None:
    spool.start()
    busy(spool)
    spool.drop("0010-a.toml", spool.job("a", after="b"))
    spool.drop("0020-b.toml", spool.job("b", after_ok="c"))
    spool.drop("0030-x.toml", spool.job("c", after="a"))
    spool.drop("0040-d.toml", spool.job("d", after="c"))
    spool.until_in(READY, "0010-a.toml", "0020-b.toml", "0030-x.toml", "0040-d.toml")
    move(spool, READY, "0030-x.toml", READY, "0030-c.toml")
    whys = [spool.until_refused(entry) for entry in ("0010-a.toml", "0020-b.toml", "0030-c.toml")]
    for why in whys:
        for step in ("a waits for b", "b waits for c", "c waits for a"):
            assert step in why
    finish(spool)
    assert spool.until_done("0040-d.toml") == "ok"
    settle(spool)
    spool.check()


def test_a_job_that_waits_for_itself_and_a_cycle_at_the_door(spool: Spool) -> None:
    spool.start()
    spool.drop("self.toml", spool.job("self", after="self"))
    assert "self waits for self" in spool.until_refused("0010-self.toml")
    spool.drop("one.toml", spool.job("one", after="two"))
    spool.drop("two.toml", spool.job("two", after="one"))
    until(lambda: len(spool.entries(REFUSED)) == 6, "both are refused")
    entries = [entry for entry in spool.entries(REFUSED) if entry.endswith(("one.toml", "two.toml"))]
    assert len(entries) == 2
    for entry in entries:
        assert "one waits for two" in spool.why(entry)
        assert "two waits for one" in spool.why(entry)
    spool.check()


# running/ -----------------------------------------------------------------------------------------------------------------

def test_a_job_whose_file_leaves_running_is_stopped_and_ends_in_done(spool: Spool, tmp_path: pathlib.Path) -> None:
    spooler = spool.start()
    ways = {
        "rm": None,
        "out": tmp_path / "mine.toml",
        "done": spool.path(DONE, "0050-done.toml"),
        "other": spool.path(DONE, "0051-renamed.toml"),
        "refused": spool.path(REFUSED, "0050-refused.toml"),
        "within": spool.path(RUNNING, "0005-within.toml"),
        "nojob": spool.path(RUNNING, "0050-nojob.toml.bak"),
    }
    texts = {how: spool.job(how, gate=True, lock=[], grace="5s") for how in ways}
    for how, text in texts.items():
        spool.drop(f"0050-{how}.toml", text)
        spool.drop(f"0060-after-{how}.toml", spool.job(f"after-{how}", lock=[], after=how))
        spool.drop(f"0070-ok-{how}.toml", spool.job(f"ok-{how}", lock=[], after_ok=how))
    for how in ways:
        spool.until_begun(how)
        spool.until_in(READY, f"0060-after-{how}.toml", f"0070-ok-{how}.toml")
    for how, target in ways.items():
        path = spool.path(RUNNING, f"0050-{how}.toml")
        path.unlink() if target is None else path.rename(target)
    for how, text in texts.items():
        entry = "0051-renamed.toml" if how == "other" else f"0050-{how}.toml"
        assert spool.until_done(entry) == "stopped"
        assert spool.steps(DONE, entry) == ["accepted", "started", "ended"]
        assert trace.split(spool.path(DONE, entry).read_bytes())[0] == text
        assert spool.until_done(f"0060-after-{how}.toml") == "ok"
        assert f"{how} ended stopped" in spool.until_refused(f"0070-ok-{how}.toml")
        assert spooler.said(f"0050-{how} was taken out of running/")
    spool.path(RUNNING, "0050-nojob.toml.bak").unlink()  # no job, and left alone
    settle(spool)
    assert not [witness for witness in spool.witnessed() if witness[0] == "end" and witness[1] in ways]
    spool.check(unordered=("other",))


@pytest.mark.parametrize("to", ["0050-g52.toml", "0005-g52.toml"])
def test_mv_from_running_to_ready_stops_it_and_queues_it_again(spool: Spool, to: str) -> None:
    spool.start()
    text = spool.job("g52", gate=True, grace="5s", do="", env={"A": "b"})
    spool.drop("0050-g52.toml", text)
    spool.until_begun("g52")
    spool.drop("0040-next.toml", spool.job("next"))
    spool.until_in(READY, "0040-next.toml")
    move(spool, RUNNING, "0050-g52.toml", READY, to)
    spool.until_begun("g52", 2)
    spool.open_gate("g52")
    assert spool.until_done(to) == "ok"
    assert spool.steps(DONE, to) == ["accepted", "started", "ended", "requeued", "started", "ended"]
    assert spool.trace(DONE, to)[2]["outcome"] == "stopped"
    settle(spool)
    assert [name for what, name, *_ in spool.witnessed() if what == "begin"] == (
        ["g52", "g52", "next"] if to < "0040" else ["g52", "next", "g52"]
    )
    spool.check(unordered=("g52", "next"))


def test_mv_from_running_to_incoming_stops_it_and_queues_it_at_the_end(spool: Spool) -> None:
    spool.start()
    text = spool.job("g52", gate=True, grace="5s")
    spool.drop("0050-g52.toml", text)
    spool.until_begun("g52")
    move(spool, RUNNING, "0050-g52.toml", INCOMING, "g52.toml")
    spool.until_begun("g52", 2)
    spool.open_gate("g52")
    assert spool.until_done("0060-g52.toml") == "ok"
    assert spool.steps(DONE, "0060-g52.toml") == ["accepted", "started", "ended", "accepted", "started", "ended"]
    settle(spool)
    spool.check()


@pytest.mark.parametrize("target", [READY, INCOMING])
def test_a_job_that_is_queued_again_waits_until_its_processes_are_gone(spool: Spool, target: Stage) -> None:
    spool.start()
    alive = spool.gates / "alive"
    # ignores TERM, and says how long it was there
    text = spool.job("stubborn", do=f"trap '' TERM\ntouch {alive}\nwhile [ -e {alive} ]; do sleep 0.05; done", grace="20s")
    spool.drop("0050-stubborn.toml", text)
    until(alive.exists, "it ignores TERM")
    move(spool, RUNNING, "0050-stubborn.toml", target)
    spool.drop("0060-next.toml", spool.job("next"))
    spool.until_in(READY, "0060-next.toml")
    spool.drop("0070-free.toml", spool.job("free", lock=[]))
    spool.until_done("0070-free.toml")
    assert spool.began() == ["stubborn", "free"]
    assert "0050-stubborn.toml" in spool.entries(target)
    alive.unlink()
    spool.until_begun("stubborn", 2)
    until(alive.exists, "it is there again")
    alive.unlink()
    settle(spool)
    assert len(spool.began()) == 4
    spool.check(unordered=("stubborn", "next"))


def test_what_is_put_into_running_by_hand_is_refused(spool: Spool) -> None:
    spool.start()
    busy(spool)
    spool.path(RUNNING, "0050-mine.toml").write_bytes(spool.expect(spool.job("mine")))
    assert "only the spooler starts jobs" in spool.until_refused("0050-mine.toml")
    spool.path(RUNNING, "evil\x1b[2J.toml").write_bytes(spool.expect(spool.job("evil")))
    assert "only the spooler starts jobs" in spool.until_refused("evil%1B[2J.toml")
    spool.path(RUNNING, "folder.toml").mkdir()
    spool.until_refused("folder.toml")
    spool.drop("ready.toml", spool.job("ready"))
    spool.until_in(READY, "0010-ready.toml")
    move(spool, READY, "0010-ready.toml", RUNNING)
    assert "only the spooler starts jobs" in spool.until_refused("0010-ready.toml")
    finish(spool)
    settle(spool)
    move(spool, DONE, "0001-busy.toml", RUNNING)
    assert "only the spooler starts jobs" in spool.until_refused("0001-busy.toml")
    spool.check()


def test_a_file_in_running_that_has_the_name_of_the_next_job_is_in_nobodys_way(spool: Spool) -> None:
    spooler = spool.start()
    (spool.root / "PAUSED").touch()
    spooler.until_said("paused")
    spool.drop("0050-next.toml", spool.job("next"))
    spool.until_in(READY, "0050-next.toml")
    spooler.stop()
    spool.path(RUNNING, "0050-next.toml").write_bytes(spool.expect(spool.job("other")))
    (spool.root / "PAUSED").unlink()
    spool.start()
    assert spool.until_done("0050-next.toml") == "ok"
    spool.until_refused("0050-next.toml")
    settle(spool)
    assert spool.began() == ["next"]
    spool.check()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_a_spooler_that_waits_for_a_stopped_job_is_idle(spool: Spool) -> None:
    spooler = spool.start()
    spool.drop("a.toml", spool.job("a", gate=True, grace="1s", do="exit 0"))
    spool.until_begun("a")
    before = cpu_s(spooler.pid)
    spool.path(RUNNING, "0010-a.toml").unlink()
    spool.until_done("0010-a.toml")
    assert cpu_s(spooler.pid) - before < 0.2


def cpu_s(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# done/ and refused/ -------------------------------------------------------------------------------------------------------


def test_mv_from_done_to_incoming_runs_it_again_and_keeps_its_history(spool: Spool) -> None:
    spool.start()
    text = spool.job("g52")
    spool.drop("0050-g52.toml", text)
    spool.until_done("0050-g52.toml")
    for times in (2, 3):
        move(spool, DONE, "0050-g52.toml", INCOMING)
        until(lambda times=times: spool.began().count("g52") == times, "it runs again")  # type: ignore[misc]
        settle(spool)
        spool.until_done("0050-g52.toml")
        assert spool.steps(DONE, "0050-g52.toml") == ["accepted", "started", "ended"] * times
    logs = [step["log"] for step in spool.trace(DONE, "0050-g52.toml") if step["step"] == "started"]
    assert logs == ["log/0050-g52.log", "log/0050-g52.2.log", "log/0050-g52.3.log"]
    spool.check()


def test_runs_of_one_name_are_all_kept_and_a_numbered_one_runs_again(spool: Spool) -> None:
    spool.start()
    texts = [spool.job("g52", note="1"), spool.job("g52", note="2"), spool.job("g52", note="3")]
    for number, text in enumerate(texts, 1):
        spool.drop("0050-g52.toml", text)
        spool.until_done(f"0050-g52.{number}.toml" if number > 1 else "0050-g52.toml")
    assert spool.entries(DONE) == ["0050-g52.2.toml", "0050-g52.3.toml", "0050-g52.toml"]
    spool.drop("0090-ok.toml", spool.job("ok", after_ok="g52"))
    assert spool.until_done("0090-ok.toml") == "ok"
    move(spool, DONE, "0050-g52.2.toml", INCOMING)
    until(lambda: len(spool.began()) == 5, "it runs again")
    settle(spool)
    assert sorted(spool.entries(DONE)) == ["0050-g52.2.toml", "0050-g52.3.toml", "0050-g52.toml", "0090-ok.toml"]
    assert spool.steps(DONE, "0050-g52.2.toml") == ["accepted", "started", "ended"] * 2
    spool.check(unordered=("ok",))


def test_mv_from_refused_to_incoming_tries_it_again_and_its_old_reason_goes(spool: Spool) -> None:
    spool.start()
    spool.drop("0050-bad.toml", b"comand = ['true']\n")
    spool.until_refused("0050-bad.toml")
    spool.path(REFUSED, "0050-bad.toml").rename(spool.root / "x.toml")
    mended = spool.expect(b"command = ['true']\n")
    spool.forget(b"comand = ['true']\n")
    (spool.root / "x.toml").write_bytes(mended)
    (spool.root / "x.toml").rename(spool.path(INCOMING, "0050-bad.toml"))
    assert spool.until_done("0050-bad.toml") == "ok"
    until(lambda: spool.entries(REFUSED) == [], "the old reason is gone")
    settle(spool)
    spool.check()


def test_a_job_dropped_with_a_forged_history_runs_and_nobody_believes_it(spool: Spool) -> None:
    spool.start()
    text = spool.expect(spool.job("g52"))
    started = {"step": "started", "run": 999999, "pid": 1, "locks": {"gpu": ["0"]}, "memory": 10**15}
    forged = trace.append(text, {"step": "accepted", "claim": "0"}, started, {"step": "ended", "run": 999999, "outcome": "ok", "name": "build"})
    spool.path(INCOMING, "0050-g52.toml").write_bytes(forged)
    spool.until_done("0050-g52.toml")
    assert spool.steps(DONE, "0050-g52.toml") == ["accepted", "started", "ended", "accepted", "started", "ended"]
    spool.path(INCOMING, "0060-evil.toml").write_bytes(spool.expect(b'command = ["true"]\n[[trace]]\nstep = "ended"\noutcome = "ok"\n'))
    assert "line 2" in spool.until_refused("0060-evil.toml")
    assert spool.began() == ["g52"]


# the rules, over a restart ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", ["none", "stop", "kill"])
def test_after_after_ok_and_after_failed_by_name_and_by_glob(spool: Spool, restart: str) -> None:
    spooler = spool.start()
    spool.drop("0010-good.toml", spool.job("good", gate=True))
    spool.drop("0020-bad.toml", spool.job("bad", do="exit 1"))
    spool.until_begun("good")
    waiters: dict[str, dict[str, Any]] = {
        "0030-w1.toml": {"after": ["good", "bad"]},
        "0031-w2.toml": {"after_ok": "good"},
        "0032-w3.toml": {"after_failed": "bad"},
        "0033-w4.toml": {"after_ok": "bad"},
        "0034-w5.toml": {"after_failed": "good"},
        "0035-w6.toml": {"after": "*d"},
        "0036-w7.toml": {"after_ok": "g*", "after_failed": "b*"},
        "0037-w8.toml": {"after_ok": "?ad"},
        "0038-w9.toml": {"after": "nowhere"},
    }
    for entry, fields in waiters.items():
        spool.drop(entry, spool.job(entry[5:7], lock=[], **fields))
    spool.until_in(READY, *waiters)
    if restart != "none":
        spooler.stop() if restart == "stop" else spooler.kill()
    spool.open_gate("good")
    if restart != "none":
        until(lambda: ["end", "good"] in [witness[:2] for witness in spool.witnessed()], "good has ended while no spooler was there")
        spooler = spool.start()
    for name in ("0030-w1", "0031-w2", "0032-w3", "0035-w6", "0036-w7"):
        assert spool.until_done(f"{name}.toml") == "ok"
    assert "after_ok = bad: it was to run only if bad ended well, but bad ended failed" in spool.until_refused("0033-w4.toml")
    assert "good ended ok" in spool.until_refused("0034-w5.toml")
    assert "bad ended failed" in spool.until_refused("0037-w8.toml")
    assert spool.entries(READY) == ["0038-w9.toml"]
    spool.drop("nowhere.toml", spool.job("nowhere"))
    assert spool.until_done("0038-w9.toml") == "ok"
    settle(spool)
    spool.check()


def test_a_job_refused_for_an_edit_is_an_end_for_those_that_wait(spool: Spool) -> None:
    spool.start()
    busy(spool)
    text = spool.job("x")
    spool.drop("x.toml", text)
    spool.drop("y.toml", spool.job("y", lock=[], after="x"))
    spool.drop("z.toml", spool.job("z", lock=[], after_ok="x"))
    spool.until_in(READY, "0010-x.toml", "0020-y.toml", "0030-z.toml")
    spool.forget(text)
    spool.path(READY, "0010-x.toml").write_bytes(spool.expect(b"nonsense\n"))
    spool.until_refused("0010-x.toml")
    assert spool.until_done("0020-y.toml") == "ok"
    assert "x was refused" in spool.until_refused("0030-z.toml")
    finish(spool)
    settle(spool)
    spool.check()


def test_give_up_and_not_before_hold_over_a_restart(spool: Spool) -> None:
    spooler = spool.start()
    busy(spool)
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 3))
    spool.drop("0010-short.toml", spool.job("short", give_up="2s"))
    spool.drop("0020-later.toml", spool.job("later", lock=[]).replace(b"script", f"not_before = {soon}\nscript".encode(), 1))
    spool.dropped.clear()
    spool.until_in(READY, "0010-short.toml", "0020-later.toml")
    spooler.kill()
    spooler = spool.start()
    assert "give_up" in spool.until_refused("0010-short.toml")
    spool.until_done("0020-later.toml")
    started = spool.trace(DONE, "0020-later.toml")[1]["at"]
    assert started.strftime("%Y-%m-%dT%H:%M:%S") >= soon
    finish(spool)
    assert spool.began() == ["busy", "later"]


def test_paused_keeps_everything_and_its_text_is_said(spool: Spool) -> None:
    (spool.root / "PAUSED").write_text("disk is being\nreplaced\x1b[2J\n")
    spooler = spool.start()
    assert "paused: disk is being replaced\\x1b[2J" in spooler.until_said("paused: disk")
    spool.drop("a.toml", spool.job("a"))
    spool.until_in(READY, "0010-a.toml")
    (spool.root / "PAUSED").write_text("longer")
    spooler.until_said("paused: longer")
    assert spool.began() == []
    (spool.root / "PAUSED").unlink()
    assert spool.until_done("0010-a.toml") == "ok"
    assert spooler.said("goes on")


def test_counted_and_named_units_reach_the_job_and_are_never_shared(spool: Spool, tmp_path: pathlib.Path) -> None:
    spool.settings(SETTINGS + '[locks]\ncpu = 4\n[locks.gpu]\nunits = ["GPU-a", "GPU-b"]\nenv = "CUDA_VISIBLE_DEVICES"\n')
    spool.start()
    says = 'echo "$SPOOLD_JOB gpu=$SPOOLD_LOCK_GPU cuda=$CUDA_VISIBLE_DEVICES cpu=$SPOOLD_LOCK_CPU" >> ' + str(tmp_path / "units")
    for name in ("a", "b"):
        spool.drop(f"{name}.toml", spool.job(name, gate=True, lock={"gpu": 1, "cpu": 2}, do=says))
        spool.until_begun(name)
    spool.drop("both.toml", spool.job("both", lock={"gpu": "all", "cpu": 3}, do=says))
    spool.drop("cpu.toml", spool.job("cpu", lock={"cpu": 1}, do=says))
    spool.drop("none.toml", spool.job("none", lock=[], do=says))
    spool.until_done("0050-none.toml")
    assert "both" not in spool.began()
    spool.open_gate("b")
    spool.open_gate("a")
    settle(spool)
    said = sorted((tmp_path / "units").read_text().splitlines())
    assert said[:2] == ["a gpu=GPU-a cuda=GPU-a cpu=0,1", "b gpu=GPU-b cuda=GPU-b cpu=2,3"]
    assert said[2].startswith("both gpu=GPU-a,GPU-b cuda=GPU-a,GPU-b cpu=")
    assert len(set(said[2].rpartition("=")[2].split(","))) == 3
    assert "none gpu= cuda= cpu=" in said
    spool.check()


def test_memory_is_promised_once_and_what_can_never_fit_is_refused(spool: Spool) -> None:
    spool.start()
    spool.drop("huge.toml", spool.job("huge", memory="100%"))
    assert "this box can give" in spool.until_refused("huge.toml")
    spool.drop("a.toml", spool.job("a", gate=True, lock=[], memory="50%"))
    spool.until_begun("a")
    spool.drop("b.toml", spool.job("b", gate=True, lock=[], memory="50%"))
    spool.until_in(READY, "0020-b.toml")
    spool.drop("small.toml", spool.job("small", lock=[], memory="1MB"))
    spool.until_done("0030-small.toml")
    assert spool.began() == ["a", "small"]
    spool.open_gate("a")
    spool.until_begun("b")
    spool.open_gate("b")
    settle(spool)
    spool.check()


def test_a_model_that_is_missing_grows_and_is_there(spool: Spool, tmp_path: pathlib.Path) -> None:
    spool.start()
    model = tmp_path / "model.gguf"
    spool.drop("a.toml", spool.job("a", lock=[], memory={"model": str(model), "margin": "1MB"}))
    spool.drop("b.toml", spool.job("b", lock=[], memory={"model": str(model), "margin": "1MB"}, after="build"))
    spool.until_in(READY, "0010-a.toml", "0020-b.toml")
    spool.drop("free.toml", spool.job("free"))
    spool.until_done("0030-free.toml")
    assert spool.began() == ["free"]
    model.write_bytes(b"x" * 1000)
    spool.until_done("0010-a.toml")
    assert spool.trace(DONE, "0010-a.toml")[1]["memory"] == 1_001_000
    spool.drop("build.toml", spool.job("build", do=f"head -c 3000000 /dev/zero > {model}"))
    spool.until_done("0020-b.toml")
    assert spool.trace(DONE, "0020-b.toml")[1]["memory"] == 4_000_000
    settle(spool)
    spool.check()


@pytest.mark.parametrize("restart", [False, True], ids=["same spooler", "another spooler"])
@pytest.mark.parametrize("target", [DONE, REFUSED, READY, INCOMING])
def test_a_file_that_is_taken_when_its_account_is_in_it_ends_in_one_place(spool: Spool, target: Stage, restart: bool) -> None:
    """Without done/ the last rename has to wait, and the user is faster."""
    spooler = spool.start()
    spool.drop("0050-a.toml", spool.job("a", gate=True))
    spool.until_begun("a")
    spool.path(DONE).rename(spool.root / "away")
    spool.open_gate("a")
    spooler.until_said("cannot be put away")
    assert spool.steps(RUNNING, "0050-a.toml") == ["accepted", "started", "ended"]
    if restart:
        spooler.kill()
    (spool.root / "away").rename(spool.path(DONE))
    move(spool, RUNNING, "0050-a.toml", target)
    if restart:
        spooler = spool.start()
    again = target in (READY, INCOMING)
    if again:
        spool.until_begun("a", 2)
        spool.open_gate("a")
    until(lambda: len(spool.entries(DONE)) == 1, lambda: f"it is in done/: {spool.everything()}")
    settle(spool)
    assert spool.entries(REFUSED) == []
    assert spool.began() == ["a", "a"] if again else ["a"]
    spool.check()


def test_what_a_user_did_before_a_job_ended_counts_for_who_is_next(spool: Spool) -> None:
    """The end and the move reach the spooler in one turn: it is kept from turning meanwhile."""
    spooler = spool.start()
    busy(spool)
    for name in ("a", "b", "c"):
        spool.drop(f"{name}.toml", spool.job(name))
    spool.until_in(READY, "0030-c.toml")
    os.kill(spooler.pid, signal.SIGSTOP)
    move(spool, READY, "0030-c.toml", READY, "0005-c.toml")
    spool.open_gate("busy")
    until(lambda: ["end", "busy"] in [witness[:2] for witness in spool.witnessed()], "it has ended")
    until(lambda: slot_has_ended(spool, "busy"), "and its supervisor knows")
    os.kill(spooler.pid, signal.SIGCONT)
    settle(spool)
    assert spool.began() == ["busy", "c", "a", "b"]
    for name in ("d", "e"):
        spool.drop(f"{name}.toml", spool.job(name, gate=name == "d"))
    spool.until_begun("d")
    spool.until_in(READY, "0050-e.toml")
    os.kill(spooler.pid, signal.SIGSTOP)
    (spool.root / "PAUSED").touch()
    spool.open_gate("d")
    until(lambda: slot_has_ended(spool, "d"), "d has ended")
    os.kill(spooler.pid, signal.SIGCONT)
    spool.until_done("0040-d.toml")
    assert spool.began()[-1] == "d"
    (spool.root / "PAUSED").unlink()
    settle(spool)
    spool.check(unordered=("c",))


def slot_has_ended(spool: Spool, name: str) -> bool:
    records = [slots.read(spool.layout.slot(number)) for number in slots.numbers(spool.layout)]
    return any(record.start is not None and record.start.name == name and record.end is not None for record in records)
