"""Much at once: a spooler that is killed among two thousand files, and one that is started thirty times under load."""

from __future__ import annotations

import os

import psutil
import tomli_w
from rig import SETTINGS, Rig

from jobspec import trace
from spoold.model import Stage

MANY = 2000


def drop_all(rig: Rig, waiting: int) -> None:
    """As `mv *.toml incoming/` does it.  A job makes a directory, which nobody can do twice; the last ones wait for what never comes."""
    beside, made = rig.directory / "dropped", rig.directory / "made"
    beside.mkdir()
    made.mkdir()
    for number in range(MANY):
        job: dict[str, object] = {"command": ["mkdir", str(made / f"j{number}")]}
        if number >= MANY - waiting:
            job["after"] = ["never"]
        text = rig.expect(tomli_w.dumps(job).encode())
        (beside / f"{10000 + number}-j{number}.toml").write_bytes(text)
    for path in sorted(beside.iterdir()):
        path.rename(rig.path(Stage.INCOMING, path.name))


def test_two_thousand_files_at_once_with_a_kill_while_they_are_accepted(rig: Rig) -> None:
    two_thousand_files(rig, kill_after=0, waiting=1700)


def two_thousand_files(rig: Rig, *, kill_after: int, waiting: int) -> None:
    """They are dropped at once, and the spooler is killed when so many of them have run."""
    rig.settings('durability = "fast"\n' + SETTINGS)
    rig.begin()
    rig.until_up()
    drop_all(rig, waiting)
    rig.until(lambda: len(rig.entries(Stage.DONE)) >= kill_after and len(rig.entries(Stage.INCOMING)) < MANY, "the moment for the kill", 60.0)
    rig.kill()
    assert len(rig.entries(Stage.INCOMING)) + len(rig.entries(Stage.READY)) > 100, rig.account("too late")
    rig.until(lambda: len(rig.entries(Stage.DONE)) == MANY - waiting and len(rig.entries(Stage.READY)) == waiting, "all have run", 100.0)
    rig.until(lambda: not rig.entries(Stage.RUNNING) and not os.listdir(rig.layout.claims), "nothing is left over")
    spooler = psutil.Process(rig.pid)
    assert spooler.num_fds() < 60, "descriptors are left open"
    assert not [child for child in spooler.children(recursive=True) if child.status() == psutil.STATUS_ZOMBIE], "zombies are left"
    rig.end()
    rig.check()
    assert all(trace.read(path.read_bytes())[-1]["outcome"] == "ok" for path in rig.path(Stage.DONE).iterdir())
    assert sorted(path.name for path in (rig.directory / "made").iterdir()) == sorted(f"j{number}" for number in range(MANY - waiting))


def test_thirty_starts_under_load_lose_and_double_nothing(rig: Rig) -> None:
    retry = {"times": 3, "delay": 0, "on": ["failed"]}
    for number in range(20):
        fields = [{}, {"lock": "gpu"}, {"lock": ["gpu", "disk"]}, {"after": [f"j{number - 1}"]}, {"after_ok": ["j0"]}][number % 5]
        rig.queue(f"{100 + number:04}-j{number}.toml", do=f"sleep 0.{number % 4}", retry=retry, **fields)
    rig.begin()
    for number in range(30):
        if number % 3:
            rig.until_up()
        if number % 2:
            rig.kill()
        else:
            rig.end()
        rig.begin()
    rig.until_settled()
    rig.judge()
