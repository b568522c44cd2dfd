"""`submit`: from the command line to a file in incoming/."""

from __future__ import annotations

import datetime
import os
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from commandline import Box

from jobspec.parse import parse
from jobspec.spec import NO_LIMIT, LockRequest, ModelSize, Retry, RetryOn, Share
from spoold.model import Stage

FIELDS = [
    *("--lock", "gpu=2", "--lock", "disk", "--lock", "cpu=all", "--memory", "79%", "--wall", "1h30m", "--grace", "5s", "--nice", "10"),
    *("--after", "a", "--after", "b", "--after-ok", "c", "--after-failed", "d", "--not-before", "2026-12-02T22:00", "--give-up", "3d"),
    *(
        "--retry",
        "2",
        "--retry-delay",
        "5m",
        "--retry-on",
        "failed,lost",
        "--keep-awake",
        "--note",
        "why",
        "--env",
        "X=1",
        "--stdin",
        "in.txt",
    ),
]


def text(box: Box, *words: str, **more: Any) -> dict[str, Any]:
    return tomllib.loads(box.ok("submit", "--dry-run", *words, **more))


class TestTheFile:
    def test_every_field_has_its_option(self, box: Box) -> None:
        job = parse(box.ok("submit", "--dry-run", *FIELDS, "--", "./bench.sh", "--model", "q4").encode())
        assert job.command == ("./bench.sh", "--model", "q4")
        assert job.cwd == str(box.home)
        assert job.lock == (LockRequest("gpu", 2), LockRequest("disk"), LockRequest("cpu", None))
        assert job.memory == Share(79)
        assert (job.wall_s, job.grace_s, job.nice, job.give_up_s) == (5400, 5, 10, 3 * 86400)
        assert (job.after, job.after_ok, job.after_failed) == (("a", "b"), ("c",), ("d",))
        assert str(job.not_before) == "2026-12-02 22:00:00"
        assert job.retry == Retry(times=2, delay_s=300, on=frozenset({RetryOn.FAILED, RetryOn.LOST}))
        assert (job.keep_awake, job.note, dict(job.env), job.stdin) == (True, "why", {"X": "1"}, f"{box.home}/in.txt")

    def test_the_rest(self, box: Box) -> None:
        job = parse(
            box.ok("submit", "--dry-run", "--no-lock", "--wall", "none", "--memory-of", "m.gguf", "--margin", "12%", "--", "true").encode()
        )
        assert job.lock == ()
        assert job.wall_s == NO_LIMIT
        assert job.memory == ModelSize(f"{box.home}/m.gguf", Share(12))

    def test_a_time_of_day_is_the_next_such(self, box: Box) -> None:
        now = datetime.datetime.now()
        soon, past = now + datetime.timedelta(minutes=5), now - datetime.timedelta(minutes=5)
        for moment in (soon, past):
            found = text(box, "--not-before", f"{moment:%H:%M}", "--", "true")["not_before"]
            assert datetime.timedelta(0) < found - now <= datetime.timedelta(days=1)

    def test_options_after_the_command_are_the_commands(self, box: Box) -> None:
        assert text(box, "make", "--name", "-j4")["command"] == ["make", "--name", "-j4"]

    def test_a_script_comes_from_a_file_or_from_standard_input(self, box: Box) -> None:
        (box.home / "s.sh").write_text("#!/bin/bash\necho hi\n")
        assert text(box, "--script", "s.sh")["script"] == "#!/bin/bash\necho hi\n"
        assert text(box, "--script", "-", stdin=b"make\n")["script"] == "make\n"

    def test_the_environment_is_captured_on_request_only(self, box: Box) -> None:
        assert "env" not in text(box, "--", "true")
        whole = text(box, "--env", "--", "true", env={"OMP": "8", "SHLVL": "1", "SPOOLD_JOB": "x"})["env"]
        assert whole["OMP"] == "8"
        assert not {"SHLVL", "SPOOLD_JOB", "_"} & set(whole)
        assert text(box, "--env", "OMP", "--env", "Y=a=b", "--", "true", env={"OMP": "8"})["env"] == {"OMP": "8", "Y": "a=b"}

    def test_the_directory_is_the_one_the_shell_knows(self, box: Box) -> None:
        (box.home / "real").mkdir()
        (box.home / "link").symlink_to("real")
        link = box.home / "link"
        assert text(box, "--", "true", cwd=link, env={"PWD": str(link)})["cwd"] == str(link)
        assert text(box, "--", "true", cwd=link, env={"PWD": "/"})["cwd"] == str(box.home / "real")
        assert text(box, "--cwd", "~/work", "--", "true")["cwd"] == "~/work"

    @pytest.mark.parametrize(
        "words",
        [
            ("--memory", "many", "--", "x"),
            ("--wall", "5x", "--", "x"),
            ("--wall", "9" * 400, "--", "x"),
            ("--lock", "gpu=0", "--", "x"),
            ("--no-lock", "--lock", "gpu", "--", "x"),
            ("--script", "/nowhere"),
            ("--script", "-", "--", "x"),
            ("--env", "NOT_SET", "--", "x"),
            ("--name", "a/b", "--", "x"),
            ("--name", "10-x", "--", "x"),
            ("--retry-delay", "5m", "--", "x"),
            ("--not-before", "soon", "--", "x"),
        ],
        ids=lambda words: " ".join(words)[:40],
    )
    def test_a_bad_option_is_64_and_queues_nothing(self, box: Box, words: tuple[str, ...]) -> None:
        assert box.call("submit", *words).returncode == 64
        assert box.names(Stage.INCOMING) == []

    @pytest.mark.parametrize(
        "words", [("--after", "a b", "--", "x"), ("--lock", "g pu", "--", "x"), ("--", "x" * 70000), ("--", os.fsdecode(b"\xff"))]
    )
    def test_what_makes_no_job_is_65_and_queues_nothing(self, box: Box, words: tuple[str, ...]) -> None:
        done = box.call("submit", *words)
        assert done.returncode == 65, done.stderr
        assert box.names(Stage.INCOMING) == []


class TestTheName:
    def test_it_is_printed_and_alone_on_standard_output(self, box: Box) -> None:
        done = box.call("submit", "--name", "g52", "--seq", "50", "--", "true")
        assert done.stdout == "g52\n"
        assert "no spooler runs" in done.stderr
        assert box.names(Stage.INCOMING) == ["0050-g52.toml"]

    def test_it_is_made_from_the_command_and_unlike_every_live_one(self, box: Box) -> None:
        box.ready("0010-sleep.toml")
        box.running("0020-Sleep-2.toml")
        assert box.ok("submit", "--", "/bin/sleep", "1") == "sleep-3\n"
        assert box.ok("submit", "--", "sleep", "1") == "sleep-4\n"
        assert box.ok("submit", "--", "./größer & so.sh") == "groer-so.sh\n" or box.names(Stage.INCOMING)

    def test_a_name_that_is_live_is_65_and_says_where(self, box: Box) -> None:
        box.ready("0010-g52.toml")
        done = box.call("submit", "--name", "G52", "--", "true")
        assert done.returncode == 65
        assert "ready/0010-g52.toml" in done.stderr

    def test_two_at_the_same_moment_get_two_names(self, box: Box) -> None:
        with ThreadPoolExecutor(4) as pool:
            names = list(pool.map(lambda _: box.ok("submit", "--", "true").strip(), range(6)))
        assert sorted(names) == ["true", "true-2", "true-3", "true-4", "true-5", "true-6"]
        assert len(box.names(Stage.INCOMING)) == 6


class TestDropped:
    def test_the_file_is_complete_and_private(self, box: Box) -> None:
        box.ok("submit", "--", "true")
        path = box.path(Stage.INCOMING, "true.toml")
        assert parse(path.read_bytes()).command == ("true",)
        assert path.stat().st_mode & 0o777 == 0o600

    def test_a_full_disk_is_73_and_leaves_no_half_file(self, box: Box, tmp_path: Path) -> None:
        os.chmod(box.layout.stage(Stage.INCOMING), 0o500)
        if os.access(box.layout.stage(Stage.INCOMING), os.W_OK):
            # root may write everywhere: a directory that is none does the same
            os.chmod(box.layout.stage(Stage.INCOMING), 0o700)
            os.rename(box.layout.stage(Stage.INCOMING), tmp_path / "away")
            os.symlink("/proc/self", box.layout.stage(Stage.INCOMING))
        done = box.call("submit", "--", "true")
        assert done.returncode == 73
        assert done.stderr.count("\n") == 1

    def test_wait_follows_the_output_and_exits_as_the_job_does(self, box: Box) -> None:
        with box.spooler():
            done = box.call("submit", "--wait", "--name", "w", "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
        assert done.returncode == 7
        assert done.stdout == "w\nout\nerr\n"
        assert "w ended failed" in done.stderr

    def test_what_was_submitted_runs(self, box: Box) -> None:
        with box.spooler():
            name = box.ok("submit", "--env", "X=42", "--script", "-", stdin=b'echo "$X" > here\n').strip()
            assert box.call("wait", name).returncode == 0
            assert (box.home / "here").read_text() == "42\n"

    def test_a_spool_that_was_cloned_takes_jobs(self, box: Box) -> None:
        subprocess.run(["rm", "-r", box.layout.private], check=True)
        box.ok("submit", "--", "true")
        assert box.names(Stage.INCOMING) == ["true.toml"]
