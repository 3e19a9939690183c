"""The page's choices: study, table contents, head, and query and key terms."""

from dataclasses import dataclass
from typing import NamedTuple

from transformer.study.examples import OFS, Term
from transformer.study.records import Role
from transformer.trace.removals import Head
from ui.core import url_state
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.widgets import PlaceChoice
from ui.work.studies import STUDY, Opened

#: Maximum number of a visitor's own sentences, and the name of their study.
MOST_OWN, OWN = 200, "own"

_TERM = url_state.text(80)


@dataclass(frozen=True)
class HeadsChoice(PlaceChoice):
    """URL parameters; `head_of` returns the head.

    `shows` names a role or an importance measure, is "roles" for each head's role, or "" for the
    effect of removing each head, if it was measured. `source` and `key`
    are a word, "tag:NOUN", or "" for any word.
    """

    study: Param[str] = STUDY
    shows: Param[str] = Param("role", url_state.text(60), "")
    source: Param[str] = Param("from", _TERM, "")
    key: Param[str] = Param("to", _TERM, "")
    own: Param[str] = Param("lines", url_state.text(20_000), "")


def term_of(raw: str) -> Term | None:
    """Return one side of a query, or None for any word."""
    of, _, value = raw.partition(":")
    kind = next((kind for kind in OFS if kind == of and value), None)
    return Term(kind or "word", (value if kind else raw).strip()) if raw.strip() else None


def own_lines() -> tuple[str, ...]:
    """Return the visitor's own sentences, up to `MOST_OWN`."""
    lines = (line.strip() for line in url_state.get(HeadsChoice.own).splitlines())
    return tuple(line for line in lines if line)[:MOST_OWN]


def head_of(opened: Opened, role: Role | None, measure: str = "") -> Head:
    """Return the stored head if the role applies to it, otherwise the role's clearest head.

    Args: measure: of importance; the most important head comes before the clearest one.
    """
    study = opened.study
    stored = url_state.get(KIND), url_state.get(LAYER), url_state.get(HEAD)
    findings = (
        [tag.finding for tag in opened.tags.values()] if role is None else study.in_role(role)
    )
    for head in [finding.head for finding in findings] or study.heads:
        if (head.kind, head.layer + 1, head.head + 1) == stored:
            return head
    if measure:
        return max(study.heads, key=lambda head: study.importance[measure][head.kind][head[1:]])
    best = max(findings, key=lambda finding: (finding.named, finding.choice), default=None)
    return best.head if best else study.heads[0]


class Measure(NamedTuple):
    """On-screen texts of an importance measure."""

    name: str
    about: str
    unit: str = "nats per token"
    digits: int = 3
    loss: bool = False  # blue where removal lowers


MEASURES = {
    "gradient": Measure(
        "slope of the loss", "Change in loss per token as the head is scaled, |dL/dgate|."
    ),
    "removal": Measure(
        "single removal", "Take one out: by how much does the right token's probability fall "
        "(blue) or rise (orange), on average? **{place}: {share}%.**",
        loss=True,
    ),
    "bleu": Measure(
        "BLEU lost", "The BLEU lost (blue) or gained (orange) by greedy translations without it.",
        "points", 1, True,
    ),
    "order": Measure(
        "order of pruning", "Heads are removed one at a time, the least harmful first.",
        "", 0,
    ),
    "sharpness": Measure(
        "sharpness", "A query's largest weight, on average; not a measure of importance.", "",
    ),
}  # fmt: skip
