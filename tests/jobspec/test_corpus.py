"""The corpus: each file of accepted/ is a job; each of refused/ is refused in the words of the .txt beside it, and by the schema.

Where a schema cannot say what is wrong, the first line of the .txt says why, and the schema has to accept the file: a mark that is no longer
needed fails.
"""

import tomllib
from pathlib import Path

import pytest
from toml_as_json import is_valid

from jobspec import trace
from jobspec.errors import JobSpecError
from jobspec.parse import FIELDS, parse
from jobspec.write import write

CORPUS = Path(__file__).parent / "corpus"
ACCEPTED = sorted((CORPUS / "accepted").glob("*.toml"))
REFUSED = sorted((CORPUS / "refused").glob("*.toml"))
MARK = "# the schema cannot say this: "


def names(paths):
    return [path.stem for path in paths]


def is_toml(data):
    try:
        return bool(tomllib.loads(data.decode("utf-8-sig"))) or True
    except (ValueError, RecursionError):
        return False


def golden(path):
    """The mark, and the refusal line by line."""
    lines = path.with_suffix(".txt").read_text().splitlines()
    marks = [line for line in lines if line.startswith(MARK)]
    return marks, [line for line in lines if line not in marks]


def as_lines(error):
    for problem in error.problems:
        place = "-" if problem.line is None else f"{problem.line}:{problem.column}"
        yield f"{place}: {problem.key}: {problem.text}" if problem.key else f"{place}: {problem.text}"


@pytest.mark.parametrize("path", REFUSED, ids=names(REFUSED))
def test_a_refused_file_is_refused_in_the_words_of_its_golden_file(path):
    with pytest.raises(JobSpecError) as caught:
        parse(path.read_bytes())
    assert list(as_lines(caught.value)) == golden(path)[1]


@pytest.mark.parametrize("path", REFUSED, ids=names(REFUSED))
def test_a_refused_file_that_is_toml_is_refused_by_the_schema_unless_it_cannot(path):
    marks, _ = golden(path)
    if is_toml(path.read_bytes()):
        assert is_valid(path.read_bytes()) is bool(marks)
    else:
        assert not marks


@pytest.mark.parametrize("path", ACCEPTED, ids=names(ACCEPTED))
def test_an_accepted_file_is_a_job_that_can_be_written_and_stands_the_schema(path):
    job = parse(path.read_bytes())
    assert parse(write(job)) == job
    assert is_valid(write(job))
    assert is_valid(trace.split(path.read_bytes())[0])


def test_every_field_is_refused_and_accepted_somewhere():
    refused = {line.split(": ")[1].partition(".")[0] for path in REFUSED for line in golden(path)[1]}
    accepted = {key for path in ACCEPTED for key in tomllib.loads(trace.split(path.read_bytes())[0].decode("utf-8-sig"))}
    assert set(FIELDS) <= refused
    assert set(FIELDS) <= accepted


def test_every_golden_file_has_its_job():
    assert [path.with_suffix(".toml") for path in sorted(CORPUS.glob("refused/*.txt"))] == REFUSED
