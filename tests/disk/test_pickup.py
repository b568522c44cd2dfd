"""The door and acceptance on a real file system.  Time is handed in, so nothing here waits for it."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from jobspec import trace
from spoold import host
from spoold.door import LINGER_S, LITTER_S, MOST_LINGER_S, Door
from spoold.layout import Layout
from spoold.model import Box, Queue, Ready, Stage
from spoold.modelsize import model_bytes
from spoold.pickup import BAD_FOR_S, SETTLE_S, Accepted, Claimed, Later, Pickup, Refused, Taken
from spoold.settings import parse_settings
from spoold.store import Store

GB = 1_000_000_000
HELLO = b'command = ["true"]\n'
NOBODY = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Desk:
    """A spool with a door, and nobody behind it: what is accepted enters the queue and stays."""

    def __init__(self, root: pathlib.Path) -> None:
        self.layout = Layout(str(root))
        self.store = Store(self.layout, durable=False)
        self.store.make()
        self.queue = Queue()
        self.said: list[str] = []
        self.tick = 1000.0
        self.crowding = 0.5
        pickup = Pickup(self.store, model_bytes=lambda job: model_bytes(job, "/"), being_run=lambda opened: False)
        self.door = Door(self.store, pickup, self, on_shelf=lambda entry: False, crowding=lambda: self.crowding)

    def say(self, text: str) -> None:
        self.said.append(text)

    def once(self, key: str, text: str | None) -> None:
        if text is not None and text not in self.said:
            self.said.append(text)

    def path(self, stage: Stage, entry: str = "") -> pathlib.Path:
        return pathlib.Path(self.layout.entry(stage, entry) if entry else self.layout.stage(stage))

    def drop(self, entry: str, data: bytes = HELLO) -> pathlib.Path:
        path = self.path(Stage.INCOMING, entry)
        path.write_bytes(data)
        self.door.hint(Stage.INCOMING, entry, self.tick)
        return path

    def look(self, after_s: float = 0.0) -> dict[str, Taken]:
        """List incoming/ and take what is due, `after_s` later than the last look."""
        self.tick += after_s
        self.door.list(self.tick)
        self.door.name_litter(self.tick)
        self.tick += LINGER_S
        box = Box(locks={"gpu": ("0", "1")}, total=16 * GB, available=16 * GB, floor=GB)
        taken = {}
        for entry, one in self.door.work(self.queue, parse_settings(b""), box, now=1e9 + self.tick, tick=self.tick, more=lambda: True):
            if isinstance(one, Accepted):
                self.queue.add(one.job)
            taken[entry] = one
        return taken

    def accept(self, entry: str, data: bytes = HELLO) -> str:
        """Drop one and have it accepted; its name in ready/."""
        self.drop(entry, data)
        taken = self.look()[entry]
        assert isinstance(taken, Accepted), taken
        return taken.entry

    def refuse(self, entry: str) -> str:
        """What lies there is refused, at once or after the time that a bad file is given; the reason."""
        taken = self.look() or self.look(BAD_FOR_S)
        one = taken[entry]
        assert isinstance(one, Refused), one
        assert not os.path.lexists(self.path(Stage.INCOMING, entry))
        assert os.path.lexists(self.path(Stage.REFUSED, one.entry))
        why = self.path(Stage.REFUSED, one.entry.removesuffix(".toml") + ".why").read_text()
        assert why == one.why + "\n"
        return why

    def entries(self, stage: Stage) -> list[str]:
        return sorted(os.listdir(self.layout.stage(stage)))


@pytest.fixture
def desk(tmp_path: pathlib.Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "spool")
    yield made
    assert os.listdir(made.layout.new) == []
    assert os.listdir(made.layout.claims) == []


# numbers ------------------------------------------------------------------------------------------------------------------


def test_a_file_without_a_number_gets_the_next_multiple_of_ten_after_the_last_one_queued(desk: Desk) -> None:
    assert desk.accept("a.toml") == "0010-a.toml"
    assert desk.accept("b.toml") == "0020-b.toml"
    assert desk.accept("0035-c.toml") == "0035-c.toml"
    assert desk.accept("d.toml") == "0040-d.toml"
    assert desk.accept("0015-e.toml") == "0015-e.toml"
    assert desk.accept("f.toml") == "0050-f.toml"
    assert desk.accept("99990-g.toml") == "99990-g.toml"
    assert desk.accept("h.toml") == "100000-h.toml"


def test_files_without_a_number_get_theirs_in_the_order_in_which_they_were_dropped(desk: Desk) -> None:
    for name in ("zebra", "ant", "mole"):
        before = desk.path(Stage.INCOMING).stat().st_mtime_ns
        while desk.drop(f"{name}.toml").stat().st_ctime_ns <= before:
            pass  # the clock of the file system is coarse
    desk.look()
    assert desk.entries(Stage.READY) == ["0010-zebra.toml", "0020-ant.toml", "0030-mole.toml"]


def test_a_file_that_is_left_alone_for_longer_is_not_overtaken(desk: Desk) -> None:
    desk.crowding = 4.0
    desk.drop("first.toml")
    desk.tick += 0.001
    desk.crowding = 0.5
    desk.drop("second.toml")
    assert desk.door.next_due == desk.tick - 0.001 + 8 * LINGER_S
    assert desk.look() == {}
    desk.look(8 * LINGER_S)
    assert desk.entries(Stage.READY) == ["0010-first.toml", "0020-second.toml"]


def test_a_spool_that_has_become_empty_goes_on_counting(desk: Desk) -> None:
    assert desk.accept("a.toml") == "0010-a.toml"
    desk.queue.take((10, "a"))
    desk.path(Stage.READY, "0010-a.toml").unlink()
    assert desk.accept("a.toml") == "0020-a.toml"


def test_the_number_of_a_job_that_has_gone_is_not_given_to_the_next(desk: Desk) -> None:
    desk.accept("0010-long.toml")
    for number in range(2, 6):
        assert desk.accept(f"short{number}.toml") == f"00{number}0-short{number}.toml"
        desk.queue.take((10 * number, f"short{number}"))


# names --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", ["0060-g52.toml", "g52.toml", "0050-g52.toml", "50-G52.toml", "G52.toml"])
def test_a_second_job_of_a_live_name_is_refused_with_the_place_of_the_first(desk: Desk, second: str) -> None:
    desk.accept("0050-g52.toml")
    desk.drop(second, b"note = 'second'\n" + HELLO)
    why = desk.refuse(second)
    assert "ready/0050-g52.toml" in why
    assert ("only in case" in why) == ("G" in second)
    assert desk.entries(Stage.READY) == ["0050-g52.toml"]


def test_refused_files_of_one_name_are_all_kept(desk: Desk) -> None:
    for number in range(4):
        desk.drop("0050-g52.toml", b"%d" % number)
        desk.refuse("0050-g52.toml")
    files = ["0050-g52.toml", "0050-g52.2.toml", "0050-g52.3.toml", "0050-g52.4.toml"]
    assert [desk.path(Stage.REFUSED, file).read_bytes() for file in files] == [b"0", b"1", b"2", b"3"]
    assert len(desk.entries(Stage.REFUSED)) == 8


HOSTILE = [
    "my job.toml",
    "0050-.toml",
    "-rf.toml",
    "0050-x;rm.toml",
    "naïve.toml",
    "a\nb.toml",
    "\x1b[31mred\x1b[0m.toml",
    "\udcff\udcfe.toml",
    "$(reboot).toml",
    "\u202egnp.toml",
    "x" * 250 + ".toml",
    "é" * 120 + ".toml",
    "12345678901234567890123-x.toml",
    "0050- .toml",
    "~root.toml",
]


@pytest.mark.parametrize("entry", HOSTILE, ids=ascii)
def test_a_bad_name_is_refused_with_a_name_that_would_do_and_shows_nothing_hostile(desk: Desk, entry: str) -> None:
    desk.drop(entry)
    why = desk.refuse(entry)
    for text in (why.rstrip("\n"), *desk.entries(Stage.REFUSED), *desk.said):
        assert re.fullmatch(r"[ -~]+", text), ascii(text)
    suggestion = re.search(r"; (\S+) would do$", why)
    assert suggestion is not None, why
    assert desk.accept(suggestion[1]).endswith(suggestion[1])


def test_a_bad_name_in_ready_is_as_harmless(desk: Desk) -> None:
    entry = "0050-\x1b[2J\n.toml"
    desk.path(Stage.READY, entry).write_bytes(HELLO)
    desk.door.hint(Stage.READY, entry, desk.tick)
    desk.look()
    assert desk.entries(Stage.READY) == []
    assert all(re.fullmatch(r"[ -~]+", name) for name in desk.entries(Stage.REFUSED))


# what is no regular file --------------------------------------------------------------------------------------------------


def test_what_is_no_regular_file_is_refused_unread_and_untouched(desk: Desk, tmp_path: pathlib.Path) -> None:
    incoming = desk.path(Stage.INCOMING)
    target = tmp_path / "target"
    target.write_bytes(HELLO)
    os.mkfifo(incoming / "fifo.toml")
    os.symlink(target, incoming / "link.toml")
    os.symlink("nowhere", incoming / "dangling.toml")
    os.symlink("loop.toml", incoming / "loop.toml")
    (incoming / "folder.toml").mkdir()
    (incoming / "folder.toml" / "inside").write_text("x")
    here = os.getcwd()
    os.chdir(incoming)  # the path of a socket has to be short
    try:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("socket.toml")
    finally:
        os.chdir(here)
    taken = desk.look()
    listener.close()
    kinds = {
        "fifo": "a FIFO", "link": "a symbolic link", "dangling": "a symbolic link", "loop": "a symbolic link",
        "folder": "a directory", "socket": "a socket",
    }  # fmt: skip
    for name, kind in kinds.items():
        one = taken[f"{name}.toml"]
        assert isinstance(one, Refused)
        assert f"it is {kind};" in one.why
        assert os.path.lexists(desk.path(Stage.REFUSED, f"{name}.toml"))
    assert target.read_bytes() == HELLO
    assert os.readlink(desk.path(Stage.REFUSED, "link.toml")) == str(target)
    assert (desk.path(Stage.REFUSED, "folder.toml") / "inside").read_text() == "x"
    assert desk.entries(Stage.INCOMING) == []


@root_only
def test_a_device_is_refused_unopened(desk: Desk) -> None:
    try:
        os.mknod(desk.path(Stage.INCOMING, "null.toml"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no devices can be made here")
    assert "it is a device;" in desk.refuse("null.toml")


def test_an_empty_file_is_given_two_seconds(desk: Desk) -> None:
    desk.drop("a.toml", b"")
    assert desk.look() == {}
    assert desk.look(BAD_FOR_S - 0.1) == {}
    taken = desk.look(0.2)["a.toml"]
    assert isinstance(taken, Refused)
    assert "command or script is missing" in taken.why


def test_a_file_that_becomes_a_job_within_two_seconds_is_one(desk: Desk) -> None:
    desk.drop("a.toml", b"command = [")
    assert desk.look() == {}
    assert desk.look(1.5) == {}
    assert desk.accept("a.toml") == "0010-a.toml"


def test_two_gigabytes_are_refused_unread(desk: Desk) -> None:
    path = desk.drop("a.toml", HELLO)
    os.truncate(path, 2 * 1024**3)
    why = desk.refuse("a.toml")
    assert "a job file has at most" in why
    assert desk.path(Stage.REFUSED, "a.toml").stat().st_blocks < 100


def test_the_largest_job_file_is_taken_and_one_byte_more_is_not(desk: Desk) -> None:
    padding = 64 * 1024 - len(HELLO) - 2
    assert desk.accept("a.toml", HELLO + b"#" + b"x" * padding + b"\n") == "0010-a.toml"
    desk.drop("b.toml", HELLO + b"#" + b"x" * padding + b"x\n")
    assert "it has 65,537 bytes, and a job file has at most 65,536" in desk.refuse("b.toml")


# owners and modes ---------------------------------------------------------------------------------------------------------


@root_only
def test_a_file_of_another_user_is_refused(desk: Desk) -> None:
    os.chown(desk.drop("a.toml"), NOBODY, NOBODY)
    assert f"belongs to uid {NOBODY}" in desk.refuse("a.toml")


def test_a_file_that_everybody_may_write_to_is_refused(desk: Desk) -> None:
    desk.drop("a.toml").chmod(0o666)
    assert "chmod go-w" in desk.refuse("a.toml")


@root_only
def test_a_file_that_a_group_may_write_to_is_refused_unless_it_is_the_owners_own(desk: Desk) -> None:
    path = desk.drop("a.toml")
    path.chmod(0o664)
    os.chown(path, 0, 1)
    assert "its group may write to it" in desk.refuse("a.toml")
    desk.drop("b.toml").chmod(0o664)
    assert isinstance(desk.look()["b.toml"], Accepted)


@root_only
def test_an_unreadable_file_is_refused_and_says_how_to_mend_it() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.chown(directory, NOBODY, NOBODY)
        program = """if True:
            import ctypes, os, pathlib, sys  # all before, for the other user may not be let to the sources
            from test_pickup import Desk
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
            desk = Desk(pathlib.Path(sys.argv[1]) / "spool")
            desk.drop("a.toml").chmod(0)
            print(desk.refuse("a.toml"))
        """
        env = {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
        run = subprocess.run([sys.executable, "-c", program, directory], env=env, cwd="/", capture_output=True, text=True)
        assert "chmod u+r" in run.stdout, run.stderr


# the submitter's file -----------------------------------------------------------------------------------------------------


def test_the_other_name_of_a_hard_link_is_left_alone(desk: Desk, tmp_path: pathlib.Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_bytes(HELLO)
    os.link(mine, desk.path(Stage.INCOMING, "a.toml"))
    inode = mine.stat().st_ino
    desk.look()
    assert desk.entries(Stage.READY) == ["0010-a.toml"]
    assert (mine.read_bytes(), mine.stat().st_ino) == (HELLO, inode)
    mine.write_bytes(b"command = ['reboot']\n")
    accepted = desk.path(Stage.READY, "0010-a.toml")
    assert trace.split(accepted.read_bytes())[0] == HELLO
    assert accepted.stat().st_nlink == 1


def test_a_file_that_is_open_for_writing_is_not_taken_even_if_it_reads_as_a_job(desk: Desk) -> None:
    with open(desk.path(Stage.INCOMING, "a.toml"), "wb", buffering=0) as file:
        file.write(HELLO)
        for _ in range(20):
            assert desk.look(10) == {}
        file.write(b'after = "b"\n')
    assert any("open for writing" in line for line in desk.said)  # after a minute it is named
    taken = desk.look(10)["a.toml"]
    assert isinstance(taken, Accepted)
    assert taken.job.job.after == ("b",)


@pytest.mark.skipif(sys.platform != "linux", reason="only leases tell of writers")
def test_what_is_written_after_the_claim_is_not_lost(desk: Desk) -> None:
    """The inode is still the submitter's: whoever opens it between two steps of acceptance is waited for."""
    desk.drop("a.toml")
    pickup = Pickup(desk.store, model_bytes=lambda job: None, being_run=lambda opened: False)
    box = Box(locks={}, total=GB, available=GB, floor=0)
    claimed = pickup.take(Stage.INCOMING, "a.toml", desk.queue, 0.0)
    assert isinstance(claimed, Claimed)
    with open(desk.store.claim_path(claimed.claim), "ab") as file:
        assert isinstance(pickup.admit(claimed, desk.queue, parse_settings(b""), box, now=1e9, tick=1.0), Later)
        file.write(b'note = "more"\n')
    taken = pickup.admit(claimed, desk.queue, parse_settings(b""), box, now=1e9, tick=2.0)
    assert isinstance(taken, Accepted)
    assert taken.job.job.note == "more"


@pytest.fixture
def nobody_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that cannot tell who has a file open, as macOS."""
    monkeypatch.setattr(host, "has_writer", lambda fd: None)


@pytest.mark.usefixtures("nobody_can_say")
def test_where_nobody_can_say_a_file_is_taken_when_it_has_been_still_for_a_while(desk: Desk) -> None:
    desk.drop("a.toml")
    assert desk.look() == {}
    assert desk.look(SETTLE_S / 2) == {}
    with open(desk.path(Stage.INCOMING, "a.toml"), "ab") as file:
        file.write(b'note = "more"\n')
    desk.door.hint(Stage.INCOMING, "a.toml", desk.tick)
    assert desk.look(SETTLE_S / 2) == {}
    assert desk.look(SETTLE_S / 2) == {}
    taken = desk.look(SETTLE_S)["a.toml"]
    assert isinstance(taken, Accepted)
    assert taken.job.job.note == "more"


@pytest.mark.usefixtures("nobody_can_say")
def test_where_nobody_can_say_a_time_in_the_future_or_the_past_changes_nothing(desk: Desk) -> None:
    for name, when in (("old", 1), ("new", 4_000_000_000)):
        os.utime(desk.drop(f"{name}.toml"), (when, when))
    assert desk.look() == {}
    assert len(desk.look(SETTLE_S)) == 2


# history ------------------------------------------------------------------------------------------------------------------

ENDED = {"step": "ended", "run": 7, "outcome": "ok", "name": "a"}


def test_a_history_below_the_marker_is_kept_and_not_believed(desk: Desk) -> None:
    forged = trace.append(HELLO, {"step": "accepted", "claim": "x"}, {"step": "started", "run": 7}, ENDED)
    desk.accept("a.toml", forged)
    data = desk.path(Stage.READY, "0010-a.toml").read_bytes()
    assert trace.split(data)[0] == HELLO
    assert [entry["step"] for entry in trace.read(data)] == ["accepted", "started", "ended", "accepted"]
    job = desk.queue.live("a")
    assert isinstance(job, Ready)
    assert job.runs == 0
    assert desk.queue.ended == {}


@pytest.mark.parametrize("text", [b"trace = 1\n", b"[[trace]]\nstep = 'accepted'\n", b"trace.x = 1\n", b'"trace" = []\n'])
def test_a_history_above_the_marker_is_refused(desk: Desk, text: bytes) -> None:
    desk.drop("a.toml", HELLO + text)
    assert "trace" in desk.refuse("a.toml")


def test_a_job_whose_history_was_torn_is_still_a_job(desk: Desk) -> None:
    whole = trace.append(HELLO, {"step": "accepted", "claim": "x"}, ENDED)
    for number, cut in enumerate(range(len(HELLO), len(whole), 17)):
        desk.accept(f"a{number}.toml", whole[:cut])


# never on this box --------------------------------------------------------------------------------------------------------


def test_what_this_box_can_never_give_is_refused_with_everything_that_is_missing(desk: Desk) -> None:
    desk.drop("a.toml", HELLO + b'memory = "15.5GB"\nlock = { gpu = 3, disk = 2 }\n')
    why = desk.refuse("a.toml")
    assert "it asks for 3 of the lock gpu, which has 2" in why
    assert "it asks for 2 of the lock disk, which has 1" in why
    assert "it needs 15.5GB of memory, and this box can give 15.0GB at the most" in why


def test_a_model_that_is_not_there_yet_keeps_nobody_out(desk: Desk, tmp_path: pathlib.Path) -> None:
    model = tmp_path / "model.gguf"
    text = HELLO + f'memory = {{ model = "{model}", margin = "1GB" }}\n'.encode()
    desk.accept("a.toml", text)
    job = desk.queue.live("a")
    assert isinstance(job, Ready)
    assert job.memory is None
    model.write_bytes(b"")
    os.truncate(model, 2 * GB)
    desk.accept("b.toml", text)
    other = desk.queue.live("b")
    assert isinstance(other, Ready)
    assert other.memory == 3 * GB
    os.truncate(model, 15 * GB)
    desk.drop("c.toml", text)
    assert "it needs 16.0GB of memory" in desk.refuse("c.toml")


def test_the_size_of_a_model_in_a_folder_is_that_of_its_files(desk: Desk, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.safetensors").write_bytes(b"x" * 1000)
    (folder / "deep" / "b.safetensors").write_bytes(b"x" * 500)
    os.symlink("a.safetensors", folder / "link")
    os.symlink("nowhere", folder / "dangling")
    desk.accept("a.toml", HELLO + f'memory = {{ model = "{folder}" }}\n'.encode())
    job = desk.queue.live("a")
    assert isinstance(job, Ready)
    assert job.memory == 1500


# the spool's own trouble --------------------------------------------------------------------------------------------------


def test_what_cannot_be_written_now_is_accepted_later(desk: Desk) -> None:
    new = pathlib.Path(desk.layout.new)
    new.rmdir()
    new.write_text("a file where the directory has to be: nothing can be written")
    desk.drop("0050-a.toml")
    assert desk.look() == {}
    desk.drop("0060-b.toml")
    for _ in range(5):
        assert desk.look(100) == {}
    assert any("cannot be taken" in line for line in desk.said)
    new.unlink()
    new.mkdir()
    assert {type(taken) for taken in desk.look(100).values()} == {Accepted}
    assert desk.entries(Stage.READY) == ["0050-a.toml", "0060-b.toml"]


def test_a_file_of_the_same_name_that_comes_while_the_first_cannot_be_written_is_not_lost(desk: Desk) -> None:
    new = pathlib.Path(desk.layout.new)
    new.rmdir()
    new.write_text("")
    desk.drop("0050-a.toml")
    desk.look()
    assert desk.entries(Stage.INCOMING) == []
    desk.drop("0050-a.toml", b"note = 'second'\n" + HELLO)
    desk.look(100)
    new.unlink()
    new.mkdir()
    desk.look(100)
    assert desk.entries(Stage.READY) == ["0050-a.toml"]
    assert trace.split(desk.path(Stage.READY, "0050-a.toml").read_bytes())[0] == HELLO
    assert desk.entries(Stage.REFUSED) == ["0050-a.toml", "0050-a.why"]


@pytest.mark.parametrize(("stage", "data"), [(Stage.READY, HELLO), (Stage.REFUSED, b"bad")])
def test_a_stage_that_was_removed_costs_nothing_when_it_is_back(desk: Desk, stage: Stage, data: bytes) -> None:
    desk.path(stage).rmdir()
    desk.drop("0050-a.toml", data)
    for after_s in (0, 3, 100, 100):
        assert desk.look(after_s) == {}
    desk.path(stage).mkdir(mode=0o700)
    assert "0050-a.toml" in desk.look(100)
    assert "0050-a.toml" in desk.entries(stage)


def test_the_private_directories_are_made_again(desk: Desk) -> None:
    os.rmdir(desk.layout.new)
    os.rmdir(desk.layout.claims)
    assert desk.accept("a.toml") == "0010-a.toml"


def test_a_file_is_left_alone_for_longer_where_its_writer_may_be_kept_from_a_processor(desk: Desk) -> None:
    desk.drop("a.toml")
    assert desk.door.next_due == desk.tick + LINGER_S
    for crowding, linger_s in ((1.5, 3 * LINGER_S), (5.0, 10 * LINGER_S), (500.0, MOST_LINGER_S)):
        desk.crowding = crowding
        desk.tick += 1
        desk.drop("a.toml")
        assert desk.door.next_due == desk.tick + linger_s
    assert isinstance(desk.look(MOST_LINGER_S)["a.toml"], Accepted)


# what is no job -----------------------------------------------------------------------------------------------------------

LITTER = [".a.toml", "._a.toml", ".DS_Store", ".a.toml.swp", "README", "a.toml.bak", "a.tom", ".a.toml.Xy12Zz", "a.toml~", "#a.toml#", "a.hold"]


def test_what_is_no_job_stays_and_is_named_once_after_a_minute(desk: Desk) -> None:
    for name in LITTER:
        desk.drop(name)
    (desk.path(Stage.INCOMING) / "folder").mkdir()
    desk.look()
    desk.look(LITTER_S - 1)
    assert desk.said == []
    desk.look(2)
    for name in (*LITTER, "folder"):
        assert sum(f"incoming/{name} is no job" in line for line in desk.said) == 1
    desk.look(1000)
    assert len(desk.said) == len(LITTER) + 1
    assert desk.entries(Stage.INCOMING) == sorted([*LITTER, "folder"])


def test_litter_that_goes_and_comes_is_given_its_minute_again(desk: Desk) -> None:
    path = desk.drop("README")
    desk.look()
    path.unlink()
    desk.look(30)
    desk.drop("README")
    desk.look(1)
    desk.look(LITTER_S - 5)
    assert desk.said == []


# into ready/ by hand ------------------------------------------------------------------------------------------------------


def test_a_file_put_into_ready_is_accepted_like_any_other(desk: Desk) -> None:
    for entry in ("0050-a.toml", "b.toml", "0070-c.hold", "0080-d.toml.hold"):
        desk.path(Stage.READY, entry).write_bytes(HELLO)
        desk.door.hint(Stage.READY, entry, desk.tick)
        desk.look()
    assert desk.entries(Stage.READY) == ["0050-a.toml", "0060-b.toml", "0070-c.hold", "0080-d.hold"]
    assert [(job.name, job.held) for job in desk.queue.in_order()] == [("a", False), ("b", False), ("c", True), ("d", True)]
    assert trace.read(desk.path(Stage.READY, "0050-a.toml").read_bytes())[0]["from"] == "ready/0050-a.toml"


def test_a_bad_file_put_into_ready_on_hold_is_refused_as_a_job_file(desk: Desk) -> None:
    desk.path(Stage.READY, "0070-c.hold").write_bytes(b"nonsense")
    desk.door.hint(Stage.READY, "0070-c.hold", desk.tick)
    desk.look()
    desk.look(BAD_FOR_S)
    assert desk.entries(Stage.REFUSED) == ["0070-c.toml", "0070-c.why"]
