"""A job file and the settings together: what a ready job asks of the box, and whether the box could ever give it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from queues import NOW, a_box, a_job

from jobspec.names import FileName
from jobspec.spec import NO_LIMIT, Job, LockRequest, ModelSize, Retry, Share
from spoold.admission import History, admit, endless, epoch, make_box, memory_bytes, never, read_history
from spoold.model import Ready
from spoold.settings import LockUnits, Order, Settings

NAME = FileName("0050", "g52")


def admitted(job: Job, history: History | None = None, settings: Settings | None = None, *, total: int = 1000, model: int | None = None) -> Ready:
    return admit(NAME, job, history or History(accepted_at=NOW, claim="c"), settings or Settings(), total=total, model_bytes=model)


def at(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def entry(step: str, seconds: float = NOW, **more: object) -> Mapping[str, Any]:
    return {"step": step, "at": at(seconds), **more}


# settings and job together --------------------------------------------------------------------------------------------


def test_what_a_job_leaves_out_is_what_the_settings_say() -> None:
    ready = admitted(Job(), settings=Settings(default_lock="gpu", default_wall_s=7.0, unknown_memory=Share(5.0)))
    assert (ready.locks, ready.wall_s, ready.grace_s, ready.memory) == ({"gpu": 1}, 7.0, 30.0, 50)
    assert (ready.not_before, ready.give_up_at, ready.runs, ready.held) == (None, None, 0, False)


def test_what_a_job_says_counts() -> None:
    job = Job(lock=(LockRequest("gpu", None), LockRequest("cpu", 3)), wall_s=NO_LIMIT, grace_s=0.0, memory=37, give_up_s=10.0, not_before=at(NOW + 5))
    ready = admitted(job)
    assert (ready.locks, ready.wall_s, ready.grace_s, ready.memory) == ({"gpu": None, "cpu": 3}, NO_LIMIT, 0.0, 37)
    assert (ready.give_up_at, ready.not_before) == (NOW + 10, NOW + 5)
    assert endless(ready)
    assert not endless(admitted(Job()))


def test_no_lock_is_not_the_default_lock() -> None:
    assert admitted(Job(lock=())).locks == {}


def test_a_job_on_hold_keeps_the_name_of_its_file() -> None:
    ready = admit(NAME, Job(), History(NOW, ""), Settings(), total=1, model_bytes=None, held_as="0050-g52.hold")
    assert (ready.held, ready.file, ready.key) == (True, "0050-g52.hold", (50, "g52"))


# times ----------------------------------------------------------------------------------------------------------------


def test_a_retry_waits_for_its_delay_after_the_end_and_for_its_not_before() -> None:
    job = Job(retry=Retry(times=2, delay_s=60.0), not_before=at(NOW + 100))
    again = History(accepted_at=NOW, claim="", runs=1, requeued_at=NOW + 50)
    assert admitted(job, again).not_before == NOW + 110
    assert admitted(Job(retry=Retry(times=2, delay_s=10.0), not_before=at(NOW + 100)), again).not_before == NOW + 100
    assert admitted(Job(retry=Retry(times=2, delay_s=10.0)), again).not_before == NOW + 60


def test_a_first_start_has_no_delay() -> None:
    assert admitted(Job(retry=Retry(times=2, delay_s=60.0))).not_before is None


def test_give_up_counts_from_acceptance_and_means_the_first_start_only() -> None:
    job = Job(give_up_s=10.0, retry=Retry(times=1, delay_s=60.0))
    assert admitted(job).give_up_at == NOW + 10
    assert admitted(job, History(accepted_at=NOW, claim="", runs=1, requeued_at=NOW + 50)).give_up_at is None


def test_a_date_without_a_zone_is_local_and_what_is_no_date_is_none() -> None:
    local = datetime.datetime(2026, 12, 2, 22, 0, 0)
    assert epoch(local) == local.timestamp()
    assert epoch(local.replace(tzinfo=datetime.UTC)) == local.replace(tzinfo=datetime.UTC).timestamp()
    assert epoch(datetime.date(2026, 12, 2)) is None
    assert epoch(17) is None


@given(st.datetimes())
@settings(deadline=None)
def test_a_date_at_the_edge_of_what_a_clock_can_say_never_raises(moment: datetime.datetime) -> None:
    found = epoch(moment)
    assert found is None or isinstance(found, float)


# memory ---------------------------------------------------------------------------------------------------------------


def test_a_model_is_its_size_and_a_margin_in_bytes_or_points_of_ram() -> None:
    assert admitted(Job(memory=ModelSize("m.gguf", 5)), model=37).memory == 42
    assert admitted(Job(memory=ModelSize("m.gguf", Share(12.0))), model=37).memory == 157


def test_the_memory_of_a_model_that_is_not_there_is_not_known() -> None:
    assert admitted(Job(memory=ModelSize("m.gguf", 5))).memory is None


def test_a_share_is_of_the_boxs_ram() -> None:
    assert memory_bytes(Job(memory=Share(79.0)), Settings(), 1000, None) == 790


# never ----------------------------------------------------------------------------------------------------------------


def test_more_units_than_a_lock_has_can_never_run() -> None:
    assert never(a_job(1, locks={"gpu": 2}), a_box()) == []
    [text] = never(a_job(1, locks={"gpu": 3}), a_box())
    assert "3 of the lock gpu, which has 2" in text
    assert len(never(a_job(1, locks={"box": 2, "cpu": 9}), a_box())) == 2


def test_all_units_can_always_run() -> None:
    assert never(a_job(1, locks={"gpu": None, "box": None}), a_box()) == []


def test_more_memory_than_the_box_less_its_floor_can_never_run() -> None:
    box = a_box(total=100, available=0, floor=4)
    assert never(a_job(1, memory=96), box) == []
    [text] = never(a_job(1, memory=97), box)
    assert "97B" in text
    assert "96B" in text


def test_memory_that_is_not_known_yet_may_fit() -> None:
    assert never(a_job(1, memory=None), a_box()) == []


def test_nothing_is_refused_for_memory_on_a_box_that_could_not_be_read() -> None:
    assert never(a_job(1, memory=97), a_box(total=0, available=None)) == []


def test_the_box_is_what_the_settings_make_of_it() -> None:
    said = Settings(locks={"gpu": LockUnits(("0", "1"))}, memory_floor=Share(4.0), order=Order.STRICT)
    box = make_box(said, total=1000, available=500, paused="p", closed="c")
    assert (box.floor, box.strict, box.total, box.available, box.paused, box.closed) == (40, True, 1000, 500, "p", "c")
    assert box.units("gpu") == ("0", "1")
    assert box.units("nobody-said") == ("0",)
    assert not make_box(Settings(), total=1000, available=None).strict


# history --------------------------------------------------------------------------------------------------------------


def test_a_job_that_was_accepted_waits_for_its_turn() -> None:
    assert read_history([entry("accepted", claim="c1")]) == History(accepted_at=NOW, claim="c1")


def test_only_the_life_since_the_last_acceptance_counts() -> None:
    earlier = [entry("accepted"), entry("started"), entry("ended")]
    assert read_history([*earlier, entry("accepted", NOW + 9, claim="c2")]) == History(accepted_at=NOW + 9, claim="c2")


def test_a_job_that_has_run_waits_only_if_it_was_requeued_after_its_end() -> None:
    life = [entry("accepted", claim="c"), entry("started"), entry("ended")]
    assert read_history(life) is None
    assert read_history([*life, entry("requeued", NOW + 5)]) == History(NOW, "c", runs=1, requeued_at=NOW + 5)
    assert read_history([*life, entry("requeued"), entry("started"), entry("ended")]) is None


def test_what_was_never_accepted_has_no_history() -> None:
    assert read_history([]) is None
    assert read_history([entry("requeued"), entry("started")]) is None


steps = st.sampled_from(("accepted", "started", "ended", "requeued", "other"))


@given(st.lists(st.builds(lambda step, n: entry(step, NOW + n), steps, st.integers(0, 9)), max_size=8))
@settings(deadline=None)
def test_a_history_counts_the_starts_of_the_present_life(entries: list[Mapping[str, Any]]) -> None:
    found = read_history(entries)
    life = [str(one["step"]) for one in entries]
    if "accepted" in life:
        life = life[len(life) - life[::-1].index("accepted") :]
        last = [step for step in life if step in ("ended", "requeued")][-1:]
        waits = "started" not in life or last == ["requeued"]
        assert (found is not None) == waits
        if found is not None:
            assert found.runs == life.count("started")
    else:
        assert found is None


@given(st.lists(st.dictionaries(st.sampled_from(("step", "at", "claim")), st.none() | st.integers() | st.text() | st.datetimes()), max_size=5))
@settings(deadline=None)
def test_a_history_that_somebody_wrote_himself_never_raises(entries: list[dict[str, Any]]) -> None:
    found = read_history(entries)
    assert found is None or found.accepted_at == found.accepted_at
