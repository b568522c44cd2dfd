"""spool.toml under a running spooler: changed, broken, mended, half-written, away."""

from __future__ import annotations

import os
import signal
import subprocess

from spooling import SETTINGS, Spool, command, until

from spoold.model import Stage

TWO_GPUS = SETTINGS + "[locks]\ngpu = 2\n"
IN_FORCE = "the new settings are in force"


def test_a_broken_file_leaves_the_last_good_settings_and_a_mended_one_is_taken(spool: Spool) -> None:
    spool.settings(TWO_GPUS)
    spooler = spool.start()
    spool.settings(TWO_GPUS + "[order]\npolicy = 'bakfill'\nlokcs = 3\n")
    line = spooler.until_said("the last good settings stay in force")
    assert "line 9" in line  # every problem, each with its line
    assert "line 10" in line
    spool.drop("both.toml", spool.job("both", lock={"gpu": "all"}, do='echo "$SPOOLD_LOCK_GPU" > units'))
    assert spool.until_done("0010-both.toml") == "ok"
    assert spool.trace(Stage.DONE, "0010-both.toml")[1]["locks"] == {"gpu": ["0", "1"]}
    spool.settings(SETTINGS + "[locks]\ngpu = 3\n")
    spooler.until_said(IN_FORCE)
    spool.drop("three.toml", spool.job("three", lock={"gpu": "all"}))
    assert spool.until_done("0020-three.toml") == "ok"
    assert spool.trace(Stage.DONE, "0020-three.toml")[1]["locks"] == {"gpu": ["0", "1", "2"]}
    assert spooler.said("over: spool.toml")
    spool.check()


def test_a_broken_file_at_the_start_is_said_with_its_line_and_78(spool: Spool) -> None:
    spool.settings("default_wall = '12x'\nunknown = 1\n")
    run = command("--spool", str(spool.root), "run")
    assert run.returncode == 78
    assert "line 1" in run.stderr
    assert "line 2" in run.stderr


def test_a_file_that_others_can_write_to_is_not_believed(spool: Spool) -> None:
    spool.settings(TWO_GPUS)
    spooler = spool.start()
    (spool.root / "spool.toml").chmod(0o666)
    spool.settings(SETTINGS)
    spooler.until_said(IN_FORCE)
    new = spool.root / ".new"
    new.write_text(TWO_GPUS)
    new.chmod(0o666)
    new.rename(spool.root / "spool.toml")
    assert f"chmod go-w {spool.root}/spool.toml" in spooler.until_said("the last good settings stay in force")
    spooler.stop()
    run = command("--spool", str(spool.root), "run")
    assert run.returncode == 73
    assert f"chmod go-w {spool.root}/spool.toml" in run.stderr


def test_what_is_no_file_does_not_stop_the_spooler(spool: Spool) -> None:
    spooler = spool.start()
    path = spool.root / "spool.toml"
    path.unlink()
    os.mkfifo(path)
    spooler.until_said("it is no regular file")
    path.unlink()
    path.mkdir()
    spool.drop("a.toml", spool.job("a"))
    assert spool.until_done("0010-a.toml") == "ok"
    path.rmdir()
    spool.settings(TWO_GPUS)
    spooler.until_said(IN_FORCE)


def test_hangup_reads_it_again_though_it_looks_the_same(spool: Spool) -> None:
    spool.settings(TWO_GPUS)
    spooler = spool.start()
    path = spool.root / "spool.toml"
    times = path.stat()
    with open(path, "r+") as file:
        file.write(TWO_GPUS.replace("gpu = 2", "gpu = 3"))
        file.flush()
        os.utime(file.fileno(), ns=(times.st_atime_ns, times.st_mtime_ns))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.kill(spooler.pid, signal.SIGHUP)
    spooler.until_said(IN_FORCE)
    assert spooler.process.poll() is None


def test_nothing_is_in_force_but_what_was_while_the_file_is_being_saved(spool: Spool) -> None:
    """For as long as it is away for a moment, empty or half-written, the settings before count: nobody is refused and nobody starts by the defaults."""
    spool.settings(TWO_GPUS)
    spooler = spool.start()
    spool.drop("holder.toml", spool.job("holder", gate=True, lock="gpu"))
    spool.until_begun("holder")
    spool.drop("waiter.toml", spool.job("waiter", lock={"gpu": 2}))
    spool.until_in(Stage.READY, "0020-waiter.toml")
    path = spool.root / "spool.toml"
    with open(path, "w") as file:  # truncated, and a look around at every event
        for number in range(3):
            spool.drop(f"probe{number}.toml", spool.job(f"probe{number}", lock=[]))
            spool.until_done(f"00{number + 3}0-probe{number}.toml")
        (spool.root / "PAUSED").touch()
        spooler.until_said("paused")
        (spool.root / "PAUSED").unlink()
        spooler.until_said("goes on")
        assert spool.entries(Stage.READY) == ["0020-waiter.toml"]
        assert not spooler.said("settings")
        file.write('default_wall = "1h"\n' + TWO_GPUS)
    spooler.until_said(IN_FORCE)
    path.rename(spool.root / "spool.toml~")
    (spool.root / "PAUSED").write_text("once more")
    spooler.until_said("once more")
    assert not spooler.said("defaults")
    (spool.root / "spool.toml~").rename(path)
    (spool.root / "PAUSED").unlink()
    spool.open_gate("holder")
    assert spool.until_done("0020-waiter.toml") == "ok"
    assert not spooler.said("defaults")
    spool.check()


def test_without_a_file_the_defaults_are_in_force_after_a_while(spool: Spool) -> None:
    spool.settings(TWO_GPUS)
    spooler = spool.start()
    (spool.root / "spool.toml").unlink()
    spooler.until_said("spool.toml is gone: the defaults are in force")
    spool.drop("both.toml", spool.job("both", lock={"gpu": 2}))
    assert "it asks for 2 of the lock gpu, which has 1" in spool.until_refused("both.toml")


def test_vim_changes_the_settings_and_nothing_else_is_ever_in_force(spool: Spool) -> None:
    spool.settings(TWO_GPUS)
    spooler = spool.start()
    for units in (3, 4, 5):
        subprocess.run(
            ["vim", "-es", "-u", "NONE", "-c", "set writebackup backupcopy=no", "-c", f"%s/gpu = ./gpu = {units}/", "-c", "wq", "spool.toml"],
            cwd=spool.root, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        until(lambda units=units: len(spooler.said(IN_FORCE)) == units - 2, f"{units} units")  # type: ignore[misc]
    assert not spooler.said("defaults")
    spool.drop("all.toml", spool.job("all", lock={"gpu": "all"}))
    spool.until_done("0010-all.toml")
    assert len(spool.trace(Stage.DONE, "0010-all.toml")[1]["locks"]["gpu"]) == 5


def test_units_that_are_taken_away_while_they_are_held_are_never_held_twice(spool: Spool) -> None:
    spool.settings(SETTINGS + '[locks]\ngpu = ["a", "b"]\n')
    spooler = spool.start()
    for name in ("one", "two"):
        spool.drop(f"{name}.toml", spool.job(name, gate=True, lock="gpu"))
        spool.until_begun(name)
    spool.drop("three.toml", spool.job("three", gate=True, lock="gpu"))
    spool.until_in(Stage.READY, "0030-three.toml")
    spool.settings(SETTINGS + '[locks]\ngpu = ["b"]\n')
    spooler.until_said(IN_FORCE)
    spool.open_gate("one")
    spool.until_done("0010-one.toml")
    assert spool.entries(Stage.READY) == ["0030-three.toml"]  # b is still held
    spool.open_gate("two")
    spool.until_begun("three")
    spool.drop("four.toml", spool.job("four", lock="gpu"))
    spool.until_in(Stage.READY, "0040-four.toml")
    spool.open_gate("three")
    spool.until_done("0040-four.toml")
    assert [spool.trace(Stage.DONE, f"00{n}0-{name}.toml")[1]["locks"]["gpu"] for n, name in ((1, "one"), (2, "two"), (3, "three"), (4, "four"))] == [
        ["a"],
        ["b"],
        ["b"],
        ["b"],
    ]
    spool.check()


def test_another_default_lock_counts_for_the_jobs_that_are_ready(spool: Spool) -> None:
    spooler = spool.start()
    spool.drop("one.toml", spool.job("one", gate=True))
    spool.until_begun("one")
    spool.drop("two.toml", spool.job("two").replace(b'box="$SPOOLD_LOCK_BOX"', b'other="$SPOOLD_LOCK_OTHER"'))
    spool.dropped.clear()
    spool.until_in(Stage.READY, "0020-two.toml")
    spool.settings('default_lock = "other"\n' + SETTINGS)
    spooler.until_said(IN_FORCE)
    assert spool.until_done("0020-two.toml") == "ok"
    assert spool.trace(Stage.DONE, "0020-two.toml")[1]["locks"] == {"other": ["0"]}
    spool.open_gate("one")
    spool.until_done("0010-one.toml")
    spool.check()
