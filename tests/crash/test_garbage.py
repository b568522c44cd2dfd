"""Garbage in every directory: nothing of it is run, waited for or lost, and the jobs beside it run."""

from __future__ import annotations

import os
import pathlib
import socket
import stat
from collections.abc import Callable, Iterator

import pytest
from rig import Rig

from spoold.model import Stage

HUGE = 2 * 1024**3


def fifo(path: pathlib.Path) -> None:
    os.mkfifo(path)


def link_to_a_job(path: pathlib.Path) -> None:
    target = path.parent.parent.parent / "elsewhere.toml"
    if not target.exists():
        target.write_text('command = ["touch", "/nowhere/at/all"]\n')
    path.symlink_to(target)


def dangling_link(path: pathlib.Path) -> None:
    path.symlink_to("/nowhere/at/all")


def link_to_itself(path: pathlib.Path) -> None:
    path.symlink_to(path.name)


def directory(path: pathlib.Path) -> None:
    path.mkdir()
    (path / "0010-inside.toml").write_text('command = ["false"]\n')


def device(path: pathlib.Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero: a reader would never come to its end


def unix_socket(path: pathlib.Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket may have 100 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def empty(path: pathlib.Path) -> None:
    path.touch()


def huge(path: pathlib.Path) -> None:
    with open(path, "wb") as file:
        file.truncate(HUGE)


def unreadable(path: pathlib.Path) -> None:
    path.write_text('command = ["false"]\n')
    path.chmod(0)


def not_utf8(path: pathlib.Path) -> None:
    path.write_bytes(b'command = ["\xff\xfe"]\n')


GARBAGE: dict[str, Callable[[pathlib.Path], None]] = {
    made.__name__.replace("_", "-"): made
    for made in (fifo, link_to_a_job, dangling_link, link_to_itself, directory, unix_socket, empty, huge, not_utf8)
    + ((device,) if os.geteuid() == 0 else (unreadable,))
}
IN_STAGES = [stage.value for stage in Stage]
PRIVATE = ["log", ".spoold/claim", ".spoold/new", ".spoold/slots"]


def litter(rig: Rig, where: str) -> Iterator[pathlib.Path]:
    """One of each kind, under a name that a job could have and one that none could."""
    directory = rig.root / where
    directory.mkdir(exist_ok=True)
    for number, (kind, make) in enumerate(GARBAGE.items()):
        for name in (f"{100 + number:04}-{kind}.toml", kind):
            entry = f"c{number}.0~{name}" if where == ".spoold/claim" else name
            make(directory / entry)
            yield directory / entry


def lies_somewhere(rig: Rig, name: str, kind: int) -> bool:
    """An entry of this name and kind is in one of the directories where a user looks."""
    for where in (*IN_STAGES, "log"):
        for entry in os.listdir(rig.root / where):
            if entry.startswith(name) and stat.S_IFMT(os.lstat(rig.root / where / entry).st_mode) == kind:
                return True
    return False


@pytest.mark.parametrize("where", [*IN_STAGES, *PRIVATE])
def test_garbage_costs_itself_and_nobody_else(rig: Rig, where: str) -> None:
    made = {path: stat.S_IFMT(path.lstat().st_mode) for path in litter(rig, where)}
    for life in range(2):
        rig.queue(f"{900 + life:04}-probe{life}.toml")
        rig.begin()
        rig.until(lambda life=life: rig.place(Stage.DONE, f"probe{life}"), "a job runs beside the garbage", 10.0)  # type: ignore[misc]
        if life == 0:
            rig.until(lambda: all(not rig.path(Stage.INCOMING, path.name).exists() for path in made if path.suffix == ".toml"), "nothing rots in incoming/")
            rig.kill()
    assert rig.began() == ["probe0", "probe1"], rig.account("garbage was run")
    if where not in (".spoold/new", ".spoold/slots"):
        gone = [path.name for path, kind in made.items() if not lies_somewhere(rig, path.name.partition("~")[2] or path.name, kind)]
        assert not gone, rig.account(f"lost: {gone}")
    rig.end()


SLOT_FILES = ["", "/record", "/supervisor.lock", "/job.lock", "/script"]


@pytest.mark.parametrize("make", [fifo, directory], ids=lambda make: make.__name__)
@pytest.mark.parametrize("file", SLOT_FILES)
def test_garbage_in_the_place_of_a_slot_costs_that_slot(rig: Rig, file: str, make: Callable[[pathlib.Path], None]) -> None:
    path = rig.root / f".spoold/slots/1{file}"
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    rig.queue("0010-a.toml")
    rig.begin()
    rig.until(lambda: rig.place(Stage.DONE, "a"), "a job runs", 10.0)
    rig.end()


@pytest.mark.parametrize("make", [fifo, directory], ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", ["PAUSED", "spool.toml", ".spoold/withdrawn"])
def test_garbage_in_the_place_of_a_file_of_the_spool_stops_nothing_for_good(rig: Rig, name: str, make: Callable[[pathlib.Path], None]) -> None:
    rig.begin()
    rig.until_up()
    path = rig.root / name
    path.unlink(missing_ok=True)
    make(path)
    rig.queue("0010-a.toml")
    if name == "PAUSED":
        rig.until(lambda: rig.place(Stage.READY, "a"), "it is accepted", 10.0)
        path.rename(path.with_name("no longer PAUSED"))
    rig.until(lambda: rig.place(Stage.DONE, "a"), "a job runs", 10.0)
    rig.end()
