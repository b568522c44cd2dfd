"""refusing - jobs and entries on their way to refused/, each with its reason beside it.

Owns the reasons that could not be written because the disk was full: they are kept and written later.  Never judges.
Fails: never; a refusal that the disk does not allow is said and tried again.
"""

from __future__ import annotations

from jobspec.names import safe_entry, show
from spoold.dates import Dates
from spoold.journal import Journal
from spoold.model import Ended, Fate, Queue, Refuse, Stage
from spoold.shelf import Shelf
from spoold.store import Store, plain_name


class Refusing:
    """The way into refused/."""

    def __init__(self, store: Store, queue: Queue, shelf: Shelf, journal: Journal, dates: Dates) -> None:
        self._store = store
        self._queue = queue
        self._shelf = shelf
        self._journal = journal
        self._dates = dates
        self._owed: dict[str, str] = {}

    def refuse(self, refuse: Refuse, now: float) -> None:
        """A ready job that can never run: ready/ -> refused/."""
        job = refuse.job
        item = self._shelf.item(job.key)
        if item is None:
            return
        source = self._store.layout.entry(Stage.READY, item.entry)
        try:
            name, written = self._store.refuse(source, plain_name(item.entry), refuse.why)
        except FileNotFoundError:
            self._shelf.doubt(job.key)
            return
        except OSError as error:
            self._journal.once("refuse", f"{job.file} cannot be refused: {error.strerror or error}; tried again")
            self._shelf.doubt(job.key)
            return
        self._journal.once("refuse", None)
        self._shelf.remove(job.key)
        self.owe(name, refuse.why, written)
        self._journal.say(f"{plain_name(job.file).removesuffix('.toml')} ready -> refused: {refuse.why}")
        self._queue.note_end(Ended(seq=job.seq, name=job.name, at=self._dates.date(now), how=Fate.REFUSED, file=f"refused/{name}"))

    def refuse_entry(self, stage: Stage, entry: str, why: str) -> str | None:
        """A file that is no job of the queue.  The name it got, or None if it is gone or cannot be refused now."""
        try:
            name, written = self._store.refuse(self._store.layout.entry(stage, entry), safe_entry(plain_name(entry)), why)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._journal.once(f"refuse {entry}", f"{stage.value}/{show(entry)} cannot be refused: {error.strerror or error}")
            return None
        self._journal.once(f"refuse {entry}", None)
        self.owe(name, why, written)
        self._journal.say(f"{show(entry)} {stage.value} -> refused: {why}")
        return name

    def owe(self, name: str, why: str, written: bool) -> None:
        """A file is in refused/; remember its reason if it could not be written."""
        if not written:
            self._owed[name] = why

    def pay(self) -> None:
        """Write the reasons that are owed, as far as the disk lets us."""
        for name, why in list(self._owed.items()):
            if self._store.write_why(name, why):
                del self._owed[name]

