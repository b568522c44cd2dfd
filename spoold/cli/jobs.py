"""jobs - what a JOB on the command line means: a NAME, a file name, a number, @, or a glob.

Owns the search, by file names alone: live jobs first, then what has ended last in done/ and refused/.  Never reads a job that it does not have to.
Fails: NoSuchError with the nearest names, or with where the job is instead; UsageError for a word that means several jobs where one is asked for.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from jobspec.names import BadNameError, is_candidate, parse_file_name, show, stem
from spoold import claim
from spoold.cli.terminal import tilde
from spoold.errors import NoSuchError, UsageError
from spoold.layout import NUMBERED_LINKS
from spoold.model import Stage, is_glob, matches
from spoold.store import Store, held_name

LIVE: Final = (Stage.RUNNING, Stage.READY, Stage.INCOMING)
ENDED: Final = (Stage.DONE, Stage.REFUSED)
EVERYWHERE: Final = (*LIVE, *ENDED)
_BETWEEN_S: Final = 0.05
"""Between two listings a job may be on its way from one stage to the next; it is looked for once more after this."""
_MOST_NAMES: Final = 5000


@dataclass(frozen=True, slots=True)
class Place:
    """Where one job's file lies.  `entry` is its name there; `taken`: it is not in running/ any more, but its run has not ended."""

    stage: Stage
    entry: str
    name: str
    seq: int | None
    held: bool = False
    taken: bool = False

    @property
    def file(self) -> str:
        """Relative to the spool."""
        return f"{self.stage.value}/{self.entry}"


class Jobs:
    """The jobs of one spool, by their files.  Every call looks again."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def live(self) -> list[Place]:
        """Running, ready in order, incoming."""
        found: dict[Stage, list[Place]] = {}
        # in the order of a job's way, so that one that moves on meanwhile is seen twice and not missed; the later stage counts
        for stage in (Stage.INCOMING, Stage.READY, Stage.RUNNING):
            entries = self._entries(stage)
            places = (_place(stage, entry) for entry in ({*entries, *self._claimed()} if stage is Stage.INCOMING else entries))
            found[stage] = sorted((place for place in places if place is not None), key=_order)
        found[Stage.RUNNING] += self._taken({place.entry for place in found[Stage.RUNNING]})
        names: set[str] = set()
        live: list[Place] = []
        for stage in LIVE:
            for place in found[stage]:
                if stage is Stage.INCOMING or place.name not in names:
                    names.add(place.name)
                    live.append(place)
        return live

    def _entries(self, stage: Stage) -> list[str]:
        try:
            return self.store.stage_entries(stage)
        except FileNotFoundError as error:
            root = self.store.layout.root
            raise NoSuchError(f"{root} is no whole spool: {error.filename} is missing; `spoold init {root}` mends it") from error

    def _taken(self, running: Collection[str]) -> list[Place]:
        """Runs whose file a user has taken out of running/, and which have not ended."""
        layout = self.store.layout
        try:
            slots = [layout.slot(int(slot)) for slot in os.listdir(layout.slots) if slot.isdecimal()]
        except FileNotFoundError:
            return []
        # records are long and reading them needs more of the program: only if there are more jobs with processes than files in running/
        if sum(claim.is_held(slot.job_lock) for slot in slots) <= len(running):
            return []
        from spoold.slots import read

        records = [read(slot) for slot in slots]
        starts = [record.start for record in records if record.live and record.end is None]
        return [
            Place(Stage.RUNNING, start.file, start.name, start.seq, taken=True) for start in starts if start and start.file not in running
        ]

    def _claimed(self) -> list[str]:
        """Names that dropped files had which are private already and not yet accepted or refused."""
        try:
            return [entry.partition("~")[2] for entry in self.store.entries(self.store.layout.claims)]
        except FileNotFoundError:
            return []

    def one(self, word: str, stages: Collection[Stage] = EVERYWHERE) -> Place:
        """The one job that a word means."""
        places = self._find(word, stages)
        if len(places) > 1:
            raise UsageError(f"{show(word)} means {_some(place.file for place in places)}; say which one")
        return places[0]

    def some(self, words: Iterable[str], stages: Collection[Stage] = EVERYWHERE) -> list[Place]:
        """The jobs that words mean, each once; a glob may mean several."""
        found: dict[Place, None] = {}
        for word in words:
            places = self._find(word, stages)
            if len(places) > 1 and not is_glob(word):
                raise UsageError(f"{show(word)} means {_some(place.file for place in places)}; say which one")
            found.update(dict.fromkeys(places))
        return list(found)

    def _find(self, word: str, stages: Collection[Stage]) -> list[Place]:
        if word == "@":
            word = last_submitted(self.store)
        for attempt in (1, 2):
            live = self.live()
            wanted = _select(word, [place for place in live if place.stage in stages])
            if wanted:
                return wanted
            elsewhere = _select(word, live)
            if (not elsewhere or is_glob(word)) and any(stage in stages for stage in ENDED):
                wanted = [place for place in self._ended(word) if place.stage in stages]
                if wanted:
                    return wanted
            if attempt == 1 and not elsewhere:
                time.sleep(_BETWEEN_S)
        elsewhere = elsewhere or self._ended(word)
        if elsewhere:
            raise NoSuchError(_not_there(elsewhere, stages))
        raise NoSuchError(self._nowhere(word))

    def _ended(self, word: str) -> list[Place]:
        """What a word means in done/ and refused/: a file by its own name, else of each NAME the file that came last."""
        from spoold.archive import Archive, names_of

        archive = Archive(self.store)
        stage_said, entry_said = _split(word)
        part = re.sub(r"^[0-9]+-", "", stem(entry_said))
        exact: list[Place] = []
        last: dict[str, tuple[float, Place]] = {}
        for stage in ENDED:
            for entry in self._entries(stage) if stage_said in (None, stage) else ():
                if not is_candidate(entry) or (part not in entry and not is_glob(word) and not word.isdigit()):
                    continue
                candidates = names_of(entry)
                # "g52" is a NAME before it is the file g52.toml; what has no NAME can only be meant as a file
                if entry_said == entry or (entry_said == stem(entry) and (not candidates or candidates[0][0] is not None)):
                    seq, name = candidates[0] if candidates else (None, stem(entry))
                    ends = archive.read(stage, entry)
                    exact.append(Place(stage, entry, ends[0].name if ends else name, seq))
                elif any(_means(word, seq, name) for seq, name in candidates):
                    ends = archive.read(stage, entry)
                    for ended in ends:
                        if _means(word, ended.seq, ended.name) and (ended.name not in last or last[ended.name][0] < ended.at):
                            last[ended.name] = (ended.at, Place(stage, entry, ended.name, ended.seq))
                    # a link or a directory that was refused: nothing can be read in it, but it is listed, and its reason is beside it
                    own_seq, own = candidates[0]
                    if not ends and _means(word, own_seq, own):
                        last.setdefault(own, (0.0, Place(stage, entry, own, own_seq)))
        if exact:
            return exact
        ends_in_order = [place for _, place in sorted(last.values(), key=lambda end: end[0])]
        return ends_in_order if is_glob(word) else ends_in_order[-1:]

    def _nowhere(self, word: str) -> str:
        import difflib
        import itertools

        from spoold.archive import names_of

        names = [place.name for place in self.live()]
        for stage in ENDED:
            names += [name for entry in itertools.islice(self._entries(stage), _MOST_NAMES) for _, name in names_of(entry)[-1:]]
        # a ./spool is found before ~/spool: which one was looked at is half of the answer
        where = tilde(self.store.layout.root)
        if is_glob(word):
            return f"no job in {where} matches {show(word)}"
        near = difflib.get_close_matches(word, dict.fromkeys(names), n=3, cutoff=0.6)
        if near:
            return f"there is no job {show(word)} in {where}; did you mean {_some(map(show, near), 'or')}?"
        return f"there is no job {show(word)} in {where}; `spoold ls` and `spoold ls done refused` name those that there are"


def last_submitted(store: Store) -> str:
    """What @ stands for."""
    try:
        with open(store.layout.last_submitted, encoding="utf-8", errors="replace") as file:
            name = file.read(1000).strip()
    except FileNotFoundError:
        name = ""
    if not name:
        raise NoSuchError("@ is the last job that `spoold submit` queued, and there is none yet")
    return name


def _place(stage: Stage, entry: str) -> Place | None:
    held = held_name(entry) if stage is Stage.READY else None
    if held is None and not is_candidate(entry):
        return None
    try:
        file = parse_file_name(held or entry)
    except BadNameError:
        return Place(stage, entry, stem(held or entry), None, held is not None)
    return Place(stage, entry, file.name, file.seq, held is not None)


def _order(place: Place) -> tuple[bool, int, str]:
    return (place.seq is None, place.seq or 0, place.name)


def _split(word: str) -> tuple[Stage | None, str]:
    """ "ready/0050-g52.toml", also with the path of the spool in front, in its two parts."""
    directory, _, entry = word.rpartition("/")
    directory = directory.rpartition("/")[2]
    directory = NUMBERED_LINKS.get(directory, directory)
    return next((stage for stage in Stage if stage.value == directory), None), entry


def _means(word: str, seq: int | None, name: str) -> bool:
    return word == name or (word.isdigit() and word.isascii() and seq == int(word)) or (is_glob(word) and matches(word, name))


def _select(word: str, places: list[Place]) -> list[Place]:
    """What a word means among these; the first way of naming that fits counts."""
    stage, entry = _split(word)
    ways: tuple[Callable[[Place], bool], ...] = (
        lambda place: stage in (None, place.stage) and entry in _files(place),
        lambda place: place.name == word,
        lambda place: word.isdigit() and word.isascii() and place.seq == int(word),
        lambda place: is_glob(word) and matches(word, place.name),
    )
    for way in ways:
        found = [place for place in places if way(place)]
        accepted = [place for place in found if place.stage is not Stage.INCOMING]
        if found:
            return accepted or found
    return []


def _files(place: Place) -> tuple[str, ...]:
    """The names that a file answers to: its own, that which it has when it is not on hold, and (with a number, else it is a NAME) that without .toml."""
    plain = held_name(place.entry) or place.entry
    return (place.entry, plain) if place.seq is None else (place.entry, plain, stem(plain))


def _not_there(found: list[Place], stages: Collection[Stage]) -> str:
    """A job that exists, but not where the verb can do something with it."""
    what = _some(f"{show(place.name)} is in {place.stage.value}/" for place in found)
    return f"{what}; this is for jobs in {_some((f'{stage.value}/' for stage in stages), 'or')} only"


def _some(words: Iterable[str], last: str = "and") -> str:
    every = list(words)
    if len(every) > 6:
        every = [*every[:5], f"{len(every) - 5} more"]
    return every[0] if len(every) == 1 else f"{', '.join(every[:-1])} {last} {every[-1]}"
