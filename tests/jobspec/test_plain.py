import time
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_strategies import LIKELY_TOML, NEARLY_TOML

from jobspec.plain import read_plain

_VALUES = ('"x"', "'y'", '""', "-0", "0", "12", "007", "1.5", "1.", "-0.0", "true", "False", "2026-12-02T22:00:00", "2026-12-02 22:00:00.123456")
_DATES = ("2026-12-02T22:00:00+02:00", "2026-02-30T22:00:00", "2026-12-02T24:00:00", "2026-12-02T22:00:60", "2026-12-02T22:00:00-00:00", "2026-12-02")
_COMPOUND = ('["x", \'y\', 1,]', "[\n1 ,\n2.5\n]", "[]", "[,]", "{}", '{ a = 1, b = ["x"] }', "{ a = 1, a = 2 }", "{ a = 1, }", "[[1]]", "{ a = {} }")
_SCRIPTS = ('"""\nx\n"""', '"""a"b""c"""', '"""a""""', '"""\\n"""', "'''x'''", '""""""', '"""#"""')
_LINES = st.one_of(
    st.tuples(
        st.sampled_from(["a", "b", "c-d_1", "e.f", '"g"']),
        st.sampled_from(["=", " = ", "\t="]),
        st.sampled_from(_VALUES + _DATES + _COMPOUND + _SCRIPTS),
        st.sampled_from(["", " ", " # x", "#", " x"]),
    ).map("".join),
    st.sampled_from(["", "# c", "  # é \t", "[t]", "[u]", "[[v]]", "[[v]] # x", "[t.x]", "[ t ]", "[a]", "[[a]]", " \x0b", "\x00"]),
)
TEXTS = st.lists(_LINES, max_size=6).map("\n".join) | NEARLY_TOML | LIKELY_TOML


@settings(deadline=None, max_examples=400)
@given(TEXTS)
def test_what_is_plain_is_what_tomllib_reads(text):
    plain = read_plain(text)
    if plain is not None:
        assert repr(plain) == repr(tomllib.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        'command = ["./bench.sh", "--model", "q4"]  # an argv\n',
        'script = """\n#!/bin/sh\necho "a" \'b\' ""\n"""\n',
        "a = 1\n\n  b = -2 # x\n\n[env]\nA = 'x'\n[retry]\ntimes = 2\non = [\n  \"failed\", # no\n]".replace(" # no", ""),
        'at = 2026-12-01 12:28:50.778946+00:00\n[[trace]]\nstep = "a"\n\n[[trace]]\nlocks = { gpu = ["0"], box = [] }\nwaited_s = 12.5\n',
        "",
        "# only a comment",
    ],
)
def test_the_usual_file_takes_the_short_cut(text):
    assert read_plain(text) == tomllib.loads(text)
    assert read_plain(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 60_000 + "!",
        " " * 60_000 + "!",
        "# " * 30_000 + "\n!",
        "a = [" + "1," * 30_000,
        "a = [" + '"x",' * 15_000 + "!",
        'a = """' + '"x' * 30_000,
        'a = """' + "x\n" * 30_000 + '\\"""',
        "a = {" + "b=1," * 15_000,
        "a = {" + "b=[1,2]," * 7_000,
        "a = {b=[1," + " " * 60_000,
        "a = [" + " \n" * 30_000,
        "a = 1" + " " * 60_000 + "!",
        "a=1\n" * 15_000,
    ],
    ids=lambda text: text[:12].strip() + "...",
)
def test_no_text_takes_long(text):
    start = time.process_time()
    assert read_plain(text) is None
    assert time.process_time() - start < 2
