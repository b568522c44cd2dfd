"""days - what goes on in a spool while it is being cut off: a job that comes and goes, and a whole day with its users.

Owns the scenarios.  Each goes on whatever happens to the spooler, says what has to come out, and is over when that is so.
"""

from __future__ import annotations

import os
from typing import Final

from rig import Expected, Rig

from spoold.model import Stage

NEVER: Final = b'command = ["false"]\n'
RETRY_ONCE: Final = {"times": 1, "delay": 0, "on": ["failed"]}


def first_time(rig: Rig, name: str) -> str:
    """A test for the shell: this is the first time that the job runs."""
    return f'[ "$(grep -c "^begin {name} " {rig.witness})" -eq 1 ]'


def one_job(rig: Rig) -> None:
    """Dropped, accepted, started, ended."""
    rig.queue("0010-a.toml")
    rig.until_settled()
    rig.judge()


def whole_day(rig: Rig) -> None:
    """Accepted, refused at the door, refused later, retried, queued again by hand, stopped by hand, edited."""
    rig.queue("0010-a.toml")
    rig.queue("0020-b.toml", after_ok=["a"], do="exit 3", ends=["failed"])
    rig.queue("0030-c.toml", after_ok=["b"], runs=[0], ends=["refused"])
    rig.queue("0040-d.toml", do=f"{first_time(rig, 'd')} && exit 7", retry=RETRY_ONCE, runs=[2])
    rig.queue("0050-e.toml", do="sleep 60", grace="1s", lock="e", ends=["stopped"])
    rig.queue("0060-f.toml", do=f"{first_time(rig, 'f')} && sleep 60", grace="1s", lock="f", runs=[2])
    rig.queue("0070-g.toml", after=["e"])
    rig.drop("0080-no name.toml", NEVER)
    rig.expected["0080-no name.toml"] = Expected((0,), ("refused",), NEVER)
    move_by_hand(rig, "f", Stage.READY)
    if not rig.may_lose:
        edit(rig, "g")
    move_by_hand(rig, "e", Stage.DONE)
    rig.until_settled()
    rig.judge(unordered=("f", "g"))


def move_by_hand(rig: Rig, name: str, to: Stage) -> None:
    """`mv running/J done/` or `mv running/J ready/`, as soon as its command runs; nothing if it was lost."""

    def moved() -> bool:
        path = rig.place(Stage.RUNNING, name)
        if path is None or name not in rig.began():
            return rig.may_lose and rig.place(Stage.DONE, name) is not None
        target = rig.path(to, path.name)
        assert not target.exists()
        try:
            os.rename(path, target)
        except FileNotFoundError:
            return False
        return True

    rig.until(moved, f"{name} could be moved to {to.value}/ by hand")


def edit(rig: Rig, name: str) -> None:
    """As an editor that writes another file and renames it over the old one.  The job waits for one that runs until it is stopped."""
    rig.until(lambda: rig.place(Stage.READY, name), f"{name} can be edited")
    path = rig.place(Stage.READY, name)
    assert path is not None
    rig.forget(rig.expected[name].text)
    text = rig.expect(rig.expected[name].text + b"# edited\n")
    rig.expected[name].text = text
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(text)
    os.rename(new, path)
