"""A model's studies, read once, and the tags of its heads."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from figures.labels import percent
from transformer.checkpoint.reference import ModelRef
from transformer.files.safe import modified
from transformer.study.examples import Pairs, Where, pairs_of
from transformer.study.records import FOLDER, Finding, Role, Study, cache_folder, studies_of
from transformer.trace.removals import Head
from transformer.types import CheckpointError
from ui.core import url_state
from ui.core.url_state import Param
from ui.work.lru import Lru

#: Folder name of the chosen study; "" is the one with the most measures.
STUDY: Param[str] = Param("study", url_state.text(120), "")

_OPENED = Lru(192 * 2**20)

#: Short names of roles, for below a small map.
_SHORT = {
    "previous": "previous", "next": "next", "same": "itself", "diagonal": "diagonal",
    "rarest": "rare word", "first": "first", "end": "end mark", "marks": "marks",
    "diffuse": "even", "translates": "writes", "translated": "wrote",
}  # fmt: skip


class Tag(NamedTuple):
    """A head's clearest role, or the place where it looks most often."""

    word: str  # a word or two
    text: str  # a sentence with the numbers
    finding: Finding


@dataclass(frozen=True, eq=False)
class Opened:
    """A study, with derived values computed on demand."""

    study: Study
    name: str  # folder name

    @cached_property
    def pairs(self) -> Pairs:
        """Annotated pairs of the study's sentences."""
        return pairs_of(self.study)

    @cached_property
    def tags(self) -> dict[Head, Tag]:
        """Tags of all measured heads; `finding.named` is True for a role."""
        study, named = self.study, self.study.scores["named"].astype(bool)
        score, bar = study.scores["score"], study.scores["bar"]
        place = np.array([[role.needs == "text"] for role in study.roles]) & (bar < 1)
        clear = np.where(named, 2 + score - bar, np.where(place, score, -1.0))
        findings = (
            study.finding(study.roles[at], head)
            for at, head in zip(clear.argmax(0), study.heads, strict=True)
        )
        return {
            finding.head: Tag(short_name(finding.role), in_words(finding), finding)
            for finding in findings
            if finding
        }

    def where(self, pieces: Callable[[str], Any]) -> Where:
        """Return the sentence index. Args: pieces: returns a word's tokens."""
        if "_where" not in vars(self):
            vars(self)["_where"] = Where(self.study, pieces)
        index: Where = vars(self)["_where"]
        return index


def studies(ref: ModelRef) -> list[Path]:
    """Return a model's study folders, most measures first."""
    roots = (ref.folder / FOLDER, cache_folder())
    return _folders(ref, roots, *map(modified, roots))


@lru_cache(maxsize=200)  # links name edits
def _folders(ref: ModelRef, roots: tuple[Path, ...], *version: int) -> list[Path]:
    if not any(root.is_dir() for root in roots):
        return []
    pairs = [(path, opened) for path in studies_of(ref) if (opened := open_study(path))]
    pairs.sort(key=lambda pair: (-len(pair[1].study.roles), -pair[1].study.n_sentences))
    return [path for path, _ in pairs]


def study_of(ref: ModelRef, name: str = "") -> Opened | None:
    """Return a model's study by name, by default the one with the most measures, or None."""
    paths = studies(ref)
    chosen = [path for path in paths if path.name == name] or paths
    return open_study(chosen[0]) if chosen else None


def open_study(path: Path) -> Opened | None:
    """Return the study in a folder, cached until it changes, or None if it cannot be read."""

    def read() -> Opened | None:
        try:
            return Opened(Study.load(path), path.name)
        except (CheckpointError, OSError):
            return None

    opened: Opened | None = _OPENED.once((path, modified(path)), read)
    return opened


def short_name(role: Role) -> str:
    """Return a role's short name."""
    return _SHORT.get(role.name) or role.title.partition(" to ")[2] or role.title


def rules(finding: Finding) -> dict[str, float]:
    """Return a finding's control scores by name: rules without attention."""
    n = finding.offset
    words = "1 word" if abs(n) == 1 else f"{abs(n)} words"
    links = finding.role.needs == "links"
    distance = f"always looking {words} to the {'left' if n < 0 else 'right'}"
    same = "the most frequent link of each word" if links else "always looking for the same word"
    scores = {
        "a guess along the diagonal" if links else distance: finding.offset_score,
        same: finding.word_score,
        "always looking where other words look": finding.blind,
        "half of the tokens": 0.5 if finding.role.needs == "text" else math.nan,
        "the best head with random weights": finding.random,
    }
    return {name: score for name, score in scores.items() if not math.isnan(score)}


def best_rule(finding: Finding) -> str:
    """Return the name of the best control."""
    scores = rules(finding)
    return max(scores, key=scores.__getitem__)


def in_words(finding: Finding) -> str:
    """Return a finding in a sentence without markup."""
    trials = "tokens" if finding.role.needs == "text" else "pairs"
    rule = best_rule(finding)
    return (
        f"{finding.role.title}: {percent(finding.score)} of {finding.pairs:,} {trials} "
        f"(95% interval {percent(finding.low)} to {percent(finding.high)}); "
        f"{rule}: {percent(rules(finding)[rule])}."
    )
