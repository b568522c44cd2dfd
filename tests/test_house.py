"""The house: who imports whom, who may touch what, and INTERNALS.md held to the code."""

from __future__ import annotations

import ast
import functools
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from spoold.model import MOVES, Stage

ROOT = pathlib.Path(__file__).resolve().parent.parent
INTERNALS = (ROOT / "spoold/INTERNALS.md").read_text(encoding="utf-8")
THIRD_PARTY = frozenset({"tomli_w", "psutil", "watchdog", "click"})
MOST_LINES = 400
BANNED_NAMES = frozenset({"util", "utils", "helper", "helpers", "manager", "handler", "handlers", "base", "common", "misc", "core"})

RING_MAY_IMPORT = frozenset(
    "__future__ bisect collections dataclasses datetime enum fnmatch functools heapq itertools json math os.path re tomli_w types typing zlib".split()  # noqa: SIM905
)
"""What knows no disk, no clock, no process and no chance."""
CLOCKS = frozenset({"now", "utcnow", "today"})
SPAWNERS = {"spawn", "host_macos"}
"""host_macos asks vm_stat, which is no job and ends at once."""
MAKES_PROCESSES = re.compile(r"Popen|run|call|check_call|check_output|get\w*output|fork(pty)?|posix_spawnp?|system|popen|exec[lv]p?e?|spawn[lv]?p?e?")
RENAMES = frozenset({"rename", "renames", "replace", "link", "rename_noreplace", "rename_exchange"})
RENAMERS = {"store", "host_rename", "host_linux", "host_macos", "whereabouts"}
"""host_* are the primitives; whereabouts only tries one of them on two empty files of its own."""


@functools.cache
def tree(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def files(package: str) -> list[pathlib.Path]:
    found = sorted((ROOT / package).glob("*.py")) + sorted((ROOT / package / "cli").glob("*.py"))
    assert found
    return found


def module_name(path: pathlib.Path) -> str:
    """ "pool" for spoold/pool.py, "cli" for everything in spoold/cli."""
    return "cli" if path.parent.name == "cli" else path.stem


def imports(path: pathlib.Path) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, with the name that is taken out of a package of ours; and whether only a type checker does so."""
    lazy = {id(node) for branch in ast.walk(tree(path)) if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.dump(branch.test) for node in ast.walk(branch)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = node.module or ""
            if module in ("spoold", "jobspec", "spoold.cli"):
                yield from ((f"{module}.{alias.name}", id(node) in lazy) for alias in node.names)
            else:
                yield module, id(node) in lazy


def imported(path: pathlib.Path) -> set[str]:
    return {name for name, only_types in imports(path) if not only_types}


def imported_at_once(path: pathlib.Path) -> set[str]:
    """Without what is imported inside of functions, when it is needed."""
    for_types = [node for node in tree(path).body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    top = ast.Module([node for node in tree(path).body if not isinstance(node, ast.FunctionDef | ast.ClassDef) and node not in for_types], [])
    names = {alias.name for node in ast.walk(top) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(top):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return names


def calls(path: pathlib.Path) -> Iterator[tuple[str, str, int]]:
    """What is called by an attribute: on what, by which name, in which line; a bare name is called on nothing."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func.value), node.func.attr, node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield "", node.func.id, node.lineno


def table_after(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of INTERNALS.md."""
    _, found, rest = INTERNALS.partition(f"## {heading}\n")
    assert found, heading
    lines = rest.partition("\n## ")[0].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


GROUPS = {row[0]: (frozenset(row[1].split()), row[2].split()) for row in table_after("Who may import whom")}
GROUP_OF = {module: group for group, (_, modules) in GROUPS.items() for module in modules}
RING = [ROOT / f"spoold/{module}.py" for module in GROUPS["ring"][1]]


# direction ------------------------------------------------------------------------------------------------------------


def test_every_module_stands_in_internals_once_and_every_module_there_exists() -> None:
    there = {module_name(path) for path in files("spoold")} - {"__init__"}
    assert set(GROUP_OF) == there
    assert len(GROUP_OF) == sum(len(modules) for _, modules in GROUPS.values())


@pytest.mark.parametrize("path", files("spoold"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_module_imports_what_its_group_allows(path: pathlib.Path) -> None:
    if module_name(path) == "__init__":
        assert not imported(path) - {"__future__", "typing"}
        return
    allowed = GROUPS[GROUP_OF[module_name(path)]][0]
    for name in imported(path):
        if name.startswith("spoold.") and name != "spoold.__version__":
            target = name.split(".")[1]
            assert GROUP_OF[target] in allowed, f"{path.name} imports {target} of {GROUP_OF[target]}"


@pytest.mark.parametrize("path", [path for path in files("jobspec") if path.parent.name == "jobspec"], ids=lambda path: path.stem)
def test_jobspec_imports_the_standard_library_and_tomli_w_and_never_spoold(path: pathlib.Path) -> None:
    for name in imported(path):
        top = name.split(".")[0]
        assert top in sys.stdlib_module_names or top in ("jobspec", "tomli_w"), f"{path.name} imports {name}"
        assert top not in ("os", "time", "subprocess", "signal", "threading", "socket"), f"{path.name} imports {name}: it touches nothing"


@pytest.mark.parametrize("path", RING, ids=lambda path: path.stem)
def test_the_ring_touches_nothing(path: pathlib.Path) -> None:
    for name in imported(path):
        if name.split(".")[0] not in ("spoold", "jobspec"):
            known = {name, name.split(".")[0]} & RING_MAY_IMPORT
            assert known, f"{path.name} imports {name}"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("os."):
            assert ast.unparse(node).startswith("os.path"), f"{path.name}:{node.lineno} touches {ast.unparse(node)}"
    for on, what, line in calls(path):
        assert what not in CLOCKS or "date" not in on, f"{path.name}:{line} looks at a clock"
        assert (on, what) not in (("", "open"), ("", "print"), ("", "input")), f"{path.name}:{line} touches a file"


def test_no_module_of_the_ring_that_could_look_at_a_disk_by_os_path_does() -> None:
    pure = {"join", "basename", "dirname", "normpath", "split", "splitext", "commonpath", "isabs"}
    for path in RING:
        for on, what, line in calls(path):
            assert on != "os.path" or what in pure, f"{path.name}:{line} looks at the disk by os.path.{what}"


def test_nothing_imports_in_a_circle() -> None:
    paths = {f"spoold.{path.stem}": path for path in files("spoold") if path.parent.name == "spoold"}
    paths |= {f"spoold.cli.{path.stem}": path for path in files("spoold") if path.parent.name == "cli" and path.stem != "__init__"}
    graph = {name: {other for other in imported_at_once(path) if other in paths} for name, path in paths.items()}
    left = dict(graph)
    while left:
        free = {name for name, needs in left.items() if not needs & left.keys()}
        assert free, f"a circle among {sorted(left)}"
        left = {name: needs for name, needs in left.items() if name not in free}


@pytest.mark.parametrize("path", files("spoold"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_third_party_packages_stay_where_they_belong(path: pathlib.Path) -> None:
    homes = {"tomli_w": {"settings"}, "psutil": {"meter"}, "watchdog": {"watcher", "inotify"}, "click": {"cli"}}
    for name in {name.split(".")[0] for name in imported(path)}:
        assert name in sys.stdlib_module_names or name in ("spoold", "jobspec") or name in THIRD_PARTY, f"{path.name} imports {name}"
        assert name not in homes or module_name(path) in homes[name], f"{path.name} imports {name}"


def test_only_host_is_asked_about_the_operating_system() -> None:
    behind = {module for module in GROUPS["system"][1] if module.startswith(("host_", "linux_", "macos_"))} - {"host_facts"}
    for path in files("spoold"):
        if module_name(path) not in {"host", *behind}:
            asked = {name.split(".")[1] for name in imported(path) if name.startswith("spoold.")} & behind
            assert not asked, f"{path.name} imports {asked} instead of host"


SUPERVISOR_IMPORTS = """
import sys
sys.path.append(sys.argv[1])
import spoold.launcher, spoold.supervisor
print(*sorted(sys.modules))
"""


def test_a_supervisor_loads_the_standard_library_and_no_more_of_it_than_it_needs() -> None:
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", SUPERVISOR_IMPORTS, str(ROOT)], capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    assert "spoold.supervisor" in loaded
    tops = {name.split(".")[0] for name in loaded} - {"spoold", "jobspec", "__main__", "sitecustomize"}
    assert tops <= sys.stdlib_module_names, tops - sys.stdlib_module_names
    heavy = {"subprocess", "threading", "logging", "asyncio", "multiprocessing", "tempfile", "argparse", "email", "http", "ssl", "urllib", "tomllib"}
    assert not tops & heavy, f"{tops & heavy} cost every supervisor time and memory"
    ours = {name.split(".")[1] for name in loaded if name.startswith("spoold.")}
    assert {GROUP_OF[name] for name in ours} <= {"ring", "system", "job"}


# who does what --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", files("spoold"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_only_spawn_makes_processes(path: pathlib.Path) -> None:
    assert not imported(path) & {"multiprocessing", "concurrent.futures", "asyncio", "pty"}
    if module_name(path) in SPAWNERS:
        return
    for on, what, line in calls(path):
        assert not (on in ("os", "subprocess", "pty") and MAKES_PROCESSES.fullmatch(what)), f"{path.name}:{line} makes a process by {on}.{what}"


@pytest.mark.parametrize("path", files("spoold"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_only_store_renames(path: pathlib.Path) -> None:
    for on, what, line in calls(path):
        renames = what in RENAMES and (on in ("os", "host", "shutil") or what not in ("replace", "rename", "link"))
        moves = (on, what) in (("shutil", "move"), ("os", "symlink"))
        if renames or moves:
            assert module_name(path) in RENAMERS, f"{path.name}:{line} renames by {on}.{what}"


@pytest.mark.parametrize("path", [*files("spoold"), *files("jobspec")], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_nobody_below_the_command_line_swallows_what_he_does_not_know(path: pathlib.Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ExceptHandler):
            caught = "" if node.type is None else ast.unparse(node.type)
            if caught in ("", "Exception", "BaseException") and module_name(path) != "cli":
                assert isinstance(node.body[-1], ast.Raise), f"{path.name}:{node.lineno} swallows {caught or 'everything'}"
            assert "AssertionError" not in caught, f"{path.name}:{node.lineno} catches a broken invariant"


@pytest.mark.parametrize("path", files("spoold"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_stage_is_an_enum_member_and_never_a_word(path: pathlib.Path) -> None:
    words = {stage.value for stage in Stage}
    if module_name(path) in ("stages", "layout"):
        return
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                compared_as_stage = isinstance(side, ast.Constant) and side.value in words and "stage" in ast.unparse(node).lower()
                assert not compared_as_stage, f"{path.name}:{node.lineno} compares with a stage's word"


# form -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*files("spoold"), *files("jobspec")], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_module_opens_with_its_man_page(path: pathlib.Path) -> None:
    page = ast.get_docstring(tree(path)) or ""
    name = path.parent.name if path.stem == "__init__" else path.stem
    if path.stem == "__main__":
        assert page
        return
    assert page.startswith(f"{name} - "), f'{path}: the first line is "{name} - what it is"'
    if path.stem != "__init__":
        assert re.search(r"\b(Owns?|Never)\b", page), f"{path}: what does it own, what does it never do?"


@pytest.mark.parametrize("path", [*files("spoold"), *files("jobspec")], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_module_is_short_enough_to_be_read(path: pathlib.Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, f"{path.relative_to(ROOT)} has {lines} lines: split it"


def test_no_module_has_a_name_that_says_nothing() -> None:
    for path in (*files("spoold"), *files("jobspec")):
        parts = set(path.stem.split("_"))
        assert not parts & BANNED_NAMES, path


# INTERNALS.md ---------------------------------------------------------------------------------------------------------


def test_the_moves_in_internals_are_those_of_the_code() -> None:
    told = {Stage(source): frozenset(Stage(target) for target in re.findall(r"\w+", targets)) for source, targets in table_after("Moves")}
    assert told == dict(MOVES)


def defined(path: pathlib.Path) -> set[str]:
    """Functions and classes of a file, methods as Class.method."""
    found = set()
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


CRASHES = table_after("What a crash means")


@pytest.mark.parametrize("row", CRASHES, ids=lambda row: row[0][:50])
def test_every_row_of_the_crash_table_has_its_function_and_its_tests(row: list[str]) -> None:
    functions = re.findall(r"`([a-z_]+)\.([A-Za-z_.]+)`", row[2])
    assert functions, "which function does it?"
    for module, name in functions:
        assert name in defined(ROOT / f"spoold/{module}.py"), f"there is no {module}.{name}"
    tests = re.findall(r"`(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)`", row[3])
    assert tests, "which test pins it?"
    for file, name in tests:
        assert name in defined(ROOT / file), f"there is no {file}::{name}"


def test_every_way_to_go_on_after_a_crash_stands_in_the_table() -> None:
    told = " ".join(row[2] for row in CRASHES)
    assert "recovery.recover`" in told
    assert "recovery.recover_stray`" in told
    tests = " ".join(row[3] for row in CRASHES)
    pure = ast.parse((ROOT / "tests/policy/test_recovery.py").read_text(encoding="utf-8"))
    rows = [node.name for node in pure.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_a_")]
    missing = [name for name in rows if name not in tests]
    assert not missing, f"pinned by a test and not told: {missing}"


def test_what_internals_names_exists() -> None:
    modules = "|".join(sorted(GROUP_OF))
    for module, name in re.findall(rf"`({modules})\.([a-zA-Z_.]+)`", INTERNALS):
        names = defined(ROOT / f"spoold/{module}.py") if module != "cli" else set()
        names |= {method.partition(".")[2] for method in names}
        assert name in names or (module, name) == ("host", "awake"), f"there is no {module}.{name}"
    for file in re.findall(r"`(tests/[a-z_/.]+)`", INTERNALS):
        assert (ROOT / file).exists(), file


def test_every_file_that_layout_names_stands_in_internals() -> None:
    private = re.findall(r'self\.(?:private|dir)\}/([a-z_.]+)"', (ROOT / "spoold/layout.py").read_text(encoding="utf-8"))
    assert len(private) >= 9
    for name in private:
        assert re.search(rf"`\.spoold/{re.escape(name)}\b|/{re.escape(name)}`", INTERNALS), f"{name} is not in INTERNALS.md"
