"""What all verbs share: exit codes, closed pipes, which spool, what reaches a terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from commandline import ROOT, Box, wait_until

from spoold.cli.program import _VERBS
from spoold.model import Stage


class TestExitCodes:
    @pytest.mark.parametrize(
        "words", [("sumbit",), ("ls", "--nope"), ("ls", "nowhere"), ("move", "x"), ("submit",), ("--nope",)], ids=" ".join
    )
    def test_a_wrong_call_is_64_and_one_line(self, box: Box, words: tuple[str, ...]) -> None:
        box.ready("0010-x.toml")
        done = box.call(*words)
        assert done.returncode == 64
        assert re.fullmatch(r"spoold: [^\n]+\n", done.stderr)

    def test_a_mistyped_verb_is_told_the_right_one(self, box: Box) -> None:
        assert "did you mean submit?" in box.call("sumbit").stderr

    def test_no_spool_is_66_and_says_what_makes_one(self, box: Box) -> None:
        done = box.call("--spool", "/nowhere", "ls", spool=False)
        assert done.returncode == 66
        assert "spoold init /nowhere" in done.stderr

    def test_no_job_is_66_and_says_the_nearest_name(self, box: Box) -> None:
        box.ready("0010-bench.toml")
        done = box.call("show", "bnech")
        assert done.returncode == 66
        assert done.stderr == "spoold: there is no job bnech in ~/spool; did you mean bench?\n"
        assert box.call("show", "zzz").stderr.startswith("spoold: there is no job zzz in ~/spool; `spoold ls`")

    def test_a_job_elsewhere_is_66_and_says_where(self, box: Box) -> None:
        box.done("0010-g52.toml")
        done = box.call("hold", "g52")
        assert done.returncode == 66
        assert done.stderr == "spoold: g52 is in done/; this is for jobs in ready/ only\n"

    def test_a_word_for_several_jobs_is_64_and_names_them(self, box: Box) -> None:
        box.ready("0010-a.toml")
        box.ready("0010-b.toml")
        done = box.call("show", "10")
        assert done.returncode == 64
        assert "ready/0010-a.toml and ready/0010-b.toml" in done.stderr

    def test_a_full_output_is_73(self, box: Box) -> None:
        if not os.path.exists("/dev/full"):
            pytest.skip("no /dev/full")
        box.ready("0010-a.toml")
        with open("/dev/full", "wb") as full:
            done = subprocess.run(box.argv("ls"), stdout=full, stderr=subprocess.PIPE, env=box.env, timeout=60)
        assert done.returncode == 73
        assert b"Traceback" not in done.stderr

    def test_a_fault_of_ours_is_70_in_one_line_and_a_traceback_on_request(self, box: Box, tmp_path: Path) -> None:
        (tmp_path / "broken").mkdir()
        (tmp_path / "broken" / "sitecustomize.py").write_text("import spoold.survey\nspoold.survey.survey = None\n")
        env = {"PYTHONPATH": f"{tmp_path / 'broken'}:{ROOT}"}
        done = box.call("ls", env=env)
        assert done.returncode == 70
        assert done.stderr.startswith("spoold: internal error: TypeError: ")
        assert done.stderr.count("\n") == 1
        told = subprocess.run(box.argv("ls"), capture_output=True, text=True, env={**box.env, **env, "SPOOLD_DEBUG": "1"}, timeout=60)
        assert "Traceback" in told.stderr


class TestPipes:
    def test_a_closed_pipe_is_no_error(self, box: Box) -> None:
        for number in range(1, 60):
            box.ready(f"{number:04d}-job-{number}.toml")
        ls = subprocess.Popen(box.argv("ls", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=box.env)
        assert ls.stdout is not None
        ls.stdout.close()
        _, err = ls.communicate(timeout=60)
        assert ls.returncode == 0
        assert err == b""

    def test_closed_standard_streams_harm_nothing(self, box: Box) -> None:
        box.ready("0010-a.toml")
        command = " ".join(box.argv("hold", "a")) + " <&- >&- 2>&-"
        assert subprocess.run(["/bin/sh", "-c", command], env=box.env, timeout=60).returncode == 0
        assert box.names(Stage.READY) == ["0010-a.toml.hold"]

    def test_ctrl_c_ends_in_silence(self, box: Box) -> None:
        box.ready("0010-a.toml")
        waiting = box.begin("wait", "a")
        assert waiting.stderr is not None
        assert "no spooler runs" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=30)
        assert waiting.returncode == 130
        assert out == err == ""


class TestWhichSpool:
    def test_the_option_counts_before_and_after_the_verb(self, box: Box) -> None:
        box.ready("0010-a.toml")
        assert " a " in box.ok("ls")
        assert " a " in box.ok("ls", "--spool", box.layout.root, spool=False)

    def test_the_variable_counts_before_the_current_directory(self, box: Box, tmp_path: Path) -> None:
        other = Box(tmp_path / "other", tmp_path)
        other.ready("0010-there.toml")
        box.ready("0010-here.toml")
        assert "here" in box.ok("ls", spool=False)
        assert "there" in box.ok("ls", spool=False, env={"SPOOLD_SPOOL": other.layout.root})

    def test_the_home_directory_comes_last(self, box: Box, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        box.ready("0010-at-home.toml")
        assert "at-home" in box.ok("ls", spool=False, cwd=tmp_path / "elsewhere")
        done = box.call("ls", spool=False, cwd=tmp_path / "elsewhere", env={"HOME": str(tmp_path / "elsewhere")})
        assert done.returncode == 66


class TestNamesOfJobs:
    def test_a_name_a_file_a_number_and_a_place_mean_the_same_job(self, box: Box) -> None:
        box.ready("0050-g52.toml")
        for word in ("g52", "0050-g52.toml", "0050-g52", "50", "0050", "ready/0050-g52.toml", f"{box.layout.root}/2-ready/0050-g52.toml"):
            assert box.json("show", "--json", word)["name"] == "g52", word

    def test_a_job_on_hold_is_found_by_its_name(self, box: Box) -> None:
        box.ready("0050-g52.toml")
        box.ok("hold", "g52")
        assert box.json("show", "--json", "0050-g52.toml")["file"] == "ready/0050-g52.toml.hold"

    def test_a_live_job_counts_before_one_that_has_ended(self, box: Box) -> None:
        box.done("0050-g52.toml")
        box.ready("0060-g52.toml")
        assert box.json("show", "--json", "g52")["stage"] == "ready"

    def test_of_those_that_have_ended_the_last_counts(self, box: Box) -> None:
        box.done("0050-g52.toml", at=1_790_000_500.0, outcome="failed", exit=1)
        box.done("0050-g52.2.toml", at=1_790_000_000.0, name="g52")
        found = box.json("show", "--json", "g52")
        assert (found["file"], found["outcome"]) == ("done/0050-g52.toml", "failed")
        assert box.json("show", "--json", "0050-g52.2")["file"] == "done/0050-g52.2.toml"

    def test_a_name_counts_before_a_file_that_is_called_so(self, box: Box) -> None:
        box.refused("g52.toml", "no")
        box.done("0050-g52.toml", at=time.time() + 10)
        assert box.json("show", "--json", "g52")["file"] == "done/0050-g52.toml"
        assert box.json("show", "--json", "g52.toml")["file"] == "refused/g52.toml"

    def test_what_was_refused_for_its_name_is_found_by_it(self, box: Box) -> None:
        box.refused("my job.toml", "a character that a NAME cannot have")
        for word in ("my job", "my job.toml", "refused/my job.toml"):
            assert "a character that a NAME cannot have" in box.ok("why", word)

    def test_of_an_accepted_and_a_dropped_job_of_one_name_the_accepted_one_is_meant(self, box: Box) -> None:
        box.ready("0050-g52.toml")
        box.path(Stage.INCOMING, "g52.toml").write_text("")
        assert box.json("show", "--json", "g52")["stage"] == "ready"
        assert box.json("show", "--json", "incoming/g52.toml")["stage"] == "incoming"

    def test_a_glob_means_several_where_several_make_sense(self, box: Box) -> None:
        for number in (10, 20, 30):
            box.ready(f"00{number}-bench-{number}.toml")
        box.ok("hold", "bench-[12]*")
        assert box.names(Stage.READY) == ["0010-bench-10.toml.hold", "0020-bench-20.toml.hold", "0030-bench-30.toml"]
        assert box.call("show", "bench-*").returncode == 64

    def test_the_last_one_submitted_is_at(self, box: Box) -> None:
        assert box.call("show", "@").returncode == 66
        box.ok("submit", "--name", "first", "--", "true")
        box.ok("submit", "--name", "second", "--", "true")
        assert box.json("show", "--json", "@")["name"] == "second"


class TestHelp:
    def test_every_verb_has_help_with_an_example(self, box: Box) -> None:
        from click.testing import CliRunner

        from spoold.cli.program import program

        for verb in _VERBS:
            shown = CliRunner().invoke(program, [verb, "--help"])
            assert shown.exit_code == 0, verb
            assert f"spoold {verb}" in shown.output.partition("Examples:")[2], verb

    def test_the_help_names_every_verb_in_80_columns(self, box: Box) -> None:
        shown = box.ok("--help", env={"COLUMNS": "80"})
        assert all(re.search(rf"^  {verb} ", shown, re.MULTILINE) for verb in _VERBS)
        assert all(len(line) <= 80 for line in shown.splitlines())
        assert "..." not in shown.partition("Options:")[2]


class TestTerminals:
    def test_colour_only_on_a_terminal_and_not_with_no_color(self, box: Box) -> None:
        box.done("0010-a.toml")
        assert "\x1b[32m" in box.on_terminal("ls", "done")
        assert "\x1b" not in box.on_terminal("ls", "done", env={"NO_COLOR": "1"})
        assert "\x1b" not in box.on_terminal("ls", "done", env={"TERM": "dumb"})
        assert "\x1b" not in box.ok("ls", "done")

    def test_a_terminal_without_utf_8_gets_ascii(self, box: Box) -> None:
        box.done("0010-a.toml")
        assert "✓" in box.ok("ls", "done")
        shown = box.ok("ls", "done", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
        assert shown.isascii()
        assert "+  a" in shown

    def test_nothing_that_a_file_says_controls_the_terminal(self, box: Box) -> None:
        nasty = "\x1b]0;owned\x07\x1b[2Jü\u202e"
        text = f'command = ["echo", "{nasty.encode("unicode_escape").decode().replace(chr(92) + "x", chr(92) + "u00")}"]\nnote = "\\u001b[31mred"\n'
        box.ready("0010-nasty.toml", text)
        box.running("0020-run.toml", text, run=1)
        box.done("0030-ended.toml", text)
        box.refused("0040-no.toml", nasty, "x = 1")
        box.path(Stage.INCOMING, "\x1b[31mdropped.toml").write_text("x")
        box.path(Stage.READY, "\x1b[31mput.toml").write_text("x")
        Path(box.layout.paused).write_text(nasty)
        for words in (
            (),
            ("ls",),
            ("ls", "done", "refused"),
            ("why",),
            ("why", "no"),
            ("show", "nasty"),
            ("show", "run"),
            ("show", "ended"),
            ("log", nasty),
        ):
            done = box.call(*words)
            for printed in (done.stdout, done.stderr):
                assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", printed), words


def test_a_verb_loads_neither_psutil_nor_watchdog_and_submit_no_survey(box: Box) -> None:
    """What a verb imports is what it costs; the schema's library is for tests only."""
    for words, more in (
        (("ls",), ()),
        (("submit", "--", "true"), ("spoold.survey", "spoold.scheduler", "spoold.admission", "json")),
    ):
        done = subprocess.run(
            [box.argv()[0], "-X", "importtime", *box.argv(*words)[1:]],
            capture_output=True,
            text=True,
            env={**box.env, "PYTHONWARNINGS": ""},
            timeout=60,
        )
        loaded = set(re.findall(r"\| +(\S+)$", done.stderr, re.MULTILINE))
        assert "spoold.store" in loaded
        assert not loaded & {"psutil", "watchdog", "jsonschema", "spoold.daemon", *more}, words


def test_a_thousand_jobs_are_listed_and_cost_the_command_little(box: Box) -> None:
    from time import process_time

    from spoold.cli.look import look, ready_views
    from spoold.rows import FINE, row, table

    for number in range(1, 301):
        box.ready(f"{number:04d}-job-{number}.toml")
    found = look(box.layout)
    begun = process_time()
    lines = table([row(view, found.now, FINE) for view in ready_views(found)], 80, FINE)
    took = process_time() - begun
    assert len(lines) == 300
    assert took < 0.3


def test_waiting_looks_without_a_busy_loop(box: Box) -> None:
    box.ready("0010-a.toml")
    waiting = box.begin("wait", "a")
    assert waiting.stderr is not None
    assert "no spooler runs" in waiting.stderr.readline()
    before = _cpu_ticks(waiting.pid)
    begun = os.times().elapsed
    wait_until(lambda: os.times().elapsed - begun > 1.0)
    used = _cpu_ticks(waiting.pid) - before
    waiting.kill()
    waiting.communicate()
    assert used <= 15


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        pytest.skip("no /proc")
    return int(fields[11]) + int(fields[12])
