"""The opening, an animation before the first translation.

It plays once for a browser, where a session begins on Translate at an address without any setting;
a cookie remembers it, so that the server need not draw it first to find out. The page stands behind
it, hidden by opening.js, and appears at its end.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import streamlit as st

from transformer.measures.referent import HeadWeights, Referent, find_referent, turned
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats
from ui.components.mount import show
from ui.components.opening import Runs, Scene, Script, opening_component
from ui.core import url_state
from ui.core.examples import Agreement, Example, Riddle, languages_of_training
from ui.core.languages import name_of
from ui.core.url_state import Param
from ui.core.view import View, ask_for, times_asked
from ui.work.cache import get_trace

#: In a link: 1 plays the opening, 0 leaves it out, as does any other setting.
OPENING: Param[str] = Param("opening", url_state.one_of(("0", "1")), "")

#: The cookie's name and value; also in opening.js.
COOKIE, SEEN = "headlight_opening", "seen"

#: In the session: the request that it plays for, "" once it is over, `_ASKED` before it begins.
_PLAYS = "headlight_opening"
_ASKED = "asked"
#: In the session: whether the page is drawn behind it, and whether the second scene is asked for.
_COVERS = "headlight_opening_covers"
_SECOND = "headlight_opening_second"
#: In the session: how often a sentence had been asked for when it began.
_ASKS = "headlight_opening_asks"


def riddle_of(view: View) -> tuple[Example, Riddle] | None:
    """Return the checkpoint's example with a riddle in its language, None if it has none."""
    _, target = _languages(view)
    for example in view.examples.items:
        if view.kind == "checkpoint" and example.riddle and target in example.riddle.target:
            return example, example.riddle
    return None


def opening_plays(view: View) -> bool:
    """Decide and return whether the opening plays in this run of the page."""
    if url_state.arrived(OPENING):
        st.session_state[_PLAYS] = _ASKED if url_state.get(OPENING) == "1" else ""
    elif _PLAYS not in st.session_state:
        first = url_state.opens_plainly() and st.context.cookies.get(COOKIE) != SEEN
        st.session_state[_PLAYS] = _ASKED if first else ""
    elif url_state.entered():
        st.session_state[_PLAYS] = _ASKED if st.session_state[_PLAYS] == _ASKED else ""
    url_state.forget(OPENING)
    if st.session_state[_PLAYS] == _ASKED:
        st.session_state[_PLAYS] = view.request.name
        st.session_state[_ASKS] = times_asked()
        st.session_state[_COVERS] = st.session_state[_SECOND] = False
    found = riddle_of(view)
    steered = bool(view.prefix) or view.target is not None
    asked = st.session_state.get(_ASKS) != times_asked()
    if found is None or steered or asked or view.sentence != found[0].sentence:
        st.session_state[_PLAYS] = ""
    return bool(st.session_state[_PLAYS] == view.request.name)


def draw_opening(view: View) -> bool:
    """Draw the opening; return True while the page, drawn behind it in the next run, waits."""
    found = riddle_of(view)
    staged = stage(get_trace(view), found[1]) if found else None
    if found is None or staged is None:
        st.session_state[_PLAYS] = ""
        return False
    example, riddle = found
    second, missing = None, ""
    if st.session_state[_SECOND]:
        beside = stage(get_trace(replace(view, sentence=example.beside)), riddle, staged)
        if beside is None:
            missing = no_second(example, riddle)
        else:
            agreement = riddle.target[_languages(view)[1]]
            second = second_scene(staged, beside, riddle, agreement)
    words, covers = script(example, riddle, _languages(view)), bool(st.session_state[_COVERS])
    show(
        opening_component(words, first_scene(staged, riddle), second, missing, covers=covers),
        key="opening_play",
        on_covers_change=partial(_put, _COVERS, True),
        on_second_change=partial(_put, _SECOND, True),
        on_over_change=partial(_put, _PLAYS, ""),
    )
    return not covers


def offer_opening(view: View) -> None:
    """Offer to play the opening, again or at last."""
    found = riddle_of(view)
    if found is None:
        return

    def play() -> None:
        st.session_state[_PLAYS] = _ASKED
        ask_for(found[0].sentence)

    st.button(
        "Play the opening", key="play_opening", type="tertiary", icon=":material/play_circle:",
        on_click=play,
    )  # fmt: skip


def _languages(view: View) -> tuple[str, str]:
    return languages_of_training(view.checkpoint, view.entry.metrics)


def _put(key: str, value: object) -> None:
    st.session_state[key] = value


LEAD = "A small Transformer translates, token by token. Light falls on the words it looks at."


class Staged(NamedTuple):
    """A sentence of the riddle and its light: one head's, or the mean of cross-attention."""

    trace: Trace
    referent: Referent
    look: HeadWeights | None

    @property
    def light(self) -> Floats:
        """[W], the weight on each source word."""
        if self.look is not None:
            return self.look.weights
        mean: Floats = self.referent.weights["cross"].mean(axis=(0, 1))
        return mean

    def shares(self) -> tuple[float, float]:
        """Return the weight on either noun."""
        first, second = (float(self.light[at]) for at in self.referent.nouns)
        return first, second

    def pronoun(self) -> str:
        """Return the token that translates the pronoun."""
        return self.trace.predicted_tokens[self.referent.step].lstrip("\u2581")


def stage(trace: Trace, riddle: Riddle, first: Staged | None = None) -> Staged | None:
    """Return a sentence of the riddle in its best head's light; None if it is not translated so.

    Args:
        first: the first sentence, whose head gives the light of the second.
    """
    found = find_referent(trace, riddle.pronoun, riddle.nouns)
    if found is None or first is None:
        return None if found is None else Staged(trace, found, found.best(0))
    look = first.look
    same = None if look is None else found.weights_of(look.kind, look.layer, look.head)
    return Staged(trace, found, same)


def script(example: Example, riddle: Riddle, languages: tuple[str, str]) -> Script:
    """Return the words around the scenes; `languages` are codes of source and target."""
    first, second = riddle.nouns
    source, target = ((name_of(code), code) for code in languages)
    return Script(
        lead=LEAD,
        question=f"What is “{riddle.pronoun}”?",
        why=riddle.target[languages[1]].rule,
        nouns=riddle.nouns,
        answer=0,
        replies=(f"Yes, the {first}.", f"No, the {first}, not the {second}."),
        changed=_changed(example.sentence, example.beside),
        languages=(source, target),
    )


def first_scene(staged: Staged, riddle: Riddle) -> Scene:
    """Return the sentence with the light of the head that looks most at the right noun."""
    first, second = riddle.nouns
    referent, look = staged.referent, staged.look
    searched = f"{referent.n_heads} heads that read “{riddle.pronoun}” or write its translation"
    if look is None:
        verdict: Runs = (
            "The model writes ", staged.pronoun(), ", and no head looks more at ", first,
            " than at ", second, ". This light is the mean of the decoder's heads.",
        )  # fmt: skip
        return _scene(staged, "", verdict, f"Searched: the {searched}.")
    verdict = (
        "The model writes ", staged.pronoun(), f". {_named(look)} gives ", first,
        *_both(staged.shares(), second),
    )  # fmt: skip
    lean = int((referent.preferred == 0).sum())
    detail = (
        f"Of the {searched}, {lean} look more at {first} than at {second}, this one most. "
        "Attention is not by itself an explanation."
    )
    return _scene(staged, "", verdict, detail)


def second_scene(first: Staged, staged: Staged, riddle: Riddle, agreement: Agreement) -> Scene:
    """Return the changed sentence in the same head's light: whether it moves, and the pronoun."""
    noun, other = riddle.nouns
    shares = staged.shares()
    moved = shares[1] > shares[0]
    who = "the same head" if staged.look else "the same mean"
    verdict = _joined(
        (f"The light {'moves' if moved else 'stays'}: {who} gives ", noun, *_both(shares, other)),
        _agreeing(first, staged, agreement),
    )
    turns = turned(first.referent, staged.referent, 0, 1)
    count = {0: "No head turns", 1: "One head turns"}.get(turns, f"{turns} heads turn")
    detail = f"{count} from {noun} to {other}, of {staged.referent.n_heads}."
    heading = f"Now “{riddle.pronoun}” is the {other}."
    return _scene(staged, heading, verdict, detail if moved else f"{detail} {riddle.known}".strip())


def no_second(example: Example, riddle: Riddle) -> str:
    """Return why there is no second scene."""
    return (
        f"In the translation of “{example.beside}” no token looks most at “{riddle.pronoun}”, so "
        "there is nothing to compare."
    )


def _agreeing(first: Staged, staged: Staged, agreement: Agreement) -> Runs:
    """Say whether the translated pronoun changes, and what its noun asks for."""
    before, now = first.pronoun(), staged.pronoun()
    writes, again = (" The model writes ", " again") if now == before else (" Now it writes ", "")
    noun, wanted = agreement.nouns[1], agreement.pronouns[1]
    if noun.casefold() not in staged.trace.text.casefold():
        return (writes, now, f"{again}.")
    if now.casefold() == wanted.casefold():
        return (writes, now, f"{again}, as “{noun}” asks.")
    return (writes, now, f"{again}, but “{noun}” asks for ", wanted, ".")


def _joined(*parts: Runs) -> Runs:
    """Join runs that begin and end plain."""
    joined: list[str] = [""]
    for part in parts:
        joined[-1] += part[0]
        joined += part[1:]
    return joined


def _both(shares: tuple[float, float], second: str) -> Runs:
    return (f" {shares[0]:.2f} of its weight, ", second, f" {shares[1]:.2f}.")


def _named(look: HeadWeights) -> str:
    stack = "encoder" if look.kind == "encoder_self" else "decoder"
    return f"In the {stack}, layer {look.layer + 1}, head {look.head + 1}"


def _scene(staged: Staged, heading: str, verdict: Runs, detail: str) -> Scene:
    kind: AttentionKind = "cross" if staged.look is None else staged.look.kind
    return Scene(staged.trace, staged.referent, kind, staged.light, heading, verdict, detail)


def _changed(one: str, other: str) -> tuple[str, str]:
    """Return the first word in which two sentences differ, of each."""
    words = ([word.strip(".,;!?") for word in text.split()] for text in (one, other))
    return next(pair for pair in zip(*words, strict=False) if pair[0] != pair[1])
