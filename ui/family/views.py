"""The views of Family: predictions, one stack beside two, and changes since 2017."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import code, parameters, plain, plain_token
from figures.tokens import candidates, expected
from transformer.config import ModelConfig
from transformer.measures.words import source_block
from transformer.models.catalogue import Entry
from transformer.models.one_stack.files import MASK
from transformer.models.one_stack.tracer import Guesses
from transformer.trace.records import Trace
from ui.components.lens import Map
from ui.core import url_state
from ui.core.examples import title_of
from ui.core.layout import current_theme, draw_chart, draw_map
from ui.core.view import View, ask_for
from ui.core.widgets import choose_one, numbered, sets
from ui.export.download import download_button, figure_for, source_of, trace_for
from ui.family.choice import (
    LENGTHS,
    ExpectsChoice,
    StacksChoice,
    aligner_of,
    members,
    pair_of,
    view_of,
)
from ui.family.exhibits import TOP, continued, expected_tokens, looks, looks_exhibit, next_tokens
from ui.frame.steering import use_checkpoint
from ui.work.desk import computed, get_trace
from ui.work.results import Computation

#: Guesses of a fill-in model at each place.
GUESSES: Computation[tuple[Guesses, ...]] = Computation(
    "guesses", TOP, lambda model, trace: model.guesses(trace, TOP)
)


def draw_expects(view: View, entries: Sequence[Entry]) -> None:
    """Draw the predictions of a model that continues or fills in the sentence."""
    models = {entry.name: entry for entry in members(entries, "continue", "fill")}
    if not models:
        st.info(
            "No installed model continues or fills in text. A recipe with a [stack] table trains "
            "one: see recipes.",
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
    guesses = computed(view, GUESSES)
    hidden = any(guess.log_prob is None for guess in guesses)
    words, more = st.columns([5, 2], vertical_alignment="center")
    words.markdown(
        f"This model sees both sides of a hidden word and predicts it. Write {code(MASK)} in place "
        "of a word to hide it"
        + (
            "."
            if hidden
            else "; until then, **each token is hidden in turn**, and bars show its probability."
        )
    )
    example = _with_a_gap(trace)
    with more.container(horizontal=True, horizontal_alignment="right"):
        if not hidden and example:
            st.button(
                "Hide a word", icon=":material/visibility_off:", on_click=ask_for, args=(example,)
            )
        _offer_download(view, len(guesses))
    _draw_guesses(guesses, "candidates")


def _with_a_gap(trace: Trace) -> str:
    """Return the sentence with its longest word hidden; "" for a single word."""
    words = trace.source.split()
    if len(words) < 2:
        return ""
    longest = max(range(len(words)), key=lambda place: len(words[place].strip(".,!?")))
    end = words[longest][len(words[longest].rstrip(".,!?")) :]
    return " ".join([*words[:longest], MASK + end, *words[longest + 1 :]])


def _draw_continued(view: View) -> None:
    n, seed = url_state.get(ExpectsChoice.more), url_state.get(ExpectsChoice.seed)
    continuation: Computation[Trace] = Computation(
        "continued", (n, seed), lambda model, trace: continued(model, trace, n, seed)
    )
    trace = computed(view, continuation)
    guesses = next_tokens(trace)
    words, more = st.columns([5, 2], vertical_alignment="center")
    words.markdown(
        "This model sees only earlier tokens. The bars show how probable each token was, given the "
        "tokens before it. **Let it continue**, and it writes the next ones itself."
    )
    with more.container(horizontal=True, horizontal_alignment="right"):
        _offer_download(view, len(guesses))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        names = {count: f"{count} tokens" for count in LENGTHS}
        choose_one(
            "Continue by", ExpectsChoice.more, names, width="content", label_visibility="visible"
        )
        st.button(
            "Draw another" if seed else "Draw one", icon=":material/casino:",
            **sets(ExpectsChoice.seed, seed + 1), disabled=not n,
            help="Chooses each token at random by its probability (top-p 0.9).",
        )  # fmt: skip
        st.button(
            "Most probable", icon=":material/first_page:",
            **sets(ExpectsChoice.seed, None), disabled=not (n and seed),
            help="Chooses the most probable token each time, without drawing.",
        )  # fmt: skip
    if n:
        start = trace.n_forced + 1
        typed, written = (
            "".join(tokens).replace("\u2581", " ")
            for tokens in (trace.tgt_tokens[1:start], trace.tgt_tokens[start:])
        )
        ends = " It ended the sentence." if trace.complete else ""
        space = " " if written.startswith(" ") else ""
        text = written.strip()
        st.markdown(plain(typed.strip()) + space + (f"**{plain(text)}**" if text else "") + ends)
    _draw_guesses(guesses, "candidates")


def _draw_guesses(guesses: Sequence[Guesses], title: str) -> None:
    """Draw all places as bars, and the candidates of one."""
    tokens = [guess.token for guess in guesses]
    odds = np.array(
        [np.nan if guess.log_prob is None else np.exp(guess.log_prob) for guess in guesses],
        np.float32,
    )
    hidden = next((i for i, guess in enumerate(guesses) if guess.log_prob is None), None)
    first = int(np.nanargmin(odds)) if hidden is None else hidden
    chosen = url_state.index(ExpectsChoice.place, len(guesses), first)
    left, right = st.columns([5, 4], gap="large")
    theme = current_theme()
    if np.isnan(odds).all():  # hidden words have no probability
        right = left
    else:
        alt = ", ".join(
            f"{plain_token(token)} {'hidden' if np.isnan(value) else f'{100 * value:.0f}%'}"
            for token, value in zip(tokens, odds, strict=True)
        )
        left.markdown("**How probable each token was**")
        chart = expected(tokens, odds, theme, chosen=chosen)
        draw_chart(chart, f"Probability of each token: {alt}.", left)
    with right:
        named = [f"{number}  {plain_token(token)}" for number, token in enumerate(tokens, 1)]
        numbered("family", ExpectsChoice.place, f"Place: {title}", named, chosen)
    at = guesses[chosen]
    shares = np.exp(at.log_probs)
    listed = ", ".join(
        f"{plain_token(token)} {100 * value:.1f}%"
        for token, value in zip(at.tokens, shares, strict=True)
    )
    chart = candidates(at.tokens, shares, theme, actual=at.token)
    draw_chart(chart, f"Most probable tokens: {listed}.", right)


def _offer_download(view: View, n_numbers: int) -> None:
    assert view.entry.stack is not None
    choice = ExpectsChoice.read()
    fills = view.entry.stack.task == "fill"
    more = {} if fills else {"new_tokens": choice.more, "seed": choice.seed}
    download_button(
        lambda: figure_for(view, expected_tokens, **more),
        key="family_expects", name="expected-tokens", n_numbers=n_numbers,
    )  # fmt: skip


def draw_changes(view: View, entries: Sequence[Entry]) -> None:
    """Draw each family member's differences from the paper's model."""
    st.markdown(
        "All use the blocks of section 3. **Little changed.** These are the differences, model by "
        "model, apart from size:"
    )
    models = [
        entry
        for entry in entries
        if entry.ok and (entry.stack or (entry.config and entry.config.positions == "relative"))
    ]
    if not models:
        st.info("No such model is installed.", icon=":material/info:")
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
    what, then, now = zip(*changes(entry), strict=True) if changes(entry) else ((), (), ())
    place.table(
        {"what": [f"**{name}**" for name in what], "2017": then, "here": now}, hide_index=True
    )


#: Stacks and their objectives by task.
_STACKS = {
    "continue": "a decoder without cross-attention",
    "fill": "an encoder alone",
    "translate": "a decoder without cross-attention; the source is the beginning of its text",
}
_LEARNS = {
    "continue": "predict every next token of any text",
    "fill": "predict the 15% of hidden tokens from both sides",
    "translate": "next target token (unchanged)",
}
_POSITIONS = {
    "learned": "a trained vector for each position",
    "stored": "a table from another library",
    "relative": "none; each head adds a bias by distance to its scores",
}
_ACTIVATIONS = {"gelu": "GELU, a smooth ReLU", "silu": "SiLU, a smooth ReLU"}


def changes(entry: Entry) -> list[tuple[str, str, str]]:
    """Return differences from the paper's model, except size: (what, in 2017, here)."""
    config: ModelConfig | None = entry.config
    rows = []
    if entry.stack is not None:
        task, config = entry.stack.task, entry.stack.blocks
        rows = [
            ("Stacks", "an encoder, and a decoder that attends to it", _STACKS[task]),
            ("Learns to", "predict each next token of a translation", _LEARNS[task]),
        ]
    if config is None:
        return []
    if config.norm == "pre":
        now = "before each block, so the stream stays a plain sum"
        rows.append(("LayerNorm", "after each residual sum", now))
    if config.positions != "sinusoidal":
        added = "sinusoids, added to the embeddings"
        rows.append(("Positions", added, _POSITIONS[config.positions]))
    if config.activation != "relu":
        rows.append(("Feed-forward", "ReLU", _ACTIVATIONS[config.activation]))
    if config.attention_bias:
        rows.append(("Projections", "without biases", "with biases"))
    if not config.scale_embedding:
        rows.append(("Embeddings", "times √d_model", "as they are"))
    return rows


#: Layer and head of each translator.
_PARAMS = {
    "two": (StacksChoice.layer_two, StacksChoice.head_two),
    "one": (StacksChoice.layer_one, StacksChoice.head_one),
}


def draw_stacks(view: View, entries: Sequence[Entry]) -> None:
    """Draw one sentence through a translator of two stacks and one of one stack."""
    pair = pair_of(entries)
    if pair is None:
        st.info(
            "Needs two translators trained on the same text, one with a single stack: see "
            "recipes/decoder-only-en-de.toml.",
            icon=":material/info:",
        )
        return
    two, one = (view_of(view, entry) for entry in pair)
    st.markdown(
        f"Both learned the same text. **{plain(two.title)}** has an encoder and a decoder; "
        f"**{plain(one.title)}** reads the source as the beginning of its own text. **Compare "
        "where they look in the source.**"
    )
    own = two.examples
    if view.examples.kind != own.kind and own.find(view.sentence) is None:
        two, one = _on_their_text(view, two, one)
    traces = get_trace(two), get_trace(one)
    columns = st.columns(2, gap="large")
    heads = []
    for name, side, trace, place in zip(("two", "one"), (two, one), traces, columns, strict=True):
        with place:
            heads.append(_draw_side(name, side, trace))
    chosen = heads[0], heads[1]
    with st.container(horizontal=True, horizontal_alignment="right"):
        download_button(
            lambda: looks_exhibit(
                (source_of(two), source_of(one)), (trace_for(two), trace_for(one)), chosen
            ),
            key="family_stacks", name="one-stack-or-two",
        )  # fmt: skip


def _on_their_text(view: View, two: View, one: View) -> tuple[View, View]:
    """Return both views on a typed sentence, or else on a caption like their training text."""
    example = two.examples.items[2].sentence
    if view.examples.find(view.sentence) is not None:
        st.caption("Both were trained on captions, so they read this one:")
        with st.container(key="source"):
            st.text(example)
        return replace(two, sentence=example), replace(one, sentence=example)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Trained on captions; expect errors on other text.", width="content")
        st.button("Try a caption", type="tertiary", on_click=ask_for, args=(example,))
    return two, one


def _draw_side(name: str, view: View, trace: Trace) -> tuple[int, int]:
    """Draw one translator; return its layer and head, from 0."""
    entry = view.entry
    maps = trace.cross if trace.cross.size else source_block(trace).weights
    n_layers, n_heads = maps.shape[:2]
    shape = entry.stack or entry.config
    size = f", {parameters(shape.n_parameters)} parameters" if shape else ""
    kind = "Two stacks" if entry.stack is None else "One stack"
    st.markdown(f"**{kind}**{size}")
    best = aligner_of(entry.metrics)
    layer, head, notes = 0, 0, []
    if best is not None and best[0] < n_layers and best[1] < n_heads:
        layer, head = best[:2]
        if entry.updates is None:  # measured on the finished model
            notes.append(best[2])
    layer_param, head_param = _PARAMS[name]
    layer = url_state.index(layer_param, n_layers, layer)
    head = url_state.index(head_param, n_heads, head)
    with st.container(horizontal=True):
        for param, count, at in ((layer_param, n_layers, layer), (head_param, n_heads, head)):
            what = "Layer" if param is layer_param else "Head"
            names = [f"{what} {i + 1}" for i in range(count)]
            numbered("family", param, what, names, at, label_visibility="collapsed")
    weights, rows, columns = looks(trace, layer, head)
    if entry.stack is not None:
        share = float(weights.sum(axis=1).mean())
        notes.append(f"This head puts {100 * share:.0f}% of its weight on the source")
    where = f"{kind}: layer {layer + 1}, head {head + 1}"
    picture = Map(weights, rows, columns, where, "translation", "source")
    draw_map(picture, f"family_{name}", max_height=370, height=370)
    st.markdown(f"“{plain(trace.text)}”")
    st.caption("".join(f"{note}. " for note in notes))
    return layer, head
