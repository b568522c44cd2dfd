"""Editing a file in ready/ with what people have, under a running spooler, and in running/ where it changes nothing."""

from __future__ import annotations

import functools
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest
from spooling import Spool, until

from jobspec import trace
from spoold.model import Stage

READY, RUNNING, DONE, REFUSED = Stage.READY, Stage.RUNNING, Stage.DONE, Stage.REFUSED
FIRST, SECOND = b"the first text", b"the second text"


def run(path: pathlib.Path, *command: str, stdin: str = "") -> None:
    subprocess.run(command, cwd=path.parent, input=stdin, text=True, check=True, capture_output=True, timeout=30)


def needs(program: str) -> str:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return program


def vim(path: pathlib.Path, *options: str) -> None:
    # it makes no backups in /tmp unless it is told to
    run(path, needs("vim"), "-es", "-u", "NONE", "-c", "set backupskip=", *options, "-c", "%s/first/second/", "-c", "wq", path.name)


def by_vim(path: pathlib.Path) -> None:
    """As it comes: with a swap file and a backup for the moment, copied or renamed as vim sees fit."""
    vim(path, "-c", "set nocompatible swapfile writebackup backupcopy=auto")


def by_vim_renaming(path: pathlib.Path) -> None:
    vim(path, "-c", "set writebackup backup backupcopy=no")


def by_vim_in_place(path: pathlib.Path) -> None:
    vim(path, "-c", "set nowritebackup backupcopy=yes")


def by_ed(path: pathlib.Path) -> None:
    run(path, needs("ed"), "-s", path.name, stdin="%s/first/second/\nw\nq\n")


def by_emacs(path: pathlib.Path) -> None:
    save = '(progn (find-file (car command-line-args-left)) (replace-string "first" "second") (save-buffer))'
    run(path, needs("emacs"), "-Q", "--batch", "--eval", save, path.name)


NANO = [
    # what it shows, and the keys that answer it: replace all, save, exit
    (b"GNU nano", b"\x1c"),
    (b"Search (to replace)", b"first\r"),
    (b"Replace with", b"second\r"),
    (b"instance", b"a"),
    (b"Replaced", b"\x0f"),
    (b"Write", b"\r"),
    (b"Wrote", b"\x18"),
]


def by_nano(path: pathlib.Path) -> None:
    """nano wants a terminal: one of its own."""
    needs("nano")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(["nano", "-I", path.name], cwd=path.parent, env={**os.environ, "TERM": "vt100"}, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = bytearray()

    def shows(text: bytes) -> bool:
        if select.select([ours], [], [], 0)[0]:
            shown.extend(os.read(ours, 65536))
        return text in shown

    for text, keys in NANO:
        until(functools.partial(shows, text), lambda: f"nano says so: {shown!r}")
        shown.clear()
        os.write(ours, keys)
    process.wait(30)
    os.close(ours)


def by_sed(path: pathlib.Path) -> None:
    run(path, "sed", "-i.bak" if sys.platform == "darwin" else "-i", "s/first/second/", path.name)


def by_perl(path: pathlib.Path) -> None:
    run(path, needs("perl"), "-pi", "-e", "s/first/second/", path.name)


def by_cp(path: pathlib.Path) -> None:
    new = path.parent.parent.parent / "new.toml"
    new.write_bytes(path.read_bytes().replace(FIRST, SECOND))
    run(path, "cp", str(new), path.name)


def by_cp_of_the_bare_text(path: pathlib.Path) -> None:
    """What most people copy over it: their own file, which has no history."""
    new = path.parent.parent.parent / "new.toml"
    new.write_bytes(trace.split(path.read_bytes())[0].replace(FIRST, SECOND))
    run(path, "cp", str(new), path.name)


def by_mv(path: pathlib.Path) -> None:
    new = path.parent.parent.parent / "new.toml"
    new.write_bytes(trace.split(path.read_bytes())[0].replace(FIRST, SECOND))
    run(path, "mv", str(new), path.name)


def by_python_in_place(path: pathlib.Path) -> None:
    text = path.read_bytes().replace(FIRST, SECOND)
    with open(path, "r+b") as file:
        file.write(text)
        file.truncate()


EDITORS = [
    by_vim,
    by_vim_renaming,
    by_vim_in_place,
    by_ed,
    by_emacs,
    by_nano,
    by_sed,
    by_perl,
    by_cp,
    by_cp_of_the_bare_text,
    by_mv,
    by_python_in_place,
]


def prepared(spool: Spool, name: str) -> tuple[bytes, bytes]:
    """A job that writes down its text, before and after the edit."""
    text = spool.job(name, do=f"echo the first text > {spool.gates / 'ran'}")
    return text, text.replace(FIRST, SECOND)


@pytest.mark.parametrize("edit", EDITORS, ids=lambda edit: edit.__name__)
def test_an_edit_in_ready_is_what_runs(spool: Spool, edit: Callable[[pathlib.Path], None]) -> None:
    spooler = spool.start()
    spool.drop("0001-busy.toml", spool.job("busy", gate=True))
    spool.until_begun("busy")
    before, after = prepared(spool, "g52")
    spool.drop("0050-g52.toml", before)
    spool.until_in(READY, "0050-g52.toml")
    accepted = spool.trace(READY, "0050-g52.toml")[0]
    edit(spool.path(READY, "0050-g52.toml"))
    spool.forget(before)
    spool.expect(after)
    spool.open_gate("busy")
    assert spool.until_done("0050-g52.toml") == "ok"
    assert (spool.gates / "ran").read_text() == "the second text\n"
    assert spool.steps(DONE, "0050-g52.toml") == ["accepted", "started", "ended"]
    assert spool.trace(DONE, "0050-g52.toml")[0]["at"] == accepted["at"].replace(microsecond=accepted["at"].microsecond)
    assert not spooler.said("withdrawn")
    assert spool.entries(REFUSED) == []
    for entry in spool.entries(READY):
        assert entry.endswith(("~", ".bak"))  # what the editor left
        spool.path(READY, entry).unlink()
    spool.check(unordered=("g52",))


def test_two_halves_with_a_pause_are_waited_for(spool: Spool) -> None:
    """Whoever holds the file open is not done, though the first half would be a job."""
    spool.start()
    before, after = prepared(spool, "g52")
    spool.drop("0001-busy.toml", spool.job("busy", gate=True))
    spool.until_begun("busy")
    spool.drop("0050-g52.toml", before)
    spool.until_in(READY, "0050-g52.toml")
    whole = spool.path(READY, "0050-g52.toml").read_bytes().replace(FIRST, SECOND)
    with open(spool.path(READY, "0050-g52.toml"), "r+b", buffering=0) as file:
        file.truncate(0)
        file.write(b'command = ["rm", "-rf", "x"]\n')
        spool.open_gate("busy")
        spool.until_done("0001-busy.toml")
        # it would be its turn; others go before it meanwhile
        spool.drop("0060-other.toml", spool.job("other"))
        spool.until_done("0060-other.toml")
        assert spool.entries(READY) == ["0050-g52.toml"]
        file.seek(0)
        file.truncate(0)
        file.write(whole)
    spool.forget(before)
    spool.expect(after)
    assert spool.until_done("0050-g52.toml") == "ok"
    assert (spool.gates / "ran").read_text() == "the second text\n"
    spool.check(unordered=("g52",))


def test_an_edit_that_breaks_it_is_refused_with_the_reason_and_its_line(spool: Spool) -> None:
    spool.start()
    spool.drop("0001-busy.toml", spool.job("busy", gate=True))
    spool.until_begun("busy")
    text = spool.job("g52")
    spool.drop("0050-g52.toml", text)
    spool.drop("0060-held.toml", spool.job("held"))
    spool.until_in(READY, "0050-g52.toml", "0060-held.toml")
    broken = text.replace(b"script", b"wal = '1h'\nscript")
    spool.forget(text)
    spool.expect(broken)
    path = spool.path(READY, "0050-g52.toml")
    path.write_bytes(path.read_bytes().replace(b"script", b"wal = '1h'\nscript"))
    assert spool.until_refused("0050-g52.toml") == "line 1: wal: unknown key, did you mean wall?\n"
    spool.open_gate("busy")
    spool.until_done("0060-held.toml")
    assert spool.began() == ["busy", "held"]
    spool.check()


def test_an_edit_that_makes_a_cycle_refuses_every_member_with_the_cycle(spool: Spool) -> None:
    spool.start()
    spool.drop("0001-busy.toml", spool.job("busy", gate=True))
    spool.until_begun("busy")
    text = spool.job("a")
    spool.drop("0010-a.toml", text)
    spool.drop("0020-b.toml", spool.job("b", after="a"))
    spool.until_in(READY, "0010-a.toml", "0020-b.toml")
    path = spool.path(READY, "0010-a.toml")
    path.write_bytes(b'after = "b"\n' + path.read_bytes())
    spool.forget(text)
    spool.expect(b'after = "b"\n' + text)
    for entry in ("0010-a.toml", "0020-b.toml"):
        why = spool.until_refused(entry)
        assert "a waits for b" in why
        assert "b waits for a" in why
    spool.open_gate("busy")
    spool.until_done("0001-busy.toml")
    spool.check()


@pytest.mark.parametrize("edit", [by_vim, by_sed, by_ed, by_cp_of_the_bare_text], ids=lambda edit: edit.__name__)
def test_an_edit_of_a_running_job_stops_nothing_and_never_reaches_it(spool: Spool, edit: Callable[[pathlib.Path], None]) -> None:
    spooler = spool.start()
    text = spool.job("g52", gate=True, do=f"echo the first text > {spool.gates / 'ran'}", note="the first text")
    spool.drop("0050-g52.toml", text)
    spool.until_begun("g52")
    edit(spool.path(RUNNING, "0050-g52.toml"))
    spool.drop("0060-probe.toml", spool.job("probe", lock=[]))
    spool.until_done("0060-probe.toml")
    assert "0050-g52.toml" in spool.entries(RUNNING)
    spool.open_gate("g52")
    assert spool.until_done("0050-g52.toml") == "ok"
    assert (spool.gates / "ran").read_text() == "the first text\n"
    assert trace.split(spool.path(DONE, "0050-g52.toml").read_bytes())[0] == text
    assert not spooler.said("taken out")
    for entry in spool.entries(RUNNING):
        assert entry.endswith(("~", ".bak"))
        spool.path(RUNNING, entry).unlink()
    spool.check()


def test_a_job_that_was_edited_while_it_ran_and_then_moved_is_in_one_place(spool: Spool) -> None:
    """The file that is moved is not the one that was started, but it is that job's."""
    spool.start()
    texts = {name: spool.job(name, gate=True, lock=[], note="the first text", grace="5s") for name in ("done", "ready", "incoming", "refused")}
    for name, text in texts.items():
        spool.drop(f"0050-{name}.toml", text)
    for name in texts:
        spool.until_begun(name)
        by_vim_renaming(spool.path(RUNNING, f"0050-{name}.toml"))
        spool.path(RUNNING, f"0050-{name}.toml~").unlink()  # the backup is the file that was started
    for name in texts:
        spool.path(RUNNING, f"0050-{name}.toml").rename(spool.path(Stage(name), f"0050-{name}.toml"))
    for name in ("done", "refused"):
        assert spool.until_done(f"0050-{name}.toml") == "stopped"
    for name in ("ready", "incoming"):
        spool.until_begun(name, 2)
        spool.open_gate(name)
    until(lambda: len(spool.entries(DONE)) == 4, lambda: f"all are done: {spool.everything()}")
    spool.check(unordered=tuple(texts))


def test_the_shelf_follows_a_user_who_never_stops(spool: Spool) -> None:
    """Renames, holds, edits and copies in any order, and every job has run once in the end."""
    spool.start()
    spool.drop("0001-busy.toml", spool.job("busy", gate=True))
    spool.until_begun("busy")
    names = [f"j{number}" for number in range(12)]
    for name in names:
        spool.drop(f"{name}.toml", spool.job(name))
    until(lambda: len(spool.entries(READY)) == len(names), "all are accepted")
    for turn in range(60):
        entry = spool.entries(READY)[turn * 7 % len(names)]
        path = spool.path(READY, entry)
        name = entry.partition("-")[2].partition(".")[0]
        match turn % 4:
            case 0:
                path.rename(spool.path(READY, f"{(turn * 37) % 1000 + 10:04d}-{name}.toml"))
            case 1:
                path.rename(spool.path(READY, f"{(turn * 53) % 1000 + 10:04d}-{name}.hold"))
            case 2:
                new = spool.root / ".edit"
                new.write_bytes(path.read_bytes())
                new.rename(path)
            case 3:
                path.write_bytes(path.read_bytes())
    for entry in spool.entries(READY):
        if entry.endswith(".hold"):
            spool.path(READY, entry).rename(spool.path(READY, entry.removesuffix(".hold") + ".toml"))
    spool.open_gate("busy")
    until(lambda: len(spool.entries(DONE)) == len(names) + 1, lambda: f"all are done: {spool.everything()}")
    assert sorted(spool.began()) == sorted(["busy", *names])
    spool.check(unordered=tuple(names))


