"""overview - what bare `spoold` prints: is there a spooler, what runs, what waits and why, what ended last.

Owns the picture; fits it to the terminal, and says what it left out.  Reads only.
"""

from __future__ import annotations

import textwrap

from jobspec.names import show
from jobspec.units import format_size
from spoold.cli.look import ended_views, incoming_views, look, ready_views, running_views
from spoold.cli.program import Session
from spoold.cli.terminal import Screen, tilde
from spoold.model import Stage
from spoold.reservations import promised
from spoold.rows import Cell, cut_front, row, table
from spoold.store import Store
from spoold.survey import Survey
from spoold.view import JobView

_ENDED: int = 5
_FEWEST_WAITING: int = 3
_BLOCK = list[JobView]


def overview(session: Session) -> int:
    """The picture of one spool."""
    found = look(session.layout)
    screen = session.screen
    store = Store(session.layout)
    running, ready, incoming = running_views(found), ready_views(found), incoming_views(found)
    ended = [view for stage in (Stage.DONE, Stage.REFUSED) for view in ended_views(store, stage, found.settings, _ENDED)]
    ended = sorted(ended, key=lambda view: view.ended_at or 0.0, reverse=True)[:_ENDED]
    head = _head(found, screen, running, ready, incoming)
    waiting = [*ready, *incoming]
    left_out = 0
    if screen.height is not None:
        # a prompt, the blank lines between the blocks and the line that says what was left out
        room = max(_FEWEST_WAITING, screen.height - len(head) - len(running) - len(ended) - 5)
        if len(waiting) > room:
            left_out = len(waiting) - room
            waiting = waiting[:room]
    blocks = [block for block in (running, waiting, ended) if block]
    rows = [row(view, found.now, screen.marks, spooler=found.spooler is not None) for block in blocks for view in block]
    lines = table(rows, screen.width, screen.marks)
    screen.show(head)
    for block in blocks:
        screen.show([[], *lines[: len(block)]])
        del lines[: len(block)]
        if block is waiting and left_out:
            screen.show([[Cell(f"  {left_out} more wait; `spoold ls` shows them", "dim")]])
    if not blocks:
        screen.show([[], [Cell("  Nothing is queued.  `spoold submit -- CMD` queues a command.", "dim")]])
    return 0


def _head(found: Survey, screen: Screen, running: _BLOCK, ready: _BLOCK, incoming: _BLOCK) -> list[list[Cell]]:
    """The state of the spool: one line, and one more for everything that keeps jobs from starting."""
    counts = [f"{len(running)} running" if running else "idle"]
    held = sum(view.held for view in ready)
    if len(ready) > held:
        counts.append(f"{len(ready) - held} waiting")
    if held:
        counts.append(f"{held} on hold")
    if incoming:
        counts.append(f"{len(incoming)} dropped")
    state = f"  {', '.join(counts)}"
    spooler = "" if found.spooler is None else "  spooler runs"
    left = [
        Cell(cut_front(tilde(found.layout.root), screen.width - len(state) - len(spooler), screen.marks), "bold"),
        Cell(state),
        Cell(spooler, "dim"),
    ]
    used = sum(len(cell.text) for cell in left)
    memory = _memory_left(found)
    if memory and used + 2 + len(memory) <= min(screen.width, 100):
        left += [Cell(" " * (min(screen.width, 100) - used - len(memory))), Cell(memory, "dim")]
    lines = [left]
    for style, text in warnings(found):
        # at its end stands what to do about it
        for line in textwrap.wrap(text, screen.width, max_lines=3, placeholder=screen.marks.cut) or [""]:
            lines.append([Cell(line, style)])
    return lines


def _memory_left(found: Survey) -> str:
    """What a job that starts now may have: what is available less what is promised and the floor, as `why` counts it."""
    box = found.box
    if box.available is None:
        return ""
    left = box.available - promised(found.queue.runs()) - box.floor
    return f"{format_size(max(0, left))} of {format_size(box.total)} free"


def warnings(found: Survey) -> list[tuple[str, str]]:
    """What keeps everything from starting: a style and a sentence each."""
    said = []
    if found.spooler is None:
        said.append(("bad", "No spooler runs: nothing starts until `spoold run` does."))
    if found.box.paused is not None:
        text = show(found.box.paused)
        said.append(("warn", f"Paused{': ' + text if text else ''}.  `spoold resume` lets jobs start again."))
    if found.box.closed is not None:
        said.append(("bad", f"Nothing starts: {found.box.closed}."))
    if found.settings_problem is not None:
        said.append(("bad", f"{show(found.settings_problem)}; the settings from before it stay in force."))
    return said
