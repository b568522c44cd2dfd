"""One run by a real supervisor: what the job is given, how it ends, that nothing of it is left."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from poolside import PYTHON, Poolside, is_gone, until

from spoold import host, records
from spoold.pool import Started

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def side(tmp_path: pathlib.Path) -> Iterator[Poolside]:
    with Poolside(tmp_path) as side:
        yield side


def sh(text: str) -> list[str]:
    return ["sh", "-c", text]


# how a run ends -------------------------------------------------------------------------------------------------------


def test_a_command_that_exits_with_0_is_ok(side: Poolside) -> None:
    end = side.does(["true"]).end
    assert (end.outcome, end.exit, end.signal, end.leftover, end.unstartable) == ("ok", 0, None, [], None)


def test_the_exit_code_is_kept(side: Poolside) -> None:
    end = side.does(sh("exit 7")).end
    assert (end.outcome, end.exit, end.signal) == ("failed", 7, None)


def test_the_signal_that_ended_a_command_is_kept(side: Poolside) -> None:
    end = side.does(sh("kill -9 $$")).end
    assert (end.outcome, end.exit, end.signal) == ("failed", None, 9)


def test_the_end_on_disk_is_the_end_that_is_told(side: Poolside) -> None:
    run = side.start(sh("exit 3"))
    ended = side.ended(run)
    record = side.pool.record(ended.slot)
    assert record is not None
    assert record.live
    assert record.end == ended.end


def test_a_run_is_told_started_once_and_ended_once(side: Poolside) -> None:
    ended = side.does(["true"])
    side.does(["true"])
    assert [type(event).__name__ for event in side.events if event.run == ended.run] == ["Started", "Ended"]


def test_the_wall_clock_ends_a_job_and_its_children(side: Poolside) -> None:
    run = side.start(sh("sleep 1000 & echo $!; echo $$; wait"), wall_s=0.3)
    pids = side.pids(run, 2)
    end = side.ended(run).end
    assert (end.outcome, end.signal) == ("wall", signal.SIGTERM)
    assert 0.3 <= end.elapsed_s < 4
    assert all(map(is_gone, pids))


def test_a_job_that_cleans_up_after_term_keeps_the_outcome_wall_and_its_exit_code(side: Poolside) -> None:
    end = side.does(sh("trap 'echo bye; exit 5' TERM; sleep 1000 & wait"), wall_s=0.2).end
    assert (end.outcome, end.exit) == ("wall", 5)
    assert "bye" in side.log(end.run)


def test_a_job_that_ignores_term_is_killed_after_its_grace(side: Poolside) -> None:
    end = side.does(sh("trap '' TERM; sleep 1000; sleep 1000"), wall_s=0.2, grace_s=0.3).end
    assert (end.outcome, end.signal) == ("wall", signal.SIGKILL)
    assert 0.5 <= end.elapsed_s < 4


def test_without_a_wall_clock_nothing_ends_a_job(side: Poolside) -> None:
    assert side.does(sh('sleep 0.3; test -z "$SPOOLD_DEADLINE"'), wall_s=None).end.outcome == "ok"


@pytest.mark.parametrize("outcome", ["stopped", "memory"])
def test_a_stop_gives_its_reason_as_the_outcome(side: Poolside, outcome: str) -> None:
    run = side.start(["sleep", "1000"])
    side.started(run)
    side.pool.stop(run, outcome)
    end = side.ended(run).end
    assert (end.outcome, end.signal) == (outcome, signal.SIGTERM)


def test_a_stop_that_is_sent_with_the_order_stops_the_job(side: Poolside) -> None:
    run = side.start(["sleep", "1000"])
    side.pool.stop(run, "stopped")
    assert side.ended(run).end.outcome == "stopped"


def test_a_stop_after_the_main_process_has_ended_leaves_its_exit_status(side: Poolside) -> None:
    run = side.start(sh("(trap '' TERM; sleep 1000; sleep 1000) & exit 3"), grace_s=0.5)
    side.until(lambda: side.figures(run).state != "running", "the main process has ended")
    side.pool.stop(run, "stopped")
    end = side.ended(run).end
    assert (end.outcome, end.exit) == ("failed", 3)


def test_term_to_the_supervisor_stops_the_job_and_the_run_is_lost(side: Poolside) -> None:
    run = side.start(["sleep", "1000"])
    side.started(run)
    record = side.pool.record(1)
    assert record is not None
    assert record.start is not None
    os.kill(record.start.supervisor, signal.SIGTERM)
    end = side.ended(run).end
    assert (end.outcome, end.why) == ("lost", "its supervisor was told to end by a signal, as when the box goes down")
    side.pool.retire(run)
    assert side.does(["true"]).end.outcome == "ok"


def test_a_box_that_goes_down_tells_job_and_supervisor_at_once_and_the_run_is_lost(side: Poolside) -> None:
    run = side.start(["sleep", "1000"])
    started = side.started(run)
    record = side.pool.record(1)
    assert record is not None
    assert record.start is not None
    os.kill(record.start.supervisor, signal.SIGSTOP)
    os.kill(started.pid, signal.SIGTERM)
    os.kill(record.start.supervisor, signal.SIGTERM)
    os.kill(record.start.supervisor, signal.SIGCONT)
    assert side.ended(run).end.outcome == "lost"


def test_int_and_hup_mean_nothing_to_a_supervisor(side: Poolside) -> None:
    run = side.start(sh("read x; exit 4"), stdin="/dev/null")
    side.ended(run)
    record = side.pool.record(1)
    assert record is not None
    assert record.start is not None
    side.pool.retire(run)
    for number in (signal.SIGINT, signal.SIGHUP):
        os.kill(record.start.supervisor, number)
    run = side.start(sh("exit 4"))
    assert side.ended(run).end.exit == 4


# nothing is left ------------------------------------------------------------------------------------------------------

DAEMON = """
import os, sys, time, signal
print(os.getpid(), flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.closerange(0, 1024)
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"], {})
    os._exit(0)
time.sleep(1000)
"""
CLOSING = "import os, time; os.close(220); os.fork(); print(os.getpid(), flush=True); time.sleep(1000)"
UNLOCKING = "import fcntl, os, time; fcntl.flock(220, fcntl.LOCK_UN); os.fork(); print(os.getpid(), flush=True); time.sleep(1000)"
STOPPED = "import os, signal; print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
REFORKING = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
if os.fork() == 0:
    while True:
        time.sleep(0.0005)
        if os.fork():
            os._exit(0)
time.sleep(1000)
"""


@pytest.mark.parametrize(
    ("argv", "pids"),
    [
        pytest.param(sh("setsid sleep 1000 & echo $!; echo $$; wait; sleep 1000"), 2, id="leaves its session"),
        pytest.param([*PYTHON, DAEMON], 2, id="a daemon that ignores TERM, closes its descriptors, empties its environment"),
        pytest.param([*PYTHON, STOPPED], 1, id="stopped"),
        pytest.param([*PYTHON, REFORKING], 1, id="forks anew all the time"),
        pytest.param([*PYTHON, CLOSING], 2, id="closes the lock"),
        pytest.param([*PYTHON, UNLOCKING], 2, id="unlocks the lock"),
    ],
)
def test_no_process_outlives_a_stopped_run(side: Poolside, argv: list[str], pids: int) -> None:
    run = side.start(argv, grace_s=0.2)
    written = side.pids(run, pids)
    side.pool.stop(run, "stopped")
    ended = side.ended(run)
    assert ended.end.outcome == "stopped"
    assert all(map(is_gone, written))
    record = side.pool.record(ended.slot)
    assert record is not None
    assert record.start is not None
    assert host.descendants(record.start.supervisor) == []


def test_a_background_child_that_holds_stdout_is_stopped_and_named(side: Poolside) -> None:
    run = side.start(sh("sleep 1000 & echo $!; exit 0"))
    (pid,) = side.pids(run)
    end = side.ended(run).end
    assert (end.outcome, end.exit, end.leftover) == ("ok", 0, [f"sleep (pid {pid})"])
    assert is_gone(pid)
    assert end.elapsed_s < 4


def test_what_finishes_by_itself_soon_after_the_main_process_is_no_leftover(side: Poolside) -> None:
    end = side.does(sh("(sleep 0.1; echo late) & exit 0")).end
    assert (end.outcome, end.leftover) == ("ok", [])
    assert "late" in side.log(end.run)


def test_a_leftover_that_ignores_term_is_killed(side: Poolside) -> None:
    run = side.start(sh("(trap '' TERM; echo ready; sleep 1000; sleep 1000) & exit 0"), grace_s=0.2)
    end = side.ended(run).end
    assert end.outcome == "ok"
    assert len(end.leftover) >= 1
    assert end.elapsed_s >= 0.7


def test_the_wall_clock_counts_while_leftovers_linger(side: Poolside) -> None:
    end = side.does(sh("sleep 1000 & exit 6"), wall_s=0.2).end
    assert (end.outcome, end.exit) == ("failed", 6)
    assert end.elapsed_s < 0.5


# what a job is given --------------------------------------------------------------------------------------------------


def test_the_environment_is_the_declared_one_and_nothing_of_the_spoolers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET", "of the spooler")
    monkeypatch.setenv("PYTHONPATH", "/of/the/spooler")
    monkeypatch.setenv("LC_ALL", "C")
    with Poolside(tmp_path) as side:
        ended = side.does(["/usr/bin/env", "-0"], env={"PATH": "/bin", "NAME": "Zoë = 1\nx"}, wall_s=None)
        seen = dict(entry.split("=", 1) for entry in side.log(ended).split("\0")[:-1])
    assert seen == {"PATH": "/bin", "NAME": "Zoë = 1\nx", "SPOOLD_TOKEN": f"{tmp_path}/.spoold/slots/{ended.slot}:{ended.run}"}


def test_the_deadline_is_the_start_plus_the_wall_clock(side: Poolside) -> None:
    run = side.start(sh('echo "$SPOOLD_DEADLINE"'), wall_s=90.0)
    started = side.started(run)
    side.ended(run)
    deadline = datetime.datetime.fromisoformat(side.log(run).strip())
    assert deadline.tzinfo is not None
    assert abs(deadline.timestamp() - (started.at + 90)) <= 1


def test_the_job_has_three_descriptors_and_its_lock(side: Poolside) -> None:
    look = "import os, errno\nfor fd in range(1024):\n  try: os.fstat(fd)\n  except OSError: continue\n  print(fd)"
    assert side.log(side.does([*PYTHON, look])).split() == ["0", "1", "2", "220"]


@linux
def test_signals_that_the_spooler_blocks_or_ignores_are_default_in_the_job(tmp_path: pathlib.Path) -> None:
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    hup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Poolside(tmp_path) as side:
            log = side.log(side.does(["cat", "/proc/self/status"]))
    finally:
        signal.signal(signal.SIGHUP, hup)
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    status = dict(line.split(":\t", 1) for line in log.splitlines() if ":\t" in line)
    of_the_c_library = 0b11 << 31  # 32 and 33 are its own
    assert int(status["SigBlk"], 16) == 0
    assert int(status["SigIgn"], 16) & ~of_the_c_library == 0


def test_the_job_leads_a_session_of_its_own(side: Poolside) -> None:
    run = side.start([*PYTHON, "import os; print(os.getpid(), os.getsid(0), os.getpgid(0))"])
    pid = str(side.started(run).pid)
    side.ended(run)
    assert side.log(run).split() == [pid, pid, pid]


def test_cwd_and_umask_are_as_ordered_and_of_this_run_only(side: Poolside, tmp_path: pathlib.Path) -> None:
    assert side.log(side.does(sh("pwd; umask"), cwd=str(tmp_path), umask=0o077)).split() == [str(tmp_path), "0077"]
    assert side.log(side.does(sh("pwd; umask"), cwd="/", umask=0o002)).split() == ["/", "0002"]


def test_the_log_has_the_rights_that_the_umask_leaves(side: Poolside) -> None:
    ended = side.does(["true"], umask=0o077)
    assert (side.root / "log" / f"0010-j{ended.run}.log").stat().st_mode & 0o777 == 0o600


def test_niceness_is_the_jobs_and_not_that_of_the_next(side: Poolside) -> None:
    base = os.getpriority(os.PRIO_PROCESS, 0)
    assert side.log(side.does(["nice"], nice=7)).split() == [str(base + 7)]
    assert side.log(side.does(["nice"])).split() == [str(base)]


def test_standard_input_is_empty_unless_a_file_is_named(side: Poolside, tmp_path: pathlib.Path) -> None:
    (tmp_path / "prompts.txt").write_text("one\ntwo\n")
    assert side.log(side.does(["cat"])) == ""
    assert side.log(side.does(["cat"], stdin="prompts.txt", cwd=str(tmp_path))) == "one\ntwo\n"


def test_a_fifo_as_standard_input_holds_nobody_up(side: Poolside, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert side.does(["cat"], stdin=str(tmp_path / "fifo")).end.outcome == "ok"


def test_a_command_is_looked_up_by_the_jobs_own_path(side: Poolside, tmp_path: pathlib.Path) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "my-tool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    assert side.log(side.does(["my-tool"], env={"PATH": f"/nowhere:{tmp_path}/bin"})) == "mine\n"
    assert side.log(side.does(["./my-tool"], cwd=f"{tmp_path}/bin", env={})) == "mine\n"


def test_stdout_and_stderr_share_the_log_in_order(side: Poolside) -> None:
    assert side.log(side.does(sh("echo a; echo b >&2; echo c"))) == "a\nb\nc\n"


@linux
def test_the_kernel_prefers_the_job_when_memory_runs_out(side: Poolside) -> None:
    run = side.start(["sleep", "1000"])
    pid = side.started(run).pid
    assert pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "500"


# scripts --------------------------------------------------------------------------------------------------------------


def test_a_script_without_a_first_line_is_run_by_the_shell_of_the_order(side: Poolside) -> None:
    assert side.log(side.does(script="echo $0 $-", shell=["/bin/sh", "-e"])).split()[1].count("e") == 1


def test_the_first_line_of_a_script_names_its_interpreter_and_one_argument(side: Poolside) -> None:
    script = f"#! {sys.executable}  -IS \nimport sys\nprint(sys.flags.isolated, sys.flags.no_site, sys.argv)\n"
    ended = side.does(script=script)
    assert side.log(ended) == f"1 1 ['{side.layout.slot(ended.slot).script}']\n"


def test_a_shorter_script_leaves_nothing_of_a_longer_one(side: Poolside) -> None:
    side.does(script="echo first\n" * 50)
    assert side.log(side.does(script="echo second")) == "second\n"


# what cannot be started -----------------------------------------------------------------------------------------------


def _file(path: pathlib.Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        ({"argv": ["no-such-tool"]}, "command not found: no-such-tool is in no directory of PATH=/usr/bin:/bin"),
        ({"argv": ["tool"]}, "command not found: tool is in no directory of PATH=/usr/bin:/bin; ./tool is here, and `.` is not on PATH"),
        ({"argv": ["no-such-tool"], "env": {}}, "is in no directory of /usr/local/bin:/usr/bin:/bin (the job has no PATH)"),
        ({"argv": ["./no-such-tool"]}, "command not found: ./no-such-tool does not exist in {here}"),
        ({"argv": ["{here}/gone"]}, "command not found: {here}/gone is a symbolic link to a file that does not exist"),
        ({"argv": ["{here}"]}, "{here} is a directory, not a command"),
        ({"argv": ["{here}/plain"]}, "{here}/plain may not be executed: no permission (chmod +x makes it a command)"),
        ({"argv": ["plain"], "env": {"PATH": "{here}"}}, "{here}/plain may not be executed: no permission"),
        ({"argv": ["{here}/tool"]}, "{here}/tool is no program that this system runs and has no #! line"),
        ({"argv": ["{here}/lost"]}, "{here}/lost wants the interpreter /no/such/python in its first line, which does not exist"),
        ({"argv": ["{here}/crlf"]}, "{here}/crlf ends its lines in CR LF: the interpreter in its first line, /bin/sh\\r, does not exist"),
        ({"script": "#!/no/such/python -u\n"}, "command not found: /no/such/python does not exist"),
        ({"argv": ["true"], "cwd": "{here}/nowhere"}, "cwd {here}/nowhere does not exist"),
        ({"argv": ["true"], "cwd": "{here}/plain"}, "cwd {here}/plain is not a directory"),
        ({"argv": ["true"], "stdin": "{here}/nothing"}, "stdin {here}/nothing does not exist"),
        ({"argv": ["true"], "stdin": "{here}"}, "stdin {here} is a directory"),
        ({"argv": ["true", "x" * (1 << 22)]}, "/usr/bin/true cannot be started: its arguments and environment are longer than this system allows"),
        ({"argv": ["true", "a\0b"]}, "/usr/bin/true cannot be started: embedded null byte in its arguments or environment"),
        ({"argv": ["no\x1b[31m"]}, "command not found: no\\x1b[31m is in no directory"),
        ({"argv": []}, "the command is empty"),
        ({"argv": [""]}, "the command is an empty string"),
    ],
)
def test_what_cannot_be_started_is_said_in_one_sentence(side: Poolside, tmp_path: pathlib.Path, order: dict[str, Any], sentence: str) -> None:
    _file(tmp_path / "tool", "echo no first line\n")
    _file(tmp_path / "plain", "#!/bin/sh\n", 0o644)
    _file(tmp_path / "lost", "#!/no/such/python\n")
    _file(tmp_path / "crlf", "#!/bin/sh\r\necho\r\n")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    fields = json.loads(json.dumps({"cwd": "{here}"} | order).replace("{here}", str(tmp_path)))
    run = side.start(**fields)
    end = side.ended(run).end
    assert end.unstartable is not None
    assert sentence.replace("{here}", str(tmp_path)) in end.unstartable
    assert side.of(run, Started) == []
    assert list((tmp_path / "log").iterdir()) == []
    side.pool.retire(run)
    assert side.does(["true"]).end.outcome == "ok"


# the disk -------------------------------------------------------------------------------------------------------------


def test_the_start_record_is_there_before_the_command_is(side: Poolside) -> None:
    text = "x = 1\n# Zoë\n"
    run = side.start(["cat", side.layout.slot(1).record], text=text, sync=True)
    ended = side.ended(run)
    assert ended.slot == 1
    seen = records.decode((side.root / "log" / f"0010-j{run}.log").read_bytes())
    assert seen.start is not None
    assert (seen.start.run, seen.start.text, seen.start.log) == (run, text, f"log/0010-j{run}.log")
    assert seen.live
    assert seen.end is None


def test_a_log_is_never_overwritten(side: Poolside) -> None:
    (side.root / "log" / "0010-x.log").write_text("mine")
    run = side.start(["echo", "new"], job="0010-x")
    assert side.started(run).log == "log/0010-x.2.log"
    side.ended(run)
    assert (side.root / "log" / "0010-x.log").read_text() == "mine"
    assert (side.root / "log" / "0010-x.2.log").read_text() == "new\n"


def test_without_a_log_nothing_is_executed_and_nothing_of_the_run_is_left(side: Poolside, tmp_path: pathlib.Path) -> None:
    side.does(["true"])
    (side.root / "log").rename(side.root / "away")
    run = side.start(["touch", str(tmp_path / "ran")])
    assert side.failed(run).why == f"No such file or directory: {side.root}/log/0010-j{run}.log"
    assert not (tmp_path / "ran").exists()
    assert not any(record.live for record, _ in side.pool.scan().values())
    (side.root / "away").rename(side.root / "log")
    assert side.does(["true"]).end.outcome == "ok"


def test_a_job_file_too_long_for_a_record_is_refused_and_not_tried_for_ever(side: Poolside, tmp_path: pathlib.Path) -> None:
    run = side.start(["touch", str(tmp_path / "ran")], text="é" * records.START_SIZE)
    ended = side.ended(run)
    assert ended.end.unstartable is not None
    assert "too many for a record" in ended.end.unstartable
    assert not (tmp_path / "ran").exists()
    record = side.pool.record(ended.slot)
    assert record is not None
    assert record.start is not None
    assert record.start.run == run


def test_a_log_over_its_limit_keeps_its_beginning_and_the_job_goes_on(side: Poolside) -> None:
    end = side.does(sh("echo first; yes | head -c 300000; sleep 0.4; echo more; exit 3"), log_limit=100_000).end
    log = side.log(end.run)
    assert end.exit == 3
    assert log.startswith("first\n")
    assert log.endswith("\nspoold: the log reached its limit of 100000 bytes, what followed is not kept\n")
    assert len(log) < 100_000


# figures --------------------------------------------------------------------------------------------------------------

GROWING = "import time\nx = bytearray(b'x') * (60 << 20)\nprint(1, flush=True)\ntime.sleep(1000)"
SHARING = """
import os, time
x = bytearray(b'x') * (60 << 20)
for _ in range(3):
    if os.fork() == 0: break
print(1, flush=True)
time.sleep(1000)
"""


def test_memory_is_measured_while_the_job_runs(side: Poolside) -> None:
    run = side.start([*PYTHON, GROWING])
    side.pids(run)
    figures = side.until(lambda: side.figures(run) if side.figures(run).memory > 60 << 20 else None, "60 MiB are seen")
    assert figures.pid == side.started(run).pid
    assert (figures.processes, figures.state) == (1, "running")
    assert 60 << 20 < figures.memory <= figures.peak < 90 << 20
    side.pool.stop(run, "stopped")
    assert 60 << 20 < side.ended(run).end.peak_memory < 90 << 20


@linux
def test_memory_that_processes_share_is_counted_once(side: Poolside) -> None:
    run = side.start([*PYTHON, SHARING])
    side.pids(run, 4)
    figures = side.until(lambda: side.figures(run) if side.figures(run).processes == 4 else None, "four processes are seen")
    assert figures.kind == "pss"
    assert 60 << 20 < figures.memory < 110 << 20


def test_the_peak_of_a_job_that_was_too_quick_to_be_measured_is_its_own(side: Poolside) -> None:
    run = side.start(sh(f"{sys.executable} -I -S -c 'x = bytearray(b\"x\") * (80 << 20)'; exit 0"))
    assert side.ended(run).end.peak_memory > 80 << 20


def test_a_small_job_does_not_report_the_size_of_its_supervisor(side: Poolside) -> None:
    assert side.does(["true"]).end.peak_memory < 4 << 20


def test_processor_time_of_all_processes_is_counted(side: Poolside) -> None:
    burn = "import time\nwhile time.process_time() < 0.1: pass"
    end = side.does(sh(f"{sys.executable} -I -S -c '{burn}' & {sys.executable} -I -S -c '{burn}'; wait")).end
    assert 0.2 <= end.cpu_s < 2


@linux
def test_a_supervisor_costs_next_to_nothing_while_its_job_runs(side: Poolside) -> None:
    run = side.start(["sleep", "1000"])
    side.started(run)
    record = side.pool.record(1)
    assert record is not None
    assert record.start is not None
    supervisor = record.start.supervisor

    def ticks() -> int:
        fields = pathlib.Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    first = side.figures(run).at
    until(lambda: side.figures(run).at > first + 1.0, "the first seconds are over")
    before, begin, at = ticks(), time.monotonic(), side.figures(run).at
    until(lambda: side.figures(run).at > at + 1.9, "two more looks")
    assert ticks() - before <= 0.02 * os.sysconf("SC_CLK_TCK") * (time.monotonic() - begin) + 1
