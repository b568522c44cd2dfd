"""A fresh spool for a test, and one place for compiled modules: a command that starts fast makes tests that are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import Box


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pycache")


@pytest.fixture
def box(tmp_path: Path, cache: Path) -> Iterator[Box]:
    box = Box(tmp_path, cache)
    yield box
    box.let_go()
