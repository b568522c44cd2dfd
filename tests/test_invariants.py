"""The checker itself: each broken promise is found, and a spool on which none is broken passes."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable

import pytest
from invariants import problems
from spooling import Spool

from jobspec import trace
from spoold.archive import accepted_entry, moment
from spoold.model import Stage

T0 = 1_790_000_000.0
BOX = {"box": ["0"]}


def life(spool: Spool, name: str, began: float, ended: float, *, run: int, locks: dict[str, list[str]] = BOX, memory: int = 0, accepted: float = T0) -> bytes:
    """The file of a job that ran, with its witness."""
    log = f"log/{name}.log"
    (spool.root / log).touch()
    with open(spool.witness, "a") as witness:
        witness.write(f"begin {name} {run}\nend {name} {run}\n")
    text = spool.expect(spool.job(name, lock=list(locks)))
    return trace.append(
        text,
        accepted_entry(accepted, f"incoming/{name}.toml", 0, name),
        {"step": "started", "at": moment(began), "run": run, "locks": locks, "memory": memory, "waited_s": began - accepted, "log": log},
        {"step": "ended", "at": moment(ended), "run": run, "outcome": "ok"},
    )


@pytest.fixture
def past(spool: Spool) -> Spool:
    """Two jobs that ran one after the other."""
    spool.path(Stage.DONE, "0010-a.toml").write_bytes(life(spool, "a", T0 + 10, T0 + 20, run=1))
    spool.path(Stage.DONE, "0020-b.toml").write_bytes(life(spool, "b", T0 + 20, T0 + 30, run=2))
    spool.check()
    return spool


def found(spool: Spool) -> str:
    return "\n".join(problems(spool.layout, spool.dropped, spool.witness))


def lost(spool: Spool) -> None:
    spool.path(Stage.DONE, "0010-a.toml").unlink()


def doubled(spool: Spool) -> None:
    spool.path(Stage.REFUSED, "a.toml").write_bytes(spool.path(Stage.DONE, "0010-a.toml").read_bytes())
    spool.path(Stage.REFUSED, "a.why").write_text("why\n")


def text_changed(spool: Spool) -> None:
    path = spool.path(Stage.DONE, "0010-a.toml")
    path.write_bytes(path.read_bytes().replace(b"script", b"script ", 1))


def no_end(spool: Spool) -> None:
    path = spool.path(Stage.DONE, "0010-a.toml")
    entries = trace.read(path.read_bytes())[:2]
    path.write_bytes(trace.append(trace.split(path.read_bytes())[0], *entries))


def started_twice(spool: Spool) -> None:
    path = spool.path(Stage.DONE, "0010-a.toml")
    path.write_bytes(trace.append(path.read_bytes(), *trace.read(path.read_bytes())[1:]))


def ran_once_more(spool: Spool) -> None:
    with open(spool.witness, "a") as witness:
        witness.write("begin a 7\nend a 7\n")


def one_run_twice(spool: Spool) -> None:
    with open(spool.witness, "a") as witness:
        witness.write("begin other 2\n")


def torn(spool: Spool) -> None:
    path = spool.path(Stage.DONE, "0010-a.toml")
    path.write_bytes(path.read_bytes() + b'step = "\n')


def overlapping(spool: Spool) -> None:
    spool.path(Stage.DONE, "0030-c.toml").write_bytes(life(spool, "c", T0 + 29, T0 + 40, run=3))


def witnessed_overlap(spool: Spool) -> None:
    spool.path(Stage.DONE, "0030-c.toml").write_bytes(life(spool, "c", T0 + 40, T0 + 50, run=3))
    spool.witness.write_text("begin a 1 box=0\nbegin b 2 box=0\nend b 2 box=0\nend a 1 box=0\nbegin c 3 box=0\nend c 3 box=0\n")


def too_much_memory(spool: Spool) -> None:
    for run, name in ((3, "c"), (4, "d")):
        spool.path(Stage.DONE, f"00{run}0-{name}.toml").write_bytes(life(spool, name, T0 + 40, T0 + 50, run=run, locks={}, memory=10**13))


def out_of_order(spool: Spool) -> None:
    spool.path(Stage.DONE, "0005-c.toml").write_bytes(life(spool, "c", T0 + 40, T0 + 50, run=3))


def no_reason(spool: Spool) -> None:
    spool.path(Stage.REFUSED, "x.toml").write_bytes(spool.expect(b"x"))


def forgotten(spool: Spool) -> None:
    spool.path(Stage.INCOMING, "x.toml").write_bytes(spool.expect(b"x"))


def half_made(spool: Spool) -> None:
    pathlib.Path(spool.layout.new, "1.2.3").write_text("")


def stray_in_running(spool: Spool) -> None:
    spool.path(Stage.RUNNING, "0090-x.toml").write_bytes(trace.append(spool.expect(b"x = 1\n"), accepted_entry(T0, "x", 0, "x")))


def no_log(spool: Spool) -> None:
    (spool.root / "log" / "a.log").unlink()


BREAKS: list[tuple[Callable[[Spool], None], str]] = [
    (lost, "dropped 1 times and found at no place"),
    (doubled, "dropped 1 times and found at ['done/0010-a.toml', 'refused/a.toml']"),
    (text_changed, "found at no place"),
    (no_end, "done/0010-a.toml: its trace ends with started"),
    (started_twice, "done/0010-a.toml: started after ended"),
    (ran_once_more, "a began 2 times, and its traces know of 1"),
    (one_run_twice, "run 2 began 2 times"),
    (torn, "done/0010-a.toml does not parse"),
    (overlapping, "had box ['0']"),
    (witnessed_overlap, "b began with box=0 while a had it"),
    (too_much_memory, "bytes were promised"),
    (out_of_order, "before c.toml, which was placed earlier"),
    (no_reason, "refused/x.toml has no reason"),
    (forgotten, "incoming/x.toml was neither accepted nor refused"),
    (half_made, "left over"),
    (stray_in_running, "running/0090-x.toml and nothing runs"),
    (no_log, "its log log/a.log is not there"),
]


@pytest.mark.parametrize(("damage", "text"), BREAKS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_broken_promise_is_found(past: Spool, damage: Callable[[Spool], None], text: str) -> None:
    damage(past)
    assert text in found(past)


def test_what_is_asked_for_is_all_that_counts(past: Spool) -> None:
    past.path(Stage.DONE, "README").write_text("a note of the user")
    past.path(Stage.INCOMING, "half.toml.part").write_text("")
    assert found(past) == ""
    assert problems(past.layout, Counter(), past.witness) == []
