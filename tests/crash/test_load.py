"""Much at once: a spooler that is killed among two thousand files, and one that is started thirty times under load."""

from __future__ import annotations

import os

import psutil
import tomli_w
from rig import SETTINGS, Rig

from jobspec import trace
from spoold.model import Stage

MANY = 2000


def drop_all(rig: Rig) -> None:
    """As `mv *.toml incoming/` does it.  A job makes a directory, which nobody can do twice."""
    beside, made = rig.directory / "dropped", rig.directory / "made"
    beside.mkdir()
    made.mkdir()
    for number in range(MANY):
        text = rig.expect(tomli_w.dumps({"command": ["mkdir", str(made / f"j{number}")]}).encode())
        (beside / f"{10000 + number}-j{number}.toml").write_bytes(text)
    for path in sorted(beside.iterdir()):
        path.rename(rig.path(Stage.INCOMING, path.name))


def test_two_thousand_files_at_once_with_a_kill_while_they_are_accepted(rig: Rig) -> None:
    two_thousand_files(rig, 0)


def two_thousand_files(rig: Rig, after: int) -> None:
    """They are dropped at once, and the spooler is killed when so many of them have run."""
    rig.settings('durability = "fast"\n' + SETTINGS)
    rig.begin()
    rig.until_up()
    drop_all(rig)
    rig.until(lambda: len(rig.entries(Stage.DONE)) >= after, f"{after} of them have run", 60.0)
    rig.kill()
    left = len(rig.entries(Stage.INCOMING)) + len(rig.entries(Stage.READY)) + len(os.listdir(rig.layout.claims))
    assert left > 100, f"only {left} are left"
    rig.until(lambda: len(rig.entries(Stage.DONE)) == MANY and not rig.entries(Stage.RUNNING), "all have run", 100.0)
    rig.until_settled()
    rig.check()
    assert all(trace.read(path.read_bytes())[-1]["outcome"] == "ok" for path in rig.path(Stage.DONE).iterdir())
    assert len(list((rig.directory / "made").iterdir())) == MANY
    spooler = psutil.Process(rig.pid)
    assert spooler.num_fds() < 60, "descriptors are left open"
    assert not [child for child in spooler.children(recursive=True) if child.status() == psutil.STATUS_ZOMBIE], "zombies are left"


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
