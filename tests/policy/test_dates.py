"""What happened later has the later date, whatever the clock does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spoold.dates import BELIEVED_S, STEP_S, Dates

NOW = 1_800_000_000.0
STEPS = st.lists(st.tuples(st.floats(0, 3600), st.floats(-7200, 7200)), max_size=30)


@given(STEPS)
def test_no_date_is_before_one_that_was_given(steps: list[tuple[float, float]]) -> None:
    dates, now, last = Dates(), NOW, float("-inf")
    for passed, _ in steps:
        now += passed
        date = dates.date(now)
        assert date >= max(now, last)
        dates.was_accepted(date)
        last = date


def test_the_clock_is_set_back_and_what_is_dated_then_is_not_before_what_was() -> None:
    dates = Dates()
    dates.was_accepted(NOW)
    assert dates.date(NOW - 3600) == NOW
    assert dates.ended(NOW - 3600) == NOW


def test_an_end_while_no_spooler_ran_keeps_its_date() -> None:
    dates = Dates()
    dates.was_accepted(NOW)
    dates.happened(NOW + 8 * 3600)
    assert dates.ended(NOW + 3600) == NOW + 3600


def test_a_date_from_far_ahead_is_not_handed_on() -> None:
    dates = Dates()
    dates.was_accepted(NOW + 2 * BELIEVED_S)
    assert dates.date(NOW) == NOW
    assert dates.ended(NOW) == NOW


@given(STEPS)
def test_a_step_is_seen_once_and_by_its_size(steps: list[tuple[float, float]]) -> None:
    dates, tick, offset = Dates(), 1000.0, NOW
    assert dates.step(tick + offset, tick) == 0.0
    for passed, step in steps:
        tick += passed
        offset += step
        seen = dates.step(tick + offset, tick)
        assert abs(seen - step) < 1e-3 or (seen == 0.0 and abs(step) < STEP_S + 1e-3)
        assert dates.step(tick + offset, tick) == 0.0
