"""The sections of the Positions page: the encoding (section 3.5), and layer 1 split into parts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures import positions as plots
from figures.labels import KIND_NAMES, plain
from transformer.config import ModelConfig, PositionLayout
from transformer.measures.heads import divided
from transformer.positions import pair_columns
from transformer.trace import position_vectors
from transformer.trace.inspection import split_logits, why_not
from transformer.trace.position_vectors import stored_note
from transformer.trace.records import LogitSplit, Trace
from transformer.translator import Translator
from transformer.types import AttentionKind, Floats
from ui.components.mount import show
from ui.core import url_state
from ui.core.layout import current_theme, draw_chart, draw_plot, section
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import View
from ui.core.widgets import Choice, bound, choose_one, coloured, numbered
from ui.export.download import download_below
from ui.positions import exhibits
from ui.work.desk import computed, drawn, fragment, get_trace, get_translator
from ui.work.results import Computation

SIDES: dict[str, AttentionKind] = {"encoder": "encoder_self", "decoder": "decoder_self"}
SPLIT: Param[str] = Param("split", url_state.one_of(SIDES), "encoder")


def draw_split(view: View, config: ModelConfig) -> None:
    """Draw the maps, their sum and the residual, or say why the split is not exact."""
    st.markdown("#### Content and position in the first layer")
    reason = why_not(config)
    if reason is not None:
        st.info(plain(reason), icon=":material/block:")
        return
    # Outside the fragment, so progress and messages replace the section.
    computed(view, _split(*_kind_and_head(get_trace(view))))
    _maps(view)


def _kind_and_head(trace: Trace) -> tuple[AttentionKind, int]:
    """Return the kind and head to split: the chosen head, or else the most positional one."""
    kind = SIDES[url_state.get(SPLIT)]
    maps = trace.attention(kind)[0]  # [H, n, n]
    layer, head = url_state.cell(len(maps), len(maps), kind)
    if not url_state.stored(LAYER):  # links name the head alone
        layer, head = 0, url_state.index(HEAD, len(maps))
    if layer != 0 or head is None:  # the head with the most weight at one distance
        n = maps.shape[-1]
        distances = range(-min(3, n - 1), min(4, n))
        totals = [np.trace(maps, distance, axis1=1, axis2=2) for distance in distances]
        head = int(np.max(totals, axis=0).argmax())
    return kind, head


@fragment
def _maps(view: View) -> None:
    trace = get_trace(view)
    st.markdown(
        coloured(r"""
        The input of layer 1 is a sum, $x_i=e_i+p_i$: a token's embedding (its content) plus its
        position. Projections are linear, so every logit is exactly a sum of four products:

        $$
        \frac{q_i\cdot k_j}{\sqrt{d_k}}=\frac{1}{\sqrt{d_k}}\Big(
        e_iW^Q(e_jW^K)^{\top}+e_iW^Q(p_jW^K)^{\top}+p_iW^Q(e_jW^K)^{\top}+p_iW^Q(p_jW^K)^{\top}\Big)
        $$
        """)
    )
    kinds, heads, more = st.columns([5, 2, 2], vertical_alignment="bottom")
    choose_one("Side", SPLIT, {side: KIND_NAMES[kind] for side, kind in SIDES.items()}, kinds)
    kind, head = _kind_and_head(trace)
    with heads:
        names = [f"Head {i + 1}" for i in range(trace.attention(kind).shape[1])]
        numbered(
            "split", HEAD, "Head", names, head, lambda: url_state.store({KIND: kind, LAYER: 1}),
            label_visibility="collapsed",
        )  # fmt: skip
    split = computed(view, _split(kind, head))
    n_numbers = split.logits.size * (len(split.parts) + 1)
    name = exhibits.split_name(kind, head)
    download_below(more, view, name, exhibits.content_and_position, n_numbers, kind=kind, head=head)
    show(exhibits.split_component(split, trace), key="split")
    deviations = ", ".join(
        f"{exhibits.SPLIT_NAMES[name]} {exhibits.within_rows(values, split.mask):.2f}"
        for name, values in split.parts.items()
    )
    biased = "bias" in split.parts
    bias = " The fifth part comes from the biases of W_Q and W_K." if biased else ""
    st.caption(
        f"Variation within a row (root mean square): {deviations}. The softmax ignores what is "
        f"constant in a row, so this shows whether the head works by content or by position.{bias}"
    )
    total = np.stack([*split.parts.values()]).sum(axis=0, dtype=np.float64)
    weights = divided(total, split.mask, 1)  # a softmax
    map_difference = float(np.abs(weights - trace.attention(split.kind)[0, split.head]).max())
    st.markdown(
        f"The parts add up to the model's own logits within **{split.residual:.1e}** (the largest "
        f"logit is {np.abs(split.logits).max():.1f}; a float32 has seven digits). The softmax of "
        f"their sum is the recorded attention map within **{map_difference:.1e}**."
    )
    if note := stored_note(get_translator(view).model):
        st.caption(note)
    url_state.write_url()


def _split(kind: AttentionKind, head: int) -> Computation[LogitSplit]:
    return Computation(
        "split", (kind, head),
        lambda model, trace: split_logits(model.model, trace, kind, head),
    )  # fmt: skip


@dataclass(frozen=True)
class PositionsChoice(Choice):
    """The URL parameters of "The encoding", except width and layout, which follow the model."""

    length: Param[int] = Param("positions", url_state.whole(8, 512), 100)
    pos: Param[int] = Param("pos", url_state.whole(0, 100_000), 5)
    shift: Param[int] = Param("k", url_state.whole(-1_000, 1_000), 3)
    side: Param[Any] = Param("side", url_state.one_of(("Encoder", "Decoder")), "Encoder")


_MOST_CURVES = 8
_STARTS, _OFFSETS = (0, 10, 40), 60
#: Maximum distance drawn on both sides.
_REACH = 40


def dimensions_param(d_model: int, layout: PositionLayout) -> Param[list[int]]:
    """Return the setting for the drawn dimensions: by default, four sines from fast to slow."""
    columns = pair_columns(d_model, layout).numpy()
    picked = sorted({0, d_model // 16, d_model // 8, d_model // 4})

    def parse(raw: str) -> list[int]:
        one = url_state.whole(0, d_model - 1)
        return [] if raw == "none" else [one(part) for part in raw.split(".")][:_MOST_CURVES]

    def write(dimensions: Iterable[int]) -> str:
        return ".".join(map(str, dimensions)) or "none"

    return Param("dims", parse, [int(columns[pair, 0]) for pair in picked], write)


def draw_positions(
    place: DeltaGenerator, table: Floats, key: str, alt: str, height: int = 300, **marks: Any
) -> None:
    """Draw a table of positions, [n, d_model].

    Args:
        key: of the chart.  alt: for screen readers.
        marks: `trained` and `limit` of `figures.positions.encoding_heatmap`.
    """
    figure = drawn(plots.encoding_heatmap, table, current_theme(), height=height, **marks)
    draw_plot(place, figure, key, alt)


def draw_table(d_model: int, n: int, layout: PositionLayout, trained: int | None) -> None:
    """Draw the encoding as a picture, and some of its dimensions as curves."""
    place = section(
        "Every position has its own pattern",
        "By itself, attention treats a sentence as an unordered set of tokens. So a vector that "
        "depends only on the position is added to each embedding. "
        "Each row of the picture is a position, each column a dimension. "
        + (
            "*Interleaved*, as in the paper: the sine and cosine of a pair are side by side."
            if layout == "interleaved"
            else "*Concatenated*, as in several implementations: all sines come before all "
            "cosines. The numbers are the same, in a different order."
        ),
    )  # fmt: skip
    size: dict[str, Any] = {"n": n, "d_model": d_model, "layout": layout}
    table = position_vectors.encoding(**size)
    names = position_vectors.dimension_names(d_model, layout)
    theme = current_theme()
    alt = f"Positional encodings of {n} positions in {d_model} dimensions: fast stripes on the "
    alt += "left, slow ones on the right."
    draw_positions(place, table, "table", alt, height=420, trained=trained)
    place.expander("The formula").markdown(
        r"$$PE_{(pos,\,2i)}=\sin(pos\;\omega_i) \qquad PE_{(pos,\,2i+1)}=\cos(pos\;\omega_i)"
        r"\qquad \omega_i = 10000^{-2i/d_\text{model}}$$"
    )
    download_below(place, None, "positions", exhibits.positions, table.size, **size)

    place = section(
        "Each dimension is a wave",
        "Read a column from top to bottom and you see a wave. The first pair turns once in about 6 "
        f"positions, the last in {position_vectors.wavelengths(d_model)[-1]:,.0f}. As with the "
        "digits of a counter, fast waves tell neighbours apart; slow waves tell early from late.",
    )
    dims = dimensions_param(d_model, layout)
    url_state.show(dims)
    chosen = place.multiselect(
        "Dimensions", range(d_model), max_selections=_MOST_CURVES,
        help="Dimensions of the position vector, counted from 0.",
        format_func=lambda i: f"{i} ({names[i]})", **bound(dims),
    )  # fmt: skip
    labels = [f"{i} ({names[i]})" for i in chosen]
    figure = drawn(plots.curves, np.arange(n), table[:, chosen], labels, theme, trained=trained)
    draw_plot(
        place, figure, "curves", f"Values by position, for the dimensions {', '.join(labels)}."
    )
    download_below(
        place, None, "positions-dimensions", exhibits.position_curves, **size,
        dimensions=tuple(chosen), labels=tuple(labels),
    )  # fmt: skip


def draw_products(d_model: int, n: int, layout: PositionLayout) -> None:
    """Draw PE · PE^T, as a matrix and by offset."""
    place = section(
        "Only the distance counts",
        r"The dot product of two encodings is $\sum_i \cos\big((pos-pos')\,\omega_i\big)$: it "
        "depends on the distance between two positions, not on where they are. So every diagonal "
        "of $PE \\cdot PE^\\top$ has one colour, and the curves from different positions "
        f"coincide. The product of a position with itself is d/2 = {d_model // 2}.",
    )
    choice: dict[str, Any] = {"n": min(n, 128), "d_model": d_model, "starts": _STARTS,
                              "n_offsets": _OFFSETS, "layout": layout}  # fmt: skip
    arrays, theme = exhibits.position_products(**choice).arrays, current_theme()
    left, right = place.columns(2)
    matrix = drawn(plots.products, arrays["products"], theme, limit=d_model / 2, height=360)
    draw_plot(left, matrix, "products", "PE times its transpose: every diagonal has one value.")
    chart = drawn(plots.product_by_offset, np.arange(_OFFSETS), arrays["by_offset"], _STARTS, theme)
    draw_chart(chart, "Dot products by offset: the curves from three positions coincide.", right)
    download_below(place, None, "positions-products", exhibits.position_products, **choice)


@st.fragment
def draw_shift(d_model: int, layout: PositionLayout) -> None:
    """Draw the shift property: PE(pos) with its pairs turned, and PE(pos + k)."""
    place = section(
        "A position is a row of clocks",
        "A position's numbers come in pairs, and each pair is the hand of a clock. **A step "
        "to the next token turns every hand by its own angle**, wherever it points. Fast hands "
        "tell neighbours apart; slow hands tell early from late. Choose a position and an offset: "
        "each turned hand must meet its ring, which comes from the formula.",
    )
    picture, inputs = place.container(), place.columns(2)
    pos = inputs[0].number_input(
        "Position pos", 0, 100_000, help="A token's position; the first token has 0.",
        **bound(PositionsChoice.pos),
    )  # fmt: skip
    k = inputs[1].number_input(
        "Offset k", -1_000, 1_000, **bound(PositionsChoice.shift),
        help="How many positions to move forward; a negative number moves back.",
    )  # fmt: skip
    result = position_vectors.shift(pos, k, d_model, layout)
    pairs = sorted({round(x) for x in np.linspace(0, (d_model // 2 - 1) / 2, 5)})
    names = [f"pair {pair}" for pair in pairs]
    hands = result.before[pairs], result.after[pairs], result.expected[pairs]
    draw_chart(
        drawn(plots.clocks, *hands, names, current_theme()),
        f"Pairs of PE({pos}) as clock hands; turned by {k}, they end at PE({pos + k}).", picture,
    )  # fmt: skip
    rows: dict[str, list[Any]] = {
        "pair i": pairs,
        "turn kω": [f"{math.degrees(angle):.2f}°" for angle in result.angles[pairs]],
    }
    for title, values in zip(
        ("sin, cos at pos", "after the turn", "PE(pos + k)"), hands, strict=True
    ):
        rows[title] = [f"{sine:+.4f}, {cosine:+.4f}" for sine, cosine in values]
    folded = place.expander("The mathematics, with numbers")
    folded.markdown(
        "Why the paper chose sinusoids: for every offset $k$ there is one matrix with "
        r"$PE_{pos+k} = M_k\,PE_{pos}$. It turns each (sin, cos) pair by the angle $k\,\omega_i$."
    )
    folded.table(rows, hide_index=True)
    download_below(
        place, None, "positions-shift", exhibits.position_shift, pos=pos, k=k, d_model=d_model,
        layout=layout,
    )  # fmt: skip
    folded.markdown(
        f"Over all {d_model} dimensions, $M_k\\,PE_{{pos}}$ and $PE_{{pos+k}}$ differ by at most "
        f"**{result.largest_error:.1e}** here, and by at most "
        f"**{result.largest_error_anywhere:.1e}** at any position from 0 to "
        f"{result.positions_checked - 1}. That is rounding: a float32 near 1 is exact to 6e-8."
    )
    url_state.write_url()


def draw_beyond(
    view: View, d_model: int, n: int, trained: int | None, tables: dict[str, Floats], kind: str
) -> None:
    """Draw the formula and a table beyond the positions seen in training."""
    limit = trained or n
    slow = int((position_vectors.wavelengths(d_model) > limit).sum())
    longest = (
        f"This model's longest training sentence had {trained} positions."
        if trained
        else "This model does not record its longest training sentence; the shaded part starts "
        f"at position {limit}."
    )
    ends = "".join(f" after position {len(rows) - 1}" for rows in list(tables.values())[:1])
    place = section(
        "Beyond the longest training sentence",
        f"{longest} The formula simply continues, as section 3.5 hopes; a {kind} table has no more "
        f"rows{ends}. But {slow} of the {d_model // 2} pairs need more than {limit} positions "
        "for one turn: in the shaded part they have values that the model never saw in training, "
        "so it may not be able to use them.",
    )
    positions = np.arange(2 * limit)
    values, names = position_vectors.around(limit, d_model, tables, kind)
    figure = drawn(plots.curves, positions, values, names, current_theme(), trained=limit)
    draw_plot(place, figure, "beyond", f"{'; '.join(names)}; shaded from position {limit} on.")
    name, size = "positions-beyond", {"limit": limit, "d_model": d_model}
    if tables:
        download_below(place, view, name, exhibits.stored_positions_beyond, **size, kind=kind)
    else:
        download_below(place, None, name, exhibits.positions_beyond, **size)


def say_nothing_learned(view: View) -> None:
    """Draw a notice that there is no learned table to compare."""
    st.caption(
        (f"**{plain(view.title)}** computes its positions by the formula" if view.checkpoint
         else "No model is loaded")
        + ", so there is no learned table to compare. The paper tried a learned table: 25.7 BLEU, "
        "against 25.8 with sinusoids (table 3, row E)."
    )  # fmt: skip


def draw_learned(view: View, model: Translator) -> None:
    """Draw a learned table beside the formula."""
    place = section(
        "Learned instead of computed",
        f"**{plain(view.title)}** learned a vector for each position (table 3, row E). A band "
        "along the diagonal means that nearby positions are similar. Cosine similarity compares "
        "only directions, so both pictures share one scale.",
    )
    tables = position_vectors.tables_of(model.model)
    side = choose_one("Table", PositionsChoice.side, list(tables), place)
    look: dict[str, Any] = {"limit": 1, "title": "cosine", "height": 360}
    figure = exhibits.learned_positions(model, side)
    titles = {"learned": "Learned", "formula": "Sinusoids of the same size"}
    for where, (kind, title) in zip(place.columns(2), titles.items(), strict=True):
        where.caption(title)
        plot = drawn(plots.products, figure.arrays[kind], current_theme(), **look)
        draw_plot(where, plot, kind, f"Cosine similarity between positions: {title.lower()}.")
    download_below(place, view, "positions-learned", exhibits.learned_positions, side=side)


def draw_distances(view: View, model: Translator) -> None:
    """Draw what each head adds for each distance."""
    place = section(
        "Distances instead of positions",
        f"In **{plain(view.title)}**, the vectors contain no position. Each head adds a bias to "
        "its scores, which depends on the distance of the key, before (left) or after (right) the "
        "query; far distances share a bias. All layers of a stack use the same biases, which "
        "started at 0 (as in T5, Raffel et al. 2020). Orange raises the score of a "
        "distance, blue lowers it.",
    )
    side = choose_one("Stack", PositionsChoice.side, ["Encoder", "Decoder"], place)
    arrays = exhibits.relative_positions(model, side, reach=_REACH).arrays
    numbers, distances = arrays["numbers"], arrays["distances"].tolist()
    draw_plot(
        place, drawn(plots.distance_heatmap, numbers, distances, current_theme()), "distances",
        f"What the {side.lower()}'s {len(numbers)} heads add for distances of up to {_REACH} "
        "tokens.",
    )  # fmt: skip
    download_below(
        place, view, "positions-relative", exhibits.relative_positions, numbers.size, side=side,
        reach=_REACH,
    )  # fmt: skip


def draw_stored(view: View, model: Translator) -> None:
    """Draw the table and its difference from the formula."""
    tables = position_vectors.tables_of(model.model)
    note = position_vectors.stored_note(model.model)
    place = section(
        "The table that this model adds",
        f"**{plain(view.title)}** does not compute the formula: it stores its positions as "
        f"numbers, and every page uses them.\n\n**{note}**\n\nThe lower picture has its own scale.",
    )
    side = choose_one("Table", PositionsChoice.side, list(tables), place)
    arrays = exhibits.stored_positions(model, side, n=url_state.get(PositionsChoice.length)).arrays
    rows, difference = arrays["stored"], arrays["difference"]
    most, stack = float(np.abs(difference).max()), side.lower()
    draw_positions(place, rows, "stored", f"The {stack}'s stored table, {len(rows)} positions.")
    place.caption(f"Stored minus formula: at most {most:.1e} in these {len(rows)} positions")
    if most:
        alt = f"The {stack}'s stored table minus the formula: at most {most:.1e}."
        draw_positions(place, difference, "stored_apart", alt, limit=most)
    download_below(
        place, view, "positions-stored", exhibits.stored_positions, 3 * rows.size, side=side,
        n=len(rows),
    )  # fmt: skip
