"""`stop`, `again`, `pause`, `resume`."""

from __future__ import annotations

import os
from pathlib import Path

from commandline import Box, wait_until

from spoold.model import Stage


class TestStop:
    def test_a_stopped_job_ends_in_done_as_stopped(self, box: Box) -> None:
        with box.spooler():
            box.ok("submit", "--name", "s", "--", "/bin/sleep", "60")
            wait_until(lambda: box.names(Stage.RUNNING))
            shown = box.ok("stop", "--wait", "s").splitlines()
            assert shown[0] == "running/0010-s.toml -> done/0010-s.toml"
            assert shown[1].startswith("s ended stopped after")
            assert box.json("show", "--json", "s")["outcome"] == "stopped"

    def test_a_requeued_job_runs_again(self, box: Box) -> None:
        with box.spooler():
            box.ok("submit", "--name", "s", "--", "/bin/sleep", "60")
            wait_until(lambda: box.names(Stage.RUNNING))
            box.ok("pause")
            assert box.ok("stop", "--requeue", "--wait", "s") == "running/0010-s.toml -> ready/0010-s.toml\n"
            wait_until(lambda: "requeued" in box.path(Stage.READY, "0010-s.toml").read_text())
            box.ok("resume")
            wait_until(lambda: box.names(Stage.RUNNING))

    def test_a_taken_name_in_done_gets_a_number(self, box: Box) -> None:
        box.done("0010-s.toml")
        box.running("0010-s.toml")
        done = box.call("stop", "s")
        assert done.stdout == "running/0010-s.toml -> done/0010-s.2.toml\n"
        assert "no spooler runs" in done.stderr

    def test_what_waits_is_not_stopped_but_said_to_be_elsewhere(self, box: Box) -> None:
        box.ready("0010-s.toml")
        done = box.call("stop", "s")
        assert done.returncode == 66
        assert "s is in ready/" in done.stderr


class TestAgain:
    def test_a_job_runs_again_under_its_name_and_without_the_number_of_a_taken_one(self, box: Box) -> None:
        box.done("0010-a.toml", at=1_790_000_000.0)
        box.done("0010-a.2.toml", at=1_790_000_900.0, name="a")
        assert box.ok("again", "a") == "done/0010-a.2.toml -> incoming/0010-a.toml\n"

    def test_a_name_that_ends_in_a_number_keeps_it(self, box: Box) -> None:
        box.done("0010-model.2.toml")
        assert box.ok("again", "model.2") == "done/0010-model.2.toml -> incoming/0010-model.2.toml\n"
        box.refused("0020-model.3.toml", "no")
        assert box.ok("again", "model.3") == "refused/0020-model.3.toml -> incoming/0020-model.3.toml\n"

    def test_a_refused_one_in_a_taken_place_gets_its_name_back(self, box: Box) -> None:
        box.refused("0010-a.toml", "no")
        box.refused("0010-a.2.toml", "no")
        assert box.ok("again", "0010-a.2").endswith("-> incoming/0010-a.toml\n")

    def test_a_live_name_is_73_and_nothing_moves(self, box: Box) -> None:
        box.done("0010-a.toml")
        box.ready("0020-a.toml")
        done = box.call("again", "done/0010-a.toml")
        assert done.returncode == 73
        assert "ready/0020-a.toml" in done.stderr
        assert box.names(Stage.DONE) == ["0010-a.toml"]

    def test_it_really_runs_again(self, box: Box) -> None:
        with box.spooler():
            count = box.home / "count"
            box.ok("submit", "--name", "a", "--", "/bin/sh", "-c", f"echo x >> {count}")
            assert box.call("wait", "a").returncode == 0
            box.ok("again", "a")
            assert box.call("wait", "@").returncode == 0
            wait_until(lambda: count.read_text() == "x\nx\n")


class TestPause:
    def test_the_text_is_the_reason(self, box: Box) -> None:
        box.ok("pause", "until", "18:00")
        assert Path(box.layout.paused).read_text() == "until 18:00\n"
        box.ok("resume")
        assert not os.path.exists(box.layout.paused)
        assert "was not paused" in box.ok("resume")

    def test_nothing_starts_meanwhile(self, box: Box) -> None:
        with box.spooler():
            box.ok("pause", "lunch")
            box.ok("submit", "--name", "a", "--", "true")
            wait_until(lambda: box.names(Stage.READY))
            assert [reason["rule"] for reason in box.json("show", "--json", "a")["reasons"]] == ["paused"]
            box.ok("resume")
            assert box.call("wait", "a").returncode == 0
