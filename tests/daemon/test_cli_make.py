"""`init`, `run`, `doctor`, `completion`."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from commandline import Box

from spoold.model import Stage
from spoold.settings import parse_settings


class TestInit:
    def test_a_spool_has_its_stages_its_links_and_settings_with_the_path(self, box: Box) -> None:
        shown = box.ok("init", "new", spool=False, env={"PATH": "/opt/x:/bin"})
        assert "~/new is a spool now" in shown
        root = box.home / "new"
        assert sorted(os.listdir(root)) == sorted(
            ["1-incoming", "2-ready", "3-running", "4-done", "5-refused", ".spoold", "log", "spool.toml", *(stage.value for stage in Stage)]
        )
        assert parse_settings((root / "spool.toml").read_bytes()).env["PATH"] == "/opt/x:/bin"
        assert root.stat().st_mode & 0o077 == 0

    def test_again_it_changes_nothing_and_mends_what_is_missing(self, box: Box) -> None:
        box.ok("init")
        Path(box.layout.settings).write_text("# mine\n")
        assert "nothing was changed" in box.ok("init")
        os.rmdir(box.layout.stage(Stage.READY))
        os.unlink(f"{box.layout.root}/2-ready")
        assert "ready, 2-ready" in box.ok("init")
        assert os.path.isdir(f"{box.layout.root}/2-ready")
        assert Path(box.layout.settings).read_text() == "# mine\n"

    def test_a_directory_with_other_things_in_it_is_not_taken_over(self, box: Box) -> None:
        (box.home / "full").mkdir()
        (box.home / "full" / "thesis.tex").write_text("")
        done = box.call("init", "full", spool=False)
        assert done.returncode == 73
        assert os.listdir(box.home / "full") == ["thesis.tex"]


class TestRun:
    def test_until_empty_ends_when_all_is_done(self, box: Box) -> None:
        box.ok("submit", "--name", "a", "--", "true")
        assert box.call("run", "--until-empty").returncode == 0
        assert box.json("show", "--json", "a")["outcome"] == "ok"

    def test_a_second_one_is_75_and_quiet_on_request(self, box: Box) -> None:
        with box.spooler():
            assert box.call("run").returncode == 75
            quiet = box.call("run", "--quiet-if-running")
            assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")

    def test_bad_settings_are_78_with_their_line(self, box: Box) -> None:
        Path(box.layout.settings).write_text('defualt_wall = "1h"\n')
        done = box.call("run")
        assert done.returncode == 78
        assert "line 1" in done.stderr


class TestDoctor:
    def problems(self, box: Box) -> dict[str, str]:
        import json

        done = box.call("doctor", "--json")
        found = json.loads(done.stdout)
        assert done.returncode == (0 if found["healthy"] else 1)
        assert all(set(check) == {"check", "ok", "text", "remedy"} for check in found["checks"])
        return {check["check"]: f"{check['text']}: {check['remedy']}" for check in found["checks"] if not check["ok"]}

    def test_a_healthy_spool_with_its_spooler_is_0(self, box: Box) -> None:
        box.ok("init")
        with box.spooler():
            assert self.problems(box) == {}
            assert "✓  spooler" in box.ok("doctor")

    def test_no_spooler_is_a_problem_with_a_remedy(self, box: Box) -> None:
        assert self.problems(box) == {"spooler": f"none runs, so nothing starts: spoold --spool {box.layout.root} run"}

    def test_everything_that_is_wrong_is_found_at_once(self, box: Box) -> None:
        box.ready("0010-twice.toml")
        os.link(box.path(Stage.READY, "0010-twice.toml"), box.path(Stage.DONE, "0010-twice.toml"))
        box.ready("0020-broken.toml").write_text("x = 1\n")
        box.path(Stage.RUNNING, "0030-hand.toml").write_text("x = 1\n")
        box.running("0040-orphan.toml")
        box.let_go()
        claims = Path(box.layout.claims) / "1f.0~left.toml"
        claims.write_text("x = 1\n")
        litter = box.path(Stage.INCOMING, "notes.txt")
        litter.write_text("")
        Path(box.layout.settings).write_text(
            'shell = ["/nowhere/sh"]\ncwd = "/nowhere"\n[env]\nPATH = "/nowhere"\n[disk]\nfloor = "900PB"\n'
        )
        os.unlink(f"{box.layout.root}/4-done")
        os.symlink("elsewhere", f"{box.layout.root}/4-done")
        os.unlink(f"{box.layout.root}/5-refused")
        found = self.problems(box)
        assert set(found) == {"links", "spooler", "disk", "shell", "cwd", "PATH"}
        os.unlink(f"{box.layout.root}/4-done")
        box.ok("init")
        found = self.problems(box)
        assert set(found) == {"spooler", "disk", "shell", "cwd", "PATH", "twice", "ready", "running", "runs"}
        assert "0020-broken.toml: line 1: x: unknown key" in found["ready"]
        assert "0040-orphan" in found["runs"]
        assert "ready/0010-twice.toml" in found["twice"]

    def test_long_lines_go_on_below_where_they_began(self, box: Box) -> None:
        Path(box.layout.settings).write_text("unknown_one = 1\nunknown_two = 2\nunknown_three = 3\n")
        lines = box.call("doctor", env={"COLUMNS": "80"}).stdout.splitlines()
        first = next(number for number, line in enumerate(lines) if "✗  settings" in line)
        assert all(line.startswith(" " * 18) for line in lines[first + 1 : first + 3])
        assert all(len(line) <= 80 for line in lines if box.layout.root not in line)

    def test_settings_that_cannot_be_read_are_not_taken_for_the_defaults(self, box: Box) -> None:
        Path(box.layout.settings).write_text('flor = 1\n[env]\nPATH = "/usr/bin"\n')
        shown = box.call("doctor").stdout
        assert "flor: unknown key" in shown
        assert "PATH" not in shown
        assert "the floor is" not in shown

    def test_old_litter_in_incoming_is_named(self, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
        from spoold.cli import health

        box.path(Stage.INCOMING, "notes.txt").write_text("")
        box.path(Stage.INCOMING, "._g52.toml").write_text("")
        (Path(box.layout.claims) / "1f.0~left.toml").write_text("")
        assert not [one for one in health.examine(box.layout) if one.check in ("incoming", "claims")]
        later = time.time() + 120
        monkeypatch.setattr(time, "time", lambda: later)
        found = {one.check: one.text for one in health.examine(box.layout) if one.remedy}
        assert found["incoming"] == "no job, and left alone: ._g52.toml, notes.txt"
        assert found["claims"].endswith(": left.toml")

    def test_what_others_may_write_to_is_a_problem(self, box: Box) -> None:
        os.chmod(box.layout.stage(Stage.INCOMING), 0o777)
        os.chmod(box.layout.private, 0o755)
        text = box.call("doctor").stdout
        assert f"chmod go-w {box.layout.stage(Stage.INCOMING)}" in text
        assert f"chmod 700 {box.layout.private}" in text

    def test_settings_that_others_may_write_to_are_a_problem_and_a_fifo_keeps_nobody_waiting(self, box: Box) -> None:
        box.ok("init")
        os.chmod(box.layout.settings, 0o666)
        assert f"chmod go-w {box.layout.settings}" in self.problems(box)["settings"]
        os.unlink(box.layout.settings)
        os.mkfifo(box.layout.settings)
        box.call("doctor")
        box.ok("ls")

    def test_logs_may_lie_elsewhere(self, box: Box, tmp_path: Path) -> None:
        os.rename(box.layout.log, tmp_path / "logs")
        os.symlink(tmp_path / "logs", box.layout.log)
        assert set(self.problems(box)) == {"spooler"}

    def test_a_spool_that_has_lost_its_stages_is_still_looked_at(self, box: Box) -> None:
        shutil.rmtree(box.layout.stage(Stage.READY))
        done = box.call("doctor")
        assert done.returncode == 1
        assert f"spoold init {box.layout.root}" in done.stdout


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_each_shell_gets_its_script(self, box: Box, shell: str) -> None:
        assert "_SPOOLD_COMPLETE" in box.ok("completion", shell)

    def complete(self, box: Box, *words: str) -> list[str]:
        env = {"_SPOOLD_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("spoold", *words)), "COMP_CWORD": str(len(words))}
        done = subprocess.run(box.argv(spool=False), capture_output=True, text=True, env={**box.env, **env}, cwd=box.home, timeout=60)
        assert done.stderr == ""
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    def test_verbs_and_the_names_of_jobs_are_completed(self, box: Box) -> None:
        box.ready("0010-bench-a.toml")
        box.done("0020-bench-b.toml")
        box.done("0030-other.toml")
        assert self.complete(box, "re") == ["release", "resume"]
        assert self.complete(box, "show", "bench") == ["bench-a", "bench-b"]
        assert self.complete(box, "--spool", box.layout.root, "wait", "o") == ["other"]
        assert self.complete(box, "ls", "re") == ["ready", "refused"]
        assert "--follow" in self.complete(box, "log", "--f")

    def test_only_jobs_with_which_the_verb_can_do_something_are_offered(self, box: Box) -> None:
        box.running("0010-a-runs.toml")
        box.ready("0020-a-waits.toml")
        box.done("0030-a-ended.toml")
        box.refused("0040-a-refused.toml", "no job")
        assert self.complete(box, "why", "a") == ["a-runs", "a-waits", "a-ended", "a-refused"]
        for words in (("hold",), ("release",), ("move",), ("move", "a-waits", "--before")):
            assert self.complete(box, *words, "a") == ["a-waits"], words
        assert self.complete(box, "stop", "a") == ["a-runs"]
        assert self.complete(box, "again", "a") == ["a-ended", "a-refused"]

    def test_bash_completes_with_it(self, box: Box) -> None:
        if shutil.which("bash") is None:
            pytest.skip("no bash")
        box.ready("0010-bench-a.toml")
        bin = box.home / "bin"
        bin.mkdir()
        (bin / "spoold").write_text(f'#!/bin/sh\nexec {" ".join(box.argv(spool=False))} "$@"\n')
        (bin / "spoold").chmod(0o755)
        script = (
            'eval "$(spoold completion bash)"; COMP_WORDS=(spoold why ben); COMP_CWORD=2; _spoold_completion spoold; echo "${COMPREPLY[@]}"'
        )
        env = {**box.env, "PATH": f"{bin}:{box.env['PATH']}"}
        done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, env=env, cwd=box.home, timeout=60)
        assert done.stdout.strip() == "bench-a", done.stderr
