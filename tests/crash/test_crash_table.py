"""One test a row of the crash table: what lies on the disk when a spooler starts, and what becomes of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest
from leftovers import ANOTHER_BOOT, accepted, ended, put, record
from rig import Rig
from stable import Stable

from jobspec import trace
from spoold import slots
from spoold.archive import account
from spoold.model import Stage

RETRY_LOST = {"times": 1, "delay": 0, "on": ["lost"]}


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any job."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    assert process.poll() is None, "a process that is no job's was ended"
    process.kill()
    process.wait()


def outcome_of(rig: Rig, name: str) -> str:
    path = rig.place(Stage.DONE, name)
    assert path is not None, rig.account(f"{name} is not in done/")
    return str(trace.read(path.read_bytes())[-1]["outcome"])


def settle(rig: Rig) -> None:
    rig.begin()
    rig.until_settled()
    rig.judge()


# half-copied file in incoming/ ----------------------------------------------------------------------------------------


def test_a_half_copied_file_is_left_until_it_is_complete(rig: Rig) -> None:
    text = rig.job("half")
    path = rig.path(Stage.INCOMING, "half.toml")
    with open(path, "wb") as file:
        file.write(text[:40])
        file.flush()
        rig.queue("0900-whole.toml")
        rig.begin()
        rig.until(lambda: rig.place(Stage.DONE, "whole"), "the job that is complete has run")
        assert path.exists(), rig.account("the half was taken")
        file.write(text[40:])
    rig.expect(text)
    rig.until(lambda: rig.place(Stage.DONE, "half"), "it runs when it is complete")
    rig.until_settled()
    rig.judge(unordered=("whole", "half"))


# job in two stages, same inode ----------------------------------------------------------------------------------------


@pytest.fixture
def old(rig: Rig) -> Rig:
    """On a file system where a rename that replaces nothing is a link and an unlink."""
    rig.in_every_life["old_disk"] = True
    return rig


def test_a_job_in_incoming_and_in_a_claim_is_accepted_once(old: Rig) -> None:
    old.queue("0010-a.toml")
    os.makedirs(old.layout.claims, exist_ok=True)
    os.link(old.path(Stage.INCOMING, "0010-a.toml"), f"{old.layout.claims}/c1.0~0010-a.toml")
    settle(old)


def test_a_job_in_ready_and_in_running_runs_once(old: Rig) -> None:
    put(old, Stage.READY, "0010-a.toml", accepted(old, "0010-a.toml"))
    os.link(old.path(Stage.READY, "0010-a.toml"), old.path(Stage.RUNNING, "0010-a.toml"))
    settle(old)


def test_a_job_in_running_and_in_done_is_in_done(old: Rig) -> None:
    data = accepted(old, "0010-a.toml", runs=[0])
    start = record(old, "0010-a.toml", data, end=ended())
    put(old, Stage.RUNNING, "0010-a.toml", account(start, ended()))
    os.link(old.path(Stage.RUNNING, "0010-a.toml"), old.path(Stage.DONE, "0010-a.toml"))
    old.begin()
    old.until_settled()
    assert old.entries(Stage.DONE) == ["0010-a.toml"]
    assert old.began() == []


def test_a_job_in_ready_and_in_refused_is_refused(old: Rig) -> None:
    put(old, Stage.READY, "0010-a.toml", accepted(old, "0010-a.toml", runs=[0], ends=["refused"]))
    os.link(old.path(Stage.READY, "0010-a.toml"), old.path(Stage.REFUSED, "0010-a.toml"))
    old.path(Stage.REFUSED, "0010-a.why").write_text("a reason\n")
    settle(old)
    assert old.why("0010-a.toml") == "a reason\n"


def test_a_hard_link_that_a_user_made_from_done_runs_again(old: Rig) -> None:
    data = accepted(old, "0010-a.toml")
    start = record(old, "0010-a.toml", data)
    (old.root / ".spoold/slots/1/record").unlink()
    put(old, Stage.DONE, "0010-a.toml", account(start, ended()))
    os.link(old.path(Stage.DONE, "0010-a.toml"), old.path(Stage.INCOMING, "0010-a.toml"))
    old.begin()
    old.until(lambda: old.began() == ["a"], "it runs")
    old.until(lambda: len(old.entries(Stage.DONE)) == 2, "both records are in done/")


# running/J, no start record -------------------------------------------------------------------------------------------


def test_a_job_in_running_without_a_start_record_waits_again_and_runs_once(rig: Rig) -> None:
    put(rig, Stage.RUNNING, "0010-a.toml", accepted(rig, "0010-a.toml"))
    settle(rig)
    assert rig.said("0010-a running -> ready: its command was never executed")


# ready/J or incoming/J, and an unretired start record of it -----------------------------------------------------------


@pytest.mark.parametrize("stage", [Stage.READY, Stage.INCOMING])
@pytest.mark.parametrize("retry", [False, True], ids=["", "with retry"])
def test_a_job_whose_rename_was_lost_in_a_power_cut_never_starts_a_second_time_by_itself(rig: Rig, stage: Stage, retry: bool) -> None:
    fields = {"retry": RETRY_LOST} if retry else {}
    data = accepted(rig, "0010-a.toml", runs=[1 if retry else 0], ends=["ok" if retry else "lost"], **fields)
    put(rig, stage, "0010-a.toml", data if stage is Stage.READY else trace.split(data)[0])
    record(rig, "0010-a.toml", data, boot=ANOTHER_BOOT)
    rig.begin()
    rig.until_settled()
    assert rig.began() == (["a"] if retry else []), rig.account("started")
    assert outcome_of(rig, "a") == ("ok" if retry else "lost")
    assert len(rig.places("a")) == 1


def test_a_claim_that_came_back_in_a_power_cut_does_not_start_its_job_again(rig: Rig) -> None:
    data = accepted(rig, "0010-a.toml", claim="c1.0", runs=[0], ends=["lost"])
    os.makedirs(rig.layout.claims, exist_ok=True)
    with open(f"{rig.layout.claims}/c1.0~0010-a.toml", "wb") as file:
        file.write(trace.split(data)[0])
    record(rig, "0010-a.toml", data, boot=ANOTHER_BOOT)
    rig.begin()
    rig.until_settled()
    assert rig.began() == [], rig.account("started")
    assert outcome_of(rig, "a") == "lost"


# running/J, start record, run lock held -------------------------------------------------------------------------------


def test_a_job_that_outlived_its_spooler_is_adopted(rig: Rig) -> None:
    rig.queue("0010-a.toml", gate=True)
    rig.queue("0020-b.toml")
    rig.begin()
    rig.until_begun("a")
    rig.kill()
    rig.begin()
    rig.until(lambda: rig.said("run=1 of an earlier spooler goes on"), "it is adopted")
    assert rig.began() == ["a"], rig.account("its lock was given away")
    rig.open_gate("a")
    rig.until_settled()
    rig.judge()


@pytest.mark.parametrize(("do", "outcome", "key", "value"), [("true", "ok", "exit", 0), ("exit 3", "failed", "exit", 3), ("kill -9 $$", "failed", "signal", 9)])
def test_a_job_that_ends_while_no_spooler_runs_keeps_its_end(rig: Rig, do: str, outcome: str, key: str, value: int) -> None:
    rig.queue("0010-a.toml", gate=True, do=do, ends=[outcome])
    rig.begin()
    rig.until_begun("a")
    rig.kill()
    rig.open_gate("a")
    record = rig.layout.slot(1)
    rig.until_without_spooler(lambda: slots.read(record).end is not None, "its end is on record")
    settle(rig)
    path = rig.place(Stage.DONE, "a")
    assert path is not None
    assert trace.read(path.read_bytes())[-1][key] == value


# running/J, start record, lock free, processes of it alive ------------------------------------------------------------


@pytest.mark.parametrize("spooler_too", [False, True], ids=["spooler alive", "spooler killed too"])
def test_the_lock_of_a_job_whose_supervisor_was_killed_is_kept_until_its_last_process_is_gone(rig: Rig, spooler_too: bool) -> None:
    rig.may_lose = True
    # the first TERM is answered slowly, so that there is time for a mistake
    rig.queue("0010-a.toml", do=f"trap 'sleep 0.3; echo gone a 0 >> {rig.witness}; exit 1' TERM; while :; do sleep 0.05; done", grace="20s", ends=["lost"])
    rig.queue("0020-b.toml")
    rig.begin()
    rig.until_begun("a")
    (supervisor,) = rig.supervisors_with_a_run()
    if spooler_too:
        rig.kill()
    os.kill(supervisor, signal.SIGKILL)
    rig.until_settled()
    rig.judge()
    assert [line[:2] for line in rig.witnessed()] == [["begin", "a"], ["gone", "a"], ["begin", "b"], ["end", "b"]], rig.account("order")
    assert outcome_of(rig, "a") == "lost"


# running/J, start record, lock free, no result ------------------------------------------------------------------------


@pytest.mark.parametrize("boot", [None, ANOTHER_BOOT], ids=["same boot", "another boot"])
@pytest.mark.parametrize("retry", [False, True], ids=["", "with retry"])
def test_a_run_that_nobody_saw_end_is_lost_and_a_strangers_pid_in_its_record_is_left_alone(
    rig: Rig, stranger: subprocess.Popen[bytes], boot: str | None, retry: bool
) -> None:
    fields = {"retry": RETRY_LOST} if retry else {}
    data = accepted(rig, "0010-a.toml", runs=[1 if retry else 0], ends=["ok" if retry else "lost"], **fields)
    put(rig, Stage.RUNNING, "0010-a.toml", data)
    record(rig, "0010-a.toml", data, boot=boot, pid=stranger.pid)
    rig.begin()
    rig.until_settled()
    assert outcome_of(rig, "a") == ("ok" if retry else "lost")
    assert rig.began() == (["a"] if retry else []), rig.account("started")


# running/J, result ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accounted", [False, True], ids=["as it was started", "with its account"])
def test_a_run_with_a_result_goes_to_done_and_keeps_it(rig: Rig, accounted: bool) -> None:
    data = accepted(rig, "0010-a.toml", runs=[0], ends=["failed"])
    end = ended(outcome="failed", exit=3)
    start = record(rig, "0010-a.toml", data, boot=ANOTHER_BOOT, end=end)
    put(rig, Stage.RUNNING, "0010-a.toml", account(start, end) if accounted else data)
    rig.begin()
    rig.until_settled()
    path = rig.place(Stage.DONE, "a")
    assert path is not None
    assert [step["step"] for step in trace.read(path.read_bytes())] == ["accepted", "started", "ended"]
    assert trace.read(path.read_bytes())[-1]["exit"] == 3
    assert rig.began() == []


def test_a_run_that_was_put_away_and_not_retired_is_retired_and_nothing_else(rig: Rig) -> None:
    data = accepted(rig, "0010-a.toml", runs=[0])
    start = record(rig, "0010-a.toml", data, end=ended())
    put(rig, Stage.DONE, "0010-a.toml", account(start, ended()))
    rig.begin()
    rig.until_settled()
    assert rig.entries(Stage.DONE) == ["0010-a.toml"]
    assert len(rig.trace(Stage.DONE, "0010-a.toml")) == 3


# run record without a file in running/ --------------------------------------------------------------------------------


def test_a_run_whose_file_was_removed_while_no_spooler_ran_is_stopped_and_its_account_written(rig: Rig) -> None:
    rig.queue("0010-a.toml", gate=True, ends=["stopped"])
    rig.begin()
    rig.until_begun("a")
    rig.kill()
    rig.path(Stage.RUNNING, "0010-a.toml").unlink()
    settle(rig)


@pytest.mark.parametrize("to", [Stage.DONE, Stage.REFUSED])
def test_a_run_whose_file_was_moved_while_no_spooler_ran_is_stopped_and_its_account_in_done(rig: Rig, to: Stage) -> None:
    rig.queue("0010-a.toml", gate=True, ends=["stopped"])
    rig.begin()
    rig.until_begun("a")
    rig.kill()
    rig.path(Stage.RUNNING, "0010-a.toml").rename(rig.path(to, "0010-a.toml"))
    settle(rig)
    assert rig.entries(Stage.DONE) == ["0010-a.toml"]


@pytest.mark.parametrize("to", ["ready/0010-a.toml", "ready/0005-a.toml", "incoming/0010-a.toml", "incoming/a.toml", "ready/0010-a.toml.hold"])
def test_a_run_whose_file_was_moved_to_be_queued_again_while_no_spooler_ran_is_stopped_and_runs_again(rig: Rig, to: str) -> None:
    first = f'[ "$(grep -c "^begin a " {rig.witness})" -eq 1 ] && sleep 60'
    rig.queue("0010-a.toml", do=first, grace="1s", runs=[2])
    rig.begin()
    rig.until_begun("a")
    rig.kill()
    rig.path(Stage.RUNNING, "0010-a.toml").rename(rig.root / to)
    rig.begin()
    if to.endswith(".hold"):
        rig.until(lambda: rig.said("(by hand)"), "it is stopped")
        rig.until(lambda: (rig.root / to).exists(), "it is on hold")
        (rig.root / to).rename(rig.root / to.removesuffix(".hold"))
    rig.until_settled()
    rig.judge(unordered=("a",))
    steps = [step["step"] for step in rig.trace(Stage.DONE, os.path.basename(str(rig.place(Stage.DONE, "a"))))]
    assert steps.count("started") == steps.count("ended") == 2, steps


# rows that faults added -----------------------------------------------------------------------------------------------


def test_a_run_that_was_requeued_and_not_retired_does_not_stand_in_the_way_of_the_next(rig: Rig) -> None:
    data = accepted(rig, "0010-a.toml", runs=[0], retry={"times": 3, "delay": 0, "on": ["failed"]})
    first = record(rig, "0010-a.toml", data, run=1, slot=1, end=ended(1, "failed", 1))
    queued_again = account(first, ended(1, "failed", 1), {"step": "requeued", "at": trace.read(data)[0]["at"], "why": "retry after failed"})
    record(rig, "0010-a.toml", queued_again, run=2, slot=2, boot=ANOTHER_BOOT, end=ended(2))
    put(rig, Stage.RUNNING, "0010-a.toml", queued_again)
    rig.begin()
    rig.until_settled()
    assert [step["step"] for step in rig.trace(Stage.DONE, "0010-a.toml")] == ["accepted", "started", "ended", "requeued", "started", "ended"]
    assert rig.entries(Stage.DONE) == ["0010-a.toml"]
    assert rig.began() == []


def test_the_next_job_has_the_lock_of_one_that_ended_and_could_not_be_put_away(rig: Rig) -> None:
    first = accepted(rig, "0010-a.toml", claim="c1.0", runs=[0])
    second = accepted(rig, "0020-b.toml", claim="c2.0", runs=[0], ends=["failed"])
    put(rig, Stage.RUNNING, "0010-a.toml", first)
    put(rig, Stage.RUNNING, "0020-b.toml", second)
    record(rig, "0010-a.toml", first, run=1, slot=1, end=ended(1))
    record(rig, "0020-b.toml", second, run=2, slot=2, end=ended(2, "failed", 1))
    rig.begin()
    rig.until_settled()
    assert (outcome_of(rig, "a"), outcome_of(rig, "b")) == ("ok", "failed")


def test_nothing_starts_while_a_supervisor_of_the_last_spooler_may_still_start_a_job(rig: Rig) -> None:
    rig.begin()
    rig.until_up()
    (launcher,) = rig.launchers()
    rig.until(lambda: psutil.Process(launcher).children(), "a supervisor is parked")
    rig.until(lambda: (rig.root / ".spoold/slots/1/record").stat().st_size > 0, "it is up")
    supervisors = psutil.Process(launcher).children()
    for supervisor in supervisors:
        supervisor.suspend()
    rig.queue("0010-a.toml", gate=True)
    rig.until(lambda: rig.place(Stage.RUNNING, "a"), "its order is on its way")
    rig.kill()
    rig.begin()
    rig.until(lambda: rig.said("may still be about to start a job"), "it waits, and says so")
    rig.queue("0020-b.toml")
    rig.until(lambda: rig.place(Stage.READY, "b"), "b is accepted")
    assert rig.began() == []
    for supervisor in supervisors:
        supervisor.resume()
    rig.until_begun("a")
    rig.until(lambda: rig.said("run=1 of an earlier spooler goes on"), "it is adopted")
    assert rig.began() == ["a"], rig.account("its lock was given away")
    rig.open_gate("a")
    rig.until_settled()
    rig.judge()


def test_the_account_of_a_job_from_another_life_is_never_overwritten(rig: Rig) -> None:
    data = accepted(rig, "0010-a.toml", claim="c1.0")
    start = record(rig, "0010-a.toml", data, run=1)
    put(rig, Stage.DONE, "0010-a.toml", account(start, ended(1)))
    again = trace.append(account(start, ended(1)), {"step": "accepted", "at": trace.read(data)[0]["at"], "from": "incoming/0010-a.toml", "claim": "c2.0"})
    record(rig, "0010-a.toml", again, run=1, boot=ANOTHER_BOOT)
    rig.begin()
    rig.until(lambda: len(rig.entries(Stage.DONE)) == 2, "the second life has its own account")
    assert rig.trace(Stage.DONE, "0010-a.toml")[-1]["outcome"] == "ok"
    assert rig.trace(Stage.DONE, "0010-a.2.toml")[-1]["outcome"] == "lost"


def test_a_file_that_got_the_inode_of_one_that_was_taken_out_of_running_is_another_job(stable: Stable, rig: Rig) -> None:
    rig.queue("0010-a.toml", do="trap '' TERM; sleep 60", grace="300ms", ends=["stopped"])
    rig.begin()
    rig.until_begun("a")
    inode = rig.path(Stage.RUNNING, "0010-a.toml").stat().st_ino
    rig.path(Stage.RUNNING, "0010-a.toml").unlink()
    for number in range(20):
        rig.queue(f"{100 + number:04}-b{number}.toml", lock=[])
    reused = [name for name in rig.expected if rig.place(Stage.INCOMING, name) and rig.place(Stage.INCOMING, name).stat().st_ino == inode]  # type: ignore[union-attr]
    assert reused == []
    rig.until_settled()
    rig.judge()
