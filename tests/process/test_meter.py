"""The meter: how often it measures, and what it says when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from spoold.host import MemoryStatus
from spoold.meter import SPACING_S, Meter, Reading, crowding


class Box:
    """Something to measure: its memory shrinks by one byte with each look."""

    def __init__(self) -> None:
        self.looks = 0
        self.broken: Exception | None = None

    def probe(self) -> MemoryStatus:
        self.looks += 1
        if self.broken is not None:
            raise self.broken
        return MemoryStatus(1000, 1000 - self.looks, {"looks": self.looks})


def test_a_reading_is_what_the_box_says() -> None:
    assert Meter(Box().probe).read(5.0) == Reading(1000, 999, 5.0, False, {"looks": 1})


def test_it_measures_no_more_often_than_makes_sense() -> None:
    box = Box()
    meter = Meter(box.probe)
    readings = [meter.read(100 + tick * SPACING_S / 10) for tick in range(100)]
    assert box.looks == 10
    assert [reading.at for reading in readings] == sorted(reading.at for reading in readings)


def test_a_clock_that_is_set_back_does_not_stop_it() -> None:
    box = Box()
    meter = Meter(box.probe)
    meter.read(100.0)
    assert meter.read(50.0).at == 50.0


@pytest.mark.parametrize("error", [OSError("no"), ValueError("no")])
def test_a_probe_that_fails_leaves_the_last_reading_marked_old(error: Exception) -> None:
    box = Box()
    meter = Meter(box.probe)
    meter.read(1.0)
    box.broken = error
    reading = meter.read(2.0)
    assert (reading.total, reading.available, reading.at, reading.old) == (1000, 999, 1.0, True)
    assert reading.detail["error"] == "no"
    box.broken = None
    again = meter.read(3.0)
    assert (again.available, again.at, again.old) == (997, 3.0, False)
    assert "error" not in again.detail


def test_before_the_first_success_nothing_is_available_that_could_be_given_away() -> None:
    box = Box()
    box.broken = OSError("no")
    reading = Meter(box.probe).read(1.0)
    assert (reading.total, reading.available, reading.old) == (0, None, True)


def test_a_failing_probe_is_not_tried_more_often_either() -> None:
    box = Box()
    box.broken = OSError("no")
    meter = Meter(box.probe)
    for tick in range(10):
        meter.read(1.0 + tick * SPACING_S / 100)
    assert box.looks == 1


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="another system")
def test_this_box_can_be_measured() -> None:
    reading = Meter().read(1.0)
    assert not reading.old
    assert reading.available is not None
    assert 0 < reading.available <= reading.total


def test_a_box_with_more_work_than_processors_is_crowded() -> None:
    hogs = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        deadline = time.monotonic() + (90 if sys.platform == "darwin" else 20)
        while crowding() <= 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert crowding() > 1
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
