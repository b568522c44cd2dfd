"""TERM, grace, KILL: the table and its times, over every order of events."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spoold.escalation import AGAIN_S, LINGER_S, PATIENCE_S, TABLE, Action, Escalation, Event, Phase, named

STOPPING = (Phase.TERM, Phase.KILL, Phase.UNREACHABLE)
steps = st.lists(st.tuples(st.sampled_from(Event), st.floats(0, 40)), max_size=60)
graces = st.floats(0, 100)


def told(escalation: Escalation, moments: Sequence[tuple[Event, float]]) -> list[tuple[Event, float, Escalation, Escalation, Action]]:
    """Every step with what was before and after it."""
    now, history = 0.0, []
    for event, pause in moments:
        now += pause
        after, action = escalation.step(event, now)
        history.append((event, now, escalation, after, action))
        escalation = after
    return history


@given(graces, steps)
def test_no_kill_comes_before_the_grace_that_follows_term_is_over(grace_s: float, moments: list[tuple[Event, float]]) -> None:
    termed_at = None
    for _, now, _, _, action in told(Escalation(grace_s=grace_s), moments):
        if action is Action.TERM:
            assert termed_at is None, "TERM is sent once"
            termed_at = now
        if action is Action.KILL:
            assert termed_at is not None
            assert now >= termed_at + grace_s


@given(graces, steps)
def test_nothing_is_signalled_while_the_main_process_runs_and_nobody_wants_it_to_end(
    grace_s: float, moments: list[tuple[Event, float]]
) -> None:
    quiet = [(event, pause) for event, pause in moments if event in (Event.TIME, Event.EMPTY)]
    assert all(action is Action.NOTHING for *_, action in told(Escalation(grace_s=grace_s), quiet))


@given(graces, steps)
def test_what_is_gone_stays_gone_and_is_never_signalled(grace_s: float, moments: list[tuple[Event, float]]) -> None:
    for _, _, before, after, action in told(Escalation(grace_s=grace_s), moments):
        if before.gone:
            assert after == before
            assert action is Action.NOTHING


@given(graces, steps)
def test_an_empty_tree_is_gone_in_every_phase(grace_s: float, moments: list[tuple[Event, float]]) -> None:
    for _, now, _, after, _ in told(Escalation(grace_s=grace_s), moments):
        assert after.step(Event.EMPTY, now)[0].gone


@given(graces, steps)
def test_time_always_leads_on_once_an_end_is_wanted(grace_s: float, moments: list[tuple[Event, float]]) -> None:
    for _, now, _, after, _ in told(Escalation(grace_s=grace_s), moments):
        if after.stopping or after.phase is Phase.LEFTOVER:
            assert after.due is not None
            assert after.due <= now + max(grace_s, LINGER_S, AGAIN_S)
        else:
            assert after.due is None


@given(graces, steps)
def test_a_moment_before_its_time_changes_nothing(grace_s: float, moments: list[tuple[Event, float]]) -> None:
    for _, _, _, after, _ in told(Escalation(grace_s=grace_s), moments):
        if after.due is not None:
            assert after.step(Event.TIME, after.due - 0.0001 * max(1.0, after.due)) == (after, Action.NOTHING)


@given(graces, steps)
def test_an_escalation_never_goes_back(grace_s: float, moments: list[tuple[Event, float]]) -> None:
    order = list(Phase)
    for _, _, before, after, _ in told(Escalation(grace_s=grace_s), moments):
        assert order.index(after.phase) >= order.index(before.phase)


def test_a_stop_is_term_then_after_the_grace_kill() -> None:
    escalation, action = Escalation(grace_s=5.0).step(Event.STOP, 100.0)
    assert (escalation.phase, action, escalation.due) == (Phase.TERM, Action.TERM, 105.0)
    escalation, action = escalation.step(Event.TIME, 105.0)
    assert (escalation.phase, action) == (Phase.KILL, Action.KILL)


def test_without_grace_kill_follows_term_at_once() -> None:
    escalation, _ = Escalation(grace_s=0.0).step(Event.STOP, 1.0)
    assert escalation.step(Event.TIME, 1.0)[1] is Action.KILL


def test_what_the_main_process_leaves_behind_may_linger_before_it_is_told_to_end() -> None:
    escalation, action = Escalation(grace_s=5.0).step(Event.MAIN_ENDED, 10.0)
    assert (escalation.phase, action, escalation.due) == (Phase.LEFTOVER, Action.NOTHING, 10.0 + LINGER_S)
    assert escalation.step(Event.TIME, 10.0 + LINGER_S)[1] is Action.TERM


def test_a_stop_does_not_wait_for_the_linger() -> None:
    escalation, _ = Escalation(grace_s=5.0).step(Event.MAIN_ENDED, 10.0)
    assert escalation.step(Event.STOP, 10.1)[1] is Action.TERM


def test_kill_is_repeated_at_once_then_ever_more_seldom_and_at_last_called_unreachable() -> None:
    escalation, _ = Escalation(grace_s=0.0).step(Event.STOP, 0.0)
    kills = []
    while escalation.phase is not Phase.UNREACHABLE:
        assert escalation.due is not None
        now = escalation.due
        escalation, action = escalation.step(Event.TIME, now)
        assert action is Action.KILL
        kills.append(now)
    assert kills[10] < 0.05
    assert PATIENCE_S <= kills[-1] <= PATIENCE_S + AGAIN_S
    assert escalation.due == kills[-1] + AGAIN_S
    assert escalation.step(Event.TIME, escalation.due)[1] is Action.KILL


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.GONE])
def test_every_phase_but_gone_can_become_gone_and_is_moved_by_something_else_too(phase: Phase) -> None:
    assert TABLE[(phase, Event.EMPTY)][0] is Phase.GONE
    assert any((phase, event) in TABLE for event in Event if event is not Event.EMPTY)


@given(st.text(), st.integers(1, 1 << 22))
def test_the_name_of_a_leftover_is_printable_ascii_whatever_the_process_calls_itself(name: str, pid: int) -> None:
    text = named(name, pid)
    assert text.isascii()
    assert text.isprintable()
    assert text.endswith(f" (pid {pid})")


def test_a_plain_name_is_shown_as_it_is() -> None:
    assert named("sleep", 4712) == "sleep (pid 4712)"
