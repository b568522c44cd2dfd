import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobspec.spec import NO_LIMIT, Share
from jobspec.units import (
    MAX_DURATION_S,
    MAX_SIZE,
    format_duration,
    format_share,
    format_size,
    parse_amount,
    parse_duration,
    parse_share,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0B", 0),
        ("512B", 512),
        ("37GB", 37_000_000_000),
        ("37 GiB", 37 * 2**30),
        ("1.5TB", 1_500_000_000_000),
        ("0.5kB", 500),
        ("0.5 KiB", 512),
        ("1mb", 1_000_000),
        ("1MIB", 2**20),
        ("1.0005kB", 1001),
        ("7.5EiB", 15 * 2**59),
        ("0.1GB", 100_000_000),
    ],
)
def test_a_size_counts_in_thousands_or_in_1024(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("37", 'has no unit: say "37GB" or "37GiB", or bytes as a number without quotes'),
        ("1.5 ", 'has no unit: say "1.5GB"'),
        ("37G", 'may mean two sizes: say "37GB" (powers of 1000) or "37GiB" (of 1024)'),
        ("37 ki", 'may mean two sizes: say "37KB" (powers of 1000) or "37KiB" (of 1024)'),
        ("37Gb/s", "is no size"),
        ("37 Gbit", "has no unit of size"),
        ("-1GB", "is no size"),
        ("1e3GB", "is no size"),
        (".5GB", "is no size"),
        ("1 GB", None),
        ("1  GB", "is no size"),
        ("", "is no size"),
        ("٣GB", '"\\u0663GB" is no size'),
        ("8EiB", "is more than any box has"),
        ("9" * 60 + "EB", "is more than any box has"),
        ("9" * 70 + "GB", "is no size"),
    ],
)
def test_a_bad_size_is_refused_with_what_would_do(text, why):
    if why is None:
        assert parse_size(text) == 10**9
        return
    with pytest.raises(ValueError, match=r"^\"") as caught:
        parse_size(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (999, "999B"),
        (1000, "1.0kB"),
        (37_000_000_000, "37.0GB"),
        (39_728_447_488, "39.7GB"),
        (999_949_999, "999.9MB"),
        (999_950_000, "1.0GB"),
        (2**63 - 1, "9.2EB"),
        (-1_500_000, "-1.5MB"),
    ],
)
def test_a_size_is_shown_with_one_decimal(size, text):
    assert format_size(size) == text


@given(st.integers(0, MAX_SIZE - 10**17))
def test_a_shown_size_is_read_as_what_it_shows(size):
    text = format_size(size)
    back = parse_size(text)
    assert format_size(back) == text
    assert abs(back - size) <= size * 0.051


@given(st.integers(0, 8_388_607), st.sampled_from(["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"]), st.sampled_from(["", " "]))
def test_whole_sizes_are_exact(number, unit, gap):
    factor = (1024 if "i" in unit else 1000) ** " KMGT".index(unit[0].upper()) if unit != "B" else 1
    assert parse_size(f"{number}{gap}{unit}") == number * factor


@pytest.mark.parametrize(("text", "percent"), [("79%", 79.0), ("12.5 %", 12.5), ("100%", 100.0), ("0.000001%", 0.000001), ("004%", 4.0)])
def test_a_share_is_in_percent(text, percent):
    assert parse_share(text) == Share(percent)


@pytest.mark.parametrize("text", ["0%", "100.1%", "101%", "-4%", "4", "%", "4%%", "1.1234567%", "1e1%", "nan%", "0004%"])
def test_a_bad_share_is_refused(text):
    with pytest.raises(ValueError, match="is no share"):
        parse_share(text)


@given(st.integers(1, 100_000_000))
def test_a_share_is_written_as_it_is_read(millionths):
    share = Share(millionths / 1_000_000)
    assert parse_share(format_share(share)) == share


def test_an_amount_is_a_size_or_a_share_and_no_percent_is_no_bytes():
    assert parse_amount("1kB") == 1000
    assert parse_amount("4%") == Share(4.0)
    assert parse_amount("0%") == 0
    assert parse_amount("0.0%") == 0
    with pytest.raises(ValueError, match="is no share"):
        parse_amount("101%")
    with pytest.raises(ValueError, match="is no size"):
        parse_amount("")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("90m", 5400),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1 h 30 m", 5400),
        ("3d", 259_200),
        ("500ms", 0.5),
        ("1s500ms", 1.5),
        ("1.5h", 5400),
        ("0.001s", 0.001),
        ("1d2h3m4s5ms", 93_784.005),
        ("36500d", MAX_DURATION_S),
    ],
)
def test_a_duration_is_a_sum_of_units(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("12", '"12" has no unit: say "12s", "12m" or "12h", or whole seconds as a number without quotes'),
        ("1.5", '"1.5" has no unit'),
        ("", "is no duration"),
        ("h", "is no duration"),
        ("1m1h", "the longest first"),
        ("1h1h", "each unit stands once"),
        ("1h ", "is no duration"),
        (" 1h", "is no duration"),
        ("1h  30m", "is no duration"),
        ("12 hours", "is no duration"),
        ("1H", "is no duration"),
        ("1h30", "is no duration"),
        ("-1h", "is no duration"),
        ("1e3s", "is no duration"),
        ("inf", "is no duration"),
        ("none", "is no duration"),
        ("0.0001s", "is finer than a millisecond"),
        ("0.5ms", "is finer than a millisecond"),
        ("36500d1ms", "is longer than a hundred years"),
        ("999999999999d", "is longer than a hundred years"),
        ("9" * 70 + "d", "is no duration"),
        ("٣h", "is no duration"),
    ],
)
def test_a_bad_duration_is_refused_with_what_would_do(text, why):
    with pytest.raises(ValueError, match=r"^\"") as caught:
        parse_duration(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.0004, "0s"), (5400, "1h30m"), (0.5, "500ms"), (90_061, "1d1h1m1s"), (NO_LIMIT, "none"), (-90, "-1m30s"), (59.9996, "1m")],
)
def test_a_duration_is_shown_by_its_units(seconds, text):
    assert format_duration(seconds) == text


@given(st.integers(0, MAX_DURATION_S * 1000))
def test_a_duration_is_written_as_it_is_read(milliseconds):
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == seconds
