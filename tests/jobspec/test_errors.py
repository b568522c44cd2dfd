import pytest

from jobspec.errors import MAX_PROBLEMS, JobSpecError, Problem


def test_an_error_reads_as_one_sentence_with_a_line_for_each_problem():
    error = JobSpecError([Problem(2, 1, "wall", "must be longer than zero"), Problem(None, None, "", "command or script is missing")])
    assert str(error) == "line 2: wall: must be longer than zero; command or script is missing"


def test_problems_come_in_the_order_of_the_file_and_those_without_a_place_last():
    placeless, second, first = Problem(None, None, "", "c"), Problem(2, 3, "b", "b"), Problem(2, 1, "a", "a")
    assert JobSpecError([placeless, second, first]).problems == (first, second, placeless)


def test_the_same_problem_is_reported_once():
    assert len(JobSpecError([Problem(1, 1, "a", "x"), Problem(1, 1, "a", "x")]).problems) == 1


def test_what_nobody_would_read_is_counted():
    problems = JobSpecError(Problem(n, 1, "a", "x") for n in range(1, MAX_PROBLEMS + 8)).problems
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].text == "and 7 more problems"


def test_an_error_is_a_value_error():
    with pytest.raises(ValueError, match="x"):
        raise JobSpecError([Problem(None, None, "", "x")])
