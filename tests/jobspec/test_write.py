import tomllib

import pytest
from hypothesis import given, settings
from job_strategies import jobs

from jobspec.parse import parse
from jobspec.spec import Job, LockRequest, ModelSize, Retry, RetryOn, Share
from jobspec.write import write


@settings(deadline=None, max_examples=60)
@given(jobs())
def test_a_job_that_is_written_is_read_as_the_same_job(job):
    data = write(job)
    assert parse(data) == job
    assert tomllib.loads(data.decode())


def test_only_what_the_job_says_is_written():
    assert write(Job(command=("true",))) == b'command = ["true"]\n'


def test_amounts_are_written_in_words_that_people_use():
    job = Job(
        script="make",
        lock=(LockRequest("gpu", None), LockRequest("cpu", 8)),
        memory=ModelSize("~/m.gguf", Share(12.5)),
        wall_s=5400.0,
        grace_s=0.5,
        retry=Retry(times=2, delay_s=300.0, on=frozenset({RetryOn.LOST, RetryOn.FAILED})),
    )
    table = tomllib.loads(write(job).decode())
    assert table["lock"] == {"gpu": "all", "cpu": 8}
    assert table["memory"] == {"model": "~/m.gguf", "margin": "12.5%"}
    assert (table["wall"], table["grace"]) == ("1h30m", "500ms")
    assert table["retry"] == {"times": 2, "delay": "5m", "on": ["failed", "lost"]}


def test_no_lock_and_no_limit_are_said():
    assert tomllib.loads(write(Job(script="make", lock=(), wall_s=float("inf"))).decode()) == {"script": "make", "lock": [], "wall": "none"}


def test_bytes_that_are_no_utf_8_cannot_be_written():
    with pytest.raises(ValueError, match=r'^"\\xff" is no UTF-8, and a job file has to be$'):
        write(Job(command=("cat", "a\udcff")))


def test_a_written_job_is_read_by_people_too():
    job = Job(
        script='#!/bin/sh\necho "a"\n',
        after=("g50", "g51"),
        lock=(LockRequest("gpu"), LockRequest("disk")),
        retry=Retry(times=2),
        env={"A": "1", "B C": 'x"y'},
        meta={"a": {"b": 1}},
    )
    assert write(job).decode() == """\
script = \"\"\"
#!/bin/sh
echo \\"a\\"
\"\"\"
after = ["g50", "g51"]
lock = ["gpu", "disk"]
retry = { times = 2, delay = "0s", on = ["failed"] }
env.A = "1"
env."B C" = "x\\"y"

[meta.a]
b = 1
"""


def test_a_variable_may_have_the_name_of_a_field():
    job = Job(script="make", env={"wall": "2h", "note": "x"})
    assert parse(write(job)) == job


def test_a_line_may_be_added_at_the_end_of_a_written_job():
    job = Job(script="make", env={"A": "1"}, retry=Retry(times=1), memory=ModelSize("m"), lock=(LockRequest("a", 2),))
    assert parse(write(job) + b'wall = "2h"\n').wall_s == 7200.0


def test_carriage_returns_in_a_script_come_back():
    job = Job(script="a\r\nb\rc\n")
    assert parse(write(job)) == job
