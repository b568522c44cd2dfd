"""The watcher on real directories: what it tells, how soon, and what it does when the ground moves."""

from __future__ import annotations

import importlib
import itertools
import json
import logging
import os
import resource
import select
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchdog import events

from spoold import inotify, watcher
from spoold.watcher import Hints, Watcher

linux = pytest.mark.skipif(sys.platform != "linux", reason="is about inotify")
STAGES = ("incoming", "ready", "running", "done", "refused")
RECORDS = Path(__file__).parents[1] / "records" / "macos"
PATIENCE_S = 10


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "spool"
    for name in (*STAGES, "log", "outside"):
        (root / name).mkdir(parents=True)
    return root


def directories(spool: Path) -> dict[str, str]:
    return {name: str(spool / name) for name in STAGES} | {"root": str(spool)}


@pytest.fixture
def fresh(spool: Path) -> Iterator[Watcher]:
    watching = Watcher(directories(spool))
    yield watching
    watching.stop()


@pytest.fixture
def started(fresh: Watcher) -> Watcher:
    fresh.start()
    assert fresh.drain() == Hints(everything=True)
    return fresh


def readable(watching: Watcher, seconds: float = PATIENCE_S) -> bool:
    return bool(select.select([watching.fd], [], [], seconds)[0])


def until_told(watching: Watcher, wanted: tuple[str, str]) -> set[tuple[str, str]]:
    """All hints up to the one that is wanted."""
    told: set[tuple[str, str]] = set()
    while wanted not in told:
        assert readable(watching), f"{wanted} was never told of, only {told}"
        hints = watching.drain()
        assert not hints.everything
        told |= hints.names
    return told


def until_everything(watching: Watcher) -> None:
    while True:
        assert readable(watching)
        if watching.drain().everything:
            return


sentinels = itertools.count()


def until_now(watching: Watcher, spool: Path) -> set[tuple[str, str]]:
    """All hints of what was done before this call: events come in the order of the deeds."""
    name = f"sentinel{next(sentinels)}"
    (spool / "outside" / name).touch()
    os.rename(spool / "outside" / name, spool / "done" / name)
    return until_told(watching, ("done", name)) - {("done", name)}


# what it tells --------------------------------------------------------------------------------------------------------


def test_the_first_hint_is_to_look_at_everything(fresh: Watcher) -> None:
    fresh.start()
    assert readable(fresh)
    assert fresh.drain() == Hints(everything=True)
    assert fresh.drain() == Hints()


@linux
def test_this_box_is_watched_by_inotify(started: Watcher) -> None:
    assert (started.mode, started.why) == ("inotify", "")
    assert started.healthy()


@linux
def test_a_file_is_told_of_when_it_is_closed_and_not_while_it_is_written(spool: Path, started: Watcher) -> None:
    with open(spool / "incoming" / "job.toml", "w") as file:
        file.write("command = []\n")
        file.flush()
        assert until_now(started, spool) == set()
    assert until_now(started, spool) == {("incoming", "job.toml")}


@pytest.mark.parametrize("stage", ["incoming", "ready"])
def test_an_edit_in_place_is_told_of(spool: Path, started: Watcher, stage: str) -> None:
    (spool / stage / "job.toml").write_text("x")
    until_told(started, (stage, "job.toml"))
    with open(spool / stage / "job.toml", "a") as file:
        file.write("y")
    until_told(started, (stage, "job.toml"))


@linux
@pytest.mark.parametrize("stage", STAGES)
def test_what_is_moved_in_and_out_and_removed_is_told_of(spool: Path, started: Watcher, stage: str) -> None:
    (spool / "outside" / "job.toml").touch()
    for _ in range(2):
        os.rename(spool / "outside" / "job.toml", spool / stage / "job.toml")
        assert until_now(started, spool) == {(stage, "job.toml")}
        os.rename(spool / stage / "job.toml", spool / "outside" / "job.toml")
        assert until_now(started, spool) == {(stage, "job.toml")}
    os.rename(spool / "outside" / "job.toml", spool / stage / "job.toml")
    until_now(started, spool)
    os.unlink(spool / stage / "job.toml")
    assert until_now(started, spool) == {(stage, "job.toml")}


def test_a_move_between_two_stages_is_told_of_in_both(spool: Path, started: Watcher) -> None:
    (spool / "ready" / "job.toml").touch()
    until_told(started, ("ready", "job.toml"))
    os.rename(spool / "ready" / "job.toml", spool / "done" / "job.toml")
    told = until_told(started, ("done", "job.toml"))
    assert ("ready", "job.toml") in told or until_told(started, ("ready", "job.toml"))


@linux
@pytest.mark.parametrize("kind", ["hard link", "symlink", "fifo", "directory"])
def test_what_is_whole_when_it_appears_is_told_of(spool: Path, started: Watcher, kind: str) -> None:
    (spool / "outside" / "source").touch()
    place = spool / "incoming" / "job.toml"
    if kind == "hard link":
        os.link(spool / "outside" / "source", place)
    elif kind == "symlink":
        place.symlink_to("nowhere")
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    assert until_now(started, spool) == {("incoming", "job.toml")}


@linux
def test_the_log_and_other_things_in_the_root_never_wake(spool: Path, started: Watcher) -> None:
    (spool / "log" / "1.log").write_text("x" * 1000)
    (spool / "outside" / "y").write_text("x")
    (spool / "notes.txt").write_text("x")
    os.rename(spool / "notes.txt", spool / "more.txt")
    os.unlink(spool / "more.txt")
    assert until_now(started, spool) == set()


@linux
@pytest.mark.parametrize("name", ["spool.toml", "PAUSED"])
def test_settings_and_pause_are_told_of(spool: Path, started: Watcher, name: str) -> None:
    (spool / name).write_text("x")
    assert until_now(started, spool) == {("root", name)}
    os.unlink(spool / name)
    assert until_now(started, spool) == {("root", name)}


@linux
def test_a_name_that_is_no_text_is_told_of(spool: Path, started: Watcher) -> None:
    name = os.fsdecode(b"caf\xe9\n.toml")
    (spool / "incoming" / name).write_text("x")
    assert until_now(started, spool) == {("incoming", name)}


# how soon -------------------------------------------------------------------------------------------------------------


def delay(watching: Watcher, source: Path, target: Path) -> float:
    shutil.copyfile(source, target)
    closed = time.perf_counter()
    until_told(watching, (target.parent.name, target.name))
    return time.perf_counter() - closed


@linux
def test_a_file_behind_one_that_was_renamed_away_is_not_held_back(spool: Path, started: Watcher) -> None:
    (spool / "outside" / "source").write_text("command = []\n")
    delays = []
    for number in range(9):
        (spool / "outside" / f"{number}").touch()
        os.rename(spool / "outside" / f"{number}", spool / "incoming" / f"first{number}")
        os.rename(spool / "incoming" / f"first{number}", spool / "outside" / f"{number}")
        delays.append(delay(started, spool / "outside" / "source", spool / "incoming" / f"second{number}.toml"))
    assert statistics.median(delays) < 0.1, delays


# what goes wrong ------------------------------------------------------------------------------------------------------


def test_too_many_names_become_everything(spool: Path, started: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "MAX_NAMES", 10)
    for number in range(100):
        (spool / "incoming" / f"{number}.toml").touch()
    until_everything(started)
    assert (spool / "incoming" / "99.toml").exists()


@linux
def test_an_overflow_of_the_kernels_queue_is_everything(spool: Path, started: Watcher) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 50_000:
        pytest.skip("the queue is too long to fill")
    here, there = spool / "incoming" / "a", spool / "incoming" / "b"
    here.touch()
    with started._pending._lock:  # the thread that reads stands still at its first event
        for _ in range(limit // 4 + 3000):  # two renames, four events; the thread has taken a buffer full already
            os.rename(here, there)
            os.rename(there, here)
    until_everything(started)
    assert started.healthy()


def test_what_watchdog_warns_of_is_everything(started: Watcher) -> None:
    logging.getLogger("watchdog.observers.inotify_c").warning("Inotify queue overflowed; filesystem events were lost")
    assert readable(started)
    assert started.drain().everything


@linux
def test_a_directory_made_anew_is_watched_again(spool: Path, started: Watcher) -> None:
    shutil.rmtree(spool / "done")
    until_everything(started)
    assert not started.healthy()
    assert not started.healthy()
    (spool / "done").mkdir()
    assert not started.healthy()
    until_everything(started)
    assert started.healthy()
    until_now(started, spool)


@linux
def test_a_directory_that_was_renamed_away_is_not_taken_for_the_new_one(spool: Path, started: Watcher) -> None:
    os.rename(spool / "ready", spool / "old")
    (spool / "ready").mkdir()
    until_everything(started)
    assert not started.healthy()
    until_everything(started)
    assert started.healthy()
    (spool / "old" / "job.toml").touch()
    (spool / "ready" / "other.toml").touch()
    assert until_now(started, spool) == {("ready", "other.toml")}


@linux
def test_a_directory_that_comes_late_is_watched_when_it_is_there(spool: Path, fresh: Watcher) -> None:
    shutil.rmtree(spool / "incoming")
    fresh.start()
    assert fresh.mode == "inotify"
    assert not fresh.healthy()
    (spool / "incoming").mkdir()
    assert not fresh.healthy()
    assert fresh.healthy()
    fresh.drain()
    (spool / "incoming" / "job.toml").touch()
    until_told(fresh, ("incoming", "job.toml"))


@linux
def test_without_an_inotify_instance_it_says_why_and_tries_again(fresh: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("watchdog.observers.inotify_c")  # an import needs descriptors too
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.dup(fresh.fd)
    os.close(highest)
    fillers = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    try:
        while True:
            try:
                fillers.append(os.dup(fresh.fd))
            except OSError:
                break
        monkeypatch.setattr(watcher, "RETRY_S", 0.0)
        fresh.start()
        assert fresh.mode == "polling"
        assert "limit" in fresh.why
        assert fresh.drain().everything
        assert not fresh.healthy()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)
    assert not fresh.healthy()
    assert fresh.mode == "inotify"
    assert fresh.why == ""
    assert fresh.healthy()


@linux
def test_a_thread_that_has_ended_is_replaced(spool: Path, started: Watcher) -> None:
    look_out = started._look_out
    assert look_out is not None
    look_out.stop()
    assert not started.healthy()
    until_everything(started)
    assert started.healthy()
    (spool / "incoming" / "job.toml").touch()
    until_told(started, ("incoming", "job.toml"))


@linux
def test_another_watchdog_is_used_by_its_public_interface(fresh: Watcher, spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "METHODS", ("listen",))
    fresh.start()
    assert fresh.mode == "inotify"
    assert "InotifyFD has no listen" in fresh.why
    assert "half a second" in fresh.why
    assert fresh.healthy()
    assert fresh.drain().everything
    (spool / "incoming" / "job.toml").write_text("x")
    until_told(fresh, ("incoming", "job.toml"))
    os.rename(spool / "incoming" / "job.toml", spool / "ready" / "job.toml")
    until_told(fresh, ("ready", "job.toml"))
    (spool / "PAUSED").touch()
    until_told(fresh, ("root", "PAUSED"))
    shutil.rmtree(spool / "refused")
    until_everything(fresh)
    (spool / "refused").mkdir()
    while fresh.healthy():  # the emitter is still ending, and the new directory may have the old one's number
        time.sleep(0.001)
    assert fresh.healthy()
    fresh.drain()
    (spool / "outside" / "job.why").touch()
    os.rename(spool / "outside" / "job.why", spool / "refused" / "job.why")
    until_told(fresh, ("refused", "job.why"))


@linux
def test_nothing_is_left_behind(spool: Path) -> None:
    before = (len(os.listdir("/proc/self/fd")), threading.active_count())
    for _ in range(3):
        watching = Watcher(directories(spool))
        watching.start()
        watching.stop()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before
    assert not [alarm for alarm in logging.getLogger("watchdog").handlers if isinstance(alarm, watcher._Alarm)]


@linux
def test_no_descriptor_of_it_reaches_a_job(started: Watcher) -> None:
    open_files = {int(name): f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")}
    mine = [fd for fd, link in open_files.items() if os.path.islink(link) and "inotify" in os.readlink(link)]
    assert mine
    assert not any(map(os.get_inheritable, [*mine, started.fd]))


@linux
def test_signals_are_left_to_the_main_thread(started: Watcher) -> None:
    tasks = [int(task) for task in os.listdir("/proc/self/task") if int(task) != os.getpid()]
    names = {thread.native_id: thread for thread in threading.enumerate()}
    ours = [task for task in tasks if type(names.get(task)).__name__ == "InotifyFD"]
    assert len(ours) == 1
    status = Path(f"/proc/self/task/{ours[0]}/status").read_text()
    blocked = int(next(line for line in status.splitlines() if line.startswith("SigBlk:")).split()[1], 16)
    assert all(blocked >> (number - 1) & 1 for number in (2, 15, 17))


# FSEvents, by what is recorded of it ----------------------------------------------------------------------------------

OPERATIONS = json.loads((RECORDS / "fsevents.json").read_text())["operations"]
ENTRY = "/Users/u/spool/incoming/job.toml"
CLASSES = {
    "FileCreated": events.FileCreatedEvent(ENTRY),
    "FileModified": events.FileModifiedEvent(ENTRY),
    "FileDeleted": events.FileDeletedEvent(ENTRY),
    "FileMoved": events.FileMovedEvent("/Users/u/spool/incoming/.tmp", ENTRY),
    "DirModified": events.DirModifiedEvent("/Users/u/spool/incoming"),
    "DirDeleted": events.DirDeletedEvent("/Users/u/spool/incoming"),
}


def told_of(*happened: events.FileSystemEvent) -> Hints:
    pending = watcher._Pending()
    handler = watcher._Handler("incoming", "/Users/u/spool/incoming", None, pending)
    for event in happened:
        handler.dispatch(event)
    hints = pending.fetch()
    pending.close()
    return hints


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"rmdir of the watched directory"}))
def test_every_recorded_operation_names_the_entry(operation: str) -> None:
    hints = told_of(*(CLASSES[name] for name in OPERATIONS[operation]["events"]))
    assert ("incoming", "job.toml") in hints.names
    assert not hints.everything


def test_the_end_of_the_directory_is_everything() -> None:
    assert told_of(*(CLASSES[name] for name in OPERATIONS["rmdir of the watched directory"]["events"])).everything


def test_a_directory_in_another_spelling_is_everything() -> None:
    assert told_of(events.FileCreatedEvent("/Users/u/Spool/incoming/job.toml")).everything


def test_a_move_out_of_sight_is_a_hint_at_what_is_left() -> None:
    assert told_of(events.FileMovedEvent(ENTRY, "/Users/u/spool/done/job.toml")) == Hints(frozenset({("incoming", "job.toml")}))


def test_what_happens_deeper_in_a_directory_is_no_news() -> None:
    assert told_of(events.FileModifiedEvent("/Users/u/spool/incoming/folder/x")) == Hints()
