"""Opening animation: a sentence is translated token by token, with a riddle about its pronoun.

Up to the pronoun, every new token lights the source words that it attends to, averaged over all
heads. Then the visitor guesses what the pronoun stands for and sees where one head looks, in this
sentence and in others; then which head, taken out, changes the pronoun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from figures.labels import show_token
from transformer.measures.referent import Referent
from transformer.measures.words import group_labels, merge
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats
from ui.components.packing import Component, attention_colours, labels

#: Alternately plain and strong text, plain first.
Runs = Sequence[str]


@dataclass(frozen=True)
class Trial:
    """A translation without one head."""

    head: tuple[AttentionKind, int, int]  # kind, layer, head
    heading: str
    verdict: str
    text: Runs  # the translation, changed words strong
    hit: bool  # whether the word is lost


@dataclass(frozen=True)
class Break:
    """A scene's trials: which head is `word` lost without?"""

    word: str
    step: int  # the token with the word
    kinds: Sequence[tuple[AttentionKind, str, tuple[int, int]]]  # kind, name, [layers, heads]
    lit: tuple[AttentionKind, int, int] | None  # the head whose light the scene shows
    trials: Sequence[Trial]


@dataclass(frozen=True, eq=False)
class Scene:
    """One sentence of the opening."""

    trace: Trace
    referent: Referent
    #: source of the light after the guess: the pronoun itself ("encoder_self") or its translation
    #: ("cross")
    kind: AttentionKind
    light: Floats  # [W], weight on every source word after the guess
    heading: str  # what the pronoun is, "" if the scene asks for it and the reply says it
    replies: tuple[str, str]  # to the right noun, the first, and to the other
    verdict: Runs  # explanation of the light
    detail: str  # text below the verdict
    breaks: Break | None = None  # None if there is no word to lose


@dataclass(frozen=True)
class Script:
    """Texts around the scenes."""

    lead: str  # introduction
    question: str  # asked before the pronoun
    why: str  # consequence of the answer
    onward: tuple[Runs, ...]  # per scene, the label of the button for the next scene
    #: name and code of source and target language
    languages: tuple[tuple[str, str], tuple[str, str]]
    guesses: tuple[int, ...] = ()  # scenes whose word is lost without some head


def opening_component(
    script: Script, scenes: Sequence[Scene], *, covers: bool = False
) -> Component[None]:
    """Return the opening as a component.

    Args:
        covers: whether these are all scenes and the page is behind them; otherwise the browser
            requests both at once.
    """
    source, target = ({"name": name, "code": code} for name, code in script.languages)
    header = {
        **vars(script),
        "source": source,
        "target": target,
        "scenes": [_scene(scene) for scene in scenes],
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
        # A space precedes the tokens that are apart.
        "tokens": [
            {"text": show_token(token.removeprefix("▁")), "apart": token.startswith("▁")}
            for token in trace.predicted_tokens[: trace.n_words]
        ],
        "step": referent.step,
        "written": _rounded(written),
        "kind": scene.kind,
        "light": _rounded(scene.light),
        "heading": scene.heading,
        "replies": scene.replies,
        "verdict": list(scene.verdict),
        "detail": scene.detail,
        "breaks": asdict(scene.breaks) if scene.breaks else None,
    }


def _rounded(weights: Floats) -> Any:
    return np.round(weights.astype(np.float64), 3).tolist()
