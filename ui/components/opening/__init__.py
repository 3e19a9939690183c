"""The opening: a sentence that is translated token by token, and a riddle about its pronoun.

Up to the pronoun, light falls from each new token on the source words that it was written from,
averaged over all heads. Then the visitor is asked what the pronoun stands for, and sees where one
head looks, in this and in other sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from figures.labels import show_token
from transformer.measures.referent import Referent
from transformer.measures.words import group_labels, merge
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats
from ui.components.packing import Component, attention_colours, labels

#: Plain and strong text in turn, plain first.
Runs = Sequence[str]


@dataclass(frozen=True, eq=False)
class Scene:
    """One sentence of the opening."""

    #: trace, referent: of the sentence
    trace: Trace
    referent: Referent
    #: where the light comes from after the guess: the pronoun in the source ("encoder_self") or its
    #: translation ("cross")
    kind: AttentionKind
    light: Floats  # [W], what falls on each source word then
    heading: str  # what the pronoun is, "" if the reply to a guess says it
    verdict: Runs  # shown with that light
    detail: str  # shown below it


@dataclass(frozen=True)
class Script:
    """The words around the scenes."""

    lead: str  # what one sees
    #: question, why: asked before the pronoun, and what depends on it
    question: str
    why: str
    nouns: tuple[str, ...]  # the possible answers
    answer: int  # index of the right one
    replies: tuple[str, ...]  # shown after each answer
    onward: tuple[Runs, ...]  # of each scene, the label of the way to the next, or to the first
    #: name and code of the source and of the target
    languages: tuple[tuple[str, str], tuple[str, str]]


def opening_component(
    script: Script, scenes: Sequence[Scene], *, covers: bool = False
) -> Component[None]:
    """Return the opening as a component.

    Args:
        covers: whether these are all scenes, and the page stands behind them; if not, the browser
            asks for both at once.
    """
    source, target = ({"name": name, "code": code} for name, code in script.languages)
    header = {
        **vars(script),
        "source": source,
        "target": target,
        "scenes": [_scene(each) for each in scenes],
        "covers": covers,
        "colours": attention_colours(),
    }
    return Component("opening", header)


def _scene(scene: Scene) -> Mapping[str, Any]:
    trace, referent = scene.trace, scene.referent
    written = merge(trace.cross.mean(axis=(0, 1)), None, referent.words)[: referent.step]
    return {
        "words": labels(group_labels(trace.src_tokens, referent.words)),
        "special": [group[0] in trace.src_special for group in referent.words],
        "pronoun": referent.pronoun,
        "nouns": list(referent.nouns),
        # As in running text: whether a space precedes the token.
        "tokens": [
            {"text": show_token(token.removeprefix("▁")), "apart": token.startswith("▁")}
            for token in trace.predicted_tokens[: trace.n_words]
        ],
        "step": referent.step,
        "written": _rounded(written),
        "kind": scene.kind,
        "light": _rounded(scene.light),
        "heading": scene.heading,
        "verdict": list(scene.verdict),
        "detail": scene.detail,
    }


def _rounded(weights: Floats) -> Any:
    return np.round(weights.astype(np.float64), 3).tolist()
