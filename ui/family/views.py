"""The views of Family: what models expect, one stack beside two, and what changed since 2017."""

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

#: The guesses of a model that fills in, at each place.
GUESSES: Computation[tuple[Guesses, ...]] = Computation(
    "guesses", TOP, lambda model, trace: model.guesses(trace, TOP)
)


def draw_expects(view: View, entries: Sequence[Entry]) -> None:
    """Draw what a model that continues or fills in expects of the sentence."""
    found = {each.name: each for each in members(entries, "continue", "fill")}
    if not found:
        st.info(
            "No model here continues or fills in a text. A recipe with a table [stack] trains "
            "one: see recipes.",
            icon=":material/info:",
        )
        return
    chosen = url_state.get(ExpectsChoice.member)
    if chosen not in found:
        chosen = view.entry.whole if view.entry.whole in found else next(iter(found))
    if len(found) > 1:
        names = {name: title_of(entry) for name, entry in found.items()}
        chosen = choose_one("Model", ExpectsChoice.member, names, chosen=chosen)
    entry = found[chosen]
    assert entry.stack is not None
    (_draw_filled if entry.stack.task == "fill" else _draw_continued)(view_of(view, entry))


def _draw_filled(view: View) -> None:
    trace = get_trace(view)
    guesses = computed(view, GUESSES)
    hidden = any(each.log_prob is None for each in guesses)
    words, more = st.columns([5, 2], vertical_alignment="center")
    words.markdown(
        f"It sees both sides of a hidden word and says what stands there. Write {code(MASK)} for "
        "a word to hide it"
        + (
            "."
            if hidden
            else "; as long as nothing is hidden, **each token is hidden in turn**, and the bars "
            "say how probable it was."
        )
    )
    example = _with_a_gap(trace)
    with more.container(horizontal=True, horizontal_alignment="right"):
        if not hidden and example:
            st.button(
                "Hide a word", icon=":material/visibility_off:", on_click=ask_for, args=(example,)
            )
        _offer_download(view, len(guesses))
    _draw_guesses(guesses, "what could stand here")


def _with_a_gap(trace: Trace) -> str:
    """Return the sentence with its longest word hidden, "" if it has one word only."""
    words = trace.source.split()
    if len(words) < 2:
        return ""
    longest = max(range(len(words)), key=lambda place: len(words[place].strip(".,!?")))
    end = words[longest][len(words[longest].rstrip(".,!?")) :]
    return " ".join([*words[:longest], MASK + end, *words[longest + 1 :]])


def _draw_continued(view: View) -> None:
    n, seed = url_state.get(ExpectsChoice.more), url_state.get(ExpectsChoice.seed)
    wanted: Computation[Trace] = Computation(
        "continued", (n, seed), lambda model, trace: continued(model, trace, n, seed)
    )
    trace = computed(view, wanted)
    guesses = next_tokens(trace)
    words, more = st.columns([5, 2], vertical_alignment="center")
    words.markdown(
        "It sees only the tokens to the left. The bars say how probable each token was, given "
        "those before it; **let it go on**, and it writes the next ones itself."
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
        given = trace.n_forced + 1
        typed, written = (
            "".join(tokens).replace("\u2581", " ")
            for tokens in (trace.tgt_tokens[1:given], trace.tgt_tokens[given:])
        )
        ends = " It ended the sentence." if trace.complete else ""
        space = " " if written.startswith(" ") else ""
        said = written.strip()
        st.markdown(plain(typed.strip()) + space + (f"**{plain(said)}**" if said else "") + ends)
    _draw_guesses(guesses, "what could come here")


def _draw_guesses(guesses: Sequence[Guesses], title: str) -> None:
    """Draw all places as bars, and the candidates of one."""
    tokens = [each.token for each in guesses]
    known = np.array(
        [np.nan if each.log_prob is None else np.exp(each.log_prob) for each in guesses], np.float32
    )
    hidden = next((index for index, each in enumerate(guesses) if each.log_prob is None), None)
    first = int(np.nanargmin(known)) if hidden is None else hidden
    chosen = url_state.index(ExpectsChoice.place, len(guesses), first)
    left, right = st.columns([5, 4], gap="large")
    theme = current_theme()
    if np.isnan(known).all():  # nothing but hidden words, of which there is no probability
        right = left
    else:
        said = ", ".join(
            f"{plain_token(token)} {'hidden' if np.isnan(value) else f'{100 * value:.0f}%'}"
            for token, value in zip(tokens, known, strict=True)
        )
        left.markdown("**How probable each token was**")
        chart = expected(tokens, known, theme, chosen=chosen)
        draw_chart(chart, f"Probability of each token: {said}.", left)
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
    """Draw what differs from the paper's model, for each member of the family."""
    st.markdown(
        "All are built from the blocks of section 3. **Little changed.** What did, model by model, "
        "without sizes:"
    )
    found = [
        each
        for each in entries
        if each.ok and (each.stack or (each.config and each.config.positions == "relative"))
    ]
    if not found:
        st.info("No such model is here.", icon=":material/info:")
    for entry in sorted(found, key=lambda each: each.stack is not None):
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
        {"what": [f"**{each}**" for each in what], "2017": then, "here": now}, hide_index=True
    )


#: Stacks, and what they learn, by task; in the paper and here.
_STACKS = {
    "continue": "a decoder without cross-attention",
    "fill": "an encoder alone",
    "translate": "a decoder without cross-attention; the source is the beginning of its text",
}
_LEARNS = {
    "continue": "predict every next token of any text",
    "fill": "predict the 15% of tokens that are hidden, from both sides",
    "translate": "next target token (unchanged)",
}
_POSITIONS = {
    "learned": "a trained vector for each position",
    "stored": "a table from another library",
    "relative": "nothing is added; each head adds a number for the distance to a logit",
}
_ACTIVATIONS = {"gelu": "GELU, a smooth ReLU", "silu": "SiLU, a smooth ReLU"}


def changes(entry: Entry) -> list[tuple[str, str, str]]:
    """Return what differs from the paper's model, its size aside: of what, in 2017, and here."""
    config: ModelConfig | None = entry.config
    found = []
    if entry.stack is not None:
        task, config = entry.stack.task, entry.stack.blocks
        found = [
            ("Stacks", "an encoder, and a decoder that looks into it", _STACKS[task]),
            ("Learns to", "predict each next token of a translation", _LEARNS[task]),
        ]
    if config is None:
        return []
    if config.norm == "pre":
        now = "before each block, so the stream stays a plain sum"
        found.append(("LayerNorm", "after each residual sum", now))
    if config.positions != "sinusoidal":
        added = "sinusoids, added to the embeddings"
        found.append(("Positions", added, _POSITIONS[config.positions]))
    if config.activation != "relu":
        found.append(("Feed-forward", "ReLU", _ACTIVATIONS[config.activation]))
    if config.attention_bias:
        found.append(("Projections", "without biases", "with biases"))
    if not config.scale_embedding:
        found.append(("Embeddings", "times √d_model", "as they are"))
    return found


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
            "This needs two translators trained on the same text, one of a single stack: see "
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
    known = two.examples
    if view.examples.kind != known.kind and known.find(view.sentence) is None:
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
    """Return both views on a sentence like those they learned from, but on one that was typed."""
    example = two.examples.items[2].sentence
    if view.examples.find(view.sentence) is not None:
        st.caption("Read here, as both were trained on captions:")
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
        if entry.updates is None:  # the errors are those of the finished model
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
    shown = Map(weights, rows, columns, where, "translation", "source")
    draw_map(shown, f"family_{name}", max_height=370, height=370)
    st.markdown(f"“{plain(trace.text)}”")
    st.caption("".join(f"{note}. " for note in notes))
    return layer, head
