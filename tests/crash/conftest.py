"""conftest - what the crash tests share: the process that starts their spoolers, and spools whose spoolers die."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
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
