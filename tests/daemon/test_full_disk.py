"""A disk that is really full, or really read-only: small file systems of the test's own, mounted where nobody else sees them.

Each test runs itself again in a mount namespace of its own, which takes root and Linux; the failures that can be had without are in tests/crash.
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from io import FileIO

import psutil
import pytest
from spooling import REPOSITORY, Spool, Spooler, until

from spoold.model import Stage

INSIDE = "SPOOLD_TEST_IN_MOUNT_NAMESPACE"
UNSHARE = ["unshare", "--mount", "--propagation", "private"]
SETTINGS = '[memory]\nfloor = 0\nguard = false\n[disk]\nfloor = 0\n[env]\nPATH = "/usr/local/bin:/usr/bin:/bin"\n'
WATCHED_S = 2.0


@functools.cache
def why_not() -> str | None:
    """Why nothing can be mounted here."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None:
        return "a small file system of one's own takes Linux, root and unshare"
    tried = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"nothing can be mounted here: {tried.stderr.strip()}"


def in_own_mounts(test: Callable[..., None]) -> Callable[..., None]:
    """The test runs in a process whose mounts end with it."""

    @functools.wraps(test)
    def run(request: pytest.FixtureRequest, **fixtures: object) -> None:
        if os.environ.get(INSIDE):
            test(request=request, **fixtures)
            return
        why = why_not()
        if why is not None:
            pytest.skip(why)
        command = [*UNSHARE, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", request.node.nodeid]
        inner = subprocess.run(command, cwd=REPOSITORY, env=os.environ | {INSIDE: "1"}, capture_output=True, text=True, timeout=110, check=False)
        assert inner.returncode == 0, inner.stdout + inner.stderr

    return run


def write_for_ever(file: FileIO, size: int) -> None:
    while True:
        file.write(bytes(size))


class SmallDisk:
    """A file system of a few MB on which a spool lies; its witnesses lie elsewhere."""

    def __init__(self, where: pathlib.Path) -> None:
        self.where = where
        where.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", str(where)], check=True)
        assert os.path.ismount(where)
        self._filler = where / "filler"

    def fill(self) -> None:
        """Not one more byte can be written."""
        with open(self._filler, "ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                with pytest.raises(OSError, match="No space left"):
                    write_for_ever(file, size)
        assert os.statvfs(self.where).f_bavail == 0

    def empty(self) -> None:
        self._filler.unlink()

    def read_only(self, on: bool) -> None:
        subprocess.run(["mount", "-o", f"remount,{'ro' if on else 'rw'}", str(self.where)], check=True)


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> Iterator[SmallDisk | None]:
    if not os.environ.get(INSIDE):
        yield None
        return
    disk = SmallDisk(tmp_path / "spool")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk.where)], check=False)


@pytest.fixture
def spool(tmp_path: pathlib.Path, disk: SmallDisk | None) -> Iterator[Spool]:
    """A spool that is the whole small disk."""
    with Spool(tmp_path / "spool", SETTINGS) as made:
        yield made


def prepared(spool: Spool, entry: str, text: bytes) -> pathlib.Path:
    """A file on the same disk, which can be dropped by a rename when nothing can be written any more."""
    spool.expect(text)
    beside = spool.root / "elsewhere"
    beside.mkdir(exist_ok=True)
    path = beside / entry
    path.write_bytes(text)
    return path


def drop(spool: Spool, path: pathlib.Path) -> None:
    path.rename(spool.path(Stage.INCOMING, path.name))


def cpu_share(spooler: Spooler) -> float:
    """Of one CPU, over a while."""
    process = psutil.Process(spooler.pid)
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(WATCHED_S)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / (time.monotonic() - began)


@in_own_mounts
def test_a_full_disk_loses_nothing_is_said_once_and_all_goes_on_when_there_is_room(request: pytest.FixtureRequest, spool: Spool, disk: SmallDisk) -> None:
    spooler = spool.start()
    spool.drop("0010-runs.toml", spool.job("runs", gate=True, do="exit 3"))
    spool.drop("0020-waits.toml", spool.job("waits"))
    spool.drop("0030-goes.toml", spool.job("goes", gate=True, lock=[]))
    spool.until_begun("runs")
    spool.until_begun("goes")
    spool.until_in(Stage.READY, "0020-waits.toml")
    dropped = prepared(spool, "0040-dropped.toml", spool.job("dropped"))
    refused = prepared(spool, "0050-refused.toml", spool.job("refused", memory="900TB"))
    bad_name = prepared(spool, "0060-no name.toml", b'command = ["true"]\n')
    disk.fill()
    spool.open_gate("runs")
    for path in (dropped, refused, bad_name):
        drop(spool, path)
    spooler.until_said("has ended and cannot be put away: No space left on device")
    spooler.until_said("0040-dropped.toml cannot be taken: No space left on device")
    disk.fill()
    assert cpu_share(spooler) < 0.05
    spool.open_gate("goes")
    until(lambda: ["end", "goes"] in [line[:2] for line in spool.witnessed()], "what runs goes on to its end")
    disk.empty()
    for entry in ("0010-runs.toml", "0020-waits.toml", "0030-goes.toml", "0040-dropped.toml"):
        spool.until_done(entry)
    assert spool.outcome("0010-runs.toml") == "failed"
    assert "900.0TB" in spool.until_refused("0050-refused.toml")
    spool.until_refused("0060-no name.toml")
    until(lambda: not os.listdir(spool.layout.claims), "no claim is left")
    spool.check(unordered=("goes", "dropped"))
    said = [line.partition(" ")[2] for line in spooler.said("No space left") if not line.partition(" ")[2].startswith("over: ")]
    assert len(said) == len(set(said)), "\n".join(said)
    assert spooler.stop() == 0


@in_own_mounts
def test_a_spooler_that_is_killed_on_a_full_disk_is_started_on_a_full_disk_and_goes_on(request: pytest.FixtureRequest, spool: Spool, disk: SmallDisk) -> None:
    spooler = spool.start()
    spool.drop("0010-a.toml", spool.job("a", gate=True))
    spool.drop("0020-b.toml", spool.job("b"))
    spool.until_begun("a")
    spool.until_in(Stage.READY, "0020-b.toml")
    disk.fill()
    spool.open_gate("a")
    spooler.until_said("cannot be put away")
    spooler.kill()
    spooler = spool.start()
    spooler.until_said("cannot be put away")
    assert spooler.process.poll() is None
    disk.empty()
    assert spool.until_done("0010-a.toml") == "ok"
    assert spool.until_done("0020-b.toml") == "ok"
    spool.check()
    assert spool.began() == ["a", "b"]


@in_own_mounts
def test_a_job_that_fills_the_disk_is_a_job_that_failed(request: pytest.FixtureRequest, spool: Spool, disk: SmallDisk) -> None:
    spool.start()
    spool.drop("0010-fills.toml", spool.job("fills", do="yes && exit 1"))
    spool.drop("0020-next.toml", spool.job("next"))
    log = spool.root / "log/0010-fills.log"
    until(lambda: ["end", "fills"] in [line[:2] for line in spool.witnessed()] or os.statvfs(spool.root).f_bavail == 0, "the disk is full")
    spool.until_begun("fills")
    until(lambda: ["end", "fills"] in [line[:2] for line in spool.witnessed()], "yes has ended")
    os.truncate(log, 0)
    spool.until_done("0010-fills.toml")
    assert spool.until_done("0020-next.toml") == "ok"
    spool.check()


@in_own_mounts
def test_no_spooler_begins_on_a_read_only_disk_and_nothing_is_touched(request: pytest.FixtureRequest, spool: Spool, disk: SmallDisk) -> None:
    spool.drop("0010-a.toml", spool.job("a"))
    disk.read_only(True)
    spooler = spool.launch()
    assert spooler.wait() == 73
    assert "ead-only" in "\n".join(spooler.said())
    disk.read_only(False)
    spool.start()
    assert spool.until_done("0010-a.toml") == "ok"
    spool.check()
