"""`check`: every problem with its place, or every setting with its source."""

from __future__ import annotations

import json
from pathlib import Path

from commandline import Box


def write(box: Box, name: str, text: str) -> str:
    (box.home / name).write_text(text)
    return name


class TestProblems:
    def test_every_problem_has_file_line_column_and_key(self, box: Box) -> None:
        name = write(box, "a.toml", 'comand = ["make"]\nwall = "0s"\nafter = ["b", "c d"]\n')
        done = box.call("check", name)
        assert done.returncode == 65
        lines = done.stdout.splitlines()
        assert lines[0] == "a.toml:1:1: comand: unknown key, did you mean command?"
        assert lines[1].startswith("a.toml:2:1: wall: must be longer than zero")
        assert lines[2].startswith("a.toml:3:15: after: ")
        assert lines[3] == "a.toml: command or script is missing"

    def test_the_name_of_the_file_is_checked_too(self, box: Box) -> None:
        done = box.call("check", write(box, "my job.toml", 'command = ["make"]\n'))
        assert done.returncode == 65
        assert "my-job.toml would do" in done.stdout

    def test_what_this_box_can_never_run_is_a_problem(self, box: Box) -> None:
        done = box.call("check", write(box, "a.toml", 'command = ["make"]\nmemory = "900TB"\nlock = { gpu = 3 }\n'))
        assert done.returncode == 65
        assert "a.toml: it asks for 3 of the lock gpu, which has 1" in done.stdout
        assert "a.toml: it needs 900.0TB of memory" in done.stdout

    def test_a_file_that_is_not_there_or_too_large_is_a_problem(self, box: Box) -> None:
        assert "nowhere.toml: No such file" in box.call("check", "nowhere.toml").stdout
        assert "at most 65.5kB" in box.call("check", write(box, "big.toml", "#" * 70000)).stdout

    def test_all_files_are_checked(self, box: Box) -> None:
        good, bad = write(box, "good.toml", 'command = ["make"]\n'), write(box, "bad.toml", "x = 1\n")
        done = box.call("check", good, bad)
        assert done.returncode == 65
        assert "good.toml: ok" in done.stdout
        assert "bad.toml:1:1: x: unknown key" in done.stdout


class TestSettings:
    def test_a_good_file_shows_what_it_would_run_under(self, box: Box) -> None:
        Path(box.layout.settings).write_text('default_wall = "12h"\n[locks]\ngpu = 2\n')
        lines = box.ok("check", write(box, "a.toml", 'script = "make\\nmake test\\n"\nlock = { gpu = 2 }\nmemory = "50%"\n')).splitlines()
        assert "script make (and 1 more line), job file" in lines
        assert "shell /bin/sh, spool.toml shell (its default)" in lines
        assert "wall 12h, spool.toml default_wall" in lines
        assert "lock gpu x2, job file" in lines
        assert any(line.startswith("memory 50% of ") for line in lines)

    def test_a_retry_is_told_in_words(self, box: Box) -> None:
        once = write(box, "once.toml", "command = ['x']\nretry = { times = 1 }\n")
        often = write(box, "often.toml", "command = ['x']\nretry = { times = 2, delay = '5m', on = ['lost', 'failed'] }\n")
        lines = box.ok("check", once, often).splitlines()
        assert "retry once after failed, at once, job file" in lines
        assert "retry 2 times after failed, lost, 5m later, job file" in lines

    def test_it_works_without_a_spool(self, box: Box) -> None:
        other = box.home / "elsewhere"
        other.mkdir()
        (other / "a.toml").write_text('command = ["make"]\n')
        shown = box.ok("check", "a.toml", spool=False, cwd=other, env={"HOME": str(other)})
        assert "wall 24h, spool.toml default_wall (its default)" in shown.splitlines()

    def test_a_job_from_standard_input(self, box: Box) -> None:
        assert "command make, job file" in box.ok("check", "-", stdin=b'command = ["make"]\n')

    def test_a_history_below_is_no_problem(self, box: Box) -> None:
        path = box.done("0010-a.toml")
        assert "command true, job file" in box.ok("check", str(path))

    def test_what_stands_below_the_history_is_a_problem(self, box: Box) -> None:
        path = box.done("0010-a.toml")
        path.write_text(path.read_text() + 'wall = "1h"\n')
        assert "below the history" in box.call("check", str(path)).stdout

    def test_json_has_problems_and_settings(self, box: Box) -> None:
        good, bad = write(box, "good.toml", 'command = ["make"]\n'), write(box, "bad.toml", "x = 1\n")
        found = json.loads(box.call("check", "--json", good, bad).stdout)
        assert [result["ok"] for result in found] == [True, False]
        assert {"key": "wall", "value": "24h", "source": "spool.toml default_wall (its default)"} in found[0]["settings"]
        assert (found[1]["problems"][0]["line"], found[1]["problems"][0]["key"]) == (1, "x")
