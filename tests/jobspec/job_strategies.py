"""Strategies: valid jobs, text that is nearly TOML, and entries of a history."""

from __future__ import annotations

import datetime
import string

from hypothesis import strategies as st

from jobspec import trace
from jobspec.spec import NO_LIMIT, Job, LockRequest, ModelSize, Retry, RetryOn, Share

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.text(CHARACTERS, min_size=1, max_size=30)
NAMES = st.text(string.ascii_letters + string.digits + "._+@-", min_size=1, max_size=20).filter(
    lambda name: name[0] in string.ascii_letters + string.digits and not name.endswith(".toml")
)
GLOBS = st.sampled_from(["*", "g5?", "bench-*", "g5[01]", "[a-f]*"])
LOCKS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
SHARES = st.integers(1, 100_000_000).map(lambda millionths: Share(millionths / 1_000_000))
SECONDS = st.integers(1, 36_500 * 86_400_000).map(lambda ms: ms / 1000)
AMOUNTS = st.integers(0, 2**63 - 1) | SHARES
ENV = st.dictionaries(st.text(CHARACTERS.filter(lambda c: c != "="), min_size=1, max_size=10), st.text(CHARACTERS, max_size=20), max_size=3)

MOMENTS = st.datetimes(
    datetime.datetime(1970, 1, 1),
    datetime.datetime(9998, 12, 31),
    timezones=st.none() | st.integers(-1439, 1439).map(lambda m: datetime.timezone(datetime.timedelta(minutes=m))),
)

META = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False)
        | st.text(max_size=10)
        | MOMENTS
        | st.dates()
        | st.times(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)

RETRIES = st.builds(
    Retry,
    times=st.integers(1, 1000),
    delay_s=st.just(0.0) | SECONDS,
    on=st.frozensets(st.sampled_from(RetryOn), min_size=1),
)


def _names() -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(NAMES | GLOBS, max_size=3, unique=True).map(tuple)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Any valid job."""
    script = draw(st.booleans())
    return Job(
        command=None if script else (draw(TEXTS), *draw(st.lists(st.text(CHARACTERS, max_size=20), max_size=3))),
        script=draw(TEXTS.filter(str.strip)) if script else None,
        cwd=draw(st.none() | TEXTS),
        env=draw(ENV),
        stdin=draw(st.none() | TEXTS),
        after=draw(_names()),
        after_ok=draw(_names()),
        after_failed=draw(_names()),
        lock=draw(
            st.none()
            | st.lists(
                st.builds(LockRequest, LOCKS, st.just(1) | st.none() | st.integers(1, 10_000)), max_size=3, unique_by=lambda r: r.name
            ).map(tuple)
        ),
        memory=draw(st.none() | AMOUNTS | st.builds(ModelSize, TEXTS, AMOUNTS)),
        wall_s=draw(st.none() | SECONDS | st.just(NO_LIMIT)),
        grace_s=draw(st.none() | SECONDS | st.just(0.0)),
        nice=draw(st.none() | st.integers(-20, 20)),
        not_before=draw(st.none() | MOMENTS),
        give_up_s=draw(st.none() | SECONDS),
        retry=draw(st.none() | RETRIES),
        keep_awake=draw(st.booleans()),
        note=draw(st.none() | st.text(max_size=20)),
        meta=draw(META),
    )


_PIECES = (
    *("\n", " ", "\t", "=", " = ", ".", ",", "#", "[", "]", "[[", "]]", "{", "}", '"', '"""', "'", "'''", "\\", "\\\\", '\\"', "\\u00e9", "\\q"),
    *("a", "b", "env", "wall", "command", "lock", "meta", "trace", '"a b"', "'c'", "12", "12h", "-0", "007", "0x1f", "1.5", "1e3", "inf", "nan"),
    *("true", "false", "2026-12-02T22:00:00", "2026-12-02 22:00:00.5Z", "2026-13-02T22:00:00", "22:00:00", '"x"', '["x", "y"]', '{ a = "x" }'),
    *("\na = ", "\nb = ", "\n[env]\n", "\n[[a]]\n", "\n[a.b]\n", '\ncommand = ["true"]\n', "# comment\n", "\r\n", "\r", "\0", "\x1b", "é", "\U0001f600"),
    *(f"\n{trace.MARKER}\n", f"\n{trace.END}\n", "\n[[trace]]\n", "\ufeff"),
)
NEARLY_TOML = st.lists(st.sampled_from(_PIECES), max_size=25).map("".join)

_VALUES = st.recursive(
    st.sampled_from(["1", "-0", "1.5", "true", '"x"', "'y'", '"""\nz"""', "'''q'''", "2026-12-02T22:00:00", "2026-12-02", '"\\u00e9#["', "inf"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda v: f"[{', '.join(v)}]")
    | st.lists(st.tuples(st.sampled_from(["a", "b.c", '"d e"', "f"]), inner), max_size=2, unique_by=lambda p: p[0]).map(
        lambda pairs: "{ " + ", ".join(f"{k} = {v}" for k, v in pairs) + " }"
    ),
    max_leaves=4,
)
_LINES = st.one_of(
    st.tuples(st.sampled_from(["a", "b", "c.d", '"e f"', "g", "'h'", "i.j.k"]), _VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    st.sampled_from(["", "# comment", "  ", "[t]", "[t.u]", "[[v]]", "[[v.w]]", "[ 'x' ]", '["y z".q]']),
)
LIKELY_TOML = st.lists(_LINES, max_size=8).map("\n".join)
"""Text that is TOML more often than not."""

ENTRY_VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(CHARACTERS, max_size=20) | MOMENTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=5), inner, max_size=3),
    max_leaves=5,
)
ENTRIES = st.dictionaries(st.sampled_from(["step", "at", "from", "run", "locks", "leftover", "a b"]), ENTRY_VALUES, max_size=5)
