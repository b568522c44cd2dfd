"""The guard: whom it stops, when, and that it never stops two at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spoold.guard import Advice, Low, StopRun, Watch, choose, watch
from spoold.model import Running

GB = 10**9


def run(number: int, *, memory: int = 0, used: int = 0, started_at: float = 0.0) -> Running:
    return Running(
        seq=number,
        name=f"j{number}",
        file=f"{number:04}-j{number}.toml",
        run=number,
        started_at=started_at,
        wall_s=60,
        grace_s=1,
        locks={},
        memory=memory,
        used=used,
    )


def look(
    before: Watch, runs: list[Running], available: int | None, tick: float, *, critical: bool = False, repeatable: frozenset[int] = frozenset()
) -> tuple[Watch, Advice]:
    return watch(before, runs, available=available, floor=2 * GB, patience_s=5, tick=tick, repeatable=repeatable, critical=critical)


def test_above_the_floor_nothing_happens() -> None:
    assert look(Watch(), [run(1)], 2 * GB, 0.0) == (Watch(), None)


def test_below_the_floor_it_warns_at_once_and_stops_only_when_that_lasts() -> None:
    runs = [run(1, memory=GB, used=3 * GB), run(2, memory=8 * GB, used=8 * GB, started_at=9)]
    state, advice = look(Watch(), runs, GB, 100.0)
    assert isinstance(advice, Low)
    assert "1.0GB is available" in advice.text
    state, advice = look(state, runs, GB, 104.9)
    assert isinstance(advice, Low)
    state, advice = look(state, runs, GB, 105.0)
    assert isinstance(advice, StopRun)
    assert advice.run.run == 1
    assert "2.0GB more than it declared" in advice.why


def test_a_short_dip_starts_the_patience_anew() -> None:
    state, _ = look(Watch(), [run(1)], GB, 0.0)
    state, _ = look(state, [run(1)], 3 * GB, 4.0)
    state, advice = look(state, [run(1)], GB, 6.0)
    assert isinstance(advice, Low)


def test_nobody_else_is_stopped_before_the_first_is_gone_and_the_box_was_looked_at_again() -> None:
    runs = [run(1, used=3 * GB), run(2, used=2 * GB)]
    state, advice = look(Watch(low_since=0.0), runs, GB, 5.0)
    assert isinstance(advice, StopRun)
    assert advice.run.run == 1
    assert look(state, runs, GB, 60.0) == (state, None)
    state, advice = look(state, runs[1:], GB, 61.0)
    assert isinstance(advice, Low)
    state, advice = look(state, runs[1:], GB, 66.0)
    assert isinstance(advice, StopRun)
    assert advice.run.run == 2


def test_within_their_declarations_the_newest_that_may_be_repeated_goes_else_the_newest() -> None:
    runs = [run(1, memory=5 * GB, used=GB, started_at=1), run(2, memory=5 * GB, used=GB, started_at=2), run(3, memory=5 * GB, used=GB, started_at=3)]
    assert choose(runs, frozenset()).run == 3
    assert choose(runs, frozenset({1, 2})).run == 2


def test_when_the_system_says_critical_it_does_not_wait() -> None:
    _, advice = look(Watch(), [run(1, used=GB)], 10 * GB, 0.0, critical=True)
    assert isinstance(advice, StopRun)


def test_without_a_reading_nobody_is_stopped() -> None:
    assert look(Watch(low_since=0.0), [run(1)], None, 100.0) == (Watch(), None)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 5)), max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.floats(0, 10)), max_size=20),
)
def test_at_any_moment_at_most_one_run_is_being_stopped(shapes: list[tuple[int, int, int]], looks: list[tuple[int, float]]) -> None:
    runs = [run(number, memory=memory * GB, used=used * GB, started_at=at) for number, (memory, used, at) in enumerate(shapes, 1)]
    state, tick, told = Watch(), 0.0, set()
    for available, pause in looks:
        tick += pause
        state, advice = look(state, runs, available * GB, tick)
        if isinstance(advice, StopRun):
            assert not told, "a second one while the first was still there"
            assert available < 2
            told.add(advice.run.run)
