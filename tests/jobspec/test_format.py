"""FORMAT.md, the schema and the examples, each held to the code."""

import re
import subprocess

import jsonschema
import pytest
from hypothesis import given, settings
from job_strategies import jobs
from toml_as_json import JOBSPEC, SCHEMA, is_valid

from jobspec.errors import JobSpecError
from jobspec.names import MAX_DIGITS, MAX_FILE_NAME, NAME_PATTERN, parse_file_name
from jobspec.parse import FIELDS, MAX_NICE, MAX_RETRIES, MIN_NICE, RETRY_WORDS, parse
from jobspec.places import MAX_DEPTH
from jobspec.units import MAX_DURATION_S, MAX_SIZE
from jobspec.values import LOCK_PATTERN, MAX_LOCK_NAME, MAX_UNITS
from jobspec.write import write
from spoold.settings import KEYS, Settings, SettingsError, parse_settings

FORMAT = (JOBSPEC / "FORMAT.md").read_text()
JOB_PART, SETTINGS_PART = FORMAT.split("\n# spool.toml\n")
EXAMPLES = sorted(JOBSPEC.glob("examples/*.toml"))


def sections(text):
    """From the name of each field to what is said about it."""
    parts = re.split(r"^#{2,3} (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(text):
    return re.findall(r"^```toml\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def refusals(text):
    """Pairs from the tables of what is refused: a line of TOML, and words of the refusal."""
    return re.findall(r"^\| `(.+? = .+?)` \| (.+?) \|$", text, flags=re.MULTILINE)


JOB_FIELDS = {name: text for name, text in sections(JOB_PART).items() if name[0].islower()}
SETTING_KEYS = sections(SETTINGS_PART)
JOB_BLOCKS = [(name, block) for name, text in JOB_FIELDS.items() for block in blocks(text)]
SETTING_BLOCKS = [(name, block) for name, text in SETTING_KEYS.items() for block in blocks(text)]


def test_every_field_of_a_job_stands_in_the_reference_and_in_the_schema():
    assert JOB_FIELDS.keys() == FIELDS.keys()
    assert SCHEMA["properties"].keys() == {*FIELDS, "trace"}


def test_every_variable_that_a_job_gets_stands_in_the_reference():
    code = "".join((JOBSPEC.parent / "spoold" / module).read_text() for module in ("orders.py", "beginning.py"))
    given = {name.removesuffix("_") for name in re.findall(r'(?<!")"(SPOOLD_[A-Z_]+)', code)} - {"SPOOLD_TOKEN"}
    said = {name.removesuffix("_GPU") for name in re.findall(r"`(SPOOLD_[A-Z_]+)`", JOB_FIELDS["env"])}
    assert said == given


def test_every_key_of_spool_toml_stands_in_the_reference():
    assert SETTING_KEYS.keys() == KEYS.keys()


def test_the_schema_is_one_and_describes_every_field():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert all(field.get("description") for field in SCHEMA["properties"].values())


def test_the_schema_has_the_ranges_of_the_code():
    fields, definitions = SCHEMA["properties"], SCHEMA["$defs"]
    assert (fields["nice"]["minimum"], fields["nice"]["maximum"]) == (MIN_NICE, MAX_NICE)
    assert fields["retry"]["properties"]["times"]["maximum"] == MAX_RETRIES
    assert fields["retry"]["properties"]["on"]["items"]["enum"] == list(RETRY_WORDS)
    assert fields["lock"]["oneOf"][2]["additionalProperties"]["oneOf"][0]["maximum"] == MAX_UNITS
    assert definitions["lock"]["pattern"] == f"^{LOCK_PATTERN}$"
    assert definitions["lock"]["maxLength"] == MAX_LOCK_NAME
    assert definitions["name"]["maxLength"] == MAX_FILE_NAME
    assert definitions["time"]["oneOf"][0]["maximum"] == MAX_DURATION_S
    assert definitions["amount"]["oneOf"][0]["maximum"] == MAX_SIZE


def test_the_reference_has_the_numbers_of_the_code():
    assert f"NAME is `{NAME_PATTERN}`" in FORMAT
    assert f"`{LOCK_PATTERN}`, at most {MAX_LOCK_NAME} bytes" in JOB_FIELDS["lock"]
    assert f"1 to {MAX_DIGITS} digits" in FORMAT
    assert f"at most {MAX_FILE_NAME} bytes, {MAX_FILE_NAME - MAX_DIGITS - 1} without SEQ" in FORMAT
    assert f"at most {MAX_DEPTH} levels" in FORMAT
    assert f"from {MIN_NICE} to {MAX_NICE}" in JOB_FIELDS["nice"]
    assert f"from 1 to {MAX_RETRIES}" in JOB_FIELDS["retry"]
    assert f"1 to {MAX_UNITS}" in JOB_FIELDS["lock"]
    assert f"1 to {MAX_UNITS}" in SETTING_KEYS["locks"]


@pytest.mark.parametrize(("name", "block"), JOB_BLOCKS)
def test_an_example_of_the_reference_is_a_job_with_that_field_and_stands_the_schema(name, block):
    assert getattr(parse(block.encode()), FIELDS[name][0]) not in (None, {}, False) or "[]" in block
    assert is_valid(block.encode())


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_has_an_example_and_something_that_is_refused(name):
    assert any(name == field for field, _ in JOB_BLOCKS)
    assert refusals(JOB_FIELDS[name])


@pytest.mark.parametrize(("line", "words"), refusals(JOB_PART))
def test_what_the_reference_calls_refused_is_refused_in_these_words(line, words):
    with_command = "" if re.match("comand|command|script", line) or words == "command or script is missing" else 'command = ["x"]\n'
    with pytest.raises(JobSpecError) as caught:
        parse((with_command + line).encode())
    assert words in str(caught.value)


@pytest.mark.parametrize(("name", "block"), SETTING_BLOCKS)
def test_an_example_of_spool_toml_sets_its_key_and_shows_the_default(name, block):
    said = parse_settings(block.encode())
    assert name in said.sources
    if name not in ("env", "locks"):
        assert said == Settings()


@pytest.mark.parametrize("name", KEYS)
def test_every_key_of_spool_toml_has_an_example_and_something_that_is_refused(name):
    assert any(name == key for key, _ in SETTING_BLOCKS)
    assert refusals(SETTING_KEYS[name])


@pytest.mark.parametrize(("line", "words"), refusals(SETTINGS_PART))
def test_what_is_called_refused_in_spool_toml_is_refused_in_these_words(line, words):
    with pytest.raises(SettingsError) as caught:
        parse_settings(line.encode())
    assert words in str(caught.value)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_file_has_a_good_name_is_a_job_and_stands_the_schema(path):
    assert parse_file_name(path.name).seq is not None
    assert parse(path.read_bytes())
    assert is_valid(path.read_bytes())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_file_runs(path, tmp_path):
    job = parse(path.read_bytes())
    argv = job.command
    if job.script is not None:
        script = tmp_path / "script"
        script.write_text(job.script)
        argv = ("/bin/sh", str(script))
    with open(job.stdin or "/dev/null", "rb") as stdin:
        done = subprocess.run(argv, stdin=stdin, cwd=job.cwd, env={"PATH": "/usr/bin:/bin", **job.env}, capture_output=True, timeout=30)
    assert done.returncode == 0
    assert done.stderr == b""


def test_the_examples_use_every_kind_of_field_but_those_that_need_files():
    used = {name for path in EXAMPLES for name, (attribute, _) in FIELDS.items() if f"\n{name} " in path.read_text() or f"[{name}]" in path.read_text()}
    assert used >= FIELDS.keys() - {"after_failed"}


@settings(deadline=None, max_examples=40)
@given(jobs())
def test_whatever_is_a_job_stands_the_schema(job):
    assert is_valid(write(job))
