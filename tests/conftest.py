"""What all tests share: a spool of their own that is cleared away after them.  Being here puts tests/ on the path, for `spooling` and `invariants`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from spooling import Spool


@pytest.fixture
def spool(tmp_path: pathlib.Path) -> Iterator[Spool]:
    """A spool without a spooler; whatever runs on it at the end is ended."""
    with Spool(tmp_path / "spool") as made:
        yield made
