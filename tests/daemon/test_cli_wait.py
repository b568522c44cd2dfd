"""`wait` and `log`: until the end, with its exit code."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from commandline import Box, wait_until

from spoold.claim import OwnerLock
from spoold.cli import ends
from spoold.cli.ends import exit_code
from spoold.errors import NoSpoolerError
from spoold.layout import Layout
from spoold.model import Outcome, Stage
from spoold.store import Store
from spoold.view import JobView


def log_of(box: Box, entry: str, data: bytes) -> Path:
    path = Path(box.layout.log) / f"{entry}.log"
    path.write_bytes(data)
    return path


class TestExitCode:
    @pytest.mark.parametrize(
        ("outcome", "code", "number", "wanted"),
        [
            (Outcome.OK, 0, None, 0),
            (Outcome.FAILED, 3, None, 3),
            (Outcome.FAILED, None, 11, 139),
            (Outcome.WALL, None, 15, 124),
            (Outcome.WALL, 0, None, 124),
            (Outcome.WALL, 9, None, 9),
            (Outcome.MEMORY, None, 9, 137),
            (Outcome.STOPPED, None, 15, 143),
            (Outcome.STOPPED, 0, None, 143),
            (Outcome.LOST, None, None, 70),
            (None, None, None, 66),
        ],
    )
    def test_it_is_the_jobs_own_where_it_has_one(self, outcome: Outcome | None, code: int | None, number: int | None, wanted: int) -> None:
        view = JobView(name="x", seq=1, stage=Stage.DONE, file="done/x", outcome=outcome, exit=code, signal=number, gone=outcome is None)
        assert exit_code(view) == wanted

    def test_refused_is_65(self) -> None:
        assert exit_code(JobView(name="x", seq=1, stage=Stage.REFUSED, file="refused/x")) == 65


class TestWait:
    def test_a_job_that_has_ended_is_not_waited_for(self, box: Box) -> None:
        box.done("0010-a.toml", outcome="failed", exit=3)
        done = box.call("wait", "a")
        assert done.returncode == 3
        assert done.stdout == "a ended failed after 1m30s, exit 3\n"

    def test_of_several_the_first_failure_counts_in_the_order_given(self, box: Box) -> None:
        box.done("0010-a.toml")
        box.done("0020-b.toml", outcome="failed", exit=3)
        box.done("0030-c.toml", outcome="failed", exit=4)
        assert box.call("wait", "-q", "a", "c", "b").returncode == 4
        assert box.call("wait", "-q", "a").stdout == ""

    def test_one_that_is_refused_meanwhile_is_65_with_the_reason(self, box: Box) -> None:
        with box.spooler():
            box.store.drop(b'command = ["true"]\nafter = "b"\n', "a.toml")
            wait_until(lambda: box.names(Stage.READY))
            waiting = box.begin("wait", "a")
            box.store.drop(b'command = ["true"]\nafter = "a"\n', "b.toml")
            _, err = waiting.communicate(timeout=30)
        assert waiting.returncode == 65
        assert "a was refused: a cycle" in err

    def test_it_follows_a_job_through_a_reorder_a_hold_and_its_run(self, box: Box) -> None:
        box.ready("0010-a.toml")
        waiting = box.begin("wait", "a")
        assert waiting.stderr is not None
        assert "no spooler runs" in waiting.stderr.readline()
        box.ok("move", "a", "--to", "70")
        box.ok("hold", "a")
        box.ok("release", "a")
        box.path(Stage.READY, "0070-a.toml").unlink()
        box.running("0070-a.toml")
        box.end_run("0070-a.toml", 1, outcome="failed", exit=5)
        out, _ = waiting.communicate(timeout=30)
        assert waiting.returncode == 5
        assert out == "a ended failed after 1m30s, exit 5\n"

    def test_an_old_end_of_the_same_name_is_not_its_end(self, box: Box) -> None:
        box.done("0010-a.toml", outcome="failed", exit=9)
        box.running("0020-a.toml", run=2)
        waiting = box.begin("wait", "a")
        assert waiting.stderr is not None
        assert "no spooler runs" in waiting.stderr.readline()
        box.end_run("0020-a.toml", 2)
        waiting.communicate(timeout=30)
        assert waiting.returncode == 0

    def test_one_that_is_taken_away_is_66(self, box: Box) -> None:
        box.ready("0010-a.toml")
        waiting = box.begin("wait", "a")
        assert waiting.stderr is not None
        assert "no spooler runs" in waiting.stderr.readline()
        box.path(Stage.READY, "0010-a.toml").unlink()
        _, err = waiting.communicate(timeout=30)
        assert waiting.returncode == 66
        assert "a was taken out of the spool" in err

    def test_a_stopped_run_is_waited_for_until_its_account_is_written(self, box: Box) -> None:
        with box.spooler():
            box.ok("submit", "--name", "s", "--", "/bin/sleep", "60")
            wait_until(lambda: box.names(Stage.RUNNING))
            waiting = box.begin("wait", "s")
            box.ok("stop", "s")
            out, _ = waiting.communicate(timeout=30)
        assert waiting.returncode == 143
        assert out.startswith("s ended stopped")

    def test_a_job_that_does_not_exist_is_66_at_once(self, box: Box) -> None:
        assert box.call("wait", "nobody").returncode == 66


class TestLog:
    def test_the_output_comes_byte_for_byte(self, box: Box) -> None:
        box.done("0010-a.toml")
        data = bytes(range(256)) * 3
        log_of(box, "0010-a", data)
        printed = subprocess.run(box.argv("log", "a"), capture_output=True, env=box.env, timeout=60)
        assert printed.stdout == data

    def test_a_running_job_has_a_log_already(self, box: Box) -> None:
        box.running("0010-a.toml")
        log_of(box, "0010-a", b"so far\n")
        assert box.ok("log", "a") == "so far\n"

    def test_one_that_has_not_started_has_none_and_that_is_66(self, box: Box) -> None:
        box.ready("0010-a.toml")
        done = box.call("log", "a")
        assert done.returncode == 66
        assert "it has not started" in done.stderr

    def test_the_last_lines_on_request(self, box: Box) -> None:
        box.done("0010-a.toml")
        log_of(box, "0010-a", b"".join(b"%d\n" % number for number in range(50000)))
        assert box.ok("log", "-n", "2", "a") == "49998\n49999\n"
        assert box.ok("log", "-n", "0", "a") == ""
        log_of(box, "0010-a", b"one\ntwo")
        assert box.ok("log", "-n", "1", "a") == "two"
        assert box.ok("log", "-n", "9", "a") == "one\ntwo"

    def test_the_path_is_that_of_the_last_run(self, box: Box) -> None:
        box.done("0010-a.toml")
        assert box.ok("log", "--path", "a") == f"{box.layout.log}/0010-a.log\n"

    def test_no_history_leads_out_of_the_log_directory(self, box: Box) -> None:
        path = box.done("0010-a.toml")
        path.write_text(path.read_text().replace("log/0010-a.log", "../../../etc/passwd"))
        done = box.call("log", "a")
        assert done.returncode == 66
        assert "root:" not in done.stdout

    def test_a_log_that_is_gone_is_66(self, box: Box) -> None:
        box.done("0010-a.toml")
        assert box.call("log", "a").returncode == 66

    def test_following_goes_from_before_the_start_to_the_end(self, box: Box) -> None:
        gate = box.home / "gate"
        os.mkfifo(gate)
        with box.spooler():
            box.ok("submit", "--name", "first", "--", "/bin/sh", "-c", f"read line < {gate}")
            box.ok("submit", "--name", "a", "--", "/bin/sh", "-c", "echo one; echo two; exit 4")
            following = box.begin("log", "-f", "a")
            assert following.stderr is not None
            assert following.stderr.readline() == "spoold: a has not started: box held by first\n"
            gate.write_text("go\n")
            out, err = following.communicate(timeout=30)
        assert following.returncode == 4
        assert out == "one\ntwo\n"
        assert "a ended failed after" in err

    def test_following_goes_on_through_a_retry(self, box: Box) -> None:
        with box.spooler():
            script = b'[ -e "$HOME/tried" ] || { touch "$HOME/tried"; echo first; exit 1; }\necho second\n'
            following = box.call("submit", "--wait", "--name", "r", "--retry", "1", "--script", "-", stdin=script)
        assert following.returncode == 0
        assert following.stdout == "r\nfirst\nsecond\n"

    def test_following_one_that_has_ended_prints_and_exits_as_it_did(self, box: Box) -> None:
        box.done("0010-a.toml", outcome="failed", exit=6)
        log_of(box, "0010-a", b"all\n")
        done = box.call("log", "-f", "a")
        assert (done.returncode, done.stdout) == (6, "all\n")

    def test_a_reader_that_goes_away_ends_it_in_silence(self, box: Box) -> None:
        box.running("0010-a.toml")
        log = log_of(box, "0010-a", b"x" * 300_000)
        with box.begin("log", "-f", "a") as following:
            assert following.stdout is not None
            assert following.stderr is not None
            following.stdout.read(10)
            following.stdout.close()
            with open(log, "ab") as file:
                file.write(b"more\n" * 30_000)
            assert following.stderr.read() == ""
        assert following.returncode == 0


def test_waiting_is_given_up_when_nobody_will_ever_end_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(str(tmp_path / "spool"))
    Store(layout).make()
    waiting = ends.Waiting(layout)
    monkeypatch.setattr(ends, "LOOK_S", 0.0)
    waiting.pause()
    assert "no spooler runs" in capsys.readouterr().err
    clock = time.monotonic()
    monkeypatch.setattr(ends.time, "monotonic", lambda: clock + ends.NOBODY_S + 1)
    with pytest.raises(NoSpoolerError):
        waiting.pause()


def test_a_spooler_that_comes_back_in_time_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(str(tmp_path / "spool"))
    Store(layout).make()
    waiting = ends.Waiting(layout)
    monkeypatch.setattr(ends, "LOOK_S", 0.0)
    waiting.pause()
    clock = time.monotonic()
    owner = OwnerLock(layout.owner)
    owner.take()
    monkeypatch.setattr(ends.time, "monotonic", lambda: clock + 20)
    waiting.pause()
    owner.drop()
    monkeypatch.setattr(ends.time, "monotonic", lambda: clock + 40)
    waiting.pause()
