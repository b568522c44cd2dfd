"""`move`, `hold`, `release`: renames in ready/, and the queue never in a wrong order."""

from __future__ import annotations

import pytest
from commandline import Box
from hypothesis import given, settings
from hypothesis import strategies as st

from spoold.cli.jobs import Place
from spoold.cli.moving import make_room
from spoold.model import Stage


def place(seq: int, name: str) -> Place:
    return Place(Stage.READY, f"{seq:04d}-{name}.toml", name, seq)


def order(queue: list[Place]) -> list[str]:
    return [one.name for one in sorted(queue, key=lambda one: (one.seq or 0, one.name))]


class TestMakeRoom:
    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.integers(0, 40), min_size=2, max_size=14), st.data())
    def test_the_job_gets_its_place_and_no_two_others_ever_change_theirs(self, numbers: list[int], data: st.DataObject) -> None:
        names = data.draw(st.permutations([f"j{index:02d}" for index in range(len(numbers))]))
        queue = sorted((place(seq, name) for seq, name in zip(numbers, names, strict=True)), key=lambda one: (one.seq or 0, one.name))
        moved = data.draw(st.sampled_from(queue))
        others = [one for one in queue if one != moved]
        at = data.draw(st.integers(0, len(others)))
        now = {one.name: one for one in queue}
        wanted = [one.name for one in others]
        steps = make_room(moved, others, at)
        for step in steps:
            now[step.place.name] = place(step.seq, step.place.name)
            assert [name for name in order(list(now.values())) if name != moved.name] == wanted
        assert order(list(now.values())) == [*wanted[:at], moved.name, *wanted[at:]]
        assert steps[-1].place == moved
        assert all(step.seq >= 0 for step in steps)
        assert len(steps) <= 1 + min(at, len(others) - at) or len(steps) <= 1 + len(others) - at

    def test_a_free_number_is_taken_and_a_round_one_is_liked(self) -> None:
        moved = place(900, "m")
        assert [step.seq for step in make_room(moved, [place(10, "a"), place(20, "b")], 1)] == [15]
        assert [step.seq for step in make_room(moved, [place(10, "a"), place(100, "b")], 1)] == [60]
        assert [step.seq for step in make_room(moved, [place(10, "a"), place(12, "b")], 1)] == [11]

    def test_first_and_last_keep_their_distance(self) -> None:
        moved = place(900, "m")
        assert [step.seq for step in make_room(moved, [place(50, "a")], 0)] == [40]
        assert [step.seq for step in make_room(moved, [place(7, "a")], 0)] == [3]
        assert [step.seq for step in make_room(moved, [place(53, "a")], 1)] == [60]

    def test_the_shorter_way_is_renumbered(self) -> None:
        moved = place(900, "m")
        queue = [place(seq, f"a{seq}") for seq in (10, 11, 12, 13, 20)]
        steps = make_room(moved, queue, 1)
        assert [(step.place.name, step.seq) for step in steps] == [("a10", 9), ("m", 10)]
        steps = make_room(moved, queue, 3)
        assert [(step.place.name, step.seq) for step in steps] == [("a13", 14), ("m", 13)]

    def test_before_number_zero_the_others_move_up(self) -> None:
        steps = make_room(place(900, "m"), [place(0, "a"), place(1, "b"), place(5, "c")], 0)
        assert [(step.place.name, step.seq) for step in steps] == [("b", 2), ("a", 1), ("m", 0)]


class TestMove:
    def queue(self, box: Box) -> list[str]:
        return [job["name"] for job in box.json("ls", "ready", "--json")]

    def test_every_way_to_say_where(self, box: Box) -> None:
        for number, name in enumerate("abcd", 1):
            box.ready(f"00{number}0-{name}.toml")
        assert box.ok("move", "d", "--first") == "ready/0040-d.toml -> ready/0005-d.toml\n"
        assert self.queue(box) == ["d", "a", "b", "c"]
        box.ok("move", "d", "--before", "c")
        assert self.queue(box) == ["a", "b", "d", "c"]
        box.ok("move", "a", "--after", "d")
        assert self.queue(box) == ["b", "d", "a", "c"]
        box.ok("move", "b", "--last")
        assert self.queue(box) == ["d", "a", "c", "b"]
        assert box.ok("move", "b", "--to", "3").endswith("-> ready/0003-b.toml\n")
        assert self.queue(box) == ["b", "d", "a", "c"]

    def test_where_it_is_already_nothing_is_renamed(self, box: Box) -> None:
        box.ready("0010-a.toml")
        box.ready("0011-b.toml")
        assert box.ok("move", "a", "--before", "b") == "a is there already: ready/0010-a.toml\n"
        assert box.ok("move", "b", "--last") == "b is there already: ready/0011-b.toml\n"

    def test_digits_and_a_hold_are_kept(self, box: Box) -> None:
        box.ready("000010-a.toml")
        box.ok("hold", "a")
        box.ok("move", "a", "--to", "7")
        assert box.names(Stage.READY) == ["000007-a.toml.hold"]

    @pytest.mark.parametrize("words", [("a",), ("a", "--first", "--last"), ("a", "--before", "a")], ids=" ".join)
    def test_a_place_has_to_be_said_once(self, box: Box, words: tuple[str, ...]) -> None:
        box.ready("0010-a.toml")
        assert box.call("move", *words).returncode == 64

    def test_a_running_job_cannot_be_reordered(self, box: Box) -> None:
        box.running("0010-a.toml")
        done = box.call("move", "a", "--first")
        assert done.returncode == 66
        assert "a is in running/" in done.stderr


class TestHold:
    def test_hold_and_release_are_renames(self, box: Box) -> None:
        box.ready("0010-a.toml")
        assert box.ok("hold", "a") == "ready/0010-a.toml -> ready/0010-a.toml.hold\n"
        assert box.ok("hold", "a") == "a is on hold already\n"
        assert box.ok("release", "a") == "ready/0010-a.toml.hold -> ready/0010-a.toml\n"
        assert box.ok("release", "a") == "a is not on hold\n"

    def test_a_hold_by_hand_without_toml_is_released_too(self, box: Box) -> None:
        box.ready("0010-a.toml").rename(box.path(Stage.READY, "0010-a.hold"))
        box.ok("release", "a")
        assert box.names(Stage.READY) == ["0010-a.toml"]

    def test_a_held_job_does_not_start_and_a_released_one_does(self, box: Box) -> None:
        with box.spooler():
            box.ok("pause")
            box.ok("submit", "--name", "a", "--", "true")
            from commandline import wait_until

            wait_until(lambda: box.names(Stage.READY))
            box.ok("hold", "a")
            box.ok("resume")
            assert box.call("submit", "--wait", "--name", "b", "--", "true").returncode == 0
            assert box.names(Stage.READY) == ["0010-a.toml.hold"]
            box.ok("release", "a")
            assert box.call("wait", "a").returncode == 0
