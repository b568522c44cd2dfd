"""What users do in ready/, on a real file system.  Time is handed in, so nothing here waits for it."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from collections.abc import Callable

import pytest

from jobspec import trace
from jobspec.names import parse_file_name
from jobspec.parse import parse
from spoold import host
from spoold.admission import History, admit
from spoold.archive import accepted_entry
from spoold.files import Ident, Opened
from spoold.layout import Layout
from spoold.model import Queue, Ready, Stage
from spoold.modelsize import model_bytes
from spoold.settings import parse_settings
from spoold.shelf import AWAY_S, SETTLE_S, Changes, Shelf
from spoold.store import Store

GB = 1_000_000_000
SETTINGS = parse_settings(b"")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only leases tell of writers")


class Shelfside:
    """ready/ of a spool with a shelf, and a user who does things in it."""

    def __init__(self, root: pathlib.Path, kind: type[Store] = Store) -> None:
        self.layout = Layout(str(root))
        self.store = kind(self.layout, durable=False)
        self.store.make()
        self.queue = Queue()
        self.shelf = Shelf(self.store, self.queue, model_bytes=lambda job: model_bytes(job, "/"))
        self.tick = 1000.0

    def path(self, entry: str) -> pathlib.Path:
        return pathlib.Path(self.layout.entry(Stage.READY, entry))

    def accept(self, *entries: str, more: str = "", runs: int = 0) -> None:
        for number, entry in enumerate(entries):
            text = f'command = ["{entry}"]\n{more}'.encode()
            claim = f"{number}{entry}"
            steps = [accepted_entry(1e9, f"incoming/{entry}", os.geteuid(), claim)]
            for run in range(runs):
                at = steps[0]["at"]
                steps += [{"step": "started", "at": at, "run": run}, {"step": "ended", "at": at, "run": run}, {"step": "requeued", "at": at}]
            data = trace.append(text, *steps)
            ident = self.store.publish(data, entry)
            history = History(1e9, claim, runs, 1e9 if runs else None)
            ready = admit(parse_file_name(entry), parse(text), history, SETTINGS, total=16 * GB, model_bytes=None)
            self.shelf.add(ready, entry, ident, data, history)
        self.look()

    def look(self, after_s: float = 0.0, *names: str) -> Changes:
        """A look at these names, or at the directory."""
        self.tick += after_s
        changes = self.shelf.look(SETTINGS, 16 * GB, self.tick, names or None)
        self.agree()
        return changes

    def agree(self) -> None:
        """The queue and the shelf know of the same jobs, each under the name of its file."""
        for job in self.queue.in_order():
            item = self.shelf.item(job.key)
            assert item is not None
            assert (item.ready, item.entry) == (job, job.file)
            assert self.shelf.knows(job.file)

    @property
    def order(self) -> list[str]:
        """The files of those that take part, in order."""
        return [job.file for job in self.queue.in_order() if not job.sits]

    def job(self, name: str) -> Ready:
        job = self.queue.live(name)
        assert isinstance(job, Ready)
        return job


@pytest.fixture
def ready(tmp_path: pathlib.Path) -> Shelfside:
    return Shelfside(tmp_path / "spool")


def test_nothing_changes_if_nobody_does_anything(ready: Shelfside) -> None:
    ready.accept("0010-a.toml", "0020-b.toml")
    assert not ready.look()
    assert not ready.look(100, "0010-a.toml")
    assert not ready.shelf.look_into(SETTINGS, 16 * GB, 2000.0)
    assert not ready.shelf.odd


# names --------------------------------------------------------------------------------------------------------------------


def test_another_number_is_another_place(ready: Shelfside) -> None:
    ready.accept("0010-a.toml", "0020-b.toml", "0200-g52.toml")
    ready.path("0200-g52.toml").rename(ready.path("0005-g52.toml"))
    changes = ready.look()
    assert [(old.file, new.file) for old, new in changes.renamed] == [("0200-g52.toml", "0005-g52.toml")]
    assert ready.order == ["0005-g52.toml", "0010-a.toml", "0020-b.toml"]
    assert not ready.shelf.odd


def test_another_name_is_another_job_of_the_same_file(ready: Shelfside) -> None:
    ready.accept("0010-a.toml")
    ready.path("0010-a.toml").rename(ready.path("0010-b.toml"))
    ready.look()
    assert ready.queue.live("a") is None
    assert ready.job("b").job.command == ("0010-a.toml",)


@pytest.mark.parametrize("names", [(), ("0010-a.toml", "0020-b.toml")], ids=["all", "hinted"])
def test_two_jobs_swap_their_names(ready: Shelfside, names: tuple[str, ...]) -> None:
    ready.accept("0010-a.toml", "0020-b.toml")
    ready.path("0010-a.toml").rename(ready.path("x"))
    ready.path("0020-b.toml").rename(ready.path("0010-a.toml"))
    ready.path("x").rename(ready.path("0020-b.toml"))
    changes = ready.look(0, *names)
    assert len(changes.renamed) == 2
    assert changes.withdrawn + changes.broken + changes.foreign == []
    assert ready.job("a").job.command == ("0020-b.toml",)
    assert ready.job("b").job.command == ("0010-a.toml",)


def test_a_chain_of_renames_at_once(ready: Shelfside) -> None:
    ready.accept("0010-a.toml", "0020-b.toml", "0030-c.toml")
    ready.path("0030-c.toml").rename(ready.path("0030-d.toml"))
    ready.path("0020-b.toml").rename(ready.path("0020-c.toml"))
    ready.path("0010-a.toml").rename(ready.path("0010-b.toml"))
    changes = ready.look(0, "0010-b.toml", "0020-c.toml", "0030-d.toml", "0010-a.toml", "0020-b.toml", "0030-c.toml")
    assert len(changes.renamed) == 3
    assert changes.withdrawn + changes.broken + changes.foreign == []
    assert [(job.file, job.job.command) for job in ready.queue.in_order()] == [
        ("0010-b.toml", ("0010-a.toml",)),
        ("0020-c.toml", ("0020-b.toml",)),
        ("0030-d.toml", ("0030-c.toml",)),
    ]


def test_the_whole_queue_is_turned_around_at_once(ready: Shelfside) -> None:
    count = 51
    ready.accept(*(f"{number:04d}-j{number}.toml" for number in range(count)))
    for number in range(count):
        ready.path(f"{number:04d}-j{number}.toml").rename(ready.path(f"{count - number:04d}-j{number}.toml"))
    assert len(ready.look().renamed) == count
    assert [job.name for job in ready.queue.in_order()] == [f"j{number}" for number in reversed(range(count))]


def test_a_name_that_was_given_up_just_before_may_be_taken(ready: Shelfside) -> None:
    ready.accept("0010-a.toml", "0020-b.toml")
    ready.path("0020-b.toml").unlink()
    ready.path("0010-a.toml").rename(ready.path("0010-b.toml"))
    changes = ready.look()
    assert [job.file for job in changes.withdrawn] == ["0020-b.toml"]
    assert [new.file for _, new in changes.renamed] == ["0010-b.toml"]


def test_a_job_moved_over_another_takes_its_name(ready: Shelfside) -> None:
    ready.accept("0010-a.toml", "0020-b.toml")
    ready.path("0020-b.toml").replace(ready.path("0010-a.toml"))
    changes = ready.look()
    assert [job.file for job in changes.withdrawn] == ["0010-a.toml"]
    assert ready.order == ["0010-a.toml"]
    assert ready.job("a").job.command == ("0020-b.toml",)


@pytest.mark.parametrize("name", ["0010-b.toml", "0010-B.toml", "0030-b.hold"])
def test_a_name_that_is_live_is_no_new_name(ready: Shelfside, name: str) -> None:
    ready.accept("0010-a.toml", "0020-b.toml")
    ready.path("0010-a.toml").rename(ready.path(name))
    changes = ready.look()
    assert [(entry, "ready/0020-b.toml" in why) for _, entry, why in changes.broken] == [(name, True)]
    assert ready.order == ["0020-b.toml"]


@pytest.mark.parametrize(("name", "hint"), [("0010-a b.toml", "0010-a-b.toml"), ("a.toml", "0010-a.toml"), ("-a.toml", "a.toml would do")])
def test_a_bad_new_name_is_refused_with_one_that_would_do(ready: Shelfside, name: str, hint: str) -> None:
    ready.accept("0010-a.toml")
    ready.path("0010-a.toml").rename(ready.path(name))
    changes = ready.look()
    assert [(job.name, entry) for job, entry, _ in changes.broken] == [("a", name)]
    assert hint in changes.broken[0][2]


def test_on_hold_in_both_spellings_and_back(ready: Shelfside) -> None:
    ready.accept("0010-a.toml", "0020-b.toml")
    ready.path("0010-a.toml").rename(ready.path("0010-a.hold"))
    ready.path("0020-b.toml").rename(ready.path("0020-b.toml.hold"))
    assert len(ready.look().renamed) == 2
    assert ready.order == []
    assert [(job.name, job.held) for job in ready.queue.in_order()] == [("a", True), ("b", True)]
    ready.path("0010-a.hold").rename(ready.path("0010-a.toml"))
    ready.path("0020-b.toml.hold").rename(ready.path("0005-b.toml"))
    ready.look()
    assert ready.order == ["0005-b.toml", "0010-a.toml"]


def test_a_new_file_with_the_inode_of_one_that_is_gone_is_no_rename(ready: Shelfside) -> None:
    """File systems give a free inode to the next file."""
    for attempt in range(50):
        name = f"0010-a{attempt}.toml"
        ready.accept(name)
        inode = ready.path(name).stat().st_ino
        ready.path(name).unlink()
        ready.path(f"0020-b{attempt}.toml").write_bytes(b'command = ["b"]\n')
        if ready.path(f"0020-b{attempt}.toml").stat().st_ino == inode:
            break
        ready.look(AWAY_S)
        ready.look(AWAY_S)
    else:
        pytest.skip("this file system gives no inode again")
    changes = ready.look()
    assert not changes.renamed
    assert changes.foreign[-1] == f"0020-b{attempt}.toml"
    assert [job.file for job in ready.look(AWAY_S).withdrawn] == [name]


def test_an_edit_and_a_rename_at_once_are_both_seen(ready: Shelfside) -> None:
    ready.accept("0010-a.toml")
    path = ready.path("0010-a.toml")
    path.write_bytes(path.read_bytes().replace(b'["0010-a.toml"]', b'["edited"]'))
    path.rename(ready.path("0020-b.toml"))
    changes = ready.look()
    assert [new.file for _, new in changes.renamed] == ["0020-b.toml"]
    ready.look(1)
    assert ready.job("b").job.command == ("edited",)
    assert ready.order == ["0020-b.toml"]


def test_a_hard_link_and_a_copy_are_strangers(ready: Shelfside) -> None:
    ready.accept("0010-a.toml")
    os.link(ready.path("0010-a.toml"), ready.path("0020-b.toml"))
    shutil.copy2(ready.path("0010-a.toml"), ready.path("0030-c.toml"))
    changes = ready.look()
    assert changes.foreign == ["0020-b.toml", "0030-c.toml"]
    assert not changes.renamed
    assert ready.order == ["0010-a.toml"]


# taken away ---------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_gone_takes_no_part_and_is_withdrawn_after_two_seconds(ready: Shelfside) -> None:
    ready.accept("0010-a.toml", "0020-b.toml")
    ready.path("0010-a.toml").unlink()
    assert not ready.look()
    assert ready.order == ["0020-b.toml"]
    assert ready.queue.clash("a") is not None
    assert not ready.look(AWAY_S - 0.1)
    assert [job.name for job in ready.look(0.2).withdrawn] == ["a"]
    assert ready.queue.clash("a") is None
    assert not ready.shelf.odd


def test_a_file_that_comes_back_in_time_was_never_away(ready: Shelfside) -> None:
    ready.accept("0010-a.toml")
    away = ready.path("elsewhere")
    ready.path("0010-a.toml").rename(away)
    ready.look()
    assert ready.order == []
    ready.look(1.5)
    away.rename(ready.path("0010-a.toml"))
    ready.look()
    assert ready.order == ["0010-a.toml"]
    assert not ready.look(AWAY_S)


def test_what_is_no_job_file_in_ready_is_left_alone(ready: Shelfside) -> None:
    for name in (".0010-a.toml.swp", "0010-a.toml~", "4913", ".#0010-a.toml", "#0010-a.toml#", "._0010-a.toml", ".0010-a.hold", "sedAbCdEf"):
        ready.path(name).write_bytes(b"")
    assert not ready.look()


# edits --------------------------------------------------------------------------------------------------------------------


def replace_by_rename(path: pathlib.Path, data: bytes) -> None:
    new = path.with_name(".new")
    new.write_bytes(data)
    new.replace(path)


def write_in_place(path: pathlib.Path, data: bytes) -> None:
    path.write_bytes(data)


def move_away_and_write(path: pathlib.Path, data: bytes) -> None:
    path.rename(path.with_name(path.name + "~"))
    path.write_bytes(data)
    path.with_name(path.name + "~").unlink()


@pytest.mark.parametrize("save", [replace_by_rename, write_in_place, move_away_and_write])
@pytest.mark.parametrize("keep", [True, False], ids=["trace kept", "copied over"])
def test_an_edit_is_read_however_it_is_saved(ready: Shelfside, save: Callable[[pathlib.Path, bytes], None], keep: bool) -> None:
    ready.accept("0010-a.toml", runs=2)
    path = ready.path("0010-a.toml")
    history = trace.split(path.read_bytes())[1]
    save(path, b'command = ["edited"]\n' + (history if keep else b""))
    assert [job.name for job in ready.look(0, "0010-a.toml").changed] == ["a"]
    job = ready.job("a")
    assert (job.job.command, job.runs, job.accepted_at) == (("edited",), 2, 1e9)
    assert ready.order == ["0010-a.toml"]
    data = path.read_bytes()
    assert trace.split(data)[0] == b'command = ["edited"]\n'
    assert [entry["step"] for entry in trace.read(data)] == ["accepted", *["started", "ended", "requeued"] * 2]
    assert os.listdir(ready.layout.new) == []


def test_the_trace_of_another_job_that_is_copied_over_is_not_believed(ready: Shelfside) -> None:
    ready.accept("0010-a.toml")
    ready.accept("0020-b.toml", runs=3)
    ready.path("0010-a.toml").write_bytes(ready.path("0020-b.toml").read_bytes())
    ready.look(0, "0010-a.toml")
    job = ready.job("a")
    assert (job.runs, job.job.command) == (0, ("0020-b.toml",))
    assert [entry["from"] for entry in trace.read(ready.path("0010-a.toml").read_bytes())] == ["ready/0010-a.toml"]


def test_an_edit_that_breaks_it_is_given_two_seconds(ready: Shelfside) -> None:
    ready.accept("0010-a.toml")
    path = ready.path("0010-a.toml")
    good = path.read_bytes()
    path.write_bytes(b"comand = []\n")
    assert not ready.look(0, "0010-a.toml").broken
    assert ready.order == []
    ready.look(1.5)
    path.write_bytes(good + b"\n")
    ready.look()
    assert ready.order == ["0010-a.toml"]
    path.write_bytes(b"comand = []\n")
    ready.look(10, "0010-a.toml")
    changes = ready.look(AWAY_S)
    assert [(job.name, entry) for job, entry, _ in changes.broken] == [("a", "0010-a.toml")]
    assert "did you mean command?" in changes.broken[0][2]
    assert ready.queue.clash("a") is None


@linux_only
def test_a_file_that_is_being_written_is_waited_for_in_two_halves(ready: Shelfside) -> None:
    ready.accept("0010-a.toml")
    with open(ready.path("0010-a.toml"), "wb", buffering=0) as file:
        file.write(b'command = ["half"]\n')
        for _ in range(10):
            assert not ready.look(10, "0010-a.toml")
            assert ready.order == []
        file.write(b'after = "b"\n')
    ready.look(0.25)
    assert ready.job("a").job.after == ("b",)
    assert not ready.job("a").away


class Late(Store):
    """A store at which a user saves once more just before a file is replaced."""

    saves: bytes | None = b'command = ["second"]\n'

    def replace_read(self, stage: Stage, entry: str, data: bytes, read: Opened) -> Ident:
        if self.saves is not None:
            pathlib.Path(self.layout.entry(stage, entry)).write_bytes(self.saves)
            self.saves = None
        return super().replace_read(stage, entry, data, read)


@linux_only
def test_what_is_written_while_the_trace_is_put_back_is_not_lost(tmp_path: pathlib.Path) -> None:
    ready = Shelfside(tmp_path / "spool", Late)
    ready.accept("0010-a.toml")
    path = ready.path("0010-a.toml")
    path.write_bytes(b'command = ["first"]\n')
    ready.look(0, "0010-a.toml")
    assert path.read_bytes() == b'command = ["second"]\n'
    ready.look(0.25)
    assert ready.job("a").job.command == ("second",)
    assert trace.split(path.read_bytes())[0] == b'command = ["second"]\n'
    assert os.listdir(ready.layout.new) == []


def test_a_file_that_becomes_a_link_is_refused_as_what_it_is(ready: Shelfside, tmp_path: pathlib.Path) -> None:
    ready.accept("0010-a.toml")
    ready.path("0010-a.toml").unlink()
    os.symlink(tmp_path / "other", ready.path("0010-a.toml"))
    assert [entry for _, entry, _ in ready.look(0, "0010-a.toml").broken] == ["0010-a.toml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_edit_that_makes_it_anybodys_is_refused(ready: Shelfside) -> None:
    ready.accept("0010-a.toml")
    replace_by_rename(ready.path("0010-a.toml"), b'command = ["mine"]\n')
    os.chown(ready.path("0010-a.toml"), 65534, 65534)
    changes = ready.look()
    assert "belongs to uid 65534" in changes.broken[0][2]


def test_one_file_that_cannot_be_written_costs_itself_only(ready: Shelfside) -> None:
    ready.accept("0010-a.toml", "0020-b.toml")
    new = pathlib.Path(ready.layout.new)
    new.rmdir()
    new.write_text("")
    ready.path("0010-a.toml").write_bytes(b'command = ["copied over"]\n')
    ready.path("0020-b.toml").rename(ready.path("0005-b.toml"))
    ready.look(0, "0010-a.toml", "0005-b.toml")
    assert ready.order == ["0005-b.toml"]
    new.unlink()
    new.mkdir()
    ready.look(1)
    assert ready.order == ["0005-b.toml", "0010-a.toml"]
    assert ready.job("a").job.command == ("copied over",)


def test_where_nobody_can_say_an_edit_is_read_when_the_file_has_been_still(ready: Shelfside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "has_writer", lambda fd: None)
    ready.accept("0010-a.toml")
    path = ready.path("0010-a.toml")
    for number in range(3):
        path.write_bytes(b'command = ["edit %d"]\n' % number)
        ready.look(SETTLE_S / 2, "0010-a.toml")
        assert ready.order == []
    ready.look(SETTLE_S)
    assert ready.order == ["0010-a.toml"]
    assert ready.job("a").job.command == ("edit 2",)


# at the start -------------------------------------------------------------------------------------------------------------


def test_a_new_shelf_takes_what_an_earlier_one_knew(ready: Shelfside) -> None:
    ready.accept("0010-a.toml", "0020-b.toml", runs=1)
    ready.path("0020-b.toml").rename(ready.path("0020-b.hold"))
    ready.look()
    again = Shelfside(pathlib.Path(ready.layout.root))
    for entry in ("0010-a.toml", "0020-b.hold"):
        assert again.shelf.load(entry, SETTINGS, 16 * GB) is None
    assert [job.key for job in again.queue.in_order()] == [job.key for job in ready.queue.in_order()]
    assert list(again.queue.in_order()) == list(ready.queue.in_order())
    assert not again.look()


@pytest.mark.parametrize(
    ("entry", "data", "why"),
    [
        ("0010-a.toml", b'command = ["a"]\n', "never accepted"),
        ("a.toml", b'command = ["a"]\n', "no number"),
        ("0010-a.toml", b"", "never accepted"),
    ],
)
def test_what_was_never_accepted_is_left_to_the_door(ready: Shelfside, entry: str, data: bytes, why: str) -> None:
    ready.path(entry).write_bytes(data)
    found = ready.shelf.load(entry, SETTINGS, 16 * GB)
    assert found is not None
    assert why in found
