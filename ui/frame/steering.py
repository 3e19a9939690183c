"""Decoding: the sidebar's settings, descriptions, and steering by a prefix or a translation.

A prefix is stored as token ids, since the tokenizer may split its text differently. Ids belong to
one checkpoint; choosing another drops them. A new sentence drops all steering. Each change can be
undone.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from figures.labels import code, plain, plain_token, signed
from transformer.search.request import Decoding
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import InputError
from ui.core import url_state
from ui.core.glossary import linked, term
from ui.core.url_state import STEP, VIEW, WHY, Param
from ui.core.view import CHECKPOINT, MAX_ALPHA, MAX_BEAM, SearchChoice, View
from ui.core.widgets import bound, filled
from ui.work.desk import get_translator, load_for_visit, resume
from ui.work.visit import fall_back

_HOWS = ("Beam", "Greedy", "Sample")

#: Session key: settings filled from checkpoint defaults.
_FILLED = "headlight_filled_decoding"


def restart() -> None:
    """Reset the step and resume stopped work, because the translation changes."""
    fall_back()
    url_state.forget(url_state.STEP)
    resume()


def draw_decoding(default: Decoding, samples: bool = True, visible: bool = True) -> None:
    """Draw the controls, and store all settings that apply, so that links contain them.

    Args:
        default: the checkpoint's decoding, until a visitor or link chooses another.
        samples: True if the model can sample.
        visible: False stores the settings without drawing.
    """
    own = default
    alpha = min(max(own.alpha, -MAX_ALPHA), MAX_ALPHA)
    default = replace(own, beam_size=min(own.beam_size, MAX_BEAM), alpha=alpha)
    defaults: dict[str, Any] = st.session_state.setdefault(_FILLED, {})
    values: dict[Param[Any], Any]
    values = {SearchChoice.beam: default.beam_size, SearchChoice.alpha: default.alpha}
    sampled = samples and url_state.get(SearchChoice.sample)
    applying = SearchChoice.params()[: None if sampled else 3 if samples else 2]
    stored = {param: url_state.get(param) for param in applying}
    for param, value in values.items():
        if url_state.arrived(param):
            defaults.pop(param.name, None)  # a link's value survives a change of checkpoint
        if not url_state.stored(param) or stored[param] == defaults.get(param.name):
            stored[param] = defaults[param.name] = value
    url_state.store(stored)
    url_state.show(*applying)
    if not visible:
        return
    how = "Sample" if sampled else "Greedy" if url_state.get(SearchChoice.beam) == 1 else "Beam"
    with st.expander("Decoding", icon=":material/tune:"):
        st.segmented_control(
            "Search", _HOWS if samples else _HOWS[:2], label_visibility="collapsed", required=True,
            width="stretch", **filled("search_box", how, partial(_take_search, default)),
        )  # fmt: skip
        if how == "Beam":
            _draw_beam(default)
        elif how == "Sample":
            _draw_sampling()
        else:
            st.caption("Every step takes the most probable token.")
        if default != own:
            st.caption(f"This model's own decoding is {own}; the limit here is {default}.")


def _take_search(default: Decoding, how: str) -> None:
    beam = 1 if how == "Greedy" else url_state.get(SearchChoice.beam)
    if how != "Greedy" and beam == 1:
        beam = default.beam_size if default.beam_size > 1 else SearchChoice.beam.default
    url_state.store({SearchChoice.sample: how == "Sample", SearchChoice.beam: beam})
    restart()


def _draw_beam(default: Decoding) -> None:
    st.slider("Beam size", 2, MAX_BEAM, help=term("beam"), **_bound(SearchChoice.beam))
    st.slider(
        "Length penalty α", -MAX_ALPHA, MAX_ALPHA, step=0.1, help=term("length penalty"),
        **_bound(SearchChoice.alpha),
    )  # fmt: skip

    def take_defaults() -> None:
        url_state.forget(SearchChoice.beam, SearchChoice.alpha)
        restart()

    choice = SearchChoice.read()
    if (choice.beam, choice.alpha) != (default.beam_size, default.alpha):
        st.button(
            f"Back to {default}", icon=":material/undo:", key="default_decoding_button",
            on_click=take_defaults, width="stretch", help="This model's default decoding.",
        )  # fmt: skip


def _bound(param: Param[Any]) -> dict[str, Any]:
    return bound(param, key=f"{param.name}_box", then=restart)


def _draw_sampling() -> None:
    for label, name, param, low, high, step in (
        ("Temperature", "temperature", SearchChoice.temperature, 0.05, 3.0, 0.05),
        ("Top k", "top-k", SearchChoice.top_k, 0, 100, 1),
        ("Top p", "top-p", SearchChoice.top_p, 0.05, 1.0, 0.05),
    ):
        st.slider(label, low, high, step=step, help=term(name), **_bound(param))
    st.number_input("Seed", 0, 999_999, step=1, help=term("seed"), **_bound(SearchChoice.seed))

    def new_seed() -> None:
        old = url_state.get(SearchChoice.seed)
        url_state.put(SearchChoice.seed, random.choice([n for n in range(1, 1000) if n != old]))
        restart()

    st.button(
        "New seed", icon=":material/casino:", key="seed_button", on_click=new_seed,
        width="stretch",
    )  # fmt: skip


def how_decoded(view: View, trace: Trace) -> str:
    """Describe the decoding in a few words."""
    if view.kind == "archive":
        return "as recorded in the file"
    if trace.forced:
        return "given, teacher forcing"
    if view.sampling is not None:
        drawn = view.sampling
        settings = [f"temperature {drawn.temperature:g}"]
        settings += [f"top k {drawn.top_k}"] if drawn.top_k else []
        settings += [f"top p {drawn.top_p:g}"] if drawn.top_p < 1 else []
        how = f"sampled, {', '.join(settings)}, seed {drawn.seed}"
    else:
        how = "greedy" if view.beam_size == 1 else f"beam {view.beam_size}, α {view.alpha:g}"
    if view.kind == "huggingface":
        return f"{how}; maps of one pass over it, teacher forcing"
    if trace.n_forced:
        how += f"; the first {trace.n_forced} given"
    return how


def _changed_by_search(trace: Trace) -> int:
    """Return the number of steps whose `log_probs` are the search's and differ from the model's."""
    n_steps = 0
    for t, (log_prob, tops) in enumerate(zip(trace.log_probs, trace.top_log_probs, strict=False)):
        own = tops[trace.top_ids[t] == trace.predicted_ids[t]]
        # A token outside the alternatives is less probable than all of them.
        above = not len(own) and len(tops) and log_prob > tops.min()
        n_steps += bool(above or (abs(log_prob - own) > 1e-4).any())
    return n_steps


def decoded_text(view: View, trace: Trace) -> str:
    """Describe score and decoding, with terms linked to the glossary."""
    score = "no score" if math.isnan(trace.score) else f"final score {signed(trace.score)} nats"
    text = f"{score} ({how_decoded(view, trace)})"
    if n := _changed_by_search(trace):
        text += (
            f"; at {n} of {len(trace.log_probs)} steps the log-probability is the search's, after "
            "its rules, and the alternatives are the model's"
        )
    return linked(text, "score", "nats", "α", "temperature", "top k", "top p", "teacher forcing")


#: Text field limit; models have their own limits in tokens.
MAX_TARGET_CHARACTERS = 10_000

_STEERS = "headlight_steers"
_MESSAGE = "headlight_steer_message"
_MOST_STEERS = 50
_MOST_IDS = 2_000

#: The form's two modes, and its widgets.
_BEGINS, _IS = "Begins with", "Is exactly"
_HOW, _TEXT = "steer_how", "steer_text"
_SEEN = "headlight_steer_seen"
_ABOUT = linked(
    "With a prefix, the search continues from it. A whole translation is read in one pass "
    "(teacher forcing). To change a single token, choose another candidate among the bars.",
    "prefix", "teacher forcing",
)  # fmt: skip


def _parse_ids(raw: str) -> tuple[int, ...]:
    parts = raw.split(".", _MOST_IDS - 1) if raw else []
    return tuple(map(url_state.whole(0, 9_999_999), parts))


#: First token ids of the translation, or all of them if they end in `</s>`.
PREFIX: Param[tuple[int, ...]] = Param(
    "prefix", _parse_ids, (), lambda ids: ".".join(map(str, ids))
)
#: A whole translation to follow (teacher forcing), in place of a search.
TARGET: Param[str | None] = Param(
    "target", lambda raw: url_state.text(MAX_TARGET_CHARACTERS)(raw) if raw.strip() else None, None
)


def _steer(prefix: tuple[int, ...] = (), target: str | None = None) -> None:
    url_state.store({PREFIX: prefix, TARGET: target})


def begin_with(ids: Sequence[int]) -> None:
    """Set the prefix to token ids."""
    _remember()
    _steer(tuple(ids))
    _restart_here()


def follow_target(text: str) -> None:
    """Set the whole translation to a text."""
    _remember()
    _steer(target=text)
    restart()


def undo() -> None:
    """Undo the last change, or all steering from a link."""
    steers = st.session_state.get(_STEERS, [])
    prefix, target = steers.pop() if steers else ((), None)
    _steer(prefix, target)
    _restart_here()


def start_over() -> None:
    """Remove all steering; Undo restores it."""
    _remember()
    _steer()
    _restart_here()


def drop_steering() -> None:
    """Remove all steering and its history, for a new sentence."""
    st.session_state.pop(_MESSAGE, None)
    _steer()
    st.session_state.pop(_STEERS, None)


def use_checkpoint(name: str) -> None:
    """Choose a checkpoint for all pages. A callback."""
    url_state.put(CHECKPOINT, name)
    drop_ids()
    restart()


def drop_ids() -> None:
    """Remove token ids, which belong to one checkpoint."""
    _steer(target=url_state.get(TARGET))
    st.session_state.pop(_STEERS, None)


def draw_steering(sentence: Param[str], *, visible: bool) -> None:
    """Draw a note with Undo and Start over if the translation is or was steered.

    Drops a prefix when a link brings another sentence, and a prefix beside a target.

    Args: visible: False to resolve the settings only.
    """
    if url_state.arrived(PREFIX, TARGET):
        st.session_state.pop(_STEERS, None)  # the link's steering has no history
    in_url = PREFIX.name in st.query_params or TARGET.name in st.query_params
    if url_state.arrived(sentence) and not in_url:
        drop_steering()
    if (target := url_state.get(TARGET)) is not None:
        _steer(target=target)
    url_state.show(PREFIX, TARGET)
    prefix = url_state.get(PREFIX)
    steered = bool(prefix) or target is not None
    if not visible or not (steered or st.session_state.get(_STEERS)):
        return
    note = "Steering is off."
    if target is not None:
        note = "The translation is given (teacher forcing)."
    elif prefix:
        tokens = "token is" if len(prefix) == 1 else f"{len(prefix)} tokens are"
        note = f"Steered with a prefix: the first {tokens} given."
    with st.container(key="steering"):
        st.caption(":material/alt_route: " + linked(note, "teacher forcing", "prefix"))
        with st.container(horizontal=True, gap="small"):
            st.button(
                "Undo", icon=":material/undo:", key="steer_undo", on_click=undo,
                help="Undo the last change.",
            )  # fmt: skip
            st.button(
                "Start over", icon=":material/restart_alt:", key="steer_over", on_click=start_over,
                disabled=not steered, help="Let the model translate by itself.",
            )  # fmt: skip


def draw_steer_form(view: View) -> None:
    """Draw the form, filled with the current prefix or target."""
    steering = (view.prefix, view.target)
    filled = _HOW in st.session_state and st.session_state.get(_SEEN) == steering
    if not filled:
        model = get_translator(view)
        st.session_state[_SEEN] = steering
        ids = [token for token in view.prefix if token != model.config.eos_id]
        st.session_state[_TEXT] = view.target or model.tokenizer.target.decode(ids)
        st.session_state[_HOW] = _BEGINS if view.target is None else _IS
    # A popover creates its widgets when it opens and loses values set by earlier runs; as defaults
    # they survive.
    with st.form("steer_form", border=False):
        st.segmented_control(
            "The translation", [_BEGINS, _IS], default=st.session_state[_HOW] if filled else None,
            key=_HOW, required=True, width="stretch",
        )  # fmt: skip
        st.text_input(
            "Text in the target language", st.session_state[_TEXT] if filled else "", key=_TEXT,
            max_chars=MAX_TARGET_CHARACTERS, placeholder="Type the first words or all of it",
        )  # fmt: skip
        st.form_submit_button(
            "Decode from there", icon=":material/alt_route:", on_click=_take, args=(view,),
            width="stretch",
        )  # fmt: skip
    if wrong := st.session_state.get(_MESSAGE):
        st.warning(plain(wrong), icon=":material/short_text:")
    st.caption(_ABOUT)


def _take(view: View) -> None:
    text = str(st.session_state[_TEXT]).strip()
    if not text:
        st.session_state[_MESSAGE] = "Type at least one character, or press Start over on the left."
        return
    try:
        model = load_for_visit(view.entry, view.device)
        assert isinstance(model, Translator)  # other models have no form
        ids = model.tokenize_target(text).ids
    except InputError as error:
        reason = str(error).replace("the sentence", "the text")
        st.session_state[_MESSAGE] = f"{reason[:1].upper()}{reason[1:]}."
        return
    if st.session_state[_HOW] == _BEGINS:
        begin_with(ids)
        url_state.put(STEP, len(ids) + 1)  # the first step that the model chooses itself
    else:
        follow_target(text)


def why_link(
    trace: Trace, prefix: Sequence[int], one: tuple[int, str], other: tuple[int, str]
) -> tuple[str, str, str, dict[Param[Any], Any]]:
    """Return `link_to` arguments for the comparison of two candidates.

    Args:
        prefix: ids of the tokens before them; the link steers a translation that begins
            differently.
        one, other: id and piece.
    """
    step = len(prefix)
    changes: dict[Param[Any], Any] = {}
    if trace.predicted_ids[:step] != tuple(prefix) or step >= len(trace.predicted_ids):
        changes[PREFIX] = tuple(prefix)
    names = [code(plain_token(piece)) for _, piece in (one, other)]
    return (
        "translate", f"Why {names[0]}, not {names[1]}?", ":material/balance:",
        {VIEW: "why", STEP: step + 1, WHY: (one[0], other[0]), **changes},
    )  # fmt: skip


def _restart_here() -> None:
    """Restart with another translation, but keep the player's step."""
    step = url_state.get(STEP)
    restart()
    if step is not None:
        url_state.put(STEP, step)


def _remember() -> None:
    st.session_state.pop(_MESSAGE, None)
    steers = st.session_state.setdefault(_STEERS, [])
    steers.append((url_state.get(PREFIX), url_state.get(TARGET)))
    del steers[:-_MOST_STEERS]
