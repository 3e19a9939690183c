"""Views of Translate and their settings: Layer by layer, Why X, not Y, and Source or prefix.

Source or prefix is below the player and shows the origin of every predicted token. Directions
of Voita et al. (2021) in the shipped translators come from `directions.json`, which
`benchmarks/directions.py` writes.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from figures.labels import code, percent, plain, plain_token, probability, signed
from figures.removals import BAR, share_bars
from figures.tokens import source_bars
from transformer.attribution.edges import Mix, loose
from transformer.measures.compare import not_shared
from transformer.measures.words import group_labels, word_groups
from transformer.search.records import Translation
from transformer.trace.records import Trace
from transformer.types import Bools
from ui.components.layers import layers_component
from ui.components.mount import show
from ui.components.packing import Component
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.layout import clicked, current_theme, draw_chart
from ui.core.url_state import STEP, VIEW, WHY, Param
from ui.core.view import View
from ui.core.widgets import Choice, bound, filled, numbered
from ui.export.download import download_below, download_button, figure_for
from ui.frame.page import open_page
from ui.translate import inside_exhibits as inside
from ui.translate.player import default_step
from ui.work.desk import DECODING, computed, get_translator, run
from ui.work.results import Computation


@dataclass(frozen=True)
class TranslateChoice(Choice):
    """URL settings besides the player's position."""

    view: Param[str] = VIEW
    why: Param[tuple[int, int] | None] = WHY
    all_parts: Param[bool] = url_state.switch("all_parts")
    sources: Param[bool] = url_state.switch("sources")  # source or prefix, below the player


class Pair(NamedTuple):
    """Token ids of two candidates at a step, counted from 0."""

    step: int
    one: int
    other: int


def pair_now(view: View, trace: Trace) -> Pair:
    """Return the stored candidates, by default the step's own token and the best alternative.

    The default step is the player's, or the least certain one if there is no word to watch.
    """
    step = view.step(len(trace.predicted_ids))
    if step is None:
        example = view.example
        watches = example is not None and example.watched(trace.src_tokens)
        step = default_step(trace, example) - 1 if watches else int(trace.log_probs.argmin())
    config, stored = view.entry.config, url_state.get(WHY)
    if stored and config and max(stored) < config.target_vocab_size and stored[0] != stored[1]:
        return Pair(step, *stored)
    own = trace.predicted_ids[step]
    return Pair(step, own, next(token for token in trace.top_ids[step].tolist() if token != own))


#: Parts shown by default.
SHOWN = 10

#: Maximum words shown of a translation from an earlier layer.
_MOST_WORDS = 40

#: Predictions after all layers.
LAYERS: Computation[Component[None]] = Computation(
    "layers", (), lambda model, trace: layers_component(trace, *inside.layer_table(model, trace))
)


def apart(pair: Pair) -> Computation[tuple[float, list[inside.Share]]]:
    """Return the computation of a choice's shares."""
    return Computation("why", pair, lambda model, trace: inside.shares_of(model, trace, *pair))


def draw_layers(view: View, trace: Trace) -> None:
    """Draw predictions after every decoder layer, and translations from every encoder layer."""
    with st.container(key="after_lead"):
        st.markdown("What would the decoder predict if it ended after each layer?")
    show(computed(view, LAYERS), key="layers")
    st.caption(
        "The stronger the colour, the more probable the token. **Bold** is the token predicted in "
        "the end; in other cells the small number is that token's rank. "
        "Where one table both reads and writes tokens (tied embeddings), each token's own row fits "
        "its embedding best, so the first column repeats the input."
    )
    n_numbers = 2 * len(trace.predicted_tokens) * (1 + len(trace.cross))
    download_below(st.container(), view, "layer-by-layer", inside.layer_by_layer, n_numbers)
    st.markdown(
        "#### Translations from each encoder layer\n\n"
        "The decoder reads the output of an earlier encoder layer instead of the last one. Words "
        "of the finished translation are bold."
    )
    work, model = ("from encoder layers", view.request), get_translator(view)
    outputs = run(work, lambda report: inside.earlier_layers(model, trace, report), DECODING)
    lines = (f"{n}. {_marked(each, outputs[-1])}" for n, each in enumerate(outputs, 1))
    st.markdown("\n".join(lines))
    download_below(st.container(), view, "from-encoder-layers", inside.from_encoder_layers)


def _marked(one: Translation, last: Translation) -> str:
    """Return a translation as Markdown with words of the last layer's in bold."""
    texts = [
        group_labels(translation.tokens, word_groups(translation.tokens))
        for translation in (one, last)
    ]
    if max(map(len, texts)) <= 1:  # a string of letters is one word
        texts = [one.tokens, last.tokens]
    new = set(not_shared(*texts)[0])
    words = [plain(plain_token(word, 40).removeprefix("_")) for word in texts[0]]
    marked = [word if at in new else f"**{word}**" for at, word in enumerate(words)]
    more = "…" if len(marked) > _MOST_WORDS else ""
    return " ".join([*marked[:_MOST_WORDS], more]).strip() or "(nothing)"


def draw_why(view: View, trace: Trace) -> None:
    """Draw two candidates of a step, and each part's share in their difference."""
    pair = pair_now(view, trace)
    difference, shares = computed(view, apart(pair))
    one, other = (code(_spelled(view, trace, pair.step, token)) for token in pair[1:])
    times = math.exp(min(abs(difference), 50.0))
    first, second = (one, other) if difference >= 0 else (other, one)
    with st.container(key="after_lead"):
        st.markdown(linked(
            f"The logit of {first} is **{abs(difference):.2f}** above that of {second}, so it is "
            f"{times:,.{0 if times >= 10 else 1}f} times as probable.", "logit",
        ))  # fmt: skip
    all_parts = url_state.get(TranslateChoice.all_parts)
    rows = shares if all_parts else shares[:SHOWN]
    if rest := shares[len(rows) :]:
        together = sum(row.share for row in rest)
        rows = [*rows, inside.Share(f"the other {len(rest)} parts together", together)]
    picked = clicked(
        share_bars([row._asdict() for row in rows], current_theme()), [BAR],
        f"The largest share is of {rows[0].name}, {signed(rows[0].share)}.",
        f"why_{view.request.name}_{pair}_{all_parts}",
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _draw_candidates(view, trace, pair)
        st.toggle(f"All {len(shares)} parts", **bound(TranslateChoice.all_parts))
        download_button(
            partial(figure_for, view, inside.why_not, **pair._asdict()), key="why",
            name=f"why-step-{pair.step + 1}-{pair.one}-{pair.other}", n_numbers=2 * len(shares),
        )  # fmt: skip
    if picked and picked[0].get("head"):
        _open(picked[0], pair.step)
        st.rerun()
    st.caption(linked(
        f"Orange bars raise the probability of {one} against {other}, blue bars lower it; their "
        "sum is the difference. The bars keep each LayerNorm's scale at its value in this "
        "sentence, so that the output of a part simply adds to the logits, an approximation. The "
        f"diamonds measure it: each of the {inside.MEASURED} largest parts is removed, everything "
        "after it is computed again, and the diamond shows how much of the difference is lost.",
        "LayerNorm",
    ))  # fmt: skip
    with st.container(horizontal=True, gap="small"):
        for row in [row for row in shares if row.head][: inside.MEASURED]:
            st.button(
                f"Open {row.name}", key=f"why {row.name}", on_click=_open,
                args=(row._asdict(), pair.step), icon=":material/center_focus_strong:",
                type="tertiary", help="See how this head computes its weights.",
            )  # fmt: skip


def _open(row: Mapping[str, object], step: int) -> None:
    link = {name: str(row[name]) for name in ("kind", "layer", "head")}
    open_page("head", link | {"query": str(step + 1)})


def _draw_candidates(view: View, trace: Trace, pair: Pair) -> None:
    steps = [f"{n}  {plain_token(token)}" for n, token in enumerate(trace.predicted_tokens, 1)]
    candidates = dict(zip(trace.top_ids[pair.step].tolist(), trace.top_log_probs[pair.step],
                     strict=True))  # fmt: skip
    options = [*candidates, *(token for token in (pair.one, pair.other) if token not in candidates)]

    def name(token: int) -> str:
        spelled = plain_token(_spelled(view, trace, pair.step, token))
        return f"{spelled}  {probability(candidates[token])}" if token in candidates else spelled

    def take(first: bool, chosen: int) -> None:
        one, other = (chosen, pair.other) if first else (pair.one, chosen)
        if one == other:  # swap them
            one, other = pair.other, pair.one
        url_state.put(WHY, (one, other))

    numbered("why", STEP, "Step", steps, pair.step)
    for key, label, token in (("why_one", "Why", pair.one), ("why_other", "and not", pair.other)):
        taken = partial(take, key == "why_one")
        st.selectbox(label, options, format_func=name, **filled(key, token, taken))


def _spelled(view: View, trace: Trace, step: int, token: int) -> str:
    """Return a token's text at a step."""
    return get_translator(view).tokenizer.target.shown((token,), trace.tgt_ids[step])[0]


#: Shares of source and prefix in every predicted token.
MIX: Computation[Mix] = Computation("source or prefix", (), inside.mix_of)


def draw_sources(view: View, trace: Trace) -> None:
    """Draw the shares, and what holds of them over many sentences."""
    shares = computed(view, MIX).source_share
    marks = loose(shares)
    st.markdown("#### Source or prefix")
    chart, words = st.columns([5, 3], gap="large")
    text = _in_words(trace, marks)
    with chart:
        draw_chart(source_bars(trace.predicted_tokens, shares, marks, current_theme()),
                   f"Share of the source by token. {text}")  # fmt: skip
        st.markdown(text)
    with words:
        st.caption(linked(
            "The contributions of all layers, multiplied (ALTI+), split each prediction between "
            "the source and the translation so far. Shares compare tokens within a sentence; they "
            "do not say in absolute terms how much the model uses the source.",
            "ALTI+",
        ))  # fmt: skip
        download_below(st.container(), view, "source-or-prefix", inside.source_or_prefix)
    name = view.entry.whole
    if name in DIRECTIONS:
        trained = "" if view.entry.updates is None and not view.entry.ref.edits else ", as trained"
        st.markdown(
            f"**Over {DIRECTIONS[name]['sentences']} typed sentences, with 95% intervals"
            f"{trained}:**\n\n{table([name])}\n\n{marked_in_words(name)}"
        )


def _in_words(trace: Trace, marks: Bools) -> str:
    tokens = [code(plain_token(token)) for token in trace.predicted_tokens]
    if not marks.any():
        return "No token comes loose from the source."
    named = ", ".join(tokens[at] for at in np.flatnonzero(marks))
    return (
        f"Loose from the source: {named}. The share of the source is below two thirds of the "
        "median of this translation, not counting its last token."
    )


#: Statement, sign of its mean where it holds, and quantity, by name in the file.
_STATEMENTS = {
    "falls": ("The source's share falls along the translation", -1, "rank correlation with step"),
    "drops": ("It drops once more at the end, for `</s>`", -1, "share"),
    "spreads": ("It spreads over more source tokens on the way", 1, "rank correlation with step"),
    "wrong, next": ("A wrong first token lowers it at the next three steps", -1, "share"),
    "wrong, later": ("A wrong first token lowers it at the steps after those", -1, "share"),
    "turns": ("In training it rises and falls, not one way", 1, "share"),
}

#: Directions and counts by checkpoint.
DIRECTIONS: dict[str, Any] = json.loads(
    Path(__file__).with_name("directions.json").read_text("utf-8")
)


def table(names: Iterable[str]) -> str:
    """Return the directions in these checkpoints as a Markdown table."""
    names = list(names)
    heading = ["Direction in Voita et al. (2021)", *(names if names[1:] else ["On this model"])]
    lines = [heading, ["---"] * len(heading)]
    for key, (statement, sign, quantity) in _STATEMENTS.items():
        results = [DIRECTIONS[name]["directions"].get(key) for name in names]
        if any(results):
            verdicts = (_verdict(result, sign) for result in results)
            lines.append([f"{statement} ({quantity})", *verdicts])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _verdict(result: dict[str, float] | None, sign: int) -> str:
    if result is None:
        return "not measured"
    low, high = (round(result[end], 3) for end in ("low", "high"))
    verdict = "*holds here*" if sign * low > 0 and sign * high > 0 else "*does not*"
    return f"{verdict}: {signed(result['mean'], 3)} ({signed(low, 3)} to {signed(high, 3)})"


def marked_in_words(name: str) -> str:
    """Return how often tokens near the start are loose, with and without a wrong first token."""
    loose = DIRECTIONS[name]["loose"]
    return (
        f"In the three tokens after the first, {percent(loose['own'])} of its own translations of "
        f"typed sentences have a loose token, and {percent(loose['wrong'])} after a wrong first "
        "token."
    )
