"""conftest - the long runs use what the crash tests are made of."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crash"))

from rig import Rig
from stable import Stable


@pytest.fixture(scope="session")
def stable() -> Iterator[Stable]:
    stable = Stable()
    yield stable
    stable.close()


@pytest.fixture
def rig(stable: Stable, tmp_path: pathlib.Path) -> Iterator[Rig]:
    with Rig(stable, tmp_path / "rig") as rig:
        yield rig
