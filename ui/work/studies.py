"""Studies of a model: the folders that hold one, each read once, and the tags of heads."""

from __future__ import annotations

import math
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

_FOLDERS: FileCache[list[Path]] = FileCache(200)  # each with the edits of a link
_OPENED = Lru(192 * 2**20)

#: Names for roles that end in no word to look at, in narrow places.
_SHORT = {
    "previous": "previous", "next": "next", "same": "itself", "diagonal": "diagonal",
    "rarest": "rarest", "first": "first", "end": "end mark", "marks": "marks", "diffuse": "even",
}  # fmt: skip


class Tag(NamedTuple):
    """A head's clearest role, or without one the place where it looks most often."""

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
        """The tags of all heads that were measured; `finding.named` is True for a role."""
        study, named = self.study, self.study.scores["named"].astype(bool)
        score, bar = study.scores["score"], study.scores["bar"]
        place = np.array([[role.needs == "text"] for role in study.roles]) & (bar < 1)
        clear = np.where(named, 2 + score - bar, np.where(place, score, -1.0))
        found = (
            study.finding(study.roles[at], head)
            for at, head in zip(clear.argmax(0), study.heads, strict=True)
        )
        return {
            each.head: Tag(short_name(each.role), in_words(each), each) for each in found if each
        }

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


def rules(finding: Finding) -> dict[str, float]:
    """Return the scores of the controls of a finding by name: rules that use no attention."""
    n = finding.offset
    words = "1 word" if abs(n) == 1 else f"{abs(n)} words"
    found = {
        f"always looking {words} to the {'left' if n < 0 else 'right'}": finding.offset_score,
        "always looking for the same word": finding.word_score,
        "always looking where other words look": finding.blind,
        "a majority, by definition": 0.5 if finding.role.needs == "text" else math.nan,
        "the best head with random weights": finding.random,
    }
    return {name: score for name, score in found.items() if not math.isnan(score)}


def best_rule(finding: Finding) -> str:
    """Return the name of the control with the highest score."""
    found = rules(finding)
    return max(found, key=found.__getitem__)


def in_words(finding: Finding) -> str:
    """Return the numbers of a role and a head in a sentence, without markup."""
    trials = "tokens" if finding.role.needs == "text" else "pairs"
    rule = best_rule(finding)
    return (
        f"{finding.role.title}: {percent(finding.score)} of {finding.pairs:,} {trials} "
        f"(95% interval {percent(finding.low)} to {percent(finding.high)}); "
        f"{rule}: {percent(rules(finding)[rule])}."
    )
