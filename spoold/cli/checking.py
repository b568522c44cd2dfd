"""checking - `check`: every problem of job files, or every setting that they would run under.

Owns the form FILE:LINE:COLUMN: key: text, which editors and CI jump to.  Works without a spool, with the defaults.
Fails: nothing of its own; a file that is no job is what it is for.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from jobspec.errors import JobSpecError
from jobspec.names import BadNameError, parse_file_name, show
from jobspec.parse import parse
from jobspec.spec import MAX_FILE_BYTES, Job
from jobspec.units import format_size
from spoold import host
from spoold.admission import History, admit, make_box, never
from spoold.cli.effective import Setting, effective
from spoold.cli.program import Session, pass_session, verb
from spoold.cli.terminal import say, say_json
from spoold.errors import Exit, NoSuchError
from spoold.identity import login_environment
from spoold.modelsize import model_bytes
from spoold.settings import Settings
from spoold.survey import read_settings


@verb(
    "check",
    examples="""
spoold check g52.toml
spoold check --json *.toml
spoold submit --dry-run -- make | spoold check -
""",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list of files, each with its problems and settings.")
@pass_session
def check(session: Session, files: tuple[str, ...], as_json: bool) -> int:
    """Check job files without queueing them.

    Prints every problem with its line and column; for a good file every setting with its source.  Exits 0, or 65 if one of them is no job.
    """
    settings = _settings(session)
    results = [_check(path, settings) for path in files]
    if as_json:
        say_json([result for result, _ in results])
    else:
        for result, lines in results:
            if len(files) > 1 and result["ok"]:
                say(f"{show(result['file'])}: ok")
            for line in lines:
                say(line)
    return Exit.OK if all(result["ok"] for result, _ in results) else Exit.BAD_JOB


def _settings(session: Session) -> Settings:
    try:
        return read_settings(session.layout)[0]
    except NoSuchError:
        if session.option is not None:
            raise
        return Settings()


def _check(path: str, settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """One file: as JSON, and in lines."""
    problems: list[dict[str, Any]] = []
    lines: list[str] = []

    def add(text: str, key: str = "", line: int | None = None, column: int | None = None) -> None:
        problems.append({"line": line, "column": column, "key": key, "text": text})
        place = "" if line is None else f":{line}:{column or 1}"
        lines.append(f"{show(path)}{place}: {key + ': ' if key else ''}{text}")

    if path != "-":
        try:
            parse_file_name(os.path.basename(path))
        except BadNameError as error:
            add(str(error))
    try:
        data = _read(path)
    except OSError as error:
        add(error.strerror or str(error))
        data = None
    job: Job | None = None
    if data is not None:
        if len(data) > MAX_FILE_BYTES:
            add(f"it has {format_size(len(data))}, and a job file has at most {format_size(MAX_FILE_BYTES)}")
        else:
            try:
                job = parse(data)
            except JobSpecError as error:
                for problem in error.problems:
                    add(problem.text, problem.key, problem.line, problem.column)
    found: list[Setting] = []
    if job is not None:
        found, impossible = _judge(path, job, settings)
        for text in impossible:
            add(text)
    if not problems:
        lines = [str(setting) for setting in found]
    table = {"file": path, "ok": not problems, "problems": problems, "settings": [setting.as_json() for setting in found]}
    return table, lines


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    with open(path, "rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def _judge(path: str, job: Job, settings: Settings) -> tuple[list[Setting], list[str]]:
    """What it would run under, and why this box could never run it."""
    memory = host.memory_status()
    size = model_bytes(job, settings.cwd)
    found = effective(job, settings, total=memory.total, model_bytes=size, identity=login_environment())
    try:
        name = parse_file_name(os.path.basename(path))
    except BadNameError:
        name = parse_file_name("job.toml")
    numbered = name if name.seq is not None else parse_file_name("0-job.toml")
    ready = admit(numbered, job, History(accepted_at=0.0, claim=""), settings, total=memory.total, model_bytes=size)
    return found, never(ready, make_box(settings, total=memory.total, available=memory.available))
