"""The one-spooler lock: held by whoever lives, given to one of many who ask in the same moment."""

from __future__ import annotations

import fcntl
import os
import pathlib
import subprocess
import sys
import time

import pytest

from spoold.claim import PROBE_PAUSE_S, PROBE_TRIES, OwnerLock, is_held, owner_pid
from spoold.errors import AnotherRunsError, Exit, SpoolError

HOLDER = """if True:
    import sys
    from spoold.claim import OwnerLock
    from spoold.errors import AnotherRunsError
    lock = OwnerLock(sys.argv[1])
    sys.stdin.readline()
    try:
        lock.take()
    except AnotherRunsError as error:
        print("other", flush=True)
        sys.exit(error.code)
    print("mine", flush=True)
    sys.stdin.readline()
"""


def contender(path: pathlib.Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "owner"


def test_a_lock_is_held_until_it_is_dropped_and_names_its_holder(path: pathlib.Path) -> None:
    assert not is_held(str(path))
    assert owner_pid(str(path)) is None
    lock = OwnerLock(str(path))
    lock.take()
    assert is_held(str(path))
    assert owner_pid(str(path)) == os.getpid()
    assert lock.still_ours()
    with pytest.raises(AnotherRunsError) as refused:
        OwnerLock(str(path)).take()
    assert refused.value.code == Exit.ANOTHER_RUNS
    lock.drop()
    assert not is_held(str(path))
    assert path.exists()  # never unlinked: unlink and recreate would give two holders
    lock.take()
    lock.drop()


def test_of_many_that_ask_in_the_same_moment_one_gets_it(path: pathlib.Path) -> None:
    contenders = [contender(path) for _ in range(6)]
    for process in contenders:
        say(process)
    answers = [hear(process) for process in contenders]
    assert sorted(answers) == ["mine", *["other"] * 5]
    for process, answer in zip(contenders, answers, strict=True):
        say(process) if answer == "mine" else None
        assert process.wait(10) == (0 if answer == "mine" else 75)
        process.communicate()


def test_a_holder_that_is_killed_holds_nothing(path: pathlib.Path) -> None:
    process = contender(path)
    say(process)
    assert hear(process) == "mine"
    assert is_held(str(path))
    process.kill()
    process.communicate()
    lock = OwnerLock(str(path))
    lock.take()
    lock.drop()


def test_somebody_who_only_looks_keeps_nobody_out(path: pathlib.Path) -> None:
    """`spoold ls` takes the lock for a moment to see whether it can be had."""
    path.touch()
    with open(path) as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        program = f"import time; time.sleep({PROBE_PAUSE_S * PROBE_TRIES / 4})"
        with subprocess.Popen([sys.executable, "-I", "-S", "-c", program], pass_fds=[looking.fileno()]):
            looking.close()
            lock = OwnerLock(str(path))
            began = time.monotonic()
            try:
                lock.take()
            except AnotherRunsError:
                assert time.monotonic() - began >= PROBE_PAUSE_S * (PROBE_TRIES - 1)
                pytest.skip("the looker was slow to end")
            lock.drop()


def test_a_lock_whose_file_was_removed_or_replaced_is_not_ours_any_more(path: pathlib.Path) -> None:
    lock = OwnerLock(str(path))
    lock.take()
    path.unlink()
    assert not lock.still_ours()
    path.touch()
    assert not lock.still_ours()
    other = OwnerLock(str(path))
    other.take()
    assert other.still_ours()
    other.drop()
    lock.drop()


def test_a_lock_that_cannot_be_made_is_the_spools_trouble(path: pathlib.Path) -> None:
    with pytest.raises(SpoolError, match="cannot open"):
        OwnerLock(str(path / "deeper")).take()
    os.symlink("elsewhere", path)
    with pytest.raises(SpoolError, match="cannot open"):
        OwnerLock(str(path)).take()
    assert not (path.parent / "elsewhere").exists()
    assert is_held(str(path))  # nobody can say, and that is not called free


@pytest.mark.parametrize("text", [b"", b"nonsense\n", b"\xff"])
def test_a_file_that_names_nobody_names_nobody(path: pathlib.Path, text: bytes) -> None:
    path.write_bytes(text)
    assert owner_pid(str(path)) is None
