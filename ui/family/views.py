"""The Family page: its choices, predictions, one-stack beside two-stack models, and changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import code, parameters, plain, plain_token
from figures.tokens import candidates, expected
from transformer.evaluation.alignment import ALIGNMENT, best_aligner
from transformer.measures.words import source_block
from transformer.models.catalogue import Entry
from transformer.models.one_stack.model import MASK
from transformer.models.one_stack.tracer import Guesses, StackModel
from transformer.trace.records import Trace
from ui.components.lens import Map
from ui.core import url_state
from ui.core.examples import data_of_training, title_of
from ui.core.layout import current_theme, draw_chart, draw_map
from ui.core.url_state import Param
from ui.core.view import View, ask_for
from ui.core.widgets import Choice, choose_one, draw_text, numbered, sets
from ui.export.download import download_button, figure_for, source_of, trace_for
from ui.family import exhibits
from ui.family.exhibits import TOP
from ui.frame.steering import use_checkpoint
from ui.work.desk import computed, get_trace
from ui.work.results import Computation

#: The page's views, which the menu lists.
PART: Param[str] = Param("part", url_state.one_of(("expects", "stacks", "changes")), "expects")
#: Numbers of tokens by which a text can be continued.
LENGTHS = (0, 5, 10, 20)


@dataclass(frozen=True)
class ExpectsChoice(Choice):
    """The URL parameters of GPT and BERT."""

    member: Param[str] = Param("member", url_state.text(100), "")  # the model; "" for the default
    place: Param[int | None] = url_state.position("place", of="member checkpoint")  # in the text
    more: Param[int] = Param("more", url_state.whole(0, max(LENGTHS)), 10)  # tokens to add
    seed: Param[int] = Param("seed", url_state.whole(0, 9_999), 0)  # 0 for the likeliest tokens


@dataclass(frozen=True)
class StacksChoice(Choice):
    """The URL parameters of "One stack or two"; heads default to each model's best aligner."""

    layer_two: Param[int | None] = url_state.position("layer_two")
    layer_one: Param[int | None] = url_state.position("layer_one")
    head_two: Param[int | None] = url_state.position("head_two")
    head_one: Param[int | None] = url_state.position("head_one")


def members(entries: Sequence[Entry], *tasks: str) -> list[Entry]:
    """Return the usable single-stack models for these tasks, in the tasks' order."""
    return [
        entry for task in tasks for entry in entries
        if entry.ok and entry.stack and entry.stack.task == task
    ]  # fmt: skip


def pair_of(entries: Sequence[Entry]) -> tuple[Entry, Entry] | None:
    """Return a two-stack and a single-stack translator trained on the same text."""
    for one in members(entries, "translate"):
        data = _data(one.metrics)
        for two in entries:
            if two.ok and two.kind == "checkpoint" and data and _data(two.metrics) == data:
                return two, one
    return None


def _data(metrics: Mapping[str, Any]) -> tuple[object, ...]:
    data = data_of_training(metrics)
    return tuple(str(data.get(name)) for name in ("corpora", "src", "tgt")) if data else ()


def view_of(view: View, entry: Entry) -> View:
    """Return a view of the same sentence through another model with its default decoding.

    The view's own model keeps the chosen moment of its training.
    """
    now = view.entry if view.entry.whole == entry.name else entry
    return replace(view, entry=now, prefix=(), target=None, sampling=None)


def aligner_of(metrics: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """Return a model's `best_aligner`, or None if its metrics do not hold the measurements."""
    try:
        return best_aligner(metrics[ALIGNMENT])
    except (TypeError, KeyError, ValueError, IndexError):
        return None


def draw_expects(view: View, entries: Sequence[Entry]) -> None:
    """Draw the predictions of a model that continues or fills in the sentence."""
    models = {entry.name: entry for entry in members(entries, "continue", "fill")}
    if not models:
        st.info(
            "No installed model continues text or fills in words. To train one, use a recipe with "
            "a [stack] table from the folder recipes.",
            icon=":material/info:",
        )
        return
    chosen = url_state.get(ExpectsChoice.member)
    if chosen not in models:
        chosen = view.entry.whole if view.entry.whole in models else next(iter(models))
    if len(models) > 1:
        names = {name: title_of(entry) for name, entry in models.items()}
        chosen = choose_one("Model", ExpectsChoice.member, names, chosen=chosen)
    entry = models[chosen]
    assert entry.stack is not None
    (_draw_filled if entry.stack.task == "fill" else _draw_continued)(view_of(view, entry))


def _draw_filled(view: View) -> None:
    trace = get_trace(view)
    guesses = computed(view, Computation.of(StackModel.guesses, TOP))
    hidden = any(guess.log_prob is None for guess in guesses)
    words, more = st.columns([5, 2], vertical_alignment="center")
    in_turn = "" if hidden else (
        " Until then, **each token is hidden in turn**, and its bar shows how probable it was."
    )  # fmt: skip
    words.markdown(
        "This model predicts a hidden word from the words on both sides. To hide a word, write "
        f"{code(MASK)} in its place.{in_turn}"
    )
    example = _with_a_gap(trace)
    with more.container(horizontal=True, horizontal_alignment="right"):
        if not hidden and example:
            st.button(
                "Hide a word", icon=":material/visibility_off:", on_click=ask_for, args=(example,)
            )
        _offer_download(view, len(guesses))
    _draw_guesses(guesses)


def _with_a_gap(trace: Trace) -> str:
    """Return the sentence with its longest word hidden, or "" for a single word."""
    words = trace.source.split()
    if len(words) < 2:
        return ""
    longest = max(range(len(words)), key=lambda place: len(words[place].strip(".,!?")))
    end = words[longest][len(words[longest].rstrip(".,!?")) :]
    return " ".join([*words[:longest], MASK + end, *words[longest + 1 :]])


def _draw_continued(view: View) -> None:
    n, seed = url_state.get(ExpectsChoice.more), url_state.get(ExpectsChoice.seed)
    trace = computed(view, Computation.of(exhibits.continued, n, seed))
    guesses = exhibits.next_tokens(trace, n)
    words, more = st.columns([5, 2], vertical_alignment="center")
    words.markdown(
        "**What comes next?** This model has read your text and rates every token. It "
        "writes a token, reads it too, and goes on, in bold."
    )
    with more.container(horizontal=True, horizontal_alignment="right"):
        _offer_download(view, len(guesses))
    if n:
        start = trace.n_forced + 1
        typed, written = (
            "".join(tokens).replace("\u2581", " ")
            for tokens in (trace.tgt_tokens[1:start], trace.tgt_tokens[start:])
        )
        space = " " if written.startswith(" ") else ""
        draw_text(typed.strip() + space, view.spoken[1], written.strip())
    _draw_guesses(guesses, trace.n_forced if n else None)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        names = {count: f"{count} tokens" for count in LENGTHS}
        choose_one(
            "Continue by", ExpectsChoice.more, names, width="content", label_visibility="visible"
        )
        st.button(
            "Draw another" if seed else "Draw one", icon=":material/casino:",
            **sets(ExpectsChoice.seed, seed + 1), disabled=not n,
            help="Draws each token at random, by its probability (top-p 0.9).",
        )  # fmt: skip
        st.button(
            "Most probable", icon=":material/first_page:",
            **sets(ExpectsChoice.seed, None), disabled=not (n and seed),
            help="Takes the most probable token each time, without randomness.",
        )  # fmt: skip
    if n and trace.complete:
        st.caption("The model ended the sentence.")


def _draw_guesses(guesses: Sequence[Guesses], first: int | None = None) -> None:
    tokens, odds = [guess.token for guess in guesses], exhibits.probabilities_of(guesses)
    if first is None:
        first = int(odds.argmin())  # the first hidden place, or the least probable token
    chosen = url_state.index(ExpectsChoice.place, len(guesses), first)
    right, left = st.columns([4, 5], gap="large")
    theme = current_theme()
    if np.isnan(odds).all():  # hidden words have no probability
        right = left
    else:
        alt = ", ".join(
            f"{plain_token(token)} {'not written' if np.isnan(value) else f'{value:.0%}'}"
            for token, value in zip(tokens, odds, strict=True)
        )
        left.markdown("**How probable each token was**")
        chart = expected(tokens, odds, theme, chosen=chosen)
        draw_chart(chart, f"Probability of each token: {alt}.", left)
    with right:
        named = [f"{number}  {plain_token(token)}" for number, token in enumerate(tokens, 1)]
        numbered("family", ExpectsChoice.place, "Candidates at place", named, chosen)
    at = guesses[chosen]
    shares = np.exp(at.log_probs)
    listed = ", ".join(
        f"{plain_token(token)} {value:.1%}" for token, value in zip(at.tokens, shares, strict=True)
    )
    chart = candidates(at.tokens, shares, theme, actual=at.token)
    draw_chart(chart, f"Most probable tokens: {listed}.", right)


def _offer_download(view: View, n_numbers: int) -> None:
    assert view.entry.stack is not None
    choice, continues = ExpectsChoice.read(), view.entry.stack.task == "continue"
    more = {"new_tokens": choice.more, "seed": choice.seed} if continues else {}
    download_button(
        lambda: figure_for(view, exhibits.expected_tokens, **more),
        key="family_expects", name="expected-tokens", n_numbers=n_numbers,
    )  # fmt: skip


def draw_changes(view: View, entries: Sequence[Entry]) -> None:
    """Draw how each family member differs from the paper's model."""
    st.markdown(
        "All these models use the blocks of section 3. **Little has changed.** Apart from size, "
        "they differ from the paper's model as follows:"
    )
    models = [
        entry
        for entry in entries
        if entry.ok and (entry.stack or (entry.config and entry.config.positions == "relative"))
    ]
    if not models:
        st.info("No model of this family is installed.", icon=":material/info:")
    for entry in sorted(models, key=lambda entry: entry.stack is not None):
        _draw_entry(st.container(border=True), view, entry)


def _draw_entry(place: DeltaGenerator, view: View, entry: Entry) -> None:
    head, button = place.columns([6, 1], vertical_alignment="center")
    head.markdown(f"**{plain(title_of(entry))}**")
    with button.container(horizontal=True, horizontal_alignment="right"):
        if entry.name == view.entry.whole:
            st.button("In use", icon=":material/check:", disabled=True, key=f"use_{entry.name}")
        else:
            st.button("Use", key=f"use_{entry.name}", on_click=use_checkpoint, args=(entry.name,))
    rows = changes(entry)
    place.table(
        {"what": [f"**{name}**" for name, _, _ in rows], "2017": [then for _, then, _ in rows],
         "here": [now for _, _, now in rows]}, hide_index=True,
    )  # fmt: skip


#: Differences from the paper by field, of the stack or its configuration: (what, in 2017, here by
#: value).
_CHANGES: dict[str, tuple[str, str, dict[object, str]]] = {
    "stacks": ("Stacks", "an encoder, and a decoder that attends to it", {
        "continue": "a decoder without cross-attention",
        "fill": "only an encoder",
        "translate": "a decoder without cross-attention; its text begins with the source",
    }),
    "learns": ("Learns to", "predict each next token of a translation", {
        "continue": "predict each next token of any text",
        "fill": "predict hidden tokens (15%) from both sides",
        "translate": "predict each next target token (unchanged)",
    }),
    "norm": ("LayerNorm", "after each residual sum", {
        "pre": "before each block, so the stream stays a plain sum",
    }),
    "positions": ("Positions", "sinusoids, added to the embeddings", {
        "learned": "a trained vector for each position",
        "stored": "a table from another library",
        "relative": "none; each head adds a bias by distance to its scores",
    }),
    "activation": ("Feed-forward", "ReLU", {
        "gelu": "GELU, a smooth ReLU", "silu": "SiLU, a smooth ReLU",
    }),
    "attention_bias": ("Projections", "without biases", {True: "with biases"}),
    "scale_embedding": ("Embeddings", "times √d_model", {False: "not scaled"}),
}  # fmt: skip


def changes(entry: Entry) -> list[tuple[str, str, str]]:
    """Return differences from the paper's model, except size: (what, in 2017, here)."""
    config = entry.stack.blocks if entry.stack else entry.config
    if config is None:
        return []
    task = entry.stack.task if entry.stack else None
    values = {"stacks": task, "learns": task, **vars(config)}
    return [
        (what, then, now[values[field]])
        for field, (what, then, now) in _CHANGES.items()
        if values[field] in now
    ]


def draw_stacks(view: View, entries: Sequence[Entry]) -> None:
    """Draw a sentence through a two-stack and a single-stack translator."""
    pair = pair_of(entries)
    if pair is None:
        st.info(
            "This view needs two translators trained on the same text, one of them with a single "
            "stack: see recipes/decoder-only-en-de.toml.",
            icon=":material/info:",
        )
        return
    two, one = (view_of(view, entry) for entry in pair)
    st.markdown(
        f"Both models learned from the same text. **{plain(two.title)}** has an encoder and a "
        f"decoder; **{plain(one.title)}** reads the source as the beginning of its own text. "
        "**Compare where they look in the source.**"
    )
    own = two.examples
    if view.examples.kind != own.kind and own.find(view.sentence) is None:
        two, one = _on_their_text(view, two, one)
    traces = get_trace(two), get_trace(one)
    left, right = st.columns(2, gap="large")
    with left:
        two_at = _draw_side(two, traces[0], StacksChoice.layer_two, StacksChoice.head_two)
    with right:
        one_at = _draw_side(one, traces[1], StacksChoice.layer_one, StacksChoice.head_one)
    with st.container(horizontal=True, horizontal_alignment="right"):
        download_button(
            lambda: exhibits.looks_exhibit(
                (source_of(two), source_of(one)), (trace_for(two), trace_for(one)),
                (two_at, one_at),
            ),
            key="family_stacks", name="one-stack-or-two",
        )  # fmt: skip


def _on_their_text(view: View, two: View, one: View) -> tuple[View, View]:
    """Return both views on a typed sentence, or on a caption in place of another example."""
    example = two.examples.items[2].sentence
    if view.examples.find(view.sentence) is not None:
        st.caption("Both models were trained on photo captions, so they read this caption:")
        with st.container(key="source"):
            draw_text(example, two.spoken[0])
        return replace(two, sentence=example), replace(one, sentence=example)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Trained on photo captions; expect errors on other text.", width="content")
        st.button("Try a caption", type="tertiary", on_click=ask_for, args=(example,))
    return two, one


def _draw_side(
    view: View, trace: Trace, layer_param: Param[int | None], head_param: Param[int | None]
) -> tuple[int, int]:
    """Draw one translator; return its layer and head, from 0."""
    entry = view.entry
    maps = trace.cross if trace.cross.size else source_block(trace).weights
    n_layers, n_heads = maps.shape[:2]
    shape = entry.stack or entry.config
    size = f", {parameters(shape.n_parameters)} parameters" if shape else ""
    kind = "Two stacks" if entry.stack is None else "One stack"
    st.markdown(f"**{kind}**{size}")
    layer, head, note = aligner_of(entry.metrics) or (0, 0, "")
    if layer >= n_layers or head >= n_heads:
        layer, head, note = 0, 0, ""
    notes = [note] if note and entry.updates is None else []  # measured on the finished model
    layer = url_state.index(layer_param, n_layers, layer)
    head = url_state.index(head_param, n_heads, head)
    with st.container(horizontal=True):
        for what, param, count, at in (
            ("Layer", layer_param, n_layers, layer), ("Head", head_param, n_heads, head),
        ):  # fmt: skip
            names = [f"{what} {i + 1}" for i in range(count)]
            numbered("family", param, what, names, at, label_visibility="collapsed")
    weights, rows, columns = exhibits.looks(trace, layer, head)
    if entry.stack is not None:
        share = float(weights.sum(axis=1).mean())
        notes.append(f"This head puts {share:.0%} of its weight on the source")
    where = f"{kind}: layer {layer + 1}, head {head + 1}"
    picture = Map(weights, rows, columns, where, "translation", "source")
    draw_map(picture, f"family_map_{layer_param.name}", max_height=370, height=370)
    draw_text(f"“{trace.text}”", view.spoken[1])
    st.caption("".join(f"{note}. " for note in notes))
    return layer, head
