"""The opening's second half: the visitor removes heads until a word of the translation changes.

No head is stored: the one that changes the word is searched for in the model as it is.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from figures.labels import KIND_NAMES, percent
from transformer.trace.records import Needs, Trace
from transformer.trace.removals import Head
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS
from transformer.worker.job import UNKNOWN, report
from ui.components.opening import Break, Trial
from ui.core.view import View
from ui.removals.views import NEEDS, Effect, ranked
from ui.tours.stops import OPENING_TOUR, Target
from ui.work.desk import computed
from ui.work.results import Computation

#: Heads that a search removes in turn, the most needed first.
CANDIDATES = 8

TRIAL, GUESS = OPENING_TOUR.stops[2:4]


def decisive_head(view: View, target: Target) -> Head | None:
    """Return the most needed head without which the target is lost, or None.

    The page Heads off then has its numbers: they rank the heads.
    """
    return computed(view, decisive_of(computed(view, NEEDS), target))


def decisive_of(needs: Needs, target: Target) -> Computation[Head | None]:
    """Return the first of the `CANDIDATES` most needed heads without which the target is lost."""
    ranking = ranked({kind: needs.of(rows, target.step) for kind, rows in needs.heads.items()})
    heads = ranking[:CANDIDATES]

    def make(translator: Translator, trace: Trace) -> Head | None:
        for head in heads:
            report(*UNKNOWN)
            text = translator.edited(head.off).translate([trace.src_ids])[0].text
            if is_lost(target.word, trace.text, text):
                return head
        return None

    return Computation("decisive head", (*heads, target), make)


def is_lost(word: str, before: str, after: str) -> bool:
    """Return True if a text has fewer occurrences of a word than another."""
    count, left = (Counter(re.findall(r"\w+", text.casefold())) for text in (before, after))
    return left[word.casefold()] < count[word.casefold()]


def marked(before: str, after: str) -> str:
    """Return a text with its new words between **, and the words it lacks between ~~."""
    words, changed = (re.findall(r"\S+\s*", text) for text in (before, after))
    old, new = ([re.sub(r"\W", "", word) for word in side] for side in (words, changed))
    text = "".join(
        f" ~~{''.join(words[first:last]).rstrip(' .,;:!?')}~~ " if kind == "delete"
        else "".join(changed[start:end]) if kind == "equal"
        else f"**{''.join(changed[start:end])}**"
        for kind, first, last, start, end in SequenceMatcher(None, old, new, False).get_opcodes()
    )  # fmt: skip

    return re.sub(  # a lost word stands before the comma that it left
        r"([.,;:!?] +) ~~(.*?)~~ ",
        lambda at: at[0] if at[1] + at[2] in before else f" ~~{at[2]}~~{at[1]}", text,
    )  # fmt: skip


def break_of(
    trace: Trace, target: Target, lit: Head | None, effects: Mapping[Head, Effect]
) -> Break:
    """Return a scene's trials for the browser.

    Args:
        lit: the head whose light the scene shows.
        effects: by head, in the order of the trials.
    """
    shapes = {
        kind: maps.shape[:2] for kind in ATTENTION_KINDS if (maps := trace.attention(kind)).size
    }
    guess = GUESS.said(word=target.word)
    return Break(
        word=target.word,
        step=target.step,
        heading=guess.ask,
        verdict=guess.because,
        kinds=[(kind, KIND_NAMES[kind], shape) for kind, shape in shapes.items()],
        lit=lit,
        trials=[_trial(trace, target, *item, lit) for item in effects.items()],
    )


def _trial(trace: Trace, target: Target, head: Head, effect: Effect, lit: Head | None) -> Trial:
    before = float(trace.log_probs[target.step])
    after = before + float(effect.changes[target.step])
    chances = [percent(math.exp(min(0.0, value))) for value in (before, after)]
    lost = is_lost(target.word, trace.text, effect.text)
    new = _instead(trace.text, effect.text, target.word) if lost else ""
    form = ("lost" if new else "gone") if lost else "" if effect.text == trace.text else "else"
    said = TRIAL.said(
        form, word=target.word, new=new,
        place=head.off.place + ", the head lit at the start" * (head == lit),
        moves=("goes from {} to {}" if len({*chances}) > 1 else "stays at {}").format(*chances),
    )  # fmt: skip
    return Trial(head, said.ask, said.because, marked(trace.text, effect.text), lost)


def _instead(before: str, after: str, word: str) -> str:
    """Return the word that replaced another, or ""."""
    old, new = (re.findall(r"\w+", text) for text in (before, after))
    for kind, start, end, first, last in SequenceMatcher(None, old, new, False).get_opcodes():
        if kind == "replace" and end - start == last - first and word in old[start:end]:
            return str(new[first + old[start:end].index(word)])
    return ""


def head_in(place: Any, trace: Trace) -> Head | None:
    """Return the head that the browser reports, or None if the model has no such head."""
    match place:
        case [str(name), int(layer), int(head)]:
            for kind in ATTENTION_KINDS:
                n_layers, n_heads = trace.attention(kind).shape[:2]
                if kind == name and 0 <= layer < n_layers and 0 <= head < n_heads:
                    return Head(kind, layer, head)
    return None
