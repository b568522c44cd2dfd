"""Whose files and directories are believed in: as they are on the disk, and at the start of a spooler."""

from __future__ import annotations

import os
import pathlib

import pytest

from spoold.errors import SpoolError
from spoold.layout import Layout
from spoold.opening import check_directories
from spoold.store import Store
from spoold.trust import distrust, distrust_directory

ME = os.geteuid()
OTHER = 65534
root_only = pytest.mark.skipif(ME != 0, reason="needs root")


def doubt_about(path: pathlib.Path) -> str | None:
    status = path.stat()
    return distrust(status.st_uid, status.st_gid, status.st_mode, ME)


@pytest.fixture
def layout(tmp_path: pathlib.Path) -> Layout:
    made = Layout(str(tmp_path / "spool"))
    Store(made, durable=False).make()
    pathlib.Path(made.settings).write_text("")
    return made


@pytest.mark.parametrize(("mode", "word"), [(0o600, None), (0o644, None), (0o755, None), (0o666, "everybody"), (0o602, "everybody"), (0o4777, "everybody")])
def test_what_everybody_may_write_is_not_run(tmp_path: pathlib.Path, mode: int, word: str | None) -> None:
    path = tmp_path / "job.toml"
    path.write_text("")
    path.chmod(mode)
    doubt = doubt_about(path)
    assert doubt is None if word is None else doubt is not None and word in doubt and "chmod go-w" in doubt


@root_only
def test_a_group_is_believed_only_if_it_is_the_owners_own(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text("")
    path.chmod(0o664)
    assert doubt_about(path) is None  # root's own group
    os.chown(path, 0, 12345)
    assert "its group may write" in (doubt_about(path) or "")
    path.chmod(0o644)
    assert doubt_about(path) is None


def test_files_of_root_are_believed_and_those_of_others_are_not() -> None:
    assert distrust(0, 0, 0o100644, 1000) is None
    assert distrust(1000, 1000, 0o100644, 1000) is None
    assert "belongs to uid 1001" in (distrust(1001, 1001, 0o100644, 1000) or "")
    assert "belongs to uid 1000" in (distrust(1000, 1000, 0o100644, 0) or "")


PLACES = ["", "incoming", "ready", "running", "done", "refused", "log", ".spoold", "spool.toml"]


@pytest.mark.parametrize("place", PLACES)
def test_a_spool_that_others_can_write_to_is_refused_with_the_command_that_mends_it(layout: Layout, place: str) -> None:
    check_directories(layout)
    path = pathlib.Path(layout.root, place)
    path.chmod(path.stat().st_mode | 0o022)
    with pytest.raises(SpoolError) as refused:
        check_directories(layout)
    remedy = str(refused.value).rpartition(": ")[2]
    assert remedy == f"chmod go-w {path}"
    assert os.system(remedy) == 0
    check_directories(layout)


@root_only
@pytest.mark.parametrize("place", PLACES)
def test_a_spool_of_another_user_is_refused(layout: Layout, place: str) -> None:
    path = pathlib.Path(layout.root, place)
    os.chown(path, OTHER, OTHER)
    with pytest.raises(SpoolError, match=f"{path} belongs to uid {OTHER}, not to you"):
        check_directories(layout)


@pytest.mark.parametrize("stage", ["incoming", "ready", "running", "done", "refused"])
def test_a_stage_that_is_missing_or_something_else_is_said_with_the_remedy(layout: Layout, stage: str, tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(layout.root, stage)
    path.rmdir()
    with pytest.raises(SpoolError, match=f"`spoold init {layout.root}` makes what is missing"):
        check_directories(layout)
    (tmp_path / "elsewhere").mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SpoolError, match="is no directory"):
        check_directories(layout)
    path.unlink()
    path.write_text("")
    with pytest.raises(SpoolError, match="is no directory"):
        check_directories(layout)


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no second file system at hand")
def test_a_private_directory_on_another_file_system_is_refused(layout: Layout, tmp_path: pathlib.Path) -> None:
    if os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is on this file system")
    elsewhere = pathlib.Path("/dev/shm") / f"spoold-test-{os.getpid()}"
    elsewhere.mkdir(mode=0o700)
    try:
        for inner in ("claim", "new", "slots"):
            (pathlib.Path(layout.private) / inner).rmdir()
        pathlib.Path(layout.private).rmdir()
        pathlib.Path(layout.private).symlink_to(elsewhere)
        with pytest.raises(SpoolError, match="different file systems"):
            check_directories(layout)
    finally:
        elsewhere.rmdir()


def test_a_directory_of_ours_that_only_we_can_write_to_is_fine(tmp_path: pathlib.Path) -> None:
    for mode in (0o700, 0o755, 0o500):
        tmp_path.chmod(mode)
        assert distrust_directory(str(tmp_path), tmp_path.stat(), ME) is None
    tmp_path.chmod(0o700)
