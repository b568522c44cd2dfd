"""Ends that are found again by NAME in done/ and refused/, however many there are and whoever put them there."""

from __future__ import annotations

import os
import pathlib

import pytest

from jobspec import trace
from spoold.archive import Archive, accepted_entry, account, last_claim, last_run, newest, requeued_entry
from spoold.layout import Layout
from spoold.ledger import MOST_BYTES, Ledger
from spoold.model import Ended, Fate, Outcome, Stage
from spoold.records import EndRecord, StartRecord
from spoold.store import Store

HELLO = b'command = ["true"]\n'
T0 = 1_790_000_000.0


class Box:
    """A spool with a past."""

    def __init__(self, root: pathlib.Path) -> None:
        self.layout = Layout(str(root))
        self.store = Store(self.layout, durable=False)
        self.store.make()
        self.archive = Archive(self.store)

    def path(self, stage: Stage, entry: str) -> pathlib.Path:
        return pathlib.Path(self.layout.entry(stage, entry))

    def ran(self, entry: str, name: str, at: float, outcome: Outcome = Outcome.OK, run: int = 1) -> None:
        """A file in done/ with the whole account of a run of that NAME."""
        start = a_start(entry, name, at, run)
        end = EndRecord(run=run, outcome=outcome.value, exit=0, ended_at=at + 1, elapsed_s=1.0, pid=7)
        self.path(Stage.DONE, entry).write_bytes(account(start, end))

    def refused(self, entry: str, at: float) -> None:
        self.path(Stage.REFUSED, entry).write_bytes(b"bad")
        why = self.path(Stage.REFUSED, entry.removesuffix(".toml") + ".why")
        why.write_text("because\n")
        os.utime(why, (at, at))

    def end(self, name: str) -> Ended | None:
        self.archive.refresh()
        return self.archive.last_end(name)


def a_start(entry: str, name: str, at: float, run: int) -> StartRecord:
    data = trace.append(HELLO, accepted_entry(at - 5, f"incoming/{entry}", 1000, f"claim{run}"))
    return StartRecord(
        run=run, job=entry.removesuffix(".toml"), seq=50, name=name, file=entry, started_at=at, boot="b", host="h", supervisor=7,
        wall_s=60.0, grace_s=5.0, locks={"box": ["0"]}, memory=0, log="log/x.log", waited_s=5.0, waited_for=["lock box: other"], text=data.decode(),
    )  # fmt: skip


@pytest.fixture
def box(tmp_path: pathlib.Path) -> Box:
    return Box(tmp_path / "spool")


def test_the_account_of_a_run_is_the_text_and_all_that_happened() -> None:
    start = a_start("0050-g52.toml", "g52", T0, 3)
    end = EndRecord(run=3, outcome="failed", exit=4, ended_at=T0 + 61.5, elapsed_s=61.5, cpu_s=3.25, peak_memory=10**9, pid=4711, leftover=["tail 12"])
    data = account(start, end, requeued_entry(T0 + 62, "retry after failed"))
    assert trace.split(data)[0] == HELLO
    accepted, started, ended, requeued = trace.read(data)
    assert accepted["claim"] == "claim3"
    assert {key: started[key] for key in ("run", "pid", "locks", "memory", "waited_s", "waited_for", "log")} == {
        "run": 3,
        "pid": 4711,
        "locks": {"box": ["0"]},
        "memory": 0,
        "waited_s": 5.0,
        "waited_for": ["lock box: other"],
        "log": "log/x.log",
    }
    assert started["at"].timestamp() == T0
    assert started["at"].utcoffset() is not None
    assert (ended["outcome"], ended["exit"], ended["elapsed_s"], ended["cpu_s"], ended["peak_memory"]) == ("failed", 4, 61.5, 3.25, 10**9)
    assert ended["leftover"] == ["tail 12"]
    assert ended["name"] == "g52"
    assert "signal" not in ended
    assert requeued["why"] == "retry after failed"
    assert last_run(trace.read(data)) == 3
    assert last_claim(trace.read(data)) == "claim3"


def test_the_end_of_a_name_is_the_one_that_happened_last(box: Box) -> None:
    box.ran("0050-g52.toml", "g52", T0, Outcome.FAILED, run=1)
    box.ran("0050-g52.2.toml", "g52", T0 + 100, Outcome.OK, run=2)
    box.ran("0010-g52.toml", "g52", T0 + 50, Outcome.WALL, run=3)
    box.ran("0050-g520.toml", "g520", T0 + 900, Outcome.WALL, run=4)
    end = box.end("g52")
    assert end is not None
    assert (end.how, end.at, end.file) == (Outcome.OK, T0 + 101, "done/0050-g52.2.toml")
    box.refused("0090-g52.toml", T0 + 200)
    assert box.end("g52") == Ended(seq=90, name="g52", at=T0 + 200, how=Fate.REFUSED, file="refused/0090-g52.toml")
    assert box.end("nobody") is None


def test_a_name_that_ends_in_a_number_is_not_taken_for_another(box: Box) -> None:
    """build.2 may be a job of that NAME, or the second file of a job build: the account says which."""
    box.ran("0010-build.toml", "build", T0, Outcome.OK, run=1)
    box.ran("0020-build.2.toml", "build.2", T0 + 10, Outcome.FAILED, run=2)
    box.ran("0010-build.3.toml", "build", T0 + 20, Outcome.WALL, run=3)
    ends = {name: box.end(name) for name in ("build", "build.2", "build.3")}
    assert {name: end and end.how for name, end in ends.items()} == {"build": Outcome.WALL, "build.2": Outcome.FAILED, "build.3": None}


def test_the_refusal_of_a_name_with_a_number_is_not_that_of_the_name_without(box: Box) -> None:
    box.ran("0010-build.toml", "build", T0, Outcome.OK)
    box.refused("0010-build.2.toml", T0 + 10)
    end = box.end("build")
    assert end is not None
    assert end.how is Outcome.OK
    end = box.end("build.2")
    assert end is not None
    assert end.how is Fate.REFUSED
    # with its name taken it may be either
    box.refused("0010-build.toml", T0 + 5)
    end = box.end("build")
    assert end is not None
    assert (end.how, end.at) == (Fate.REFUSED, T0 + 10)


def test_a_file_that_a_user_put_into_done_counts_as_withdrawn(box: Box) -> None:
    box.path(Stage.DONE, "0050-g52.toml").write_bytes(trace.append(HELLO, accepted_entry(T0, "incoming/g52.toml", 0, "c")))
    end = box.end("g52")
    assert end is not None
    assert end.how is Fate.WITHDRAWN


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", HELLO, b"x" * 300_000, trace.append(HELLO, {"step": "ended", "outcome": "fine", "at": 5})])
def test_a_damaged_file_is_no_good_end_of_anybody(box: Box, data: bytes) -> None:
    box.path(Stage.DONE, "0050-g52.toml").write_bytes(data)
    end = box.end("g52")
    assert end is None or not end.ok


def test_what_is_no_file_is_passed_over(box: Box) -> None:
    os.mkfifo(box.path(Stage.DONE, "0050-a.toml"))
    box.path(Stage.DONE, "0050-b.toml").mkdir()
    os.symlink("/dev/zero", box.path(Stage.DONE, "0050-c.toml"))
    assert [box.end(name) for name in "abc"] == [None] * 3


def test_ends_that_a_glob_means_are_those_since_a_moment(box: Box) -> None:
    for number in range(5):
        entry = f"00{number}0-job{number}.toml"
        box.ran(entry, f"job{number}", T0 + number * 100)
        os.utime(box.path(Stage.DONE, entry), (T0 + number * 100, T0 + number * 100))
    box.archive.refresh()
    found = sorted(ended.name for ended in box.archive.ends_since("job*", T0 + 200))
    assert found == ["job2", "job3", "job4"]
    assert [ended.name for ended in box.archive.ends_since("job4", T0)] == ["job4"]


def test_a_change_is_seen_however_soon_it_comes_after_a_look(box: Box) -> None:
    for number in range(200):
        box.archive.refresh()
        box.ran(f"0010-j{number}.toml", f"j{number}", T0)
        assert box.end(f"j{number}") is not None


def test_the_highest_number_of_what_is_over(box: Box) -> None:
    assert box.archive.highest_seq is None
    box.ran("0050-a.toml", "a", T0)
    box.refused("0070-b.toml", T0)
    box.path(Stage.REFUSED, "not a job.toml").write_bytes(b"")
    box.archive.refresh()
    assert box.archive.highest_seq == 70


def test_the_newest_come_last_whatever_their_clock_says(box: Box) -> None:
    for entry in ("0030-c.toml", "0010-a.toml", "0020-b.toml"):
        before = os.stat(box.layout.stage(Stage.DONE)).st_ctime_ns
        box.ran(entry, entry[5], T0)
        path = box.path(Stage.DONE, entry)
        while path.stat().st_ctime_ns <= before:
            os.utime(path, (T0, T0))
        os.utime(path, (T0, T0))
    assert newest(box.store, Stage.DONE)[-1] == "0020-b.toml"


# the ledger ---------------------------------------------------------------------------------------------------------------


def test_withdrawals_are_kept_for_those_that_are_asked_about(box: Box) -> None:
    ledger = Ledger(box.store)
    for name in ("a", "b", "c"):
        ledger.add(10, name, T0)
    ledger.add(20, "a", T0 + 5)
    found = Ledger(box.store).read({"a", "c"})
    assert [(ended.seq, ended.name, ended.at) for ended in found] == [(10, "a", T0), (10, "c", T0), (20, "a", T0 + 5)]
    assert {ended.how for ended in found} == {Fate.WITHDRAWN}
    assert Ledger(box.store).read({"a", "b", "c"}) == found  # b is forgotten: nobody asked
    assert Ledger(box.store).read(set()) == []


@pytest.mark.parametrize("text", [b"", b"garbage\n", b"1.0 5 a\n2.0", b"1.0 5 ../x\n", b"\xff\xff a\n", b"nan", b"1 5 a b\n", b"1 a\n", b"x" * MOST_BYTES])
def test_a_torn_ledger_costs_its_torn_lines_only(box: Box, text: bytes) -> None:
    pathlib.Path(box.layout.withdrawn).write_bytes(b"5.000 10 good\n" + text)
    assert [ended.name for ended in Ledger(box.store).read({"good", "x", "../x", "a b"})] == ["good"]


def test_a_ledger_that_cannot_be_written_fails_nobody(box: Box) -> None:
    os.mkdir(box.layout.withdrawn)
    ledger = Ledger(box.store)
    ledger.add(10, "a", T0)
    assert ledger.read({"a"}) == []
