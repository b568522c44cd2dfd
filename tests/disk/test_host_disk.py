"""What the host seam promises of files, file systems and memory, on the real ones of this box."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spoold import host, host_macos, host_rename, linux_memory
from spoold.host_facts import judge
from spoold.linux_memory import Mount
from spoold.meter import disk_free

Rename = Callable[[str, str], None]
REPOSITORY = Path(__file__).parents[2]
linux = pytest.mark.skipif(sys.platform != "linux", reason="asks a Linux kernel")


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    return str(tmp_path / "a"), str(tmp_path / "b")


# rename ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rename", [host.rename_noreplace, host_rename.rename_by_link])
@pytest.mark.parametrize("kind", ["file", "directory", "symlink", "fifo"])
def test_a_rename_takes_a_free_name(tmp_path: Path, kind: str, rename: Rename) -> None:
    src, dst = tmp_path / "src", tmp_path / "dst"
    if kind == "file":
        src.write_text("x")
    elif kind == "directory":
        src.mkdir()
    elif kind == "symlink":
        src.symlink_to("nowhere")
    else:
        os.mkfifo(src)
    before = os.lstat(src)
    rename(str(src), str(dst))
    assert not os.path.lexists(src)
    assert (os.lstat(dst).st_ino, os.lstat(dst).st_mode, os.lstat(dst).st_nlink) == (before.st_ino, before.st_mode, before.st_nlink)


@pytest.mark.parametrize("rename", [host.rename_noreplace, host_rename.rename_by_link])
@pytest.mark.parametrize("there", ["file", "directory", "dangling symlink"])
def test_a_rename_never_takes_a_name_that_is_there(tmp_path: Path, there: str, rename: Rename) -> None:
    src, dst = tmp_path / "src", tmp_path / "dst"
    src.write_text("new")
    if there == "file":
        dst.write_text("old")
    elif there == "directory":
        dst.mkdir()
    else:
        dst.symlink_to("nowhere")
    before = os.lstat(dst)
    with pytest.raises(FileExistsError):
        rename(str(src), str(dst))
    assert src.read_text() == "new"
    assert os.lstat(dst).st_ino == before.st_ino


@pytest.mark.parametrize("rename", [host.rename_noreplace, host_rename.rename_by_link])
def test_a_rename_of_what_is_gone_says_so(tmp_path: Path, rename: Rename) -> None:
    with pytest.raises(FileNotFoundError):
        rename(str(tmp_path / "gone"), str(tmp_path / "dst"))


def test_a_directory_without_links_is_not_overwritten_either(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "dst").mkdir()
    with pytest.raises(FileExistsError):
        host_rename.rename_by_link(str(tmp_path / "src"), str(tmp_path / "dst"))


def test_two_names_are_swapped(two: tuple[str, str]) -> None:
    a, b = two
    host.rename_exchange(a, b)
    assert (Path(a).read_text(), Path(b).read_text()) == ("b", "a")


def test_a_swap_needs_both_names(two: tuple[str, str]) -> None:
    a, b = two
    os.unlink(b)
    with pytest.raises(FileNotFoundError):
        host.rename_exchange(a, b)
    assert Path(a).read_text() == "a"


# writers --------------------------------------------------------------------------------------------------------------


@linux
def test_a_file_that_is_open_for_writing_has_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text("x")
    fd = os.open(path, os.O_RDONLY)
    try:
        assert host.has_writer(fd) is False
        with open(path, "a"):
            assert host.has_writer(fd) is True
        assert host.has_writer(fd) is False
        with open(path), open(path):
            assert host.has_writer(fd) is False
    finally:
        os.close(fd)


@linux
def test_what_cannot_be_asked_has_perhaps_a_writer(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert host.has_writer(fd) is None
    finally:
        os.close(fd)


WRITERS = """
import os, sys, threading
sys.path.insert(0, sys.argv[2])
from spoold import host
stop = threading.Event()
def write():
    while not stop.is_set():
        os.close(os.open(sys.argv[1], os.O_WRONLY))
writer = threading.Thread(target=write)
writer.start()
fd = os.open(sys.argv[1], os.O_RDONLY)
said = {host.has_writer(fd) for _ in range(3000)}
stop.set()
writer.join()
print(sorted(said, key=str))
"""


@linux
def test_a_writer_that_comes_while_we_ask_does_not_kill_us(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text("x")
    done = subprocess.run([sys.executable, "-c", WRITERS, str(path), str(REPOSITORY)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    assert "None" not in done.stdout


@pytest.mark.parametrize("sync", [host.sync_file, host.sync_data, host_macos.sync_file])
def test_files_and_directories_are_synced(tmp_path: Path, sync: Callable[[int], None]) -> None:
    # the macOS one runs here too: its call is unknown to Linux, so it has to fall back
    (tmp_path / "file").write_text("x")
    for path, flags in ((tmp_path / "file", os.O_RDWR), (tmp_path, os.O_RDONLY)):
        fd = os.open(path, flags)
        try:
            sync(fd)
        finally:
            os.close(fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            sync(fd)


# where a spool may live -----------------------------------------------------------------------------------------------


def test_a_temporary_directory_is_local(tmp_path: Path) -> None:
    found = host.file_system(str(tmp_path))
    assert found.local, found
    assert found.why == ""
    assert found.kind not in ("", "unknown")


@linux
def test_the_innermost_mount_decides() -> None:
    assert host.file_system("/proc/self").kind == "proc"
    assert host.file_system("/procession").kind != "proc"


def test_a_network_file_system_is_refused_with_the_reason() -> None:
    found = judge("nfs4", True, "/mnt/spool")
    assert not found.local
    assert "nfs4" in found.why
    assert "/mnt/spool" in found.why


@linux
def test_mount_points_with_spaces_are_read() -> None:
    text = "36 35 98:0 / /mnt/my\\040disk rw - ext4 /dev/sda rw\n37 36 0:50 / /mnt/a\\134b rw shared:1 - nfs4 host:/x rw,vers=4\nnonsense\n"
    assert linux_memory.parse_mountinfo(text) == [
        Mount("/", "/mnt/my disk", "ext4", "rw"),
        Mount("/", "/mnt/a\\b", "nfs4", "rw,vers=4"),
    ]


# clocks and names -----------------------------------------------------------------------------------------------------


def test_the_clock_of_time_awake_goes_on() -> None:
    before = host.awake()
    while host.awake() == before:
        pass
    assert before < host.awake() < before + 60


@linux
def test_time_awake_is_the_clock_that_stops_in_sleep() -> None:
    assert abs(host.awake() - time.clock_gettime(time.CLOCK_MONOTONIC)) < 1


def test_box_and_boot_have_names_that_stay() -> None:
    assert host.boot_id() == host.boot_id() != ""
    assert host.host_id() == host.host_id() != ""


# memory of a Linux box ------------------------------------------------------------------------------------------------

GIB = 1 << 30
MEMINFO = {"MemTotal": 64 * GIB, "MemAvailable": 48 * GIB, "SwapTotal": 0, "SwapFree": 0}


def group(path: Path, **files: str | int) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("memory_", "memory.")).write_text(f"{text}\n")
    return path


def v2(top: Path, root: str = "/") -> list[Mount]:
    return [Mount(root, str(top), "cgroup2", "rw")]


def test_inside_a_container_the_limit_is_the_box(tmp_path: Path) -> None:
    group(tmp_path / "job", memory_max=8 * GIB, memory_current=6 * GIB, memory_stat=f"inactive_file {1 * GIB}\nactive_file {2 * GIB}")
    status = linux_memory.combine(MEMINFO, linux_memory.bounds("0::/job\n", v2(tmp_path)))
    assert (status.total, status.available) == (8 * GIB, 5 * GIB)
    assert status.detail["cgroup"] == str(tmp_path / "job")
    assert status.detail["mem_available"] == 48 * GIB


def test_the_tightest_group_on_the_way_up_decides(tmp_path: Path) -> None:
    group(tmp_path / "a", memory_max=16 * GIB, memory_current=15 * GIB, memory_stat="")
    group(tmp_path / "a" / "b", memory_max="max", memory_high=20 * GIB, memory_current=1 * GIB, memory_stat="")
    group(tmp_path / "a" / "b" / "c", memory_max="max", memory_current=1 * GIB, memory_stat="")
    status = linux_memory.combine(MEMINFO, linux_memory.bounds("0::/a/b/c\n", v2(tmp_path)))
    assert (status.total, status.available) == (16 * GIB, 1 * GIB)


def test_a_group_over_its_limit_leaves_nothing_and_not_less(tmp_path: Path) -> None:
    group(tmp_path / "job", memory_max=1 * GIB, memory_current=2 * GIB, memory_stat="")
    assert linux_memory.combine(MEMINFO, linux_memory.bounds("0::/job\n", v2(tmp_path))).available == 0


def test_a_group_without_a_limit_bounds_nothing(tmp_path: Path) -> None:
    group(tmp_path / "job", memory_max="max", memory_current=2 * GIB, memory_stat="")
    status = linux_memory.combine(MEMINFO, linux_memory.bounds("0::/job\n", v2(tmp_path)))
    assert (status.total, status.available) == (64 * GIB, 48 * GIB)
    assert "cgroup" not in status.detail


def test_a_limit_over_what_the_machine_has_is_no_promise(tmp_path: Path) -> None:
    group(tmp_path / "job", memory_max=500 * GIB, memory_current=0, memory_stat="")
    status = linux_memory.combine(MEMINFO, linux_memory.bounds("0::/job\n", v2(tmp_path)))
    assert (status.total, status.available) == (64 * GIB, 48 * GIB)


@pytest.mark.parametrize(("cgroup", "root"), [("0::/", "/"), ("0::/", "/docker/7"), ("0::/docker/7", "/docker/7"), ("0::/../x", "/")])
def test_a_container_sees_its_limit_at_the_mount_itself(tmp_path: Path, cgroup: str, root: str) -> None:
    group(tmp_path, memory_max=4 * GIB, memory_current=1 * GIB, memory_stat="")
    assert linux_memory.combine(MEMINFO, linux_memory.bounds(cgroup, v2(tmp_path, root))).total == 4 * GIB


def test_version_one_is_read_too(tmp_path: Path) -> None:
    memory, cpu = tmp_path / "memory", tmp_path / "cpu"
    group(memory, memory_limit_in_bytes=9223372036854771712, memory_usage_in_bytes=50 * GIB, memory_stat="")
    group(memory / "x", memory_limit_in_bytes=4 * GIB, memory_usage_in_bytes=3 * GIB, memory_stat=f"total_inactive_file {GIB}")
    group(cpu / "x", memory_limit_in_bytes=1, memory_usage_in_bytes=1, memory_stat="")
    mounts = [Mount("/", str(cpu), "cgroup", "rw,cpu"), Mount("/", str(memory), "cgroup", "rw,memory")]
    status = linux_memory.combine(MEMINFO, linux_memory.bounds("5:cpu:/x\n4:memory:/x\n0::/\n", mounts))
    assert (status.total, status.available) == (4 * GIB, 2 * GIB)


def test_an_old_kernel_is_answered_from_what_it_says() -> None:
    old = linux_memory.parse_meminfo("MemTotal: 1000 kB\nMemFree: 100 kB\nActive(file): 20 kB\nInactive(file): 30 kB\nHugePages_Total: 7\n")
    assert linux_memory.available_of(old) == 150 * 1024
    assert "HugePages_Total" not in old


@pytest.mark.parametrize("text", ["", "MemTotal: 1000 kB\n", "MemTotal: many\nMemFree: 1 kB\n"])
def test_no_number_is_made_up_if_the_kernel_says_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"meminfo|invalid"):
        linux_memory.parse_meminfo(text)


@linux
def test_this_box_has_memory() -> None:
    status = host.memory_status()
    assert 0 < status.available <= status.total <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_room_on_the_disk_is_what_a_user_can_write(tmp_path: Path) -> None:
    assert abs(disk_free(str(tmp_path)) - shutil.disk_usage(tmp_path).free) < GIB
    with pytest.raises(FileNotFoundError):
        disk_free(str(tmp_path / "gone"))
