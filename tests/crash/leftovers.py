"""leftovers - what a spooler that died can have left on the disk, written by hand: run records, job files with a history, claims.

Owns the forging; what it writes has the form that the product writes, through the product's own encoders.
"""

from __future__ import annotations

import os
import time
from typing import Any

from rig import Expected, Rig, name_of

from jobspec import trace
from jobspec.names import parse_file_name
from spoold import host, records
from spoold.archive import accepted_entry
from spoold.model import Stage
from spoold.records import EndRecord, Figures, StartRecord

ANOTHER_BOOT = "a boot before this one"


def accepted(rig: Rig, entry: str, claim: str = "c1.0", **fields: Any) -> bytes:
    """A job's file as it lies in ready/ or running/ after its acceptance; it is expected to be somewhere in the spool from now on."""
    expected = {"runs": tuple(fields.pop("runs", (1,))), "ends": tuple(fields.pop("ends", ("ok",)))}
    name = name_of(entry)
    text = rig.expect(rig.job(name, **fields))
    rig.expected[name] = Expected(text=text, **expected)
    return trace.append(text, accepted_entry(time.time() - 60, f"incoming/{entry}", os.geteuid(), claim))


def put(rig: Rig, stage: Stage, entry: str, data: bytes) -> None:
    """A private file of the spooler's, in a stage."""
    path = rig.path(stage, entry)
    path.write_bytes(data)
    path.chmod(0o600)


def record(
    rig: Rig,
    entry: str,
    data: bytes,
    *,
    run: int = 1,
    slot: int = 1,
    boot: str | None = None,
    pid: int = 0,
    locks: dict[str, list[str]] | None = None,
    end: EndRecord | None = None,
) -> StartRecord:
    """An unretired run record; `data` is its snapshot, `pid` what it says of its supervisor and its main process."""
    name = parse_file_name(entry)
    assert name.seq is not None
    log = f"log/{name.job}.log"
    start = StartRecord(
        run=run,
        job=name.job,
        seq=name.seq,
        name=name.name,
        file=entry,
        started_at=time.time() - 50,
        boot=host.boot_id() if boot is None else boot,
        host=host.host_id(),
        supervisor=pid or 999_999_999,
        wall_s=3600.0,
        grace_s=0.2,
        locks={"box": ["0"]} if locks is None else locks,
        memory=0,
        log=log,
        waited_s=0.0,
        waited_for=[],
        text=data.decode(),
    )
    (rig.root / log).touch()
    where = rig.layout.slot(slot)
    os.makedirs(where.dir, exist_ok=True)
    with open(where.record, "wb") as file:
        file.write(bytes(records.RECORD_SIZE))
        file.seek(records.START_AT)
        file.write(records.encode_start(start))
        if pid:
            file.seek(records.FIGURES_AT)
            figures = Figures(run=run, pid=pid, at=time.time() - 40, memory=1, peak=1, kind="pss", cpu_s=0.0, processes=1)
            file.write(records.encode_figures(figures))
        if end is not None:
            file.seek(records.END_AT)
            file.write(records.encode_end(end))
    return start


def ended(run: int = 1, outcome: str = "ok", exit: int | None = 0) -> EndRecord:
    return EndRecord(run=run, outcome=outcome, exit=exit, ended_at=time.time() - 30, elapsed_s=20.0, pid=4711)
