"""What is refused, and in which words: through the real door of a real spooler; and the spoolers that refuse to run."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys

from spooling import COMMAND, REPOSITORY, SETTINGS, Spool, command, until

from spoold.model import Stage

INCOMING, READY, RUNNING, DONE, REFUSED = Stage

HOSTILE = {
    "my job.toml": b"hostile 0",
    "\x1b]0;evil\x07.toml": b"hostile 1",
    "a\nrefused b.toml": b"hostile 2",
    "\udcff\udc80.toml": b"hostile 3",
    "..toml": b"hostile 4",
    "-rf.toml": b"hostile 5",
    "x" * 250 + ".toml": b"hostile 6",
    "%2e%2e%2f.toml": b"hostile 7",
    "\u202egnp.toml": b"hostile 8",
}


def test_everything_that_is_no_job_ends_in_refused_with_one_sentence_and_harms_nobody(spool: Spool, tmp_path: pathlib.Path) -> None:
    """All at once, and good jobs among them go their way meanwhile."""
    spooler = spool.start()
    incoming = spool.path(INCOMING)
    for name, text in HOSTILE.items():
        spool.drop(name, text)
    spool.drop("empty.toml", b"")
    spool.drop("garbage.toml", bytes(range(256)))
    spool.drop("typo.toml", b"command = ['true']\naftre = 'x'\nwall = '0s'\n")
    spool.drop("bomb.toml", b"a." * 30_000 + b"b = 1\n")
    spool.drop("nested.toml", b"a = " + b"[" * 30_000)
    sparse = spool.drop("sparse.toml", b"x")
    os.truncate(sparse, 2 * 1024**3)
    spool.dropped.pop(b"x")
    os.mkfifo(incoming / "fifo.toml")
    os.symlink("/dev/zero", incoming / "zero.toml")
    os.symlink("nowhere", incoming / "dangling.toml")
    (incoming / "folder.toml").mkdir()
    here = os.getcwd()
    os.chdir(incoming)
    try:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("socket.toml")
    finally:
        os.chdir(here)
    others = ["sparse", "fifo", "zero", "dangling", "folder", "socket"]
    if os.geteuid() == 0:
        try:
            os.mknod(incoming / "device.toml", stat.S_IFCHR | 0o600, os.makedev(1, 5))
            others.append("device")
        except PermissionError:
            pass
    spool.drop("open-to-all.toml", b"command = ['true']\n# all\n").chmod(0o666)
    spool.drop("good.toml", spool.job("good"))
    assert spool.until_done("0010-good.toml") == "ok"
    left = [entry for entry in HOSTILE if not entry.startswith(".")]
    count = len(left) + 5 + len(others) + 1
    until(lambda: len(spool.entries(REFUSED)) == 2 * count, lambda: f"{count} are refused: {spool.everything()}")
    listener.close()
    for entry in spool.entries(REFUSED):
        assert re.fullmatch(r"[ -~]{1,200}", entry)
        if entry.endswith(".why"):
            assert re.fullmatch(r"[ -~]+\n", spool.path(REFUSED, entry).read_text()), entry
    for line in spooler.said():
        assert re.fullmatch(r"[ -~]+", line), ascii(line)
    assert spool.why("typo.toml") == "line 2: aftre: unknown key, did you mean after?; line 3: wall: must be longer than zero\n"
    assert "command or script is missing" in spool.why("empty.toml")
    assert "it is a FIFO" in spool.why("fifo.toml")
    assert "it is a symbolic link" in spool.why("zero.toml")
    assert "it is a directory" in spool.why("folder.toml")
    assert "2,147,483,648 bytes" in spool.why("sparse.toml")
    assert "chmod go-w" in spool.why("open-to-all.toml")
    assert "my-job.toml would do" in spool.why("my job.toml")
    assert [entry for entry in spool.entries(INCOMING) if entry.endswith(".toml")] == ["..toml"]  # a dot file, left alone
    assert spool.path(REFUSED, "sparse.toml").stat().st_size == 2 * 1024**3
    (incoming / "..toml").unlink()
    spool.forget(HOSTILE["..toml"])
    spool.check()


def test_a_second_job_of_a_name_is_refused_wherever_the_first_is(spool: Spool) -> None:
    spool.start()
    spool.drop("0050-g52.toml", spool.job("g52", gate=True))
    spool.until_begun("g52")
    spool.drop("0060-other.toml", spool.job("other"))
    spool.until_in(READY, "0060-other.toml")
    texts = [spool.job(f"second{number}") for number in range(4)]
    spool.drop("0051-g52.toml", texts[0])
    assert "it is running/0050-g52.toml" in spool.until_refused("0051-g52.toml")
    spool.drop("G52.toml", texts[1])
    why = spool.until_refused("G52.toml")
    assert "which differs from G52 only in case" in why
    assert "it is running/0050-g52.toml" in why
    spool.drop("other.toml", texts[2])
    assert "it is ready/0060-other.toml" in spool.until_refused("other.toml")
    spool.drop("other.toml", texts[3])
    spool.until_refused("other.2.toml")
    spool.open_gate("g52")
    spool.until_done("0060-other.toml")
    assert spool.began() == ["g52", "other"]
    spool.check()


def test_a_refusal_that_has_a_number_in_its_name_says_nothing_about_the_job_without(spool: Spool) -> None:
    spool.start()
    spool.drop("0010-build.toml", spool.job("build"))
    spool.until_done("0010-build.toml")
    spool.drop("0020-build.2.toml", b"nonsense")
    spool.until_refused("0020-build.2.toml")
    spool.drop("0030-ok.toml", spool.job("ok", after_ok="build"))
    assert spool.until_done("0030-ok.toml") == "ok"
    spool.check()


# spoolers that refuse to run ----------------------------------------------------------------------------------------------


def test_a_spool_that_others_can_write_to_is_refused_with_the_command_that_mends_it(spool: Spool) -> None:
    for place in ("incoming", "ready", ""):
        path = spool.root / place
        path.chmod(0o777)
        run = command("--spool", str(spool.root), "run")
        assert run.returncode == 73
        assert run.stderr.count("\n") == 1
        remedy = run.stderr.strip().rpartition(": ")[2]
        assert remedy == f"chmod go-w {path}".rstrip("/")
        assert subprocess.run(["sh", "-c", remedy], check=False).returncode == 0
    spool.run_until_empty()


TWO_AT_ONCE = """if True:
    import json, os, signal, sys, time
    import spoold.cli.making, spoold.daemon
    from spoold.cli import main

    def contender(number, at, more):
        pid = os.fork()
        if pid:
            return pid
        os.dup2(os.open(f"said{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        while time.time() < at:
            pass
        os._exit(main(["--spool", sys.argv[1], "run", *more]))

    for turn in range(20):
        quiet = ["--quiet-if-running"] if turn % 2 else []
        at = time.time() + 0.02
        pids = [contender(0, at, []), contender(1, at, quiet)]
        loser, status = os.wait()
        (winner,) = set(pids) - {loser}
        early = os.waitpid(winner, os.WNOHANG)[0]
        while "runs on" not in open(f"said{pids.index(winner)}").read():
            time.sleep(0.005)
        os.kill(winner, signal.SIGTERM)
        last = os.waitpid(winner, 0)[1]
        number = pids.index(loser)
        print(json.dumps([bool(quiet) and number == 1, os.waitstatus_to_exitcode(status), open(f"said{number}").read(), early, last]))
"""


def test_of_two_spoolers_that_start_in_the_same_moment_one_runs(spool: Spool, tmp_path: pathlib.Path) -> None:
    """Twenty rounds; both are up already and begin at one tick of the clock."""
    env = {**os.environ, "PYTHONPATH": REPOSITORY}
    rounds = subprocess.run([sys.executable, "-c", TWO_AT_ONCE, str(spool.root)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100)
    results = [json.loads(line) for line in rounds.stdout.splitlines()]
    assert len(results) == 20, rounds.stderr
    for quiet, code, said, early, last in results:
        assert (code, "another spooler runs" in said) == ((0, False) if quiet else (75, True)), said
        assert (early, last) == (0, 0)


def test_a_second_spooler_gives_way_and_changes_nothing(spool: Spool) -> None:
    spooler = spool.start()
    spool.drop("a.toml", spool.job("a", gate=True))
    spool.until_begun("a")
    new = pathlib.Path(spool.layout.new) / "being.written"
    new.write_text("by the first")
    run = command("--spool", str(spool.root), "run")
    assert run.returncode == 75
    assert "another spooler runs" in run.stderr
    quiet = command("--spool", str(spool.root), "run", "--quiet-if-running")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert new.exists()
    new.unlink()
    spool.open_gate("a")
    assert spool.until_done("0010-a.toml") == "ok"
    assert spooler.stop() == 0


def test_a_spooler_ends_in_good_time_and_its_jobs_go_on(spool: Spool) -> None:
    spooler = spool.start()
    spool.drop("a.toml", spool.job("a", gate=True))
    spool.until_begun("a")
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(spooler.pid, number)
        assert spooler.process.wait(5) == 0
        assert spooler.said("these go on under their supervisors: a")
        spooler = spool.start()
        assert spooler.said("run=1 of an earlier spooler goes on")
    spool.open_gate("a")
    assert spool.until_done("0010-a.toml") == "ok"
    assert spool.began() == ["a"]
    spool.check()


def test_a_spool_without_a_stage_is_refused_and_init_makes_it_whole(spool: Spool) -> None:
    spool.path(DONE).rmdir()
    run = command("--spool", str(spool.root), "run")
    assert run.returncode == 73
    assert f"`spoold init {spool.root}` makes what is missing" in run.stderr
    assert command("init", str(spool.root)).returncode == 0
    assert (spool.root / "spool.toml").read_text() == SETTINGS
    spool.run_until_empty()


def test_a_spool_that_moved_works_where_it_is(spool: Spool) -> None:
    spool.drop("a.toml", spool.job("a"))
    spool.run_until_empty()
    spool.drop("b.toml", spool.job("b"))
    moved = spool.root.with_name("elsewhere")
    spool.root.rename(moved)
    run = subprocess.run([*COMMAND, "--spool", str(moved), "run", "--until-empty"], cwd=REPOSITORY, capture_output=True, text=True, timeout=30)
    assert run.returncode == 0, run.stderr
    moved.rename(spool.root)
    assert spool.entries(DONE) == ["0010-a.toml", "0020-b.toml"]
    spool.check()
