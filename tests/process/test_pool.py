"""The pool: warm supervisors, and what becomes of runs when spooler, launcher or supervisor is killed."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import pathlib
import resource
import shutil
import signal
import sys
from collections.abc import Iterator

import psutil
import pytest
from poolside import PYTHON, Owner, Poolside, an_order, is_gone, until

from spoold import host, records
from spoold.errors import SpoolError
from spoold.lockfile import is_locked
from spoold.pool import MOST_PARKED, UNSETTLED_RUNS, Ended, Failed, Started
from spoold.records import StartRecord

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def side(tmp_path: pathlib.Path) -> Iterator[Poolside]:
    with Poolside(tmp_path) as side:
        yield side


def sh(text: str) -> list[str]:
    return ["sh", "-c", text]


def launcher() -> psutil.Process:
    """The launcher of the pool in this process."""
    living = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    (one,) = [child for child in living if "spoold.launcher" in " ".join(child.cmdline())]
    return one


def supervisors() -> list[psutil.Process]:
    return list(launcher().children())


def the_start(side: Poolside, slot: int) -> StartRecord:
    record = side.pool.record(slot)
    assert record is not None
    assert record.start is not None
    return record.start


# the pool -------------------------------------------------------------------------------------------------------------


def test_one_supervisor_is_parked_before_anything_is_ordered(side: Poolside) -> None:
    until(lambda: len(supervisors()) == 1, "one supervisor")
    assert side.pool.slots_in_use == 0


def test_runs_at_the_same_time_have_slots_of_their_own(side: Poolside) -> None:
    runs = [side.start(["sleep", "1000"]) for _ in range(4)]
    for run in runs:
        side.started(run)
    assert side.pool.slots_in_use == 4
    starts = [record.start for record, held in side.pool.scan().values() if held and record.live]
    assert sorted(start.run for start in starts if start is not None) == runs


def test_supervisors_that_are_not_needed_any_more_are_let_go(side: Poolside) -> None:
    runs = [side.start(["true"]) for _ in range(6)]
    for run in runs:
        side.ended(run)
        side.pool.retire(run)
    side.until(lambda: len(supervisors()) <= MOST_PARKED, f"{MOST_PARKED} supervisors at most")
    assert side.does(["true"]).end.outcome == "ok"


def test_a_slot_is_not_used_again_before_its_run_is_retired(side: Poolside) -> None:
    run = side.start(["true"])
    first = side.ended(run)
    others = [side.does(["true"]).slot for _ in range(4)]
    assert first.slot not in others
    record = side.pool.record(first.slot)
    assert record is not None
    assert record.live
    side.pool.retire(run)
    assert first.slot in [side.does(["true"]).slot for _ in range(4)]


def test_a_slot_whose_job_lock_somebody_still_holds_is_left_alone(tmp_path: pathlib.Path) -> None:
    with Poolside(tmp_path) as side:
        ended = side.does(["true"])
        lock = side.layout.slot(ended.slot).job_lock
    until(lambda: not is_locked(side.layout.slot(ended.slot).supervisor_lock), "the supervisor has ended")
    stray = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(stray, fcntl.LOCK_EX)
        with Poolside(tmp_path) as side:
            assert side.does(["true"]).slot != ended.slot
    finally:
        os.close(stray)


def test_run_numbers_go_on_where_the_records_end(tmp_path: pathlib.Path) -> None:
    with Poolside(tmp_path) as side:
        last = [side.does(["true"]).run for _ in range(3)][-1]
    with Poolside(tmp_path) as side:
        side.until(lambda: not side.pool.settling(), "settled")
        assert side.pool.next_run() == last + 1


def test_an_order_larger_than_any_socket_buffer_arrives_whole(side: Poolside) -> None:
    env = {f"V{number}": "x" * 100_000 for number in range(12)}
    run = side.start(sh('echo "$V0$V11" | wc -c'), env=env | {"PATH": "/usr/bin:/bin"})
    side.ended(run)
    assert side.log(run).split() == ["200001"]


def test_parked_supervisors_end_with_their_pool(tmp_path: pathlib.Path) -> None:
    with Poolside(tmp_path) as side:
        side.does(["true"])
        all_of_them = [launcher().pid, *(process.pid for process in supervisors())]
    until(lambda: all(map(is_gone, all_of_them)), "launcher and supervisors have ended")


@linux
def test_descriptors_stay_the_same_over_300_jobs(side: Poolside) -> None:
    def open_now() -> dict[int, int]:
        processes = [psutil.Process(), launcher(), *supervisors()]
        return {process.pid: process.num_fds() for process in processes}

    def runs(number: int) -> None:
        for _ in range(number):
            assert side.does(["true"]).end.outcome == "ok"

    runs(20)
    side.turn()
    before = open_now()
    runs(280)
    side.turn()
    assert open_now() == before


@linux
def test_a_supervisor_has_little_memory_of_its_own(side: Poolside) -> None:
    for _ in range(50):
        side.does(["true"])
    for process in supervisors():
        own = process.memory_full_info().uss
        assert own < 5 << 20, f"{own >> 10} KiB"


def test_when_the_slots_are_removed_from_the_disk_a_run_ends_well_and_no_supervisor_of_theirs_is_used_again(
    side: Poolside, tmp_path: pathlib.Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    run = side.start(sh("read x < fifo; exit 5"), cwd=str(tmp_path))
    side.started(run)
    shutil.rmtree(side.layout.slots)
    side.pool.renew()
    (tmp_path / "fifo").write_text("go\n")
    assert side.ended(run).end.exit == 5
    side.pool.retire(run)
    for _ in range(4):
        ended = side.does(["true"])
        record = side.pool.record(ended.slot)
        assert record is not None
        assert record.start is not None
        assert record.start.run == ended.run
        assert (side.root / ".spoold" / "slots" / str(ended.slot) / "record").stat().st_size == records.RECORD_SIZE


# something is killed --------------------------------------------------------------------------------------------------


def test_a_parked_supervisor_that_is_killed_is_replaced(side: Poolside) -> None:
    (parked,) = until(supervisors, "one supervisor")
    parked.kill()
    side.until(lambda: [process for process in supervisors() if process.pid != parked.pid], "another supervisor")
    assert side.does(["true"]).end.outcome == "ok"


def test_an_order_that_its_supervisor_did_not_live_to_read_has_failed_and_was_not_executed(side: Poolside, tmp_path: pathlib.Path) -> None:
    (parked,) = until(supervisors, "one supervisor")
    parked.suspend()
    run = side.start(["touch", str(tmp_path / "ran")])
    parked.kill()
    assert side.failed(run).why == "its supervisor ended before the job was started"
    assert not (tmp_path / "ran").exists()
    assert not side.of(run, Ended)
    assert not side.of(run, Started)
    assert side.does(["true"]).end.outcome == "ok"


def test_a_killed_launcher_costs_no_run(side: Poolside) -> None:
    running = side.start(sh("read x < fifo; exit 5"), cwd=str(_fifo(side)))
    side.started(running)
    first = launcher()
    first.kill()
    for _ in range(3):
        assert side.does(["true"]).end.outcome == "ok"
    many = [side.start(["true"]) for _ in range(3)]
    assert all(side.ended(run).end.outcome == "ok" for run in many)
    assert launcher().pid != first.pid
    (side.root / "fifo").write_text("go\n")
    assert side.ended(running).end.exit == 5


def _fifo(side: Poolside) -> pathlib.Path:
    os.mkfifo(side.root / "fifo")
    return side.root


def test_without_a_launcher_an_order_is_an_error_and_later_it_is_not(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    side = Poolside(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", str(tmp_path / "no-python"))
        with pytest.raises(SpoolError, match="the launcher cannot be started: No such file or directory"):
            side.pool.open()
    with side:
        assert side.does(["true"]).end.outcome == "ok"


def test_without_descriptors_an_order_is_an_error_and_nothing_leaks(side: Poolside) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    runs = [side.start(["sleep", "1000"])]
    before = set(os.listdir("/dev/fd"))
    highest = max(map(int, before))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    spare = []
    try:
        while True:
            try:
                spare.append(os.dup(0))
            except OSError:
                break
        with pytest.raises(SpoolError, match="no slot can be had"):
            side.pool.start(an_order(99, ["true"]))
    finally:
        for fd in spare:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(os.listdir("/dev/fd")) == before
    assert side.does(["true"]).end.outcome == "ok"
    assert side.started(runs[0])


LEAVER = """
import os, sys, time
print(os.getpid(), flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.closerange(0, 1024)
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"], {})
    os._exit(0)
time.sleep(1000)
"""


@linux
def test_a_killed_supervisor_leaves_no_process_behind_and_the_run_is_lost(side: Poolside) -> None:
    other = side.start(["sleep", "1000"])
    run = side.start([*PYTHON, LEAVER], grace_s=0.3)
    pids = side.pids(run, 2)
    slot = next(number for number, (record, _) in side.pool.scan().items() if record.start is not None and record.start.run == run)
    until(lambda: psutil.Process(pids[1]).cmdline()[-1] == "import time; time.sleep(1000)", "the daemon has emptied its environment")
    os.kill(the_start(side, slot).supervisor, signal.SIGKILL)
    end = side.ended(run).end
    assert (end.outcome, end.why) == ("lost", "its supervisor was killed")
    assert all(map(is_gone, pids))
    assert [name for name in end.leftover if f"(pid {pids[1]})" in name]
    assert not is_locked(side.layout.slot(slot).job_lock)
    assert side.of(other, Ended) == []
    assert not is_gone(side.started(other).pid)
    side.pool.retire(run)
    assert side.does(["true"]).end.outcome == "ok"


def test_orphans_that_ignore_term_are_killed_and_until_then_the_run_has_not_ended(side: Poolside) -> None:
    run = side.start(sh("trap '' TERM; echo $$; while :; do sleep 1000; done"), grace_s=0.4)
    (pid,) = side.pids(run)
    os.kill(the_start(side, 1).supervisor, signal.SIGKILL)
    end = side.until(lambda: is_gone(pid) or side.of(run, Ended), "either")
    assert end
    assert is_gone(pid)
    assert side.ended(run).end.outcome == "lost"


# the spooler is killed ------------------------------------------------------------------------------------------------


@pytest.fixture
def owner(tmp_path: pathlib.Path) -> Iterator[Owner]:
    owner = Owner(tmp_path)
    assert owner.says()["kind"] == "Open"
    yield owner
    if owner.process.poll() is None:
        owner.kill()


def _order_and_kill(owner: Owner, argv: list[str], **more: object) -> int:
    """A job that runs without a spooler."""
    owner.tell(an_order(1, argv, **more))
    while owner.says()["kind"] != "Started":
        pass
    owner.kill()
    return 1


def _adopted(side: Poolside) -> int:
    """The only live run on disk, adopted."""
    ((slot, record),) = [(slot, record) for slot, (record, _) in side.pool.scan().items() if record.live]
    side.pool.adopt(slot, record)
    assert record.start is not None
    return record.start.run


def test_a_job_outlives_its_spooler_and_its_end_is_found_by_the_next(owner: Owner, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    _order_and_kill(owner, sh("read x < fifo; echo $x; exit 7"), cwd=str(tmp_path))
    (tmp_path / "fifo").write_text("late\n")
    side = Poolside(tmp_path)
    until(lambda: [1 for record, held in side.pool.scan().values() if record.end is not None and not held], "the end is on disk")
    with side:
        run = _adopted(side)
        assert side.ended(run).end.exit == 7
        assert side.log(run) == "late\n"
        side.pool.retire(run)
        assert side.does(["true"]).run == run + 1


def test_a_running_job_is_adopted_and_its_end_told_when_it_comes(owner: Owner, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    _order_and_kill(owner, sh("read x < fifo; exit 7"), cwd=str(tmp_path))
    with Poolside(tmp_path) as side:
        run = _adopted(side)
        assert side.figures(run).pid > 0
        assert side.does(["true"]).end.outcome == "ok"
        assert side.of(run, Ended) == []
        (tmp_path / "fifo").write_text("go\n")
        assert side.ended(run).end.exit == 7
        side.pool.retire(run)
        assert side.pool.slots_in_use == 0


@pytest.mark.parametrize("outcome", ["stopped", "memory"])
def test_an_adopted_job_can_be_stopped(owner: Owner, tmp_path: pathlib.Path, outcome: str) -> None:
    _order_and_kill(owner, ["sleep", "1000"])
    with Poolside(tmp_path) as side:
        run = _adopted(side)
        side.pool.stop(run, outcome)
        end = side.ended(run).end
        assert (end.outcome, end.signal) == (outcome, signal.SIGTERM)


def test_the_wall_clock_is_kept_without_a_spooler(owner: Owner, tmp_path: pathlib.Path) -> None:
    _order_and_kill(owner, ["sleep", "1000"], wall_s=0.5)
    side = Poolside(tmp_path)
    until(lambda: [1 for record, held in side.pool.scan().values() if record.end is not None and not held], "the end is on disk")
    with side:
        assert side.ended(_adopted(side)).end.outcome == "wall"


def test_an_adopted_run_whose_supervisor_is_killed_is_lost_with_all_its_processes(owner: Owner, tmp_path: pathlib.Path) -> None:
    _order_and_kill(owner, sh("setsid sleep 1000 & echo $!; echo $$; wait; sleep 1000"))
    with Poolside(tmp_path) as side:
        run = _adopted(side)
        pids = side.pids(run, 2)
        os.kill(the_start(side, 1).supervisor, signal.SIGKILL)
        end = side.ended(run).end
        assert (end.outcome, end.why) == ("lost", "its supervisor was killed")
        assert all(map(is_gone, pids))


def test_orphans_of_a_supervisor_that_was_killed_with_its_spooler_are_found_and_stopped(owner: Owner, tmp_path: pathlib.Path) -> None:
    _order_and_kill(owner, sh("setsid sleep 1000 & echo $!; echo $$; wait; sleep 1000"))
    side = Poolside(tmp_path)
    pids = side.pids(1, 2)
    os.kill(the_start(side, 1).supervisor, signal.SIGKILL)
    until(lambda: not is_locked(side.layout.slot(1).supervisor_lock), "S is free")
    with side:
        end = side.ended(_adopted(side)).end
    assert (end.outcome, end.why) == ("lost", "its supervisor was killed")
    assert all(map(is_gone, pids))


def test_a_run_of_another_boot_is_lost_at_once(tmp_path: pathlib.Path) -> None:
    with Poolside(tmp_path) as side:
        ended = side.does(["true"])
        start = the_start(side, ended.slot)
    slot = side.layout.slot(ended.slot)
    until(lambda: not is_locked(slot.supervisor_lock), "S is free")
    with open(slot.record, "r+b") as file:
        file.write(records.encode_start(dataclasses.replace(start, run=40, boot="another")))
        file.seek(records.FIGURES_AT)
        figures = records.Figures(run=40, pid=4711, at=start.started_at + 5, memory=1, peak=2, kind="rss", cpu_s=0.5, processes=1)
        file.write(records.encode_figures(figures))
    with Poolside(tmp_path) as side:
        end = side.ended(_adopted(side)).end
        assert (end.run, end.outcome, end.why) == (40, "lost", "the box went down while it ran")
        assert (end.elapsed_s, end.peak_memory, end.pid) == (5.0, 2, 4711)
        side.pool.retire(40)
        assert side.pool.next_run() == 41


def test_a_complete_order_is_carried_out_after_the_spooler_was_killed_and_recovery_waits_for_it(
    owner: Owner, tmp_path: pathlib.Path
) -> None:
    (service,) = until(lambda: psutil.Process(owner.process.pid).children(), "the launcher")
    (parked,) = until(service.children, "one supervisor")
    parked.suspend()
    owner.tell(an_order(1, sh("exit 9")))
    assert owner.says()["kind"] == "Ordered"
    owner.kill()
    with Poolside(tmp_path) as side:
        assert side.pool.settling()
        assert side.pool.next_run() > UNSETTLED_RUNS
        assert not [1 for record, _ in side.pool.scan().values() if record.live]
        parked.resume()
        side.until(lambda: not side.pool.settling(), "settled")
        assert side.ended(_adopted(side)).end.exit == 9


def test_an_order_to_a_supervisor_that_is_not_yet_forked_is_carried_out_after_the_spooler_was_killed(
    owner: Owner, tmp_path: pathlib.Path
) -> None:
    (service,) = until(lambda: psutil.Process(owner.process.pid).children(), "the launcher")
    until(service.children, "one supervisor")
    service.suspend()
    for run in (1, 2):
        owner.tell(an_order(run, sh(f"exit {run}")))
        until(lambda: owner.says()["kind"] == "Ordered", "ordered")
    owner.kill()
    with Poolside(tmp_path) as side:
        assert side.pool.settling()
        service.resume()
        side.until(lambda: not side.pool.settling(), "settled")
        found = {slot: record for slot, (record, _) in side.pool.scan().items() if record.live}
        for slot, record in found.items():
            side.pool.adopt(slot, record)
        assert [side.ended(run).end.exit for run in (1, 2)] == [1, 2]


def test_when_an_idle_spooler_is_killed_everything_settles(owner: Owner, tmp_path: pathlib.Path) -> None:
    owner.kill()
    with Poolside(tmp_path) as side:
        side.until(lambda: not side.pool.settling(), "settled")
        assert side.does(["true"]).run == 1


def test_every_run_is_told_exactly_one_end_whoever_is_killed(side: Poolside) -> None:
    for victim in ("job", "supervisor", "launcher", "supervisor and launcher"):
        run = side.start(["sleep", "1000"], grace_s=0.2)
        pid = side.started(run).pid
        parent = psutil.Process(pid).ppid()
        if "launcher" in victim:
            side.until(lambda: side.pool._launching.pid, "a launcher")
            launcher().kill()
        if "supervisor" in victim:
            os.kill(parent, signal.SIGKILL)
        if victim in ("job", "launcher"):
            os.kill(pid, signal.SIGKILL)
        side.ended(run)
        side.pool.retire(run)
        side.does(["true"])
        assert len(side.of(run, Ended)) == 1
        assert side.of(run, Failed) == []
        assert is_gone(pid)
    assert host.descendants(os.getpid()), "the pool is still there"
