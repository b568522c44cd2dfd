"""A user who does everything at once, by a seed: drops, renames, holds, edits, moves between all stages, and a spooler that is killed between."""

from __future__ import annotations

import pathlib
import random

import pytest
from spooling import SETTINGS, Spool, Spooler, until

from spoold.model import Stage

INCOMING, READY, RUNNING, DONE, REFUSED = Stage
KINDS = ("plain", "plain", "gpu", "free", "fails", "retries", "slow", "after", "nonsense")


class User:
    """Somebody at a shell.  What is gone when it is to be moved was faster."""

    def __init__(self, spool: Spool, seed: int) -> None:
        self.spool = spool
        self.random = random.Random(seed)
        self.jobs = 0
        self.spooler: Spooler = spool.start()

    def act(self) -> None:
        acts = (self.drop, self.reorder, self.edit, self.take_out_of_running, self.run_again, self.queue_again, self.restart)
        try:
            self.random.choices(acts, (30, 20, 10, 12, 8, 6, 3))[0]()
        except FileNotFoundError:
            pass

    def drop(self) -> None:
        self.jobs += 1
        name, kind = f"j{self.jobs}", self.random.choice(KINDS)
        fields: dict[str, object] = {}
        do = f"sleep 0.0{self.random.randint(1, 9)}"
        match kind:
            case "gpu":
                fields["lock"] = "gpu"
            case "free":
                fields["lock"] = []
            case "fails":
                do = "exit 1"
            case "retries":
                do, fields["retry"] = "exit 1", {"times": 1}
            case "slow":
                do = "sleep 0.4"
            case "after":
                fields["after"] = f"j{self.random.randint(1, max(1, self.jobs - 1))}" if self.jobs > 1 else []
        text = b"nonsense of " + name.encode() if kind == "nonsense" else self.spool.job(name, do=do, grace="1s", **fields)  # type: ignore[arg-type]
        self.spool.drop(self.random.choice((f"{name}.toml", f"{self.random.randint(1, 999):04d}-{name}.toml")), text)

    def reorder(self) -> None:
        path = self.one_of(READY)
        path.rename(path.with_name(f"{self.random.randint(1, 999):04d}-{name_of(path)}{self.random.choice(('.toml', '.toml', '.hold'))}"))

    def edit(self) -> None:
        path = self.one_of(READY)
        with open(path, "r+b") as file:
            data = file.read()
            file.seek(0)
            file.write(data)

    def take_out_of_running(self) -> None:
        path = self.one_of(RUNNING)
        target = self.spool.path(self.random.choice((READY, INCOMING, DONE, REFUSED)), path.name)
        if not target.exists():
            path.rename(target)

    def run_again(self) -> None:
        path = self.one_of(DONE)
        if not self.spool.path(INCOMING, path.name).exists():
            path.rename(self.spool.path(INCOMING, path.name))

    def queue_again(self) -> None:
        path = self.one_of(READY)
        target = self.spool.path(INCOMING, f"{name_of(path)}.toml")
        if not target.exists():
            path.rename(target)

    def restart(self) -> None:
        self.spooler.kill()
        self.spooler = self.spool.start()

    def release_all(self) -> bool:
        for entry in self.spool.entries(READY):
            if entry.endswith(".hold"):
                path = self.spool.path(READY, entry)
                path.rename(path.with_suffix(".toml"))
        return True

    def one_of(self, stage: Stage) -> pathlib.Path:
        entries = [entry for entry in self.spool.entries(stage) if entry.endswith((".toml", ".hold"))]
        if not entries:
            raise FileNotFoundError
        return self.spool.path(stage, self.random.choice(entries))


def name_of(path: pathlib.Path) -> str:
    return path.name.partition("-")[2].removesuffix(".hold").removesuffix(".toml")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak)])
def test_whatever_a_user_does_every_job_is_in_one_place_and_ran_as_often_as_it_says(spool: Spool, seed: int) -> None:
    spool.settings(SETTINGS + "[locks]\ngpu = 2\n")
    user = User(spool, seed)
    for turn in range(60):
        user.act()
        # not for a time, but to let the spooler come between: something of its own has to have happened now and then
        if turn % 5 == 0:
            began = len(spool.began())
            until(lambda began=began: len(spool.began()) > began or not spool.entries(READY), "something starts")  # type: ignore[misc]
        assert user.spooler.process.poll() is None, user.spooler.said()[-3:]
    user.release_all()
    until(lambda: user.release_all() and not any(spool.entries(stage) for stage in (INCOMING, READY, RUNNING)), lambda: f"all is done: {spool.everything()}")
    spool.check(unordered=tuple(f"j{number}" for number in range(user.jobs + 1)))
