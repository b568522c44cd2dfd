"""Moves on a real file system: nothing is ever replaced, nothing half-written has a name that counts."""

from __future__ import annotations

import errno
import os
import pathlib
import socket
import stat

import pytest

from spoold import host
from spoold.files import OWN_LIMIT
from spoold.layout import NUMBERED_LINKS, Layout
from spoold.model import MOVES, Stage
from spoold.store import ChangedError, StageGoneError, Store, held_name, numbered_entry, plain_name

HELLO = b'command = ["true"]\n'
FULL_DISK = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO]


@pytest.fixture(params=[False, True], ids=["fast", "full"])
def store(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Store:
    made = Store(Layout(str(tmp_path / "spool")), durable=request.param)
    made.make()
    return made


@pytest.fixture
def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot swap two names."""

    def cannot(a: str, b: str) -> None:
        raise NotImplementedError

    monkeypatch.setattr(host, "rename_exchange", cannot)


def path(store: Store, stage: Stage, entry: str = "") -> pathlib.Path:
    return pathlib.Path(store.layout.entry(stage, entry) if entry else store.layout.stage(stage))


def leftovers(store: Store) -> list[str]:
    return os.listdir(store.layout.new)


def test_a_new_spool_is_private_and_shows_the_way_a_job_goes(store: Store) -> None:
    root = pathlib.Path(store.layout.root)
    for directory in (root, *(path(store, stage) for stage in Stage), root / "log", root / ".spoold"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {link: os.readlink(root / link) for link in NUMBERED_LINKS} == NUMBERED_LINKS
    assert sorted(NUMBERED_LINKS) == [f"{number}-{stage.value}" for number, stage in enumerate(Stage, 1)]
    store.make()
    root.rename(root.with_name("moved"))
    assert (root.with_name("moved") / "1-incoming").is_dir()  # the links are relative


# reading ------------------------------------------------------------------------------------------------------------------


def test_a_file_is_read_through_one_descriptor_and_no_link_is_followed(store: Store, tmp_path: pathlib.Path) -> None:
    incoming = path(store, Stage.INCOMING)
    (tmp_path / "secret").write_text("secret")
    (incoming / "a").write_bytes(HELLO)
    os.symlink(tmp_path / "secret", incoming / "link")
    os.mkfifo(incoming / "fifo")
    opened = store.open(str(incoming / "a"))
    assert (opened.data, opened.ident.size, opened.ident.regular) == (HELLO, len(HELLO), True)
    with pytest.raises(OSError, match="link") as refused:
        store.open(str(incoming / "link"))
    assert refused.value.errno in (errno.ELOOP, errno.EMLINK)
    opened = store.open(str(incoming / "fifo"))
    assert (opened.data, opened.ident.regular) == (None, False)
    with pytest.raises(FileNotFoundError):
        store.open(str(incoming / "nothing"))
    here = os.getcwd()
    os.chdir(incoming)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    finally:
        os.chdir(here)
    with pytest.raises(OSError, match="socket"):
        store.open(str(incoming / "socket"))


def test_what_is_too_large_is_not_read(store: Store) -> None:
    file = path(store, Stage.INCOMING, "a.toml")
    file.write_bytes(b"x" * (64 * 1024 + 1))
    assert store.open(str(file)).data is None
    assert store.open_own(str(file)).data is not None
    os.truncate(file, OWN_LIMIT + 1)
    assert store.open_own(str(file)).data is None


def test_a_writer_is_seen_while_it_has_the_file_open(store: Store) -> None:
    file = path(store, Stage.INCOMING, "a.toml")
    file.write_bytes(HELLO)
    if store.open(str(file)).writer is None:
        pytest.skip("this system cannot say")
    with open(file, "ab"):
        assert store.open(str(file)).writer is True
    assert store.open(str(file)).writer is False


# moves --------------------------------------------------------------------------------------------------------------------


def test_a_job_goes_from_stage_to_stage_as_one_file(store: Store) -> None:
    published = store.publish(HELLO, "0050-g52.toml")
    begun = store.begin("0050-g52.toml")
    assert begun.same_file(published)
    assert store.finish("0050-g52.toml") == "0050-g52.toml"
    assert path(store, Stage.DONE, "0050-g52.toml").stat().st_ino == published.ino
    assert [os.listdir(path(store, stage)) for stage in (Stage.READY, Stage.RUNNING)] == [[], []]
    assert leftovers(store) == []


def test_no_move_of_the_spooler_replaces_a_file(store: Store) -> None:
    mine = b"the user's own"
    for stage in (Stage.READY, Stage.RUNNING):
        path(store, stage, "0050-a.toml").write_bytes(mine)
    with pytest.raises(FileExistsError):
        store.publish(HELLO, "0050-a.toml")
    with pytest.raises(FileExistsError):
        store.begin("0050-a.toml")
    with pytest.raises(FileExistsError):
        store.back_to_ready("0050-a.toml")
    with pytest.raises(FileExistsError):
        store.rename_in_ready("0050-a.toml", "0050-a.toml")
    path(store, Stage.INCOMING, "0050-a.toml").write_bytes(mine)
    with pytest.raises(FileExistsError):
        store.drop(HELLO, "0050-a.toml")
    with pytest.raises(FileExistsError):
        store.move_by_hand(Stage.READY, "0050-a.toml", Stage.INCOMING, "0050-a.toml")
    for stage in (Stage.INCOMING, Stage.READY, Stage.RUNNING):
        assert path(store, stage, "0050-a.toml").read_bytes() == mine
    assert leftovers(store) == []
    assert [entry for entry in os.listdir(path(store, Stage.INCOMING)) if entry.startswith(".")] == []


def test_a_taken_name_in_done_and_refused_becomes_the_next_that_is_free(store: Store) -> None:
    for number in range(1, 6):
        store.publish(b"%d" % number, "0050-g52.toml")
        store.begin("0050-g52.toml")
        assert store.finish("0050-g52.toml") == ("0050-g52.toml" if number == 1 else f"0050-g52.{number}.toml")
    path(store, Stage.DONE, "0050-g52.2.toml").unlink()
    assert store.add_done(b"6", "0050-g52.toml") == "0050-g52.6.toml"
    fresh = Store(store.layout, durable=False)
    assert fresh.add_done(b"7", "0050-g52.toml") == "0050-g52.2.toml"
    contents = {file.name: file.read_bytes() for file in path(store, Stage.DONE).iterdir()}
    assert contents == {
        "0050-g52.toml": b"1",
        "0050-g52.2.toml": b"7",
        "0050-g52.3.toml": b"3",
        "0050-g52.4.toml": b"4",
        "0050-g52.5.toml": b"5",
        "0050-g52.6.toml": b"6",
    }


def test_a_reason_stands_beside_each_refused_file_and_never_on_another(store: Store) -> None:
    path(store, Stage.REFUSED, "b.why").write_text("a note of the user\n")
    path(store, Stage.REFUSED, "c.toml").write_text("put here by the user\n")
    names: list[tuple[str, bool]] = []
    for entry in ("a.toml", "a.toml", "b.toml", "c.toml"):
        path(store, Stage.INCOMING, entry).write_bytes(HELLO)
        names.append(store.refuse(str(path(store, Stage.INCOMING, entry)), entry, f"why {len(names)} \udcff\n"))
    assert names == [("a.toml", True), ("a.2.toml", True), ("b.2.toml", True), ("c.2.toml", True)]
    for number, (name, _) in enumerate(names):
        assert path(store, Stage.REFUSED, name.removesuffix(".toml") + ".why").read_text().startswith(f"why {number} \\udcff")
    assert path(store, Stage.REFUSED, "b.why").read_text() == "a note of the user\n"
    assert path(store, Stage.REFUSED, "c.toml").read_text() == "put here by the user\n"


def test_a_reason_without_its_file_is_swept(store: Store) -> None:
    for entry in ("a.toml", "b.toml"):
        path(store, Stage.INCOMING, entry).write_bytes(HELLO)
        store.refuse(str(path(store, Stage.INCOMING, entry)), entry, "why")
    path(store, Stage.REFUSED, "a.toml").unlink()
    path(store, Stage.REFUSED, "README").write_text("")
    store.sweep_whys()
    assert sorted(os.listdir(path(store, Stage.REFUSED))) == ["README", "b.toml", "b.why"]


def test_a_file_that_is_gone_is_a_race_and_a_directory_that_is_gone_is_not(store: Store) -> None:
    for step in (
        lambda: store.claim(Stage.INCOMING, "a.toml"),
        lambda: store.begin("a.toml"),
        lambda: store.back_to_ready("a.toml"),
        lambda: store.finish("a.toml"),
        lambda: store.rewrite(Stage.READY, "a.toml", HELLO),
        lambda: store.refuse(store.layout.entry(Stage.INCOMING, "a.toml"), "a.toml", "why"),
    ):
        with pytest.raises(FileNotFoundError):
            step()
    assert os.listdir(path(store, Stage.REFUSED)) == []
    for stage in (Stage.RUNNING, Stage.DONE, Stage.REFUSED):
        path(store, stage).rmdir()
    store.publish(HELLO, "a.toml")
    source = store.layout.entry(Stage.READY, "a.toml")
    for step in (lambda: store.begin("a.toml"), lambda: store.refuse(source, "a.toml", "why"), lambda: store.add_done(HELLO, "a.toml")):
        with pytest.raises(StageGoneError):
            step()
    assert path(store, Stage.READY, "a.toml").read_bytes() == HELLO
    assert leftovers(store) == []


def test_the_moves_are_those_of_the_table_and_no_others(store: Store) -> None:
    for source in Stage:
        for target in Stage:
            if target in MOVES[source]:
                store._check(source, target)
            else:
                with pytest.raises(AssertionError):
                    store._check(source, target)


# writing ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swap", [True, False], ids=["swap", "no swap"])
def test_a_file_is_replaced_whole_and_only_if_it_is_there(store: Store, swap: bool, request: pytest.FixtureRequest) -> None:
    if not swap:
        request.getfixturevalue("no_exchange")
    store.publish(HELLO, "a.toml")
    file = path(store, Stage.READY, "a.toml")
    with open(file, "rb") as reader:  # who has it open goes on reading the old one
        ident = store.rewrite(Stage.READY, "a.toml", b"new")
        assert reader.read() == HELLO
    assert file.read_bytes() == b"new"
    assert file.stat().st_ino == ident.ino
    file.unlink()
    with pytest.raises(FileNotFoundError):
        store.rewrite(Stage.READY, "a.toml", b"again")
    assert not file.exists()
    assert leftovers(store) == []


@pytest.mark.parametrize("swap", [True, False], ids=["swap", "no swap"])
def test_a_file_that_changed_since_it_was_read_is_not_replaced(store: Store, swap: bool, request: pytest.FixtureRequest) -> None:
    if not swap:
        request.getfixturevalue("no_exchange")
    store.publish(HELLO, "a.toml")
    file = path(store, Stage.READY, "a.toml")
    read = store.open_own(str(file))
    file.write_bytes(b"saved once more")
    inode = file.stat().st_ino
    with pytest.raises(ChangedError):
        store.replace_read(Stage.READY, "a.toml", b"new", read)
    assert (file.read_bytes(), file.stat().st_ino) == (b"saved once more", inode)
    read = store.open_own(str(file))
    if read.writer is not None:
        with open(file, "ab") as writer:
            with pytest.raises(ChangedError):
                store.replace_read(Stage.READY, "a.toml", b"new", read)
            writer.write(b", and more")
        assert file.read_bytes() == b"saved once more, and more"
    read = store.open_own(str(file))
    store.replace_read(Stage.READY, "a.toml", b"new", read)
    assert file.read_bytes() == b"new"
    assert leftovers(store) == []


def test_what_was_being_written_when_a_spooler_died_is_thrown_away(store: Store) -> None:
    pathlib.Path(store.write_new(b"half")).rename(f"{store.layout.new}/1.2.3")
    store.clear_new()
    assert leftovers(store) == []


@pytest.mark.parametrize("code", FULL_DISK)
def test_a_full_disk_refuses_without_a_reason_which_is_written_later(store: Store, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    path(store, Stage.INCOMING, "a.toml").write_bytes(HELLO)

    def no_room(data: bytes) -> str:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as full:
        full.setattr(store, "write_new", no_room)
        assert store.refuse(str(path(store, Stage.INCOMING, "a.toml")), "a.toml", "why") == ("a.toml", False)
        assert store.write_why("a.toml", "why") is False
    assert path(store, Stage.REFUSED, "a.toml").read_bytes() == HELLO
    assert store.write_why("a.toml", "why") is True
    assert path(store, Stage.REFUSED, "a.why").read_text() == "why\n"


def test_a_move_that_cannot_be_synced_has_happened_all_the_same(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To take it for failed would make one job into two."""
    store = Store(Layout(str(tmp_path / "spool")))
    store.make()
    real = host.sync_file

    def directories_fail(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    with monkeypatch.context() as broken:
        broken.setattr(host, "sync_file", directories_fail)
        store.publish(HELLO, "a.toml")
        assert store.unsynced is not None
        assert "ready" in store.unsynced
        store.begin("a.toml")
        assert store.finish("a.toml") == "a.toml"
    store.publish(HELLO, "b.toml")
    assert store.unsynced is None
    assert os.listdir(path(store, Stage.DONE)) == ["a.toml"]


def test_a_dropped_file_appears_whole(store: Store) -> None:
    store.drop(HELLO, "a.toml")
    assert os.listdir(path(store, Stage.INCOMING)) == ["a.toml"]
    assert path(store, Stage.INCOMING, "a.toml").read_bytes() == HELLO


# names --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "held"),
    [
        ("0050-g52.hold", "0050-g52.toml"),
        ("0050-g52.toml.hold", "0050-g52.toml"),
        ("0050-g52.toml", None),
        ("0050-g52.hold.toml", None),
        ("hold", None),
        ("x.HOLD", None),
    ],
)
def test_a_job_is_on_hold_in_two_spellings(entry: str, held: str | None) -> None:
    assert held_name(entry) == held
    assert plain_name(entry) == (held or entry)


def test_the_number_of_a_taken_name_stands_before_its_ending() -> None:
    assert numbered_entry("0050-g52.toml", 2) == "0050-g52.2.toml"
    assert numbered_entry("0050-g52.3.toml", 2) == "0050-g52.3.2.toml"
    assert numbered_entry("noending", 2) == "noending.2"
