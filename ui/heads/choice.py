"""The page's choices: a study, a role, a head, and what it looks from and to."""

from __future__ import annotations

from dataclasses import dataclass

from transformer.study.importance import MEASURES
from transformer.study.where import OFS, Of, Term
from transformer.trace.removals import Head
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.work.studies import STUDY, Opened

#: Most sentences of a visitor's own, and their name among the studies.
MOST_OWN, OWN = 200, "own"

ANY = "any"
#: Names of the things a head may look from and to.
THINGS: dict[str, str] = {
    ANY: "any word", "word": "the word", "tag": "part of speech", "relation": "relation",
    "token": "the token",
}  # fmt: skip


_THING, _VALUE = url_state.one_of((ANY, *OFS)), url_state.text(80)


@dataclass(frozen=True)
class HeadsChoice(Choice):
    """The URL parameters; see `head_of` for the head."""

    kind: Param[str] = KIND
    layer: Param[int | None] = LAYER
    head: Param[int | None] = HEAD
    study: Param[str] = STUDY
    role: Param[str] = Param("role", url_state.text(60), "")
    source: Param[str] = Param("from_is", _THING, ANY)
    source_value: Param[str] = Param("from", _VALUE, "")
    key: Param[str] = Param("to_is", _THING, ANY)
    key_value: Param[str] = Param("to", _VALUE, "")
    measure: Param[str] = Param("measure", url_state.one_of(MEASURES), "removal")
    own: Param[str] = Param("lines", url_state.text(20_000), "")

    @property
    def terms(self) -> tuple[Term | None, Term | None]:
        """The two sides of a question, from and to; None for any word."""
        return _term(self.source, self.source_value), _term(self.key, self.key_value)


def _term(of: str, value: str) -> Term | None:
    named: Of | None = next((each for each in OFS if each == of), None)
    return Term(named, value.strip()) if named and value.strip() else None


def own_lines() -> tuple[str, ...]:
    """Return the visitor's own sentences, the first `MOST_OWN`."""
    lines = (line.strip() for line in url_state.get(HeadsChoice.own).splitlines())
    return tuple(line for line in lines if line)[:MOST_OWN]


def head_of(opened: Opened, role: str) -> Head:
    """Return the stored head; by default the one that is clearest in a role, or in any."""
    study = opened.study
    wanted = url_state.get(KIND), url_state.get(LAYER), url_state.get(HEAD)
    for head in study.heads:
        if (head.kind, head.layer + 1, head.head + 1) == wanted:
            return head
    if chosen := study.role(role):
        found = [each for head in study.heads if (each := study.finding(chosen, head))]
    else:
        near = opened.nearest(*study.heads)
        found = [tag.finding for tag in opened.tags.values()] or ([near] if near else [])
    return max(found, key=lambda each: each.margin).head if found else study.heads[0]


def choose_head(head: Head) -> None:
    """Store a head."""
    url_state.put(KIND, head.kind)
    url_state.put_index(LAYER, head.layer)
    url_state.put_index(HEAD, head.head)
