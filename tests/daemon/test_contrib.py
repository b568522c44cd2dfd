"""contrib/ - the files for launchd, systemd and cron, filled in by the very commands that their notes show."""

from __future__ import annotations

import configparser
import json
import os
import plistlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRIB = ROOT / "contrib"
KINDS = ("launchd", "systemd", "cron")
TYPES = {"string": str, "boolean": bool, "integer": int, "dictionary": dict, "array": list}


def commands(kind: str) -> list[str]:
    """The lines of the first shell block of a note."""
    block = re.search(r"```sh\n(.*?)```", (CONTRIB / kind / "README.md").read_text(), re.DOTALL)
    assert block is not None
    return block[1].splitlines()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with a space in its name, and a `spoold` that writes down how it was called."""
    home = tmp_path / "a home"
    for folder in ("bin", "Library/LaunchAgents", ".config/systemd/user", "spool/.spoold"):
        (home / folder).mkdir(parents=True)
    spoold = home / "bin/spoold"
    spoold.write_text('#!/bin/sh\nfor a; do echo "$a"; done >"$(dirname "$0")/called"\n')
    spoold.chmod(0o755)
    return home


def fill_in(kind: str, home: Path) -> str:
    """What the note's `sed` makes of the file."""
    sed = next(line for line in commands(kind) if line.startswith("sed "))
    target = shlex.split(sed.rpartition(">")[2].replace("$HOME", str(home)))[0]
    env = {"HOME": str(home), "PATH": f"{home}/bin:/usr/bin:/bin"}
    # the crontab of the note is written into the current folder: run it there, with the file at its place in the checkout
    folder = home / "work"
    folder.mkdir()
    (folder / "contrib").symlink_to(CONTRIB)
    subprocess.run(["/bin/sh", "-c", sed], cwd=folder, env=env, check=True)
    text = (folder / target).read_text()
    assert "@SPOOL" not in text
    assert "@HOME" not in text
    return text


@pytest.mark.parametrize("kind", KINDS)
def test_every_placeholder_of_a_file_is_in_the_command_that_fills_it_in(kind: str) -> None:
    [file] = [path for path in (CONTRIB / kind).iterdir() if path.name != "README.md"]
    sed = next(line for line in commands(kind) if line.startswith("sed "))
    placeholders = set(re.findall(r"@[A-Z]+@", file.read_text()))
    assert placeholders
    assert placeholders == set(re.findall(r"@[A-Z]+@", sed))


@pytest.mark.parametrize("kind", KINDS)
def test_the_commands_of_a_note_are_shell(kind: str) -> None:
    subprocess.run(["/bin/sh", "-n"], input="\n".join(commands(kind)), text=True, check=True)


def test_every_key_of_the_launch_agent_is_one_of_launchd_with_its_type(home: Path) -> None:
    agent = plistlib.loads(fill_in("launchd", home).encode())
    known: dict[str, str] = json.loads((Path(__file__).parent / "launchd_keys.json").read_text())["keys"]
    for key, value in agent.items():
        assert key in known, f"launchd knows no {key}"
        allowed = tuple(TYPES[word] for word in re.findall(r"string|boolean|integer|dictionary|array", known[key].partition(" of ")[0]))
        assert isinstance(value, allowed), f"{key} is {known[key]}"
        assert isinstance(value, bool) <= (bool in allowed), f"{key} is {known[key]}"
    assert all(isinstance(word, str) for word in agent["ProgramArguments"])
    assert all(isinstance(value, str) for value in agent["EnvironmentVariables"].values())


def test_the_launch_agent_keeps_one_spooler_and_leaves_its_jobs_alone(home: Path) -> None:
    agent = plistlib.loads(fill_in("launchd", home).encode())
    assert agent["ProgramArguments"] == [f"{home}/bin/spoold", "--spool", f"{home}/spool", "run"]
    assert agent["KeepAlive"] is True
    assert agent["RunAtLoad"] is True
    assert agent["AbandonProcessGroup"] is True
    assert agent["ProcessType"] == "Standard"
    assert agent["ExitTimeOut"] >= 5
    assert agent["SoftResourceLimits"]["NumberOfFiles"] > 256
    assert int(agent["Umask"], 8) == 0o077
    assert not {"WatchPaths", "QueueDirectories"} & set(agent)
    for key in ("WorkingDirectory", "StandardOutPath", "StandardErrorPath"):
        assert agent[key].startswith(str(home)), "launchd expands no ~"


def test_the_unit_ends_the_spooler_only(home: Path) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(fill_in("systemd", home))
    service = unit["Service"]
    assert shlex.split(service["ExecStart"]) == [f"{home}/bin/spoold", "--spool", f"{home}/spool", "run"]
    assert service["KillMode"] == "process"
    assert service["Restart"] == "always"
    assert service["OOMPolicy"] == "continue"
    assert service["TasksMax"] == "infinity"
    assert service["Delegate"] == "yes"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"


def test_systemd_has_nothing_to_say_about_the_unit(home: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = home / "spoold.service"
    unit.write_text(fill_in("systemd", home))
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(home)}
    said = subprocess.run(["systemd-analyze", "--user", "verify", str(unit)], env=env, capture_output=True, text=True, check=False)
    complaints = [line for line in said.stderr.splitlines() if "spoold.service" in line]
    if said.returncode != 0 and not complaints:
        pytest.skip(f"systemd-analyze does not work here: {said.stderr.strip()}")
    assert complaints == []


def test_cron_gets_one_line_for_the_start_of_the_box_and_one_for_every_minute(home: Path) -> None:
    lines = [line for line in fill_in("cron", home).splitlines() if not line.startswith("#")]
    times = []
    for line in lines:
        match = re.fullmatch(r"(@reboot|(?:[-0-9*,/]+ ){4}[-0-9*,/]+)\s+(.*)", line)
        assert match is not None, f"{line!r} is no line of a crontab"
        when, command = match.groups()
        times.append(when)
        assert "%" not in command, "cron makes a line break of it"
        subprocess.run(["/bin/sh", "-c", command], cwd=home, env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, check=True)
        assert (home / "bin/called").read_text().splitlines() == ["--spool", f"{home}/spool", "run", "--quiet-if-running"]
        (home / "bin/called").unlink()
    assert times == ["@reboot", "* * * * *"]
