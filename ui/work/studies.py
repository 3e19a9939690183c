"""Studies of a model: the folders that hold one, each read once, and the tags of heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from figures.labels import percent
from transformer.checkpoint.reference import ModelRef
from transformer.errors import CheckpointError
from transformer.files.folders import FileCache
from transformer.files.safe import modified
from transformer.study.examples import Pairs, pairs_of
from transformer.study.records import FOLDER, Finding, Role, Study, cache_folder, studies_of
from transformer.study.where import Where
from transformer.trace.removals import Head
from ui.core import url_state
from ui.core.url_state import Param
from ui.work.lru import Lru

#: The folder of the chosen study; "" is the one that measures most.
STUDY: Param[str] = Param("study", url_state.text(120), "")

#: Words of a corpus for each trial of the rarest role that a head may be said to be near.
RARE = 100
_FOLDERS: FileCache[list[Path]] = FileCache()
_OPENED = Lru(192 * 2**20)

#: Names for roles that end in no word to look at, in narrow places.
_SHORT = {
    "previous": "previous", "next": "next", "same": "itself", "diagonal": "diagonal",
    "rarest": "rarest", "first": "first", "end": "end mark", "marks": "marks", "diffuse": "even",
}  # fmt: skip


class Tag(NamedTuple):
    """The role of a head that it has most clearly."""

    word: str  # a word or two on what it looks at
    text: str  # the role and its numbers, in a sentence
    finding: Finding


@dataclass(frozen=True, eq=False)
class Opened:
    """A study and what is derived from it, made when it is asked for."""

    study: Study
    name: str  # of its folder

    @cached_property
    def pairs(self) -> Pairs:
        """The annotated pairs of its sentences."""
        return pairs_of(self.study)

    @cached_property
    def tags(self) -> dict[Head, Tag]:
        """The clearest role that is named, of every head that has one."""
        named = self.study.scores["named"].astype(bool)
        margins = self.study.scores["score"] - self.study.scores["bar"]
        best = np.where(named, margins, -np.inf).argmax(0)
        found = {}
        for number, head in enumerate(self.study.heads):
            if named[:, number].any():
                finding = self.study.finding(self.study.roles[best[number]], head)
                if finding is not None:
                    found[head] = Tag(short_name(finding.role), in_words(finding), finding)
        return found

    def nearest(self, *heads: Head) -> Finding | None:
        """Return the finding nearest to its best control, if that is below 1; not of rare roles."""
        scores, columns = self.study.scores, [self.study.heads.index(head) for head in heads]
        shares = scores["score"] / np.maximum(scores["bar"], 1e-9)
        hopeless = np.isnan(shares) | (scores["bar"] >= 1)
        shares[hopeless | (scores["pairs"] * RARE < self.study.n_words)] = -1.0
        role, at = np.unravel_index(shares[:, columns].argmax(), (len(shares), len(heads)))
        found = self.study.finding(self.study.roles[role], heads[at])
        return found if shares[role, columns[at]] >= 0 else None

    def where(self, pieces: Callable[[str], Any]) -> Where:
        """Return the index of its sentences. Args: pieces: the tokens of a word."""
        if "_where" not in vars(self):
            vars(self)["_where"] = Where(self.study, pieces)
        found: Where = vars(self)["_where"]
        return found


def studies(ref: ModelRef) -> list[Path]:
    """Return the folders of a model's studies, those that measure most first."""
    roots = (ref.folder / FOLDER, cache_folder())
    version = ref, *map(modified, roots)

    def measure() -> list[Path]:
        if not any(root.is_dir() for root in roots):
            return []
        found = [(path, opened) for path in studies_of(ref) if (opened := open_study(path))]
        found.sort(key=lambda each: (-len(each[1].study.roles), -each[1].study.n_sentences))
        return [path for path, _ in found]

    return _FOLDERS.get(ref.path / ref.edits, version, measure)


def study_of(ref: ModelRef, name: str = "") -> Opened | None:
    """Return a model's study of this name, by default the one that measures most; None without."""
    found = studies(ref)
    chosen = [path for path in found if path.name == name] or found
    return open_study(chosen[0]) if chosen else None


def open_study(path: Path) -> Opened | None:
    """Return the study in a folder, read once for each version; None if it cannot be read."""

    def read() -> Opened | None:
        try:
            return Opened(Study.load(path), path.name)
        except (CheckpointError, OSError):
            return None

    found: Opened | None = _OPENED.once((path, modified(path)), read)
    return found


def short_name(role: Role) -> str:
    """Return a word or two on what a head of this role looks at."""
    return _SHORT.get(role.name) or role.title.partition(" to ")[2] or role.title


def in_words(finding: Finding) -> str:
    """Return the numbers of a role and a head in a sentence, without markup."""
    trials = "queries" if finding.role.needs == "text" else "pairs"
    said = (
        f"{finding.role.title}: {percent(finding.score)} of {finding.pairs:,} {trials} "
        f"({percent(finding.low)} to {percent(finding.high)})"
    )
    return f"{said}; the best control reaches {percent(finding.bar)}."
