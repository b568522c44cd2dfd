"""The macOS seam against recorded answers of Macs, and what it concludes from them.  Runs everywhere."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spoold import host_macos, macos_libc, macos_memory, macos_structs
from spoold.host_facts import Process, judge, synced_by
from spoold.macos_memory import Pages, parse_vm_info64, parse_vm_stat
from spoold.macos_tree import Entry, Family, gather
from spoold.run_evidence import Evidence, belonging

REPOSITORY = Path(__file__).parents[2]
RECORDS = REPOSITORY / "tests" / "records" / "macos"
VM_STATS = sorted((RECORDS / "vm_stat").glob("*.txt"))


def record(name: str) -> Any:
    return json.loads((RECORDS / name).read_text(encoding="utf-8"))


EXPECTED = record("vm_stat/expected.json")
PARTIAL = record("vm_stat/partial.json")
CONSTANTS = record("constants.json")
STATISTICS = record("host_statistics64.json")
LABELS = {
    "free": macos_memory.FREE,
    "active": macos_memory.ACTIVE,
    "inactive": macos_memory.INACTIVE,
    "speculative": macos_memory.SPECULATIVE,
    "throttled": macos_memory.THROTTLED,
    "wired": macos_memory.WIRED,
    "purgeable": macos_memory.PURGEABLE,
    "file_backed": macos_memory.FILE_BACKED,
    "anonymous": macos_memory.ANONYMOUS,
    "occupied": macos_memory.OCCUPIED,
}


def partial_pages(name: str) -> Pages:
    known = PARTIAL[name]
    return Pages(known["page"], {label: known[key] for key, label in LABELS.items() if key in known})


# memory ---------------------------------------------------------------------------------------------------------------


def test_there_are_recorded_outputs() -> None:
    assert len(VM_STATS) == 4


@pytest.mark.parametrize("path", VM_STATS, ids=lambda path: path.stem)
def test_a_recorded_vm_stat_yields_what_was_computed_by_hand(path: Path) -> None:
    expected = EXPECTED[path.stem]
    pages = parse_vm_stat(path.read_text(encoding="ascii"))
    status = macos_memory.status(expected["memsize"], pages, 1, 0)
    shown = expected["activity_monitor"]
    assert pages.page == expected["page"]
    assert status.total == expected["memsize"]
    assert status.available == expected["available_strict_bytes"]
    assert status.detail["app"] == shown["app"]
    assert status.detail["wired"] == shown["wired"]
    assert status.detail["compressed"] == shown["compressed"]
    assert int(status.detail["file_backed"]) + int(status.detail["purgeable"]) == shown["cached_files"]


@pytest.mark.parametrize("name", ["arm64-64g-busy", "arm64-8g-macos26-pressure", "arm64-64g-froze"])
def test_a_record_with_some_lines_missing_yields_what_was_computed(name: str) -> None:
    assert partial_pages(name).available == EXPECTED[name]["available_strict_bytes"]


def test_the_machine_that_froze_had_a_third_of_what_inactive_pages_promise() -> None:
    assert partial_pages("arm64-64g-froze").available * 3 < EXPECTED["arm64-64g-froze"]["psutil_available_bytes"]


def test_without_file_backed_pages_no_number_is_made_up() -> None:
    with pytest.raises(ValueError, match="file-backed"):
        _ = partial_pages("arm64-36g-busy").available


def test_a_longer_label_that_ends_alike_is_another_line() -> None:
    text = (RECORDS / "vm_stat" / "arm64-48g-macos26-tagged-swapping.txt").read_text(encoding="ascii")
    assert "Pages tag-storage free:" in text
    assert parse_vm_stat(text).counts[macos_memory.FREE] == 424618


@pytest.mark.parametrize("text", ["", "\n", "no header\nPages free: 3.\n", "Mach Virtual Memory Statistics: (page size of x bytes)\n"])
def test_an_output_without_a_page_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="page size"):
        parse_vm_stat(text)


@given(st.text())
def test_any_text_gives_pages_or_a_value_error(text: str) -> None:
    try:
        _ = parse_vm_stat("(page size of 4096 bytes)\n" + text).available
    except ValueError:
        pass


@pytest.mark.parametrize("words", sorted(map(int, STATISTICS["count_in_integers"]["seen_kernel_counts"])))
@pytest.mark.parametrize("path", VM_STATS, ids=lambda path: path.stem)
def test_the_kernels_own_answer_means_the_same_as_vm_stat(path: Path, words: int) -> None:
    printed = parse_vm_stat(path.read_text(encoding="ascii"))
    answer = bytearray(words * 4)
    for field, (offset, size) in STATISTICS["field_offset_size"].items():
        label = next((label for label, meaning in STATISTICS["vm_stat_line"].items() if meaning == field), None)
        value = printed.counts[label.strip('"')] if label else 0
        if field == "free_count":
            value = printed.counts[macos_memory.FREE] + printed.counts[macos_memory.SPECULATIVE]
        struct.pack_into("<I" if size == 4 else "<Q", answer, offset, value)
    asked = parse_vm_info64(bytes(answer), printed.page)
    assert asked.available == printed.available
    assert asked.counts == {label: printed.counts[label] for label in asked.counts}


def test_a_short_answer_of_the_kernel_is_refused() -> None:
    assert STATISTICS["bytes"] == macos_memory.VM_INFO64_COUNT * 4
    with pytest.raises(ValueError, match="bytes"):
        parse_vm_info64(bytes(STATISTICS["bytes"] - 4), 4096)


def test_swap_in_use_is_read_from_the_structure() -> None:
    assert "u64 total; u64 avail; u64 used" in record("sysctl.json")["vm.swapusage"]["type"]
    used = int(8742.19 * 1024 * 1024)
    assert macos_memory.parse_swapusage(struct.pack("<QQQIi", 10 << 30, (10 << 30) - used, used, 16384, 1)) == used
    with pytest.raises(ValueError, match="short"):
        macos_memory.parse_swapusage(b"\0" * 20)


@pytest.fixture
def recorded_mac(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The calls answer as the healthy Mac did; the file returned is what is executed as vm_stat."""
    answers = {
        "hw.memsize": struct.pack("<Q", EXPECTED["arm64-16g-healthy"]["memsize"]),
        "kern.memorystatus_vm_pressure_level": struct.pack("<I", 2),
        "vm.swapusage": struct.pack("<QQQIi", 1 << 30, 1 << 29, 1 << 29, 16384, 1),
        "kern.bootsessionuuid": record("sysctl.json")["kern.bootsessionuuid"]["sample"].encode() + b"\0",
    }
    program = tmp_path / "vm_stat"
    program.write_text(f"#!/bin/sh\ncat '{RECORDS / 'vm_stat' / 'arm64-16g-healthy.txt'}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(macos_libc, "sysctl", answers.__getitem__)
    monkeypatch.setattr(host_macos, "VM_STAT", str(program))
    return program


def test_the_box_is_its_memory_size_and_what_vm_stat_says_can_be_had(recorded_mac: Path) -> None:
    status = host_macos.memory_status()
    assert status.total == 17179869184
    assert status.available == EXPECTED["arm64-16g-healthy"]["available_strict_bytes"]
    assert status.detail["pressure_level"] == 2
    assert status.detail["swap_used"] == 1 << 29
    assert host_macos.boot_id() == record("sysctl.json")["kern.bootsessionuuid"]["sample"]


@pytest.mark.parametrize("broken", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho nonsense\n", None])
def test_when_vm_stat_fails_the_kernel_is_asked(recorded_mac: Path, monkeypatch: pytest.MonkeyPatch, broken: str | None) -> None:
    recorded_mac.unlink()
    if broken is not None:
        recorded_mac.write_text(broken)
        recorded_mac.chmod(0o755)
    answer = bytearray(STATISTICS["bytes"])
    struct.pack_into("<I", answer, STATISTICS["field_offset_size"]["free_count"][0], 1000)
    monkeypatch.setattr(macos_libc, "vm_info64", lambda: bytes(answer))
    monkeypatch.setattr(macos_libc, "kernel_page_size", lambda: 16384)
    assert host_macos.memory_status().available == 1000 * 16384


# structures and constants ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavor", ["0", "1", "4", "6"])
def test_the_footprint_is_found_in_every_version_of_the_structure(flavor: str) -> None:
    known = record("rusage_info.json")
    answer = bytearray(b"\xee" * known["size"][flavor])
    struct.pack_into("<Q", answer, known["offset"]["ri_phys_footprint"], 37 << 30)
    assert macos_structs.parse_footprint(bytes(answer)) == 37 << 30


def test_a_structure_that_is_cut_short_is_refused() -> None:
    with pytest.raises(ValueError, match="95 bytes"):
        macos_structs.parse_footprint(bytes(95))
    with pytest.raises(ValueError, match="instead of"):
        macos_structs.parse_unique_ids(bytes(8))


def test_sizes_and_flavours_are_those_of_the_headers() -> None:
    rusage, flavors = record("rusage_info.json")["size"], record("proc_structs.json")["flavors"]
    assert rusage[str(macos_structs.RUSAGE_V0)] == macos_structs.RUSAGE_V0_SIZE
    assert rusage[str(macos_structs.RUSAGE_V4)] == macos_structs.RUSAGE_V4_SIZE
    short, unique = flavors["PROC_PIDT_SHORTBSDINFO"], flavors["PROC_PIDUNIQIDENTIFIERINFO"]
    assert (short["value"], short["bytes"]) == (macos_structs.PIDT_SHORTBSDINFO, macos_structs.SHORTBSDINFO_SIZE)
    assert (unique["value"], unique["bytes"]) == (macos_structs.PIDUNIQIDENTIFIERINFO, macos_structs.UNIQIDENTIFIERINFO_SIZE)
    assert record("proc_structs.json")["pbi_status"][str(macos_structs.SZOMB)] == "SZOMB"


def test_constants_are_those_of_the_headers() -> None:
    assert CONSTANTS["fcntl"]["F_FULLFSYNC"] == host_macos.F_FULLFSYNC
    assert CONSTANTS["renamex_np"]["RENAME_SWAP"] == host_macos.RENAME_SWAP
    assert CONSTANTS["renamex_np"]["RENAME_EXCL"] == host_macos.RENAME_EXCL
    assert CONSTANTS["clock"]["CLOCK_UPTIME_RAW"] == host_macos.CLOCK_UPTIME_RAW
    assert CONSTANTS["statfs"]["MNT_LOCAL"] == macos_structs.MNT_LOCAL
    assert STATISTICS["flavor"]["HOST_VM_INFO64"] == macos_libc.HOST_VM_INFO64
    assert str(macos_libc.MIG_ARRAY_TOO_LARGE) in STATISTICS["return"]


def test_an_exit_is_asked_for_by_filter_and_note() -> None:
    pid, filter_, flags, note, data, udata = struct.unpack("<QhHIqQ", macos_structs.exit_event(4711))
    assert (pid, filter_, note) == (4711, CONSTANTS["kqueue"]["EVFILT_PROC"], CONSTANTS["kqueue"]["NOTE_EXIT"])
    assert (flags, data, udata) == (macos_structs.EV_ADD, 0, 0)


def test_unique_numbers_are_read_where_the_header_puts_them() -> None:
    offsets = record("proc_structs.json")["flavors"]["PROC_PIDUNIQIDENTIFIERINFO"]["offsets"]
    answer = bytearray(macos_structs.UNIQIDENTIFIERINFO_SIZE)
    struct.pack_into("<Q", answer, offsets["p_uniqueid"], 12345678901)
    struct.pack_into("<Q", answer, offsets["p_puniqueid"], 12345678900)
    assert macos_structs.parse_unique_ids(bytes(answer)) == (12345678901, 12345678900)


def test_a_short_description_of_a_process_is_read() -> None:
    answer = struct.pack("<4I16sI6II", 4711, 1, 4700, 5, b"python3\0rubbish!", 0, 501, 20, 501, 20, 501, 20, 0)
    info = macos_structs.parse_short_info(answer)
    assert info == macos_structs.ShortInfo(pid=4711, ppid=1, group=4700, zombie=True, name="python3", uid=501)


def procargs(arguments: list[bytes], environment: list[bytes], behind: bytes = b"") -> bytes:
    strings = b"\0".join(arguments + environment) + b"\0"
    return struct.pack("<i", len(arguments)) + b"/bin/bash\0\0\0\0\0" + strings + behind


def test_the_environment_is_what_follows_the_arguments() -> None:
    answer = procargs([b"bash", b"", b"SPOOLD_TOKEN=forged"], [b"SPOOLD_TOKEN=7", b"HOME=/Users/u"], b"\0ptr_munge=\0SPOOLD_TOKEN=x\0")
    assert macos_structs.parse_environment(answer) == {b"SPOOLD_TOKEN=7", b"HOME=/Users/u"}


def test_a_binary_of_apples_shows_no_environment() -> None:
    assert macos_structs.parse_environment(procargs([b"sleep", b"9"], [])) == frozenset()


@given(st.binary(max_size=200))
def test_any_bytes_give_an_environment(answer: bytes) -> None:
    assert isinstance(macos_structs.parse_environment(answer), frozenset)


@pytest.mark.parametrize(("kind", "flags", "local"), [(b"apfs", 0x1000, True), (b"smbfs", 0, False), (b"nfs", 0x200000, False)])
def test_a_file_system_says_its_kind_and_whether_it_is_local(kind: bytes, flags: int, local: bool) -> None:
    answer = bytearray(macos_structs.STATFS_SIZE)
    struct.pack_into("<I", answer, 64, flags)
    answer[72 : 72 + len(kind)] = kind
    assert macos_structs.parse_statfs(bytes(answer)) == (kind.decode(), local)


def test_the_macos_seam_loads_nothing_when_imported() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); import spoold.host_macos;"
        "print(sorted({'ctypes', 'subprocess', 'psutil', 'watchdog'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# file systems ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/Users/u/Dropbox/spool", "Dropbox"),
        ("/home/u/Dropbox (Personal)/spool", "Dropbox"),
        ("/Users/u/Library/Mobile Documents/com~apple~CloudDocs/spool", "iCloud Drive"),
        ("/Users/u/Library/CloudStorage/Box-Box/spool", "a cloud storage provider"),
        ("/Users/u/OneDrive - Example Ltd/spool", "OneDrive"),
        ("/home/u/Google Drive/spool", "Google Drive"),
        ("/home/u/dropboxes/spool", None),
        ("/home/u/spool", None),
    ],
)
def test_a_synchronized_folder_is_told_by_its_path(path: str, owner: str | None) -> None:
    assert synced_by(path) == owner


@pytest.mark.parametrize("kind", ["fuse", "fuse.sshfs", "macfuse", "osxfuse", "fuse.rclone"])
def test_a_file_system_in_user_space_is_not_local(kind: str) -> None:
    found = judge(kind, False, "/mnt/spool")
    assert not found.local
    assert kind in found.why


def test_a_link_into_a_synchronized_folder_does_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "Dropbox" / "spool").mkdir(parents=True)
    (tmp_path / "spool").symlink_to(tmp_path / "Dropbox" / "spool")
    assert not judge("apfs", False, str(tmp_path / "spool")).local
    assert judge("apfs", False, str(tmp_path)).local


# a job's processes ----------------------------------------------------------------------------------------------------

SUPERVISOR = 100


def entry(pid: int, number: int, maker: int, ppid: int = 1, group: int | None = None, session: int | None = None) -> Entry:
    leader = pid if group is None else group
    return Entry(Process(pid, ppid, number, f"p{pid}"), maker, leader, leader if session is None else session, 501)


OUTSIDE = [
    Entry(Process(1, 0, 1, "launchd"), 0, 1, 1, 0),
    Entry(Process(SUPERVISOR, 50, 1000, "python"), 900, SUPERVISOR, SUPERVISOR, 501),
    Entry(Process(101, SUPERVISOR, 1001, "caffeinate"), 1000, SUPERVISOR, SUPERVISOR, 501),
    entry(60, 800, 1),
]


def look(family: Family, *entries: Entry) -> set[int]:
    return {process.pid for process in family.update([*OUTSIDE, *entries])}


def begun() -> Family:
    family = Family(SUPERVISOR)
    family.begin(200, 2000)
    return family


def test_a_supervisors_helper_is_none_of_the_job() -> None:
    assert look(begun(), entry(200, 2000, 1000, SUPERVISOR)) == {200}


def test_an_orphan_is_followed_by_the_number_of_its_maker() -> None:
    family = begun()
    assert look(family, entry(200, 2000, 1000, SUPERVISOR), entry(201, 2001, 2000, 200)) == {200, 201}
    assert look(family, entry(202, 2002, 2001)) == {202}
    assert look(family, entry(203, 2003, 2002)) == {203}


def test_what_forks_twice_between_two_looks_is_found_by_its_group() -> None:
    family = begun()
    look(family, entry(200, 2000, 1000, SUPERVISOR))
    assert look(family, entry(204, 2004, 2003, group=200)) == {204}


def test_the_first_look_may_come_after_the_main_process_has_ended() -> None:
    assert look(begun(), entry(201, 2001, 2000)) == {201}
    without_number = Family(SUPERVISOR)
    without_number.begin(200, None)
    assert look(without_number, entry(201, 2001, 2000, group=200)) == {201}


def test_a_group_that_was_given_up_belongs_to_the_stranger_who_has_its_number_now() -> None:
    family = begun()
    assert look(family, entry(200, 2000, 1000, SUPERVISOR), entry(201, 2001, 2000, 200)) == {200, 201}
    assert look(family, entry(201, 2001, 2000)) == {201}
    assert look(family, entry(201, 2001, 2000), entry(200, 99000, 800, 60)) == {201}


def test_a_zombie_is_not_alive() -> None:
    zombie = Entry(Process(200, SUPERVISOR, 2000, "p", zombie=True), 1000, 200, 200, 501)
    assert look(begun(), zombie, entry(201, 2001, 2000, 200)) == {201}


def test_a_new_job_begins_with_nobody() -> None:
    family = begun()
    assert look(family, entry(200, 2000, 1000, SUPERVISOR)) == {200}
    family.begin(300, 3000)
    assert look(family, entry(200, 2000, 1000, SUPERVISOR), entry(300, 3000, 1000, SUPERVISOR)) == {300}


def test_below_a_process_is_what_it_forked_and_theirs_without_its_group() -> None:
    snapshot = [*OUTSIDE, entry(200, 2000, 1000, SUPERVISOR), entry(201, 2001, 2000), entry(61, 801, 800, 60, group=SUPERVISOR)]
    found = {one.process.pid for one in gather(snapshot, [1000], None, {SUPERVISOR})}
    assert found == {101, 200, 201}


class Mac:
    """A kernel in small: forks, ends, sessions, pids that come round."""

    def __init__(self) -> None:
        self.alive: dict[int, Entry] = {2000: entry(200, 2000, 1000, SUPERVISOR)}
        self.ours = {2000}
        self.next = 2001

    def fork(self, maker: Entry) -> None:
        used = {number for one in [*OUTSIDE, *self.alive.values()] for number in (one.process.pid, one.group, one.session)}
        pid = next(pid for pid in range(200, 400) if pid not in used)
        child = entry(pid, self.next, maker.process.start, maker.process.pid, maker.group, maker.session)
        self.alive[self.next] = child
        if maker.process.start in self.ours:
            self.ours.add(self.next)
        self.next += 1

    def end(self, one: Entry) -> None:
        del self.alive[one.process.start]
        for child in list(self.alive.values()):
            if child.process.ppid == one.process.pid:
                orphan = Process(child.process.pid, 1, child.process.start, child.process.name)
                self.alive[child.process.start] = Entry(orphan, child.forked_by, child.group, child.session, child.uid)

    def leave(self, one: Entry) -> None:
        self.alive[one.process.start] = Entry(one.process, one.forked_by, one.process.pid, one.process.pid, one.uid)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["fork", "fork", "end", "leave", "stranger"]), st.integers(0, 30)), max_size=40))
def test_whoever_is_looked_at_after_every_step_has_exactly_the_jobs_processes(steps: list[tuple[str, int]]) -> None:
    mac, family = Mac(), begun()
    family.update([*OUTSIDE, *mac.alive.values()])
    for step, which in steps:
        living = list(mac.alive.values())
        if step == "stranger":
            mac.fork(OUTSIDE[3])
        elif living:
            getattr(mac, step)(living[which % len(living)])
        found = {process.start for process in family.update([*OUTSIDE, *mac.alive.values()])}
        assert found == mac.ours & set(mac.alive)


# a run's leftovers ----------------------------------------------------------------------------------------------------

OURS = b"SPOOLD_TOKEN=7"


def test_a_lock_or_a_marker_proves() -> None:
    evidence = [Evidence(1, holds_lock=True), Evidence(2, environment=frozenset({OURS})), Evidence(3, environment=frozenset({b"A=1"}))]
    assert belonging(evidence, OURS) == {1, 2}


def test_the_marker_of_another_run_speaks_against_everything_but_the_lock() -> None:
    other = frozenset({b"SPOOLD_TOKEN=8"})
    evidence = [Evidence(1, environment=other, stray=True, in_session=True), Evidence(2, holds_lock=True, environment=other)]
    assert belonging(evidence, OURS) == {2}


def test_a_stray_without_a_marker_is_ours() -> None:
    assert belonging([Evidence(1, stray=True)], OURS) == {1}


def test_a_session_is_ours_if_one_of_it_is() -> None:
    shell = Evidence(1, environment=frozenset({b"PATH=/bin"}), in_session=True)
    assert belonging([shell], OURS) == set()
    assert belonging([shell, Evidence(2, environment=frozenset({OURS}), in_session=True)], OURS) == {1, 2}
    assert belonging([shell, Evidence(2, environment=frozenset({OURS}))], OURS) == {2}
    assert belonging([Evidence(3, in_session=True)], OURS) == {3}
