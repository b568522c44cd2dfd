"""One job as JSON and as a row, whatever stage it is in."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobspec.spec import NO_LIMIT, Job, LockRequest
from spoold.model import Box, Outcome, Ready, Reason, Rule, Running, Stage
from spoold.records import Figures, StartRecord
from spoold.rows import FINE, PLAIN, Marks, clock, cut, cut_front, ended_words, lock_words, row, short, span, table
from spoold.view import KEYS, JobView, iso, last_life, of_ended, of_entry, of_ready, of_running

NOW = datetime.datetime(2026, 12, 1, 12, 0).timestamp()
BOX = Box(locks={"gpu": ("0", "1")}, total=100, available=100, floor=0)
JOB = Job(command=("true",), note="a note", after=("a",), after_ok=("b", "a"), lock=(LockRequest("gpu"),))
CONTRACT = (
    "name seq stage file note accepted_at started_at ended_at outcome exit signal elapsed_s peak_memory memory locks after wall_s deadline pid log "
    "progress place latest_start reasons"
)


def ready(**more: Any) -> Ready:
    said: dict[str, Any] = {
        "seq": 50,
        "name": "g52",
        "file": "0050-g52.toml",
        "job": JOB,
        "accepted_at": NOW - 60,
        "locks": {"gpu": 1, "disk": None},
        "memory": 7,
        "wall_s": 3600.0,
        "grace_s": 30.0,
    }
    return Ready(**{**said, **more})


def running_view(figures: Figures | None = None, **more: Any) -> JobView:
    said: dict[str, Any] = {
        "seq": 50,
        "name": "g52",
        "file": "0050-g52.toml",
        "run": 3,
        "started_at": NOW - 90,
        "wall_s": 3600.0,
        "grace_s": 30.0,
        "locks": {"gpu": ("0",), "box": ("0",)},
        "memory": 7,
    }
    run = Running(**{**said, **more})
    start = StartRecord(
        run=3, job="0050-g52", seq=50, name="g52", file="0050-g52.toml", started_at=run.started_at, boot="", host="", supervisor=1, wall_s=3600.0, grace_s=30.0,
        locks={}, memory=7, log="log/0050-g52.log", waited_s=0.0, waited_for=[],
    )  # fmt: skip
    return of_running(run, start, figures, JOB, BOX, accepted_at=NOW - 100, supervised=True, now=NOW)


def ended(stage: Stage, *steps: dict[str, Any], **more: Any) -> JobView:
    return of_ended(stage, "0050-g52.toml", "g52", 50, JOB, steps, default_wall_s=86400.0, at=NOW - 5, **more)


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"step": name, "at": datetime.datetime.fromtimestamp(NOW - 1000, datetime.UTC), **more}


ACCEPTED = step("accepted", **{"from": "incoming/g52.toml"})
STARTED = step("started", run=3, pid=4711, locks={"gpu": ["0"]}, memory=7, log="log/0050-g52.log")
FAILED = step("ended", run=3, outcome="failed", exit=2, elapsed_s=91.5, peak_memory=1234)


STEP_KEYS = st.sampled_from(["step", "at", "run", "pid", "locks", "outcome", "exit", "memory", "log"])
ANYTHING = st.none() | st.text() | st.integers() | st.lists(st.integers())


class TestJson:
    def test_the_keys_are_those_of_the_contract(self) -> None:
        assert tuple(CONTRACT.split()) == KEYS

    @pytest.mark.parametrize(
        "view",
        [
            of_ready(ready(), file="ready/x", place=1, latest=NOW, reasons=()),
            running_view(),
            ended(Stage.DONE, ACCEPTED, STARTED, FAILED),
            ended(Stage.DONE),
            ended(Stage.REFUSED, why="no"),
            of_entry(Stage.INCOMING, "x.toml", "x", None),
        ],
        ids=["ready", "running", "done", "withdrawn", "refused", "incoming"],
    )
    def test_every_job_has_every_key_in_order(self, view: JobView) -> None:
        assert tuple(json.loads(json.dumps(view.as_json()))) == KEYS

    def test_a_ready_job_says_what_it_asks_for(self) -> None:
        reason = Reason(Rule.LOCK, "waits for gpu", {"lock": "gpu"})
        view = of_ready(ready(), file="ready/0050-g52.toml", place=2, latest=NOW + 60, reasons=[reason]).as_json()
        assert view["locks"] == {"gpu": 1, "disk": "all"}
        assert view["after"] == ["a", "b"]
        assert (view["place"], view["memory"], view["wall_s"]) == (2, 7, 3600.0)
        assert view["latest_start"] == iso(NOW + 60)
        assert view["reasons"] == [{"rule": "lock", "text": "waits for gpu", "lock": "gpu"}]
        assert view["started_at"] is view["outcome"] is view["pid"] is None

    def test_a_running_job_says_what_it_has(self) -> None:
        figures = Figures(run=3, pid=4711, at=NOW, memory=5, peak=6, kind="pss", cpu_s=1.0, processes=2)
        view = running_view(figures).as_json()
        assert view["locks"] == {"gpu": ["0"], "box": ["0"]}
        assert (view["pid"], view["peak_memory"], view["elapsed_s"]) == (4711, 6, 90.0)
        assert view["deadline"] == iso(NOW - 90 + 3600)
        assert view["log"] == "log/0050-g52.log"

    def test_no_wall_clock_is_null_and_not_infinity(self) -> None:
        view = running_view(wall_s=NO_LIMIT).as_json()
        assert view["wall_s"] is None
        assert view["deadline"] is None
        assert "Infinity" not in json.dumps(view)

    def test_a_done_job_has_the_figures_of_its_last_run(self) -> None:
        view = ended(Stage.DONE, ACCEPTED, STARTED, step("ended", outcome="lost"), step("requeued"), STARTED, FAILED).as_json()
        assert (view["outcome"], view["exit"], view["signal"], view["elapsed_s"], view["peak_memory"]) == ("failed", 2, None, 91.5, 1234)
        assert view["locks"] == {"gpu": ["0"]}
        assert view["wall_s"] == 86400.0

    def test_a_refused_job_has_its_reason_and_none_of_its_earlier_life(self) -> None:
        view = ended(Stage.REFUSED, ACCEPTED, STARTED, FAILED, why="a cycle").as_json()
        assert view["reasons"] == [{"rule": "refused", "text": "a cycle"}]
        assert view["accepted_at"] is view["started_at"] is view["outcome"] is view["log"] is None
        assert view["ended_at"] == iso(NOW - 5)

    def test_a_job_put_into_done_by_hand_has_no_outcome(self) -> None:
        view = ended(Stage.DONE, ACCEPTED)
        assert view.outcome is None
        assert view.gone

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.dictionaries(STEP_KEYS, ANYTHING)))
    def test_no_history_makes_a_view_fail(self, steps: list[dict[str, Any]]) -> None:
        view = ended(Stage.DONE, *steps)
        assert tuple(view.as_json()) == KEYS
        row(view, NOW, FINE)

    def test_the_last_life_begins_with_the_last_acceptance(self) -> None:
        second = step("accepted", **{"from": "incoming/again.toml"})
        assert last_life([ACCEPTED, STARTED, FAILED, second, STARTED]) == [second, STARTED]


class TestWords:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0.0, "0s"),
            (0.84, "0.8s"),
            (9.96, "10s"),
            (42.4, "42s"),
            (60, "1m"),
            (192, "3m12s"),
            (3600, "1h"),
            (5460, "1h31m"),
            (86400, "24h"),
            (187200, "2d4h"),
            (NO_LIMIT, "none"),
        ],
    )
    def test_a_span_has_two_units(self, seconds: float, text: str) -> None:
        assert span(seconds) == text

    def test_a_clock_says_the_day_only_if_it_is_another_one(self) -> None:
        assert clock(NOW + 7200, NOW) == "14:00"
        assert clock(NOW + 86400, NOW) == "Wed 12:00"
        assert clock(NOW - 30 * 86400, NOW) == "2026-11-01"

    def test_ends_in_words(self) -> None:
        view = ended(Stage.DONE, ACCEPTED, STARTED, FAILED)
        assert ended_words(view) == "failed after 1m32s, exit 2"
        assert ended_words(replace(view, exit=None, signal=11)) == "failed after 1m32s, signal 11 (SEGV)"
        assert ended_words(replace(view, outcome=Outcome.LOST, exit=None)) == "lost"

    def test_locks_in_words(self) -> None:
        assert lock_words({}) == "no lock"
        assert lock_words({"box": ("0",), "gpu": ("0",), "disk": ("a", "b")}, {"gpu"}) == "box + gpu 0 + disk a,b"
        assert lock_words({"cpu": 8, "gpu": None, "box": 1}) == "cpu x8 + gpu (all) + box"

    def test_all_reasons_in_the_fewest_words(self) -> None:
        reasons = [
            Reason(Rule.AFTER, "", {"job": "a", "state": "running"}),
            Reason(Rule.AFTER, "", {"job": "b", "state": "nowhere"}),
            Reason(Rule.LOCK, "", {"lock": "gpu", "wanted": 2, "held_by": [{"job": "c"}]}),
            Reason(Rule.MEMORY, "", {"missing": 2_000_000_000}),
            Reason(Rule.ORDER, "", {"job": "d"}),
            Reason(Rule.TIME, "", {"until": iso(NOW + 3600)}),
        ]
        assert short(reasons, NOW) == "after a, b (nowhere yet); gpu x2 held by c; memory 2.0GB short; behind d; not before 13:00"

    def test_a_pause_is_a_reason_only_where_there_is_no_other(self) -> None:
        pause = Reason(Rule.PAUSED, "the spool is paused: lunch", {})
        assert short([pause], NOW) == "paused"
        twice = [Reason(Rule.AFTER, "", {"job": "a", "kind": kind, "state": "live"}) for kind in ("after", "after_failed")]
        assert short(twice, NOW) == "after a"
        assert short([pause, Reason(Rule.HOLD, "", {})], NOW) == "on hold"
        assert short([], NOW) == ""


NASTY = st.text(max_size=60) | st.sampled_from(["\x1b[31mred", "a\nb", "\u202egpj", "\udcff", "ü" * 40])


@st.composite
def views(draw: st.DrawFn) -> JobView:
    stage = draw(st.sampled_from(list(Stage)))
    reasons = tuple(
        Reason(draw(st.sampled_from(list(Rule))), draw(NASTY), {"job": draw(NASTY), "lock": draw(NASTY)})
        for _ in range(draw(st.integers(0, 3)))
    )
    return JobView(
        name=draw(NASTY),
        seq=1,
        stage=stage,
        file="x",
        note=draw(NASTY),
        started_at=NOW,
        ended_at=draw(st.none() | st.just(NOW)),
        outcome=draw(st.none() | st.sampled_from(list(Outcome))),
        elapsed_s=draw(st.none() | st.floats(0, 1e7)),
        locks={draw(NASTY): draw(st.none() | st.integers(1, 9) | st.just(("0",)))},
        wall_s=draw(st.none() | st.just(NO_LIMIT) | st.just(60.0)),
        deadline=draw(st.none() | st.just(NOW)),
        place=draw(st.none() | st.integers(1, 99999)),
        latest_start=draw(st.none() | st.just(NOW)),
        reasons=reasons,
        state=draw(st.sampled_from(["running", "term"])),
        supervised=draw(st.booleans()),
        held=draw(st.booleans()),
    )


class TestRows:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(views(), max_size=5), st.integers(50, 200), st.sampled_from([FINE, PLAIN]))
    def test_no_line_is_wider_than_the_terminal_and_no_text_controls_it(self, jobs: list[JobView], width: int, marks: Marks) -> None:
        signs = {marks.running, marks.ok, marks.bad, marks.none, marks.cut}
        lines = table([row(job, NOW, marks) for job in jobs], width, marks)
        assert len(lines) == len(jobs)
        for line in lines:
            text = "".join(cell.text for cell in line)
            assert len(text) <= width
            for sign in signs:
                text = text.replace(sign, "")
            assert text.isascii()
            assert text.isprintable()

    def test_the_columns_stand_below_each_other(self) -> None:
        long = replace(running_view(), name="g" * 12)
        lines = ["".join(cell.text for cell in line) for line in table([row(running_view(), NOW, PLAIN), row(long, NOW, PLAIN)], 80, PLAIN)]
        assert lines[0].index("1m30s") == lines[1].index("1m30s")
        assert lines[0].endswith("until 12:58")

    def test_a_job_without_a_reason_starts_now_if_somebody_starts_it(self) -> None:
        view = of_ready(ready(), file="ready/x", place=1, latest=NOW, reasons=())
        assert row(view, NOW, PLAIN)[2].text == "starts now"
        assert row(view, NOW, PLAIN, spooler=False)[2].text == "free to start"

    def test_what_was_cut_says_so(self) -> None:
        assert cut("abcdef", 6, FINE) == "abcdef"
        assert cut("abcdefg", 6, FINE) == "abcde…"
        assert cut("abcdefg", 6, PLAIN) == "abcd.."
        assert cut_front("/home/somebody/spool", 10, FINE) == "…ody/spool"
