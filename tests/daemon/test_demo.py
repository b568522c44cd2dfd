"""The bench night, `make demo`, .ci/venv and .ci/run: what a newcomer runs first."""

from __future__ import annotations

import datetime
import importlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tomli_w

from jobspec.parse import parse
from jobspec.spec import Share
from spoold.claim import is_held
from spoold.layout import Layout
from spoold.model import Stage

ROOT = Path(__file__).resolve().parents[2]
NIGHT = ROOT / "jobspec/examples/bench-night"
NAMES = ["g50", "g51", "g52", "quant", "g64-big", "summary"]
BIN = "/usr/bin:/bin"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout as far as the demo needs one, at a path with a space in it; its .venv is the Python that runs the tests."""
    checkout = tmp_path / "check out"
    shutil.copytree(NIGHT, checkout / "jobspec/examples/bench-night", ignore=shutil.ignore_patterns("__pycache__"))
    bin = checkout / ".venv/bin"
    bin.mkdir(parents=True)
    for name, words in (("python", ""), ("python3", ""), ("spoold", "-c 'import sys; from spoold.cli import main; sys.exit(main())' ")):
        script = bin / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" {words}"$@"\n')
        script.chmod(0o755)
    spool = checkout / "spool"
    for stage in Stage:
        (spool / stage.value).mkdir(parents=True)
    (spool / "spool.toml").write_text(f'durability = "fast"\n[env]\nPATH = "{BIN}"\nBENCH_NIGHT_SCALE = "0.08"\n')
    return checkout


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(NIGHT))
    return importlib.import_module("fit")


def script_of(name: str) -> str:
    [path] = NIGHT.glob(f"*-{name}.toml")
    script = tomllib.loads(path.read_text())["script"]
    assert isinstance(script, str)
    return script


def run_by_hand(checkout: Path, name: str) -> str:
    env = {"HOME": str(checkout), "PATH": BIN, "SPOOLD_SPOOL": str(checkout / "spool"), "BENCH_NIGHT_SCALE": "0.01"}
    done = subprocess.run(["/bin/sh", "-c", script_of(name)], env=env, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_job_of_the_night_is_a_valid_job_file() -> None:
    jobs = {path.stem: parse(path.read_bytes()) for path in sorted(NIGHT.glob("*.toml"))}
    assert [stem.partition("-")[2] for stem in jobs] == NAMES
    assert all(job.wall_s is not None and job.wall_s <= 60 for job in jobs.values())


def test_every_script_of_the_night_runs_with_next_to_no_environment(checkout: Path) -> None:
    for name in NAMES[:-1]:
        assert f"{name}: " in run_by_hand(checkout, name)
    table = run_by_hand(checkout, "summary").splitlines()
    assert [line.split()[0] for line in table] == NAMES[:-1]
    assert not any("no figure" in line for line in table)


def test_a_night_never_shows_the_figures_of_another(checkout: Path) -> None:
    run_by_hand(checkout, "g50")
    run_by_hand(checkout, "summary")
    run_by_hand(checkout, "g51")
    first, second, *_ = run_by_hand(checkout, "summary").splitlines()
    assert "no figure" in first
    assert "MB/s" in second


def share_in(text: str) -> float:
    memory = parse(text.encode()).memory
    assert isinstance(memory, Share)
    return memory.percent


def test_the_big_model_and_the_quantization_never_fit_together_and_each_fits_alone(fit: ModuleType) -> None:
    files = {path.stem.partition("-")[2]: path.read_text() for path in NIGHT.glob("*.toml")}
    asked = [int(share_in(files[name])) for name in ("quant", "g64-big")]
    for available in range(13, 101):
        by = fit.factor(asked, float(available))
        quant, big = (share_in(fit.fitted(files[name], by)) for name in ("quant", "g64-big"))
        free = available - fit.FLOOR
        assert max(quant, big) <= free
        if available >= 20:  # under that whole points are too coarse to promise it
            assert quant + big > free or available == 100
    assert fit.factor(asked, 60.0) == 1, "with two fifths of the memory in use the files go in as they are"


def drop_list(checkout: Path) -> list[str]:
    python = checkout / ".venv/bin/python"
    done = subprocess.run([python, NIGHT.relative_to(ROOT) / "fit.py", "spool"], cwd=checkout, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_night_that_was_broken_off_goes_on_before_another_is_dropped(checkout: Path) -> None:
    assert [Path(line).stem.partition("-")[2] for line in drop_list(checkout)] == NAMES
    ready = checkout / "spool/ready"
    (ready / "0700-mine.toml").write_text('command = ["true"]\n')
    assert len(drop_list(checkout)) == len(NAMES)
    (ready / "0005-g52.toml.hold").write_text(script_of("g52"))
    assert drop_list(checkout) == []


def put(spool: Path, file: str, start: float, end: float, **more: Any) -> None:
    """A job in done/ as the spooler leaves it; times are seconds after a fixed moment."""
    zero = datetime.datetime(2026, 12, 1, 22, 0, tzinfo=datetime.UTC)
    at = [zero + datetime.timedelta(seconds=seconds) for seconds in (0, start, end)]
    started = {"step": "started", "at": at[1], "run": 1, "pid": 7, "locks": more.pop("locks", {}), "waited_s": start, "log": "log/x.log"}
    ended = {"step": "ended", "at": at[2], "run": 1, "outcome": "ok", "exit": 0, "peak_memory": 12_000_000}
    started |= {key: more.pop(key) for key in ("waited_for",) if key in more}
    trace = [{"step": "accepted", "at": at[0], "uid": 0}, started, ended | more]
    (spool / "done").mkdir(exist_ok=True)
    (spool / "done" / file).write_text(tomli_w.dumps({"command": ["true"], "trace": trace}))


def picture(spool: Path, since: float = 0.0) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, NIGHT / "picture.py", spool, "--since", str(since)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_the_picture_says_who_ran_when_beside_what_and_why_it_waited(tmp_path: Path) -> None:
    put(tmp_path, "0010-g50.toml", 0, 2, locks={"gpu": ["0"]})
    put(tmp_path, "0020-g51.toml", 2, 4, locks={"gpu": ["0"]}, waited_for=["waits for g50, which runs"])
    put(tmp_path, "0040-quant.toml", 0.5, 5, waited_for=[])
    code, lines = picture(tmp_path)
    assert code == 0
    assert lines == [
        "What ran when, beside what",
        "job      outcome     from      to     peak  lock  beside",
        "g50      ok          0.0s    2.0s    12 MB  gpu   quant",
        "quant    ok          0.5s    5.0s    12 MB  -     g50, g51",
        "g51      ok          2.0s    4.0s    12 MB  gpu   quant",
        "",
        "          0s           1s            2s            3s            4s",
        "g50       ############################",
        "quant     ......" + "=" * 64,
        "g51       ...........................#############################",
        "          . waits    # runs with a lock    = runs without one",
        "",
        "What each waited for",
        "g50      nothing",
        "quant    0.5 s: for its turn",
        "g51      2.0 s: waits for g50, which runs",
    ]


def test_the_picture_is_of_this_night_only_and_of_the_latest_run_of_a_name(tmp_path: Path) -> None:
    put(tmp_path, "0010-g50.toml", 0, 2)
    put(tmp_path, "0010-g50.2.toml", 100, 103, outcome="failed", exit=1)
    put(tmp_path, "0020-g51.toml", 0, 2)
    put(tmp_path, "0070-mine.toml", 100, 101)
    since = datetime.datetime(2026, 12, 1, 22, 1, tzinfo=datetime.UTC).timestamp()
    code, lines = picture(tmp_path, since)
    assert code == 1, "a failed job is no success of the night"
    assert [line.split()[:2] for line in lines[2:4]] == [["g50", "failed"], []]


def test_the_picture_gives_the_reason_of_a_refused_job_and_stays_within_80_columns(tmp_path: Path) -> None:
    put(tmp_path, "0010-g50.toml", 0, 3000, locks={"gpu": ["0"]}, waited_for=["needs 12.3GB of memory, 4.5GB is free for it; " * 5])
    (tmp_path / "refused").mkdir()
    (tmp_path / "refused/0030-g52.toml").write_text('command = ["true"]\n')
    (tmp_path / "refused/0030-g52.why").write_text("g51 ended with outcome failed, and this job was to run only after it had ended well.\n")
    code, lines = picture(tmp_path)
    assert code == 1
    assert any(line.startswith("g52      g51 ended with outcome failed") for line in lines)
    assert max(map(len, lines)) <= 80


def demo(checkout: Path) -> subprocess.CompletedProcess[str]:
    script = checkout / NIGHT.relative_to(ROOT) / "demo.sh"
    env = {"HOME": str(checkout), "PATH": BIN}
    return subprocess.run(["/bin/sh", script], env=env, capture_output=True, text=True, timeout=90, check=False)


def runs(checkout: Path, suffix: str) -> dict[str, tuple[datetime.datetime, datetime.datetime]]:
    found = {}
    for name in NAMES:
        [path] = (checkout / "spool/done").glob(f"*-{name}{suffix}.toml")
        trace = tomllib.loads(path.read_text())["trace"]
        assert trace[-1]["outcome"] == "ok"
        found[name] = (trace[-2]["at"], trace[-1]["at"])
    return found


def test_the_night_runs_twice_in_order_with_the_quantization_beside_the_benchmarks(checkout: Path) -> None:
    for path in (checkout / "jobspec/examples/bench-night").iterdir():
        path.chmod(0o664)  # as a checkout made with umask 002 has it
    for suffix in ("", ".2"):
        said = demo(checkout)
        assert said.returncode == 0, said.stdout + said.stderr
        at = runs(checkout, suffix)
        gpu = [at[name] for name in ("g50", "g51", "g52", "g64-big")]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(gpu))
        assert at["quant"][0] < at["g50"][1], "nothing ran beside the first benchmark"
        assert at["g64-big"][0] >= at["quant"][1], "the big model did not wait for the memory"
        assert at["summary"][0] >= max(end for _, end in list(at.values())[:-1])
        assert said.stdout.count("no figure") == 0
        assert "What each waited for" in said.stdout
    assert list((checkout / "spool/refused").glob("*.toml")) == []


def test_the_demo_watches_where_a_spooler_runs_already(checkout: Path) -> None:
    spoold, spool = str(checkout / ".venv/bin/spoold"), str(checkout / "spool")
    env = {"HOME": str(checkout), "PATH": BIN}
    subprocess.run([spoold, "init", spool], env=env, check=True, capture_output=True)
    nowhere = subprocess.DEVNULL
    with subprocess.Popen([spoold, "--spool", spool, "run"], env=env, stdin=nowhere, stdout=nowhere, stderr=nowhere) as spooler:
        try:
            while not is_held(Layout(spool).owner):
                assert spooler.poll() is None, "the spooler has ended"
                time.sleep(0.01)
            said = demo(checkout)
        finally:
            spooler.terminate()
    assert said.returncode == 0, said.stdout + said.stderr
    assert "A spooler runs on spool already" in said.stdout
    assert re.search(r"^summary: \w+ -> ended$", said.stdout, re.MULTILINE), "it did not tell the last move"
    assert runs(checkout, "")["summary"]


def test_the_demo_starts_nothing_in_a_paused_spool(checkout: Path) -> None:
    (checkout / "spool/PAUSED").write_text("until the fan is mended\n")
    said = demo(checkout)
    assert said.returncode == 75
    assert "until the fan is mended" in said.stdout
    assert list((checkout / "spool/incoming").glob("*.toml")) == []


def stand_in(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text("#!/bin/sh\n" + text)
    program.chmod(0o755)
    return program


def copy_ci(tmp_path: Path, makefile: str = "") -> Path:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "Makefile").write_text(makefile)
    return tmp_path


def make_venv(ci: Path, python: Path, what: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": BIN, "PYTHON": str(python)}
    return subprocess.run(["/bin/sh", ci / ".ci/venv", what], env=env, capture_output=True, text=True, check=False)


def test_a_python_without_venv_is_told_what_to_install(tmp_path: Path) -> None:
    python = stand_in(tmp_path / "bin", "python3", f'case "$2" in *ensurepip*) exit 1 ;; esac\nexec "{sys.executable}" "$@"\n')
    ci = copy_ci(tmp_path)
    said = make_venv(ci, python, "runtime")
    assert said.returncode == 69
    assert "apt-get install python3-venv" in said.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    python = stand_in(tmp_path / "bin", "python3", 'case "$1" in --version) echo "Python 3.9.6" ;; *) exit 1 ;; esac\n')
    ci = copy_ci(tmp_path)
    said = make_venv(ci, python, "dev")
    assert said.returncode == 69
    assert "Python 3.9.6" in said.stderr


@pytest.mark.parametrize(
    ("makefile", "code", "last"),
    [
        ("test:\n\t@echo '12 passed, 1 skipped in 3.45s'; echo afterwards\n", 0, "12 passed, 1 skipped in 3.45s"),
        ("test:\n\t@echo '== 1 failed, 2 passed in 3.45s =='; exit 1\n", 2, "== 1 failed, 2 passed in 3.45s =="),
        ("test:\n\t@echo '12 passed in 3.45s'; exit 1\n", 2, "12 passed in 3.45s"),
        ("test:\n\t@echo '4 skipped in 0.1s'\n", 1, "4 skipped in 0.1s"),
        ("test:\n\t@true\n", 1, "0 passed, 0 failed"),
    ],
)
def test_ci_ends_with_the_closing_line_and_fails_where_no_test_ran(tmp_path: Path, makefile: str, code: int, last: str) -> None:
    ci = copy_ci(tmp_path, makefile)
    env = {"PATH": os.environ["PATH"], "PYTHON": sys.executable}
    said = subprocess.run(["bash", ci / ".ci/run"], env=env, capture_output=True, text=True, check=False)
    assert said.stdout.splitlines()[-1] == last
    assert said.returncode == code
