"""The opening, an animation before the first translation.

It plays once per browser, in a session that begins on Translate at an address without settings; a
cookie records it. opening.js hides the page behind it until the end.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import streamlit as st

from figures.labels import code
from transformer.measures.referent import HeadWeights, Referent, best_head, find_referent
from transformer.trace.records import Trace
from transformer.trace.removals import Head
from transformer.types import Floats
from ui.components.mount import show
from ui.components.opening import Break, Scene, opening_component
from ui.core import url_state
from ui.core.examples import Act, Riddle
from ui.core.languages import name_of
from ui.core.url_state import Param
from ui.core.view import SENTENCE, View, say_next, times_asked
from ui.frame.page import open_page
from ui.frame.steering import drop_steering
from ui.removals.views import effect_of
from ui.tours.breaking import GUESS, TRIAL, break_of, decisive_head, head_in
from ui.tours.stops import OPENING_TOUR, Broken, Target
from ui.work.desk import computed, get_trace

(ASK, LIGHT), PAGES = OPENING_TOUR.stops[:2], OPENING_TOUR.stops[4:]

#: In a link: 1 plays the opening; 0, or any other setting, skips it.
OPENING: Param[str] = Param("opening", url_state.one_of(("0", "1")), "")

#: Cookie name and value, also in opening.js.
COOKIE, SEEN = "headlight_opening", "seen"

#: Session key: name of the request it plays for, "" after the end, `_ASKED` before it begins.
_PLAYS = "headlight_opening"
_ASKED = "asked"
#: Session key: True once the page is drawn behind it.
_COVERS = "headlight_opening_covers"
#: Session key: pairs of a scene and the head removed from it, None for the head that decides.
_TRIALS = "headlight_opening_trials"
#: Session key: `times_asked` when it began.
_ASKS = "headlight_opening_asks"


def riddle_of(view: View) -> Riddle | None:
    """Return the riddle for the model's target language, or None."""
    return view.examples.riddles.get(view.spoken[1]) if view.kind == "checkpoint" else None


def opening_plays(view: View) -> bool:
    """Return True if the opening plays in this run."""
    if url_state.arrived(OPENING):
        st.session_state[_PLAYS] = _ASKED if url_state.get(OPENING) == "1" else ""
    elif _PLAYS not in st.session_state:
        first = url_state.opens_plainly() and st.context.cookies.get(COOKIE) != SEEN
        first = first and not {"tour", "lecture"} & {*url_state.everything()}
        st.session_state[_PLAYS] = _ASKED if first else ""
    elif url_state.entered():
        st.session_state[_PLAYS] = _ASKED if st.session_state[_PLAYS] == _ASKED else ""
    url_state.forget(OPENING)
    if st.session_state[_PLAYS] == _ASKED:
        riddle, default = riddle_of(view), view.examples.items[0].sentence
        plain = view.sentence == default and not url_state.arrived(SENTENCE)
        if riddle is not None and plain and default != riddle.acts[0].sentence:
            url_state.put(SENTENCE, riddle.acts[0].sentence)  # in the sidebar, too
            drop_steering()
            st.rerun()
        st.session_state[_PLAYS] = view.request.name
        st.session_state[_ASKS] = times_asked()
        st.session_state[_COVERS] = False
        st.session_state[_TRIALS] = []
    if st.session_state.get(_ASKS) != times_asked() or riddle_of(view) is None:
        st.session_state[_PLAYS] = ""
    return bool(st.session_state[_PLAYS] == view.request.name)


def draw_opening(view: View) -> bool:
    """Draw the opening, and return True if the page waits for the next run.

    The first message contains the text up to the question, the next all scenes.
    """
    riddle, covers = riddle_of(view), bool(st.session_state[_COVERS])
    assert riddle is not None
    staged = stage(riddle, [
        get_trace(_there(view, act))
        for act in riddle.acts[: None if covers else 1]
    ])  # fmt: skip
    if not staged:
        st.session_state[_PLAYS] = ""
        return False
    pairs = zip((None, *staged), staged, strict=False)
    scenes = [scene(riddle, before, one) for before, one in pairs]
    guesses: tuple[int, ...] = ()
    if trials := st.session_state[_TRIALS]:
        breaks, guesses = _tried(view, riddle, staged, trials)
        scenes = [replace(one, breaks=tried) for one, tried in zip(scenes, breaks, strict=True)]
    show(
        opening_component(script(riddle, staged, view.spoken, guesses), scenes, covers=covers),
        key="opening_play",
        on_take_change=partial(_take, staged),
        on_scene_change=partial(_follow, view, staged),
        on_covers_change=partial(_put, _COVERS, True),
        on_leave_change=partial(_leave, riddle, staged, [scene.breaks for scene in scenes]),
    )
    return not covers


def offer_opening(view: View) -> None:
    """Draw the button that plays the opening."""
    if riddle_of(view) is not None:
        st.button(
            ASK.title, key="play_opening", type="tertiary", on_click=_put,
            args=(_PLAYS, _ASKED), icon=OPENING_TOUR.icon,
        )  # fmt: skip


def _put(key: str, value: object) -> None:
    st.session_state[key] = value


class Staged(NamedTuple):
    """A sentence of the riddle, lit by one head or by mean cross-attention."""

    act: Act
    trace: Trace
    referent: Referent
    look: HeadWeights | None

    @property
    def light(self) -> Floats:
        """Weights [W] on the source words."""
        if self.look is not None:
            return self.look.weights
        mean: Floats = self.referent.weights["cross"].mean(axis=(0, 1))
        return mean

    @property
    def lit(self) -> Head | None:
        """The head with the light, None for the mean."""
        return Head(self.look.kind, self.look.layer, self.look.head) if self.look else None

    def pronoun(self) -> str:
        """Return the token that translates the pronoun."""
        return self.trace.predicted_tokens[self.referent.step].lstrip("\u2581")

    def target(self, riddle: Riddle) -> Target | None:
        """Return the word to lose: the negation of the last act, the pronoun of the others."""
        if self.act is not riddle.acts[-1]:
            return Target(self.pronoun(), self.referent.step)
        words = [token.lstrip("\u2581") for token in self.trace.predicted_tokens]
        if riddle.negation not in words:
            return None
        return Target(riddle.negation, words.index(riddle.negation))


def _there(view: View, act: Act) -> View:
    return replace(view, sentence=act.sentence, prefix=(), target=None)


def _follow(view: View, staged: Sequence[Staged]) -> None:
    """Show the scene's sentence in the sidebar, and its page behind the opening."""
    at = st.session_state["opening_play"].get("scene")
    if type(at) is int and 0 <= at < len(staged):
        there = _there(view, staged[at].act)
        st.session_state[_PLAYS] = there.request.name
        url_state.put(SENTENCE, there.sentence)


def _leave(riddle: Riddle, staged: Sequence[Staged], breaks: Sequence[Break | None]) -> None:
    """Open a scene on the page that the visitor chose: where its head looks, or what it does."""
    st.session_state[_PLAYS] = ""
    match st.session_state["opening_play"].get("leave"):
        case {"scene": int(at), "to": str(to)} if 0 <= at < len(staged) and to:
            ways = [stop for stop in PAGES if stop.page == to]
        case _:
            if url_state.get(SENTENCE) in [one.act.sentence for one in staged]:
                st.toast("All pages show this sentence. Type your own, or try an example.")
            return
    sentence, referent, look = staged[at].act.sentence, staged[at].referent, staged[at].look
    target, link, step = staged[at].target(riddle), {"sentence": sentence}, referent.step
    if to == "translate" and look is not None:
        link |= {"kind": look.kind, "layer": str(look.layer + 1), "head": str(look.head + 1)}
        if look.kind == "encoder_self":  # the player shows the decoder's heads
            to, link["pin"] = "attention", f"q{referent.words[referent.pronoun][0] + 1}"
            link |= {"display": "heads", "units": "words"}
    elif to != "translate" and target is not None:
        step = target.step
        trials = tried.trials if (tried := breaks[at]) else ()
        for kind, layer, head in (trial.head for trial in trials if trial.hit):
            url_state.put_head(kind, layer, head)
            stack, _, block = kind.replace("cross", "decoder_cross").partition("_")
            if to == "floor":
                link["focus"] = f"{stack}.{layer + 1}.{block}.{head + 1}"
    for stop in ways:
        open_page(to, {**link, "step": str(step + 1)})
        say_next(sentence, stop.text.format(pronoun=code(riddle.pronoun)))


def _take(staged: Sequence[Staged]) -> None:
    """Note the head that the visitor takes out of a scene."""
    match st.session_state["opening_play"].get("take"):
        case {"scene": int(at), "head": place} if 0 <= at < len(staged):
            head = head_in(place, staged[at].trace)
            st.session_state[_TRIALS] = [*st.session_state[_TRIALS], (at, head)]


def _tried(
    view: View, riddle: Riddle, staged: Sequence[Staged], trials: Sequence[tuple[int, Head | None]]
) -> tuple[list[Break | None], tuple[int, ...]]:
    """Return the trials of each scene, and the scenes in which a head is known to decide.

    These are the first whose pronoun a head changes and, once the visitor knows that head, the
    last, whose negation a head drops.
    """
    breaks: list[Break | None] = []
    guesses: list[int] = []
    solved = False
    for at, one in enumerate(staged):
        target, last = one.target(riddle), one.act is riddle.acts[-1]
        if target is None:
            breaks.append(None)
            continue
        there = _there(view, one.act)
        decides = None
        if solved if last else not guesses:
            decides = decisive_head(there, target)
            guesses += [at] if decides else []
        heads = [head or decides for scene, head in trials if scene == at]
        effects = {head: computed(there, effect_of(str(head.off))) for head in heads if head}
        breaks.append(tried := break_of(one.trace, target, one.lit, effects))
        solved |= any(trial.hit for trial in tried.trials)
    return breaks, tuple(guesses)


def find_broken(view: View) -> Broken | None:
    """Return the riddle's first sentence with a word that some head decides, or None."""
    if (riddle := riddle_of(view)) is None:
        return None
    views = {act: _there(view, act) for act in riddle.acts}
    for one in stage(riddle, [*map(get_trace, views.values())]):
        there, target = views[one.act], one.target(riddle)
        if target and (head := decisive_head(there, target)):
            effects = {head: computed(there, effect_of(str(head.off)))}
            (trial,) = break_of(one.trace, target, one.lit, effects).trials
            return Broken(one.trace, target, head, trial)
    return None


def stage(riddle: Riddle, traces: Sequence[Trace]) -> list[Staged]:
    """Return the riddle's sentences with translated pronouns, lit by one head.

    It is the head that best singles out the right noun in all sentences but the last.
    """
    acts = [
        (act, trace, referent)
        for act, trace in zip(riddle.acts, traces, strict=False)
        if (referent := find_referent(trace, riddle.pronoun, (act.noun, act.other)))
    ]
    if not acts or acts[0][0] is not riddle.acts[0]:
        return []
    head = best_head([referent for *_, referent in acts[:-1] or acts])
    return [Staged(*each, each[2].weights_of(*head) if head else None) for each in acts]


def script(
    riddle: Riddle, staged: Sequence[Staged], languages: tuple[str, str],
    guesses: Sequence[int] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the texts around the scenes.

    Args:
        languages: codes of source and target.
        guesses: scenes whose word is lost without some head.
    """
    asked = ASK.said(pronoun=riddle.pronoun, rule=riddle.rule)
    source, target = ({"name": name_of(language), "code": language} for language in languages)
    return {
        "lead": OPENING_TOUR.title, "question": asked.ask, "why": asked.because, "guesses": guesses,
        "source": source, "target": target, "removal": TRIAL.title, "guess": GUESS.title,
        "ways": {stop.page: stop.title for stop in PAGES},
        "onward": [_onward(one.act, other.act) for one, other in pairwise(staged)]
        + ["Back to the first sentence"],
    }  # fmt: skip


def scene(riddle: Riddle, before: Staged | None, staged: Staged) -> Scene:
    """Return the scene of a sentence, with a verdict on the head and the pronoun.

    It asks for the pronoun if it is no variant of the sentence before.
    """
    act, referent, look, written = staged.act, staged.referent, staged.look, staged.pronoun()
    at, beside = (float(staged.light[word]) for word in referent.nouns)
    who = "The same head" if look else "The mean of the decoder's heads"
    if before is None and staged.lit:
        who = staged.lit.off.place.capitalize()
    values = {
        **vars(act), "pronoun": riddle.pronoun, "written": written, "head": who, "at": at,
        "beside": beside, "heads": referent.n_heads, "lean": (referent.preferred == 0).sum(),
        "known": (at <= beside and act.known) or "Attention is not by itself an explanation.",
    }  # fmt: skip
    text = staged.trace.text.casefold()
    unwanted = act.unwanted if act.mistaken.casefold() in text else ""
    form = {unwanted: "mistaken", act.wanted: ""}.get(written.casefold(), "unlike")
    if act.translated.casefold() not in text:
        form = "free"
    right, wrong, swapped = (LIGHT.said(each, **values).ask for each in ("", "wrong", "swapped"))
    other = before is None or _onward(before.act, act) == LIGHT.title
    target = staged.target(riddle)
    return Scene(
        staged.trace, referent, "cross" if look is None else look.kind, staged.light,
        "" if other else swapped, (right, wrong), LIGHT.said(form, **values).because,
        LIGHT.text.format(**values), GUESS.text.format(**values) if form == "mistaken" else "",
        target and break_of(staged.trace, target, staged.lit, {}),
    )  # fmt: skip


def _onward(one: Act, other: Act) -> str:
    """Return the label of the step to the next sentence."""
    pairs = zip(*(act.sentence.split() for act in (one, other)), strict=False)
    match [[word.strip(".,;!?") for word in pair] for pair in pairs if pair[0] != pair[1]]:
        case [[before, after]]:
            return f"Swap **{before}** for **{after}**"
    return LIGHT.title
