"""`why` and `show`: the account of one job."""

from __future__ import annotations

import re
import time

from commandline import Box

from spoold.model import Stage
from spoold.view import KEYS

GPU = 'command = ["true"]\nlock = "gpu"\nwall = "2h"\nnote = "what this is for"\n'


class TestWhy:
    def test_every_reason_has_its_line_with_who_and_since_when(self, box: Box) -> None:
        box.running("0010-g52.toml", GPU, locks={"gpu": ["0"]})
        box.ready("0020-g53.toml", 'command = ["true"]\nlock = "gpu"\nafter = ["g52", "nobody"]\n')
        box.ok("pause", "lunch")
        first, *reasons = box.ok("why", "g53").splitlines()
        assert first == "g53 waits in place 1"
        assert [line.split()[0] for line in reasons] == ["paused", "paused", "after", "after", "lock"]
        assert reasons[0].endswith("no spooler runs; `spoold run` is one")
        assert reasons[1].endswith("the spool is paused: lunch")
        assert "waits for gpu, held by g52 since 20" in reasons[4]

    def test_the_latest_start_is_told(self, box: Box) -> None:
        box.running("0010-g52.toml", GPU, locks={"gpu": ["0"]})
        box.ready("0020-g53.toml", GPU)
        assert box.ok("why", "g53").startswith("g53 waits in place 1 and starts at the latest 20")

    def test_one_that_has_ended_says_how_and_one_that_was_refused_why(self, box: Box) -> None:
        box.done("0010-a.toml", outcome="wall", signal=15)
        box.refused("0020-b.toml", "a cycle of afters: b waits for b")
        assert box.ok("why", "a").startswith("a ended wall after 1m30s, signal 15 (TERM), 20")
        assert re.fullmatch(r"b was refused 20[-0-9 :]+: a cycle of afters: b waits for b\n", box.ok("why", "b"))

    def test_a_link_and_a_directory_that_were_refused_are_found_by_name(self, box: Box) -> None:
        box.path(Stage.REFUSED, "link.toml").symlink_to("/nowhere")
        box.path(Stage.REFUSED, "link.why").write_text("it is a symbolic link\n")
        box.path(Stage.REFUSED, "0020-dir.toml").mkdir()
        box.path(Stage.REFUSED, "0020-dir.why").write_text("it is a directory\n")
        assert box.ok("why", "link").endswith(": it is a symbolic link\n")
        assert box.ok("why", "dir").endswith(": it is a directory\n")
        assert "file      ~/spool/refused/link.toml" in box.ok("show", "link")

    def test_a_dropped_file_that_is_no_job_says_so(self, box: Box) -> None:
        box.path(Stage.INCOMING, "x.toml").write_text("comand = 1")
        shown = box.ok("why", "x")
        assert "x was dropped and is not accepted yet" in shown
        assert "it does not read as a job" in shown

    def test_without_a_job_it_answers_for_the_box(self, box: Box) -> None:
        assert "Nothing runs and nothing waits." in box.ok("why")
        box.running("0010-g52.toml", GPU, locks={"gpu": ["0"]})
        box.ready("0020-g53.toml", GPU)
        shown = box.ok("why")
        assert "No spooler runs" in shown
        assert "g52 runs since " in shown
        assert "g53 waits in place 1" in shown
        found = box.json("why", "--json")
        assert found["spooler"] is None
        assert [job["name"] for job in found["running"] + found["ready"]] == ["g52", "g53"]

    def test_json_of_jobs_is_a_list_of_them(self, box: Box) -> None:
        box.ready("0010-a.toml", 'command = ["true"]\nafter = "b"\n')
        box.ready("0020-b.toml")
        found = box.json("why", "--json", "a", "b")
        assert [tuple(job) for job in found] == [KEYS, KEYS]
        assert found[0]["reasons"][0]["job"] == "b"

    def test_no_line_is_wider_than_80_columns_but_for_a_long_word(self, box: Box) -> None:
        box.running("0010-g52.toml", GPU, locks={"gpu": ["0"]})
        box.ready("0020-g53.toml", GPU)
        box.refused("0030-r.toml", "word " * 60)
        for words in (("why", "g53"), ("why", "r"), ("show", "g53")):
            for line in box.ok(*words, env={"COLUMNS": "80"}).splitlines():
                assert len(line) <= 80 or "env." in line or "/" in line, line


class TestShow:
    def test_every_setting_is_shown_with_its_source(self, box: Box) -> None:
        with open(box.layout.settings, "w") as file:
            file.write('default_wall = "24h"\n[env]\nPATH = "/usr/bin:/bin"\n')
        box.ready("0010-a.toml", 'command = ["echo", "a b"]\nmemory = "1GB"\nenv = { X = "1" }\n')
        lines = box.ok("show", "a").splitlines()
        for line in (
            "command echo 'a b', job file",
            "memory 1.0GB, job file",
            "wall 24h, spool.toml default_wall",
            "lock box, spool.toml default_lock (its default)",
            "grace 30s, default",
            "env.PATH /usr/bin:/bin, spool.toml env",
            "env.X 1, job file",
        ):
            assert line in lines

    def test_a_run_shows_its_figures_and_its_log(self, box: Box) -> None:
        box.running("0010-g52.toml", GPU, locks={"gpu": ["0"]}, memory=4_000_000_000)
        lines = box.ok("show", "g52").splitlines()
        assert "  what this is for" in lines
        assert "log       ~/spool/log/0010-g52.log" in lines
        assert "uses      2.0GB of memory now, 3.0GB at most, 4.0GB declared, 2 processes, pid 4711" in lines

    def test_a_run_is_shown_as_it_was_started_and_not_as_its_file_is_now(self, box: Box) -> None:
        box.running("0010-g52.toml", GPU)
        box.path(Stage.RUNNING, "0010-g52.toml").write_text('command = ["rm"]\n')
        assert "command true, job file" in box.ok("show", "g52")

    def test_the_history_reads_as_an_account(self, box: Box) -> None:
        box.done("0010-a.toml", outcome="failed", exit=3, leftover=["sleep (77)"], peak_memory=5_000_000, cpu_s=4.0)
        lines = [line[21:] for line in box.ok("show", "a").splitlines()[-3:]]
        assert lines[0] == f"accepted from incoming/0010-a.toml, uid {__import__('os').geteuid()}"
        assert lines[1] == "started as run 1, pid 4711, with box, waited 12s, for: box held by other"
        assert lines[2] == "ended failed after 1m30s, exit 3, cpu 4s, 5.0MB at most, left over: sleep (77)"

    def test_json_is_one_job_in_every_stage(self, box: Box) -> None:
        box.ready("0010-ready.toml")
        box.running("0020-running.toml")
        box.done("0030-done.toml")
        box.refused("0040-refused.toml", "no")
        box.path(Stage.INCOMING, "incoming.toml").write_text("")
        for stage in Stage:
            found = box.json("show", "--json", stage.value)
            assert tuple(found) == KEYS
            assert found["stage"] == stage.value

    def test_a_run_whose_file_was_taken_is_still_running(self, box: Box) -> None:
        box.running("0010-g52.toml")
        lock = box.store.layout.slot(1).job_lock
        with open(lock, "w") as held:
            import fcntl

            fcntl.flock(held, fcntl.LOCK_EX)
            box.path(Stage.RUNNING, "0010-g52.toml").rename(box.path(Stage.DONE, "0010-g52.toml"))
            assert box.json("show", "--json", "g52")["stage"] == "running"

    def test_a_job_that_was_withdrawn_says_so(self, box: Box) -> None:
        box.ready("0010-a.toml").rename(box.path(Stage.DONE, "0010-a.toml"))
        assert "a was withdrawn before it ended" in box.ok("show", "a")

    def test_times_have_an_offset(self, box: Box) -> None:
        box.ready("0010-a.toml", at=time.time())
        assert box.json("show", "--json", "a")["accepted_at"][-6] in "+-"
