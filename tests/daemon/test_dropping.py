"""Dropping files into incoming/ with what people have, while a spooler is at work: none is taken half, none is lost, nobody's copy fails."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator

import pytest
from spooling import Spool, until

from jobspec import trace
from spoold.model import Stage

INCOMING, READY, RUNNING, DONE, REFUSED = Stage
OTHER_DISK = pathlib.Path("/dev/shm")


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=30)


def needs(program: str) -> str:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return program


def by_cp(source: pathlib.Path, target: pathlib.Path) -> None:
    run("cp", str(source), str(target))


def by_cp_with_an_old_time(source: pathlib.Path, target: pathlib.Path) -> None:
    os.utime(source, (1, 1))
    run("cp", "-p", str(source), str(target))


def by_cp_with_a_time_in_the_future(source: pathlib.Path, target: pathlib.Path) -> None:
    os.utime(source, (4_000_000_000, 4_000_000_000))
    run("cp", "-p", str(source), str(target))


def by_mv(source: pathlib.Path, target: pathlib.Path) -> None:
    run("mv", str(source), str(target))


def by_mv_from_another_file_system(source: pathlib.Path, target: pathlib.Path) -> None:
    if not OTHER_DISK.is_dir() or OTHER_DISK.stat().st_dev == target.parent.stat().st_dev:
        pytest.skip("no second file system at hand")
    other = OTHER_DISK / f"spoold-test-{os.getpid()}-{source.name}"
    shutil.copy(source, other)
    try:
        run("mv", str(other), str(target))
    finally:
        other.unlink(missing_ok=True)


def by_ln(source: pathlib.Path, target: pathlib.Path) -> None:
    run("ln", str(source), str(target))


def by_rsync(source: pathlib.Path, target: pathlib.Path) -> None:
    run(needs("rsync"), "-a", str(source), str(target))


def by_rsync_in_place(source: pathlib.Path, target: pathlib.Path) -> None:
    run(needs("rsync"), "-a", "--inplace", str(source), str(target))


def by_tar(source: pathlib.Path, target: pathlib.Path) -> None:
    archive = source.parent / f"{source.name}.tar"
    with tarfile.open(archive, "w") as file:
        file.add(source, target.name)
    run("tar", "-x", "-p", "-f", str(archive), "-C", str(target.parent))


def by_install(source: pathlib.Path, target: pathlib.Path) -> None:
    run("install", "-m", "600", str(source), str(target))


def by_dd(source: pathlib.Path, target: pathlib.Path) -> None:
    run("dd", f"if={source}", f"of={target}", "bs=7")


def by_shell(source: pathlib.Path, target: pathlib.Path) -> None:
    run("sh", "-c", 'cat < "$0" > "$1"', str(source), str(target))


def by_python(source: pathlib.Path, target: pathlib.Path) -> None:
    shutil.copy2(source, target)


WAYS = [
    by_cp,
    by_cp_with_an_old_time,
    by_cp_with_a_time_in_the_future,
    by_mv,
    by_mv_from_another_file_system,
    by_ln,
    by_rsync,
    by_rsync_in_place,
    by_tar,
    by_install,
    by_dd,
    by_shell,
    by_python,
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spool]:
    """One spool and one spooler for all the ways of dropping."""
    with Spool(tmp_path_factory.mktemp("dropping") / "spool") as spool:
        spool.start()
        yield spool
        until(lambda: not (spool.entries(INCOMING) or spool.entries(READY) or spool.entries(RUNNING)), "all is done")
        spool.check()


@pytest.mark.parametrize("drop", WAYS, ids=lambda way: way.__name__)
def test_a_file_arrives_whole_however_it_is_dropped(shared: Spool, tmp_path: pathlib.Path, drop: Callable[[pathlib.Path, pathlib.Path], None]) -> None:
    name = drop.__name__
    text = shared.expect(shared.job(name, lock=[], note="x" * 20_000))
    source = tmp_path / f"{name}.source"
    source.write_bytes(text)
    began = time.monotonic()
    drop(source, shared.path(INCOMING, f"0050-{name}.toml"))
    assert shared.until_done(f"0050-{name}.toml") == "ok"
    assert time.monotonic() - began < 10
    assert trace.split(shared.path(DONE, f"0050-{name}.toml").read_bytes())[0] == text
    if drop is by_ln:
        assert source.read_bytes() == text
        assert source.stat().st_nlink == 1
    assert shared.began().count(name) == 1


SLOW_WRITER = """if True:
    import sys
    out = open(sys.argv[1], "wb", buffering=0)
    for line in sys.stdin:
        out.write(line.encode())
        print(flush=True)
"""


class SlowWriter:
    """A program that has the file open and writes a line when it is told to."""

    def __init__(self, path: pathlib.Path) -> None:
        self.process = subprocess.Popen([sys.executable, "-I", "-S", "-c", SLOW_WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def close(self) -> None:
        self.process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="only leases tell of writers")
def test_a_slow_writer_is_waited_for_though_each_line_makes_a_job(spool: Spool) -> None:
    spool.start()
    writer = SlowWriter(spool.path(INCOMING, "slow.toml"))
    writer.write('command = ["true"]')
    for number in range(3):
        spool.drop(f"probe{number}.toml", spool.job(f"probe{number}"))
        spool.until_done(f"00{number + 1}0-probe{number}.toml")
        writer.write(f'meta.line{number} = "so far a job"')
        assert spool.entries(INCOMING) == ["slow.toml"]
    writer.write('after_ok = "nobody"')
    writer.close()
    spool.until_in(READY, "0040-slow.toml")
    text = trace.split(spool.path(READY, "0040-slow.toml").read_bytes())[0]
    assert text.count(b"\n") == 5
    assert text.endswith(b'after_ok = "nobody"\n')


def test_what_a_writer_left_that_was_killed_is_refused_if_it_is_no_job(spool: Spool) -> None:
    spool.start()
    writer = SlowWriter(spool.path(INCOMING, "0050-killed.toml"))
    writer.write('command = ["true",')
    writer.process.kill()
    writer.close()
    spool.until_refused("0050-killed.toml")
    assert spool.path(REFUSED, "0050-killed.toml").read_bytes() == b'command = ["true",\n'


COPIER = """if True:
    import shutil, sys, time
    for number in range(int(sys.argv[3])):
        shutil.copy(sys.argv[1], f"{sys.argv[2]}/{int(sys.argv[4]) + number:04d}-copy{number}.toml")
        time.sleep(0.002)
"""


def test_a_copy_that_sets_the_mode_after_it_has_closed_the_file_never_fails(spool: Spool, tmp_path: pathlib.Path) -> None:
    """Python's shutil.copy does, 300 times on a box where every processor is taken."""
    spool.start()
    (spool.root / "PAUSED").touch()
    source = tmp_path / "source.toml"
    source.write_bytes(b'command = ["true"]\n')
    hogs = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        copier = subprocess.run(
            [sys.executable, "-I", "-c", COPIER, str(source), str(spool.path(INCOMING)), "300", "1000"], capture_output=True, text=True, timeout=100
        )
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert (copier.returncode, copier.stderr) == (0, "")
    until(lambda: len(spool.entries(READY)) == 300, lambda: f"all are accepted: {spool.everything()}")
    assert spool.entries(REFUSED) == []


def test_two_thousand_files_at_once_are_all_there_and_in_order(spool: Spool, tmp_path: pathlib.Path) -> None:
    spool.start()
    (spool.root / "PAUSED").touch()
    count = 2000
    for number in range(count):
        (tmp_path / f"j{number:04d}.toml").write_bytes(b'command = ["true"]\nmeta = { n = %d }\n' % number)
    run("sh", "-c", f"cp {tmp_path}/j*.toml {spool.path(INCOMING)}")
    until(lambda: len(spool.entries(READY)) == count, lambda: f"all are accepted: {len(spool.entries(READY))}", 60)
    assert spool.entries(INCOMING) == []
    assert spool.entries(REFUSED) == []
    by_number = sorted(spool.entries(READY), key=lambda entry: int(entry.partition("-")[0]))
    assert by_number == [f"{10 * (number + 1):04d}-j{number:04d}.toml" for number in range(count)]
    for number in (0, 777, count - 1):
        assert b"n = %d }" % number in spool.path(READY, by_number[number]).read_bytes()


def test_files_that_lay_there_before_the_spooler_came_are_taken_in_the_order_of_their_coming(spool: Spool) -> None:
    for name in ("third", "second", "first"):
        before = spool.path(INCOMING).stat().st_mtime_ns
        path = spool.drop(f"{name}.toml", spool.job(name))
        while path.stat().st_ctime_ns <= before:
            path.touch()
    spool.run_until_empty()
    assert spool.began() == ["third", "second", "first"]
    assert spool.entries(DONE) == ["0010-third.toml", "0020-second.toml", "0030-first.toml"]
    spool.check()


def test_a_directory_that_was_made_again_is_watched_again(spool: Spool) -> None:
    spooler = spool.start()
    for number, stage in enumerate((INCOMING, READY, DONE, REFUSED, RUNNING)):
        spool.path(stage).rename(spool.root / f"old{number}")
        spool.path(stage).mkdir(mode=0o700)
        good, next_one = f"good{number}", f"next{number}"
        spool.drop(f"00{number}1-{good}.toml", spool.job(good))
        assert spool.until_done(f"00{number}1-{good}.toml") == "ok"
        began = time.monotonic()
        spool.drop(f"00{number}2-{next_one}.toml", spool.job(next_one, do="exit 1"))
        assert spool.until_done(f"00{number}2-{next_one}.toml") == "failed"
        assert time.monotonic() - began < 3
    spool.drop("0090-never.toml", b"nonsense")
    spool.until_refused("0090-never.toml")
    assert spooler.process.poll() is None


def test_a_stage_that_is_missing_for_a_while_loses_nothing(spool: Spool) -> None:
    spooler = spool.start()
    for stage in (DONE, REFUSED, READY, RUNNING):
        before = len(spooler.said("tried again"))
        spool.path(stage).rename(spool.root / "away")
        spool.drop(f"0050-{stage.value}.toml", spool.job(stage.value))
        if stage is REFUSED:
            spool.drop("0060-bad.toml", b"nonsense")
        until(lambda: len(spooler.said("tried again")) > before, lambda: f"it is said: {spooler.said()}")  # noqa: B023
        (spool.root / "away").rename(spool.path(stage))
        assert spool.until_done(f"0050-{stage.value}.toml") == "ok"
    spool.until_refused("0060-bad.toml")
    spool.check()
