# make demo    the bench night: six jobs, one box, under 30 s
# make test    ruff, mypy and the tests
# make soak    the long runs
# make bench   against task-spooler, which has to be installed
# make clean   everything that can be made again; never a job, a log or a setting
#
# Needs python3 (3.11 or later) and make; .venv is made by .ci/venv.  PYTHON=/path/to/python3 names another Python.

WORKERS = 2
PY = .venv/bin/python

.PHONY: all demo test lint soak bench clean
.NOTPARALLEL:

all: test

demo:
	@PYTHON="$(PYTHON)" sh .ci/venv runtime
	@sh jobspec/examples/bench-night/demo.sh spool

test: lint
	@$(PY) -m pytest -n $(WORKERS) -m "not soak"

lint:
	@PYTHON="$(PYTHON)" sh .ci/venv dev
	@$(PY) -m ruff check .
	@$(PY) -m mypy --strict

soak:
	@PYTHON="$(PYTHON)" sh .ci/venv dev
	@$(PY) -m pytest -m soak

bench:
	@PYTHON="$(PYTHON)" sh .ci/venv dev
	@$(PY) -m tests.bench

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
