"""Bare `spoold`, and `ls`: what people type most."""

from __future__ import annotations

import re
import time
from pathlib import Path

from commandline import Box

from spoold.model import Stage
from spoold.view import KEYS

GPU = 'command = ["true"]\nlock = "gpu"\nwall = "2h"\n'


def fill(box: Box) -> None:
    now = time.time()
    box.done("0010-g50.toml", at=now - 3000)
    box.done("0020-g51.toml", at=now - 2000, outcome="failed", exit=3)
    box.running("0030-g52.toml", GPU, locks={"gpu": ["0"]}, memory=1000)
    box.ready("0040-g53.toml", GPU)
    box.ready("0050-sum.toml", 'command = ["true"]\nlock = []\nafter_ok = "g53"\n')
    box.ready("0060-later.toml")
    box.ok("hold", "later")
    box.refused("0070-no.toml", "wall: must be longer than zero")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


class TestOverview:
    def test_a_spool_at_a_glance(self, box: Box) -> None:
        fill(box)
        lines = plain(box.on_terminal()).splitlines()
        assert lines[0].startswith("~/spool  1 running, 2 waiting, 1 on hold")
        assert lines[1] == "No spooler runs: nothing starts until `spoold run` does."
        blocks = [block.split("\n") for block in "\n".join(lines[2:]).strip("\n").split("\n\n")]
        assert [len(block) for block in blocks] == [1, 3, 3]
        assert re.fullmatch(r"  ▸  g52    1m(\d+s)? of 1h, gpu, 2.0GB +until \S+( \S+)?", blocks[0][0])
        assert re.match(r"  1  g53    gpu held by g52 +by ", blocks[1][0])
        assert blocks[1][1].rstrip() == "  2  sum    after g53"
        assert blocks[1][2].rstrip() == "  ·  later  on hold"
        assert blocks[2][0].startswith("  ✗  no     refused: wall: must be longer than zero")
        assert blocks[2][1].startswith("  ✗  g51    failed after 1m30s, exit 3")
        assert blocks[2][2].startswith("  ✓  g50    ok after 1m30s, 5.0MB")
        assert all(len(line) <= 80 for line in lines)

    def test_no_job_has_more_than_one_line_however_small_the_terminal_is(self, box: Box) -> None:
        fill(box)
        for columns in (60, 80, 200):
            lines = plain(box.on_terminal(columns=columns)).splitlines()
            assert all(len(line) <= columns for line in lines[2:])
            assert sum(line.split()[1:2] == ["g53"] for line in lines) == 1

    def test_a_long_queue_leaves_room_for_the_rest_and_says_so(self, box: Box) -> None:
        for number in range(1, 100):
            box.ready(f"{number:04d}-job-{number}.toml")
        box.done("0000-before.toml")
        lines = plain(box.on_terminal(lines=20)).splitlines()
        assert len(lines) < 20
        assert any(re.match(r"  \d+ more wait; `spoold ls` shows them", line) for line in lines)
        assert "before" in lines[-1]
        assert len(box.ok().splitlines()) > 99

    def test_a_pause_is_seen_at_once_with_its_reason(self, box: Box) -> None:
        box.ready("0010-a.toml")
        box.ok("pause", "the box is needed")
        shown = box.ok()
        assert "Paused: the box is needed.  `spoold resume` lets jobs start again." in shown
        assert re.search(r"  1  a  paused$", shown, re.MULTILINE)

    def test_the_end_of_a_long_pause_says_what_to_do_on_a_small_terminal_too(self, box: Box) -> None:
        box.ok("pause", "the box is needed for a long while, until 18:00 and then some more")
        lines = plain(box.on_terminal()).splitlines()
        assert all(len(line) <= 80 for line in lines)
        assert "`spoold resume` lets jobs start again." in " ".join(lines)

    def test_bad_settings_are_seen_with_their_line(self, box: Box) -> None:
        Path(box.layout.settings).write_text('defualt_wall = "1h"\n')
        assert "spool.toml: line 1: defualt_wall: unknown key, did you mean default_wall?" in box.ok()

    def test_an_empty_spool_says_what_to_do(self, box: Box) -> None:
        assert "`spoold submit -- CMD` queues a command." in box.ok()

    def test_a_spooler_that_runs_is_said(self, box: Box) -> None:
        with box.spooler():
            shown = box.ok()
        assert "spooler runs" in shown
        assert "No spooler" not in shown


class TestLs:
    def test_what_runs_comes_before_what_waits_and_what_was_dropped(self, box: Box) -> None:
        fill(box)
        box.path(Stage.INCOMING, "new.toml").write_text("command = ['true']")
        assert [line.split()[1] for line in box.ok("ls").splitlines()] == ["g52", "g53", "sum", "later", "new"]

    def test_the_newest_end_comes_last_and_last_limits_it(self, box: Box) -> None:
        for number in (3, 1, 2):
            box.done(f"000{number}-d{number}.toml")
            time.sleep(0.002)  # the order is that of the file system's clock
        assert [line.split()[1] for line in box.ok("ls", "done").splitlines()] == ["d3", "d1", "d2"]
        assert [line.split()[1] for line in box.ok("ls", "done", "--last", "1").splitlines()] == ["d2"]
        assert box.ok("ls", "done", "--last", "0") == ""

    def test_json_is_one_list_with_all_keys_and_the_reasons(self, box: Box) -> None:
        fill(box)
        jobs = {job["name"]: job for job in box.json("ls", "--json")}
        assert set(jobs) == {"g52", "g53", "sum", "later"}
        assert all(tuple(job) == KEYS for job in jobs.values())
        assert [jobs[name]["place"] for name in ("g52", "g53", "sum", "later")] == [None, 1, 2, None]
        assert [reason["rule"] for reason in jobs["g53"]["reasons"]] == ["lock"]
        assert jobs["g53"]["latest_start"]
        assert jobs["sum"]["after"] == ["g53"]
        assert jobs["later"]["file"] == "ready/0060-later.toml.hold"
        assert (jobs["g52"]["pid"], jobs["g52"]["peak_memory"], jobs["g52"]["locks"]) == (4711, 3_000_000_000, {"gpu": ["0"]})

    def test_json_of_what_has_ended(self, box: Box) -> None:
        fill(box)
        done = {job["name"]: job for job in box.json("ls", "done", "refused", "--json")}
        assert (done["g51"]["outcome"], done["g51"]["exit"], done["g51"]["elapsed_s"]) == ("failed", 3, 90.0)
        assert done["no"]["reasons"] == [{"rule": "refused", "text": "wall: must be longer than zero"}]

    def test_a_broken_file_in_ready_is_shown_with_its_problem(self, box: Box) -> None:
        box.ready("0010-a.toml").write_text("comand = 1\n")
        shown = box.json("ls", "--json")
        assert [reason["rule"] for reason in shown[0]["reasons"]] == ["refused"]
        assert "comand" in shown[0]["reasons"][0]["text"]

    def test_an_empty_list_prints_nothing_and_is_a_list(self, box: Box) -> None:
        assert box.ok("ls") == ""
        assert box.json("ls", "--json") == []

    def test_a_file_in_running_that_no_run_explains_is_not_hidden(self, box: Box) -> None:
        box.path(Stage.RUNNING, "0010-x.toml").write_text("command = ['true']")
        assert box.json("ls", "--json")[0]["reasons"][0]["text"] == "no run is recorded for it"
