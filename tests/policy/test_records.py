"""A run on disk: what was written is what is read, and what is damaged is absent, never something else."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spoold import records
from spoold.records import EndRecord, Figures, Order, RunRecord, StartRecord

TEXT = 'command = ["true"]\n# \udcff is a byte that is no UTF-8, \x00 and é are fine\n'
START = StartRecord(
    run=7, job="0050-g52", seq=50, name="g52", file="0050-g52.toml", started_at=1.5e9, boot="b", host="h", supervisor=42, wall_s=60.0, grace_s=1.0,
    locks={"gpu": ["0", "1"]}, memory=37, log="log/0050-g52.log", waited_s=0.25, waited_for=["g51 ended ok"], text=TEXT,
)  # fmt: skip
FIGURES = Figures(run=7, pid=43, at=1.5e9, memory=1, peak=2, kind="pss", cpu_s=0.5, processes=3)
END = EndRecord(run=7, outcome="failed", exit=3, ended_at=1.5e9, elapsed_s=1.0, cpu_s=0.5, peak_memory=2, pid=43, leftover=["sleep (pid 44)"])
ORDER = Order(
    run=7, job="0050-g52", seq=50, name="g52", file="0050-g52.toml", text=TEXT, argv=["true"], script=None, shell=["/bin/sh"], cwd="/", env={"A": "\udcff"},
    stdin=None, log_number=1, wall_s=None, grace_s=1.0, nice=0, umask=0o022, locks={}, memory=0, waited_s=0.0, waited_for=[], sync=True,
)  # fmt: skip

AREAS: dict[str, tuple[bytes, Callable[[bytes], object], object]] = {
    "start": (records.encode_start(START), records.decode_start, START),
    "figures": (records.encode_figures(FIGURES), records.decode_figures, FIGURES),
    "end": (records.encode_end(END), records.decode_end, END),
    "retired": (records.encode_retired(7), records.decode_retired, 7),
}
areas = st.sampled_from(sorted(AREAS))
texts = st.text(st.characters(codec="utf-8"), max_size=40)


@given(areas, st.binary(max_size=40))
@settings(deadline=None)
def test_an_area_reads_as_what_was_written_whatever_lies_behind_it(name: str, behind: bytes) -> None:
    area, decode, value = AREAS[name]
    assert decode(area + behind) == value


@given(texts, texts, st.lists(texts, max_size=3), st.none() | st.floats(0, 1e9), st.dictionaries(texts, st.lists(texts, max_size=3), max_size=3))
@settings(deadline=None)
def test_a_start_record_comes_back_with_every_text(text: str, log: str, waited: list[str], wall_s: float | None, locks: dict[str, list[str]]) -> None:
    start = replace(START, text=text, log=log, waited_for=waited, wall_s=wall_s, locks=locks)
    assert records.decode_start(records.encode_start(start)) == start


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_a_snapshot_keeps_every_byte_of_a_job_file(data: bytes) -> None:
    start = replace(START, text=data.decode("utf-8", "surrogateescape"))
    back = records.decode_start(records.encode_start(start))
    assert back is not None
    assert back.text.encode("utf-8", "surrogateescape") == data


@given(texts, st.dictionaries(st.text(string.ascii_letters, min_size=1), texts), st.none() | st.lists(texts))
@settings(deadline=None)
def test_an_order_comes_back(text: str, env: dict[str, str], argv: list[str] | None) -> None:
    order = replace(ORDER, text=text, env=env, argv=argv)
    assert records.decode_order(records.encode_order(order)) == order


def test_an_order_comes_back_with_bytes_that_are_no_text() -> None:
    assert records.decode_order(records.encode_order(ORDER)) == ORDER


# damage ---------------------------------------------------------------------------------------------------------------


@given(areas, st.data())
@settings(deadline=None)
def test_a_torn_area_is_absent(name: str, data: st.DataObject) -> None:
    area, decode, _ = AREAS[name]
    cut = data.draw(st.integers(0, len(area) - 1))
    assert decode(area[:cut]) is None
    assert decode(area[:cut] + bytes(len(area) - cut + 100)) is None


@given(areas, st.data())
@settings(deadline=None)
def test_an_area_with_a_flipped_bit_is_absent_or_what_it_was(name: str, data: st.DataObject) -> None:
    area, decode, value = AREAS[name]
    bit = data.draw(st.integers(0, len(area) * 8 - 1))
    flipped = bytearray(area)
    flipped[bit // 8] ^= 1 << bit % 8
    assert decode(bytes(flipped)) in (None, value)  # the checksum's own digits may be written in both cases


@pytest.mark.parametrize("name", sorted(AREAS))
def test_every_single_flipped_bit_of_a_header_is_harmless(name: str) -> None:
    area, decode, value = AREAS[name]
    for bit in range((area.index(b"\n") + 1) * 8):
        flipped = bytearray(area)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode(bytes(flipped)) in (None, value)


@given(areas, st.data())
@settings(deadline=None)
def test_a_run_of_zeros_anywhere_in_an_area_makes_it_absent(name: str, data: st.DataObject) -> None:
    area, decode, _ = AREAS[name]
    at = data.draw(st.integers(0, len(area) - 1))
    size = data.draw(st.integers(1, len(area) - at))
    zeroed = area[:at] + bytes(size) + area[at + size :]
    if zeroed != area:
        assert decode(zeroed) is None


@given(texts, texts, st.data())
@settings(deadline=None)
def test_an_area_that_was_half_written_over_another_is_one_of_the_two_or_absent(old_text: str, new_text: str, data: st.DataObject) -> None:
    old, new = replace(START, run=1, text=old_text), replace(START, run=2, text=new_text)
    before, after = records.encode_start(old), records.encode_start(new)
    cut = data.draw(st.integers(0, len(after)))
    assert records.decode_start(after[:cut] + before[cut:]) in (None, old, new)


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_at_all_never_raise(data: bytes) -> None:
    for _, decode, _ in AREAS.values():
        decode(data)
        decode(records.MAGIC + b" " + data)
    records.decode(data)
    records.sealed_length(data)


@pytest.mark.parametrize("body", [b"", b"1", b"[]", b"null", b'{"run": 7}', b"x", b"9\n{}", b"-5\n{}", b"2\n{}rest", b"\n", b"\xff"])
def test_a_sound_area_of_another_kind_is_absent(body: bytes) -> None:
    area = records._seal(body, records.END_SIZE)
    assert records.decode_start(area) is None
    assert records.decode_figures(area) is None
    assert records.decode_end(area) is None


def test_a_key_that_is_not_known_is_passed_over_so_that_versions_can_meet() -> None:
    body = records._dump({"run": 7, "outcome": "ok", "of_a_later_version": [1]})
    assert records.decode_end(records._seal(body, records.END_SIZE)) == EndRecord(run=7, outcome="ok")


# the whole record -----------------------------------------------------------------------------------------------------


def record(start: bytes = b"", figures: bytes = b"", end: bytes = b"", retired: bytes = b"") -> RunRecord:
    data = bytearray(records.RECORD_SIZE)
    for area, at in ((start, records.START_AT), (figures, records.FIGURES_AT), (end, records.END_AT), (retired, records.RETIRED_AT)):
        data[at : at + len(area)] = area
    return records.decode(bytes(data))


def test_a_new_record_is_empty_and_not_live() -> None:
    empty = RunRecord(start=None, figures=None, end=None, retired=None)
    assert record() == empty
    assert records.decode(b"") == empty
    assert not empty.live


def test_a_start_record_is_live_until_its_own_run_is_retired() -> None:
    start = records.encode_start(START)
    assert record(start).live
    assert record(start, retired=records.encode_retired(6)).live
    assert not record(start, retired=records.encode_retired(7)).live


def test_figures_and_an_end_of_an_earlier_run_are_as_good_as_absent() -> None:
    start = records.encode_start(replace(START, run=8))
    found = record(start, records.encode_figures(FIGURES), records.encode_end(END))
    assert (found.figures, found.end) == (None, None)
    found = record(records.encode_start(START), records.encode_figures(FIGURES), records.encode_end(END))
    assert (found.figures, found.end) == (FIGURES, END)


def test_an_end_without_a_start_record_is_no_end_of_anybody() -> None:
    found = record(end=records.encode_end(END))
    assert found.end is None
    assert not found.live


@given(st.sets(areas))
@settings(deadline=None)
def test_damage_of_one_area_costs_that_one_and_those_that_depend_on_the_start(damaged: set[str]) -> None:
    def whole(name: str) -> bytes:
        area = AREAS[name][0]
        return area[:-1] + bytes((area[-1] ^ 1,)) if name in damaged else area

    found = record(whole("start"), whole("figures"), whole("end"), whole("retired"))
    started = "start" not in damaged
    assert found.start == (START if started else None)
    assert found.figures == (FIGURES if started and "figures" not in damaged else None)
    assert found.end == (END if started and "end" not in damaged else None)
    assert found.retired == (7 if "retired" not in damaged else None)


@pytest.mark.parametrize("name", sorted(AREAS))
def test_an_area_tells_its_length_by_its_first_bytes(name: str) -> None:
    area = AREAS[name][0]
    assert records.sealed_length(area[:64]) == len(area)
    assert records.sealed_length(bytes(64)) == 0


# what does not fit ----------------------------------------------------------------------------------------------------


def test_a_snapshot_that_does_not_fit_is_an_error_and_no_torn_record() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        records.encode_start(replace(START, text="x" * records.START_SIZE))


@given(st.integers(0, 20_000), st.sampled_from(("x", "é", "\U0001f600", '"', "\x01")), st.integers(0, 300))
@settings(deadline=None)
def test_an_end_can_always_be_written_down(length: int, sign: str, leftovers: int) -> None:
    text = sign * length
    end = replace(END, unstartable=text, why=text, leftover=[f"{sign * 100} (pid {pid})" for pid in range(leftovers)])
    area = records.encode_end(end)
    assert len(area) <= records.END_SIZE
    back = records.decode_end(area)
    assert back is not None
    assert back.unstartable is not None
    assert text.startswith(back.unstartable)
    assert bool(back.unstartable) == bool(text)
    assert replace(back, unstartable=None, why=None, leftover=[]) == replace(end, unstartable=None, why=None, leftover=[])


def test_the_areas_lie_side_by_side_and_the_first_can_hold_the_largest_job_file() -> None:
    assert records.FIGURES_AT == records.START_AT + records.START_SIZE
    assert records.END_AT == records.FIGURES_AT + records.FIGURES_SIZE
    assert records.RETIRED_AT == records.END_AT + records.END_SIZE
    assert records.RECORD_SIZE == records.RETIRED_AT + records.RETIRED_SIZE
    from jobspec.spec import MAX_FILE_BYTES

    records.encode_start(replace(START, text="x" * 3 * MAX_FILE_BYTES))
