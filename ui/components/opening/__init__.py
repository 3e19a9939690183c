"""Opening animation: a sentence is translated token by token, with a riddle about its pronoun.

Up to the pronoun, every new token lights the source words that it attends to, averaged over all
heads. Then the visitor guesses what the pronoun stands for and sees where one head looks, in this
sentence and in others; then which head changes the pronoun if removed.
"""

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


@dataclass(frozen=True)
class Trial:
    """A translation without one head."""

    head: tuple[AttentionKind, int, int]  # kind, layer, head
    heading: str
    verdict: str
    text: str  # the translation, new words between **, lost ones between ~~
    hit: bool  # whether the word is lost


@dataclass(frozen=True)
class Break:
    """A scene's trials: the heads without which `word` is lost."""

    word: str
    step: int  # the token with the word
    #: heading, verdict: before a trial
    heading: str
    verdict: str
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
    verdict: str  # explanation of the light, strong words between **
    detail: str  # text below the verdict
    mistake: str  # the model's wrong pronoun, "" if it is right
    breaks: Break | None = None  # None if there is no word to lose


def opening_component(
    texts: Mapping[str, Any], scenes: Sequence[Scene], *, covers: bool = False
) -> Component[None]:
    """Return the opening as a component.

    Args:
        texts: around the scenes.
        covers: whether these are all scenes and the page is behind them; otherwise the browser
            requests both at once.
    """
    shown = {"scenes": [_scene(scene) for scene in scenes], "covers": covers}
    return Component("opening", {**texts, **shown, "colours": attention_colours()})


def _scene(scene: Scene) -> Mapping[str, Any]:
    rest = vars(scene).copy()
    trace, referent = rest.pop("trace"), rest.pop("referent")
    rest |= {"light": _rounded(scene.light), "breaks": scene.breaks and asdict(scene.breaks)}
    written = merge(trace.cross.mean(axis=(0, 1)), None, referent.words)[: referent.step]
    return rest | {
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
    }


def _rounded(weights: Floats) -> Any:
    return np.round(weights.astype(np.float64), 3).tolist()
