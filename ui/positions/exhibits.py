"""Figures of the Positions page: the encoding, stored tables, and layer 1 split into parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from figures.exhibit import Exhibit, Panel, Series, file_stem
from figures.labels import KIND_NAMES, counted, numbered, query_labels
from figures.positions import cosines
from transformer.checkpoint.weights import about_table
from transformer.config import ModelConfig, PositionLayout
from transformer.positions import StoredPositions, TablePositions, sinusoids
from transformer.trace import position_vectors
from transformer.trace.inspection import split_logits
from transformer.trace.position_vectors import TextSide, encoding, stored_note, tables_of
from transformer.trace.records import LogitSplit, Trace
from transformer.translator import Translator
from transformer.types import AttentionKind, Floats
from ui.components.packing import Component
from ui.components.parts import parts_component
from ui.export.programs import facts_of

#: Titles for the parts of `LogitSplit`; the query comes first.
SPLIT_NAMES = {
    "content_content": "content · content",
    "content_position": "content · position",
    "position_content": "position · content",
    "position_position": "position · position",
    "bias": "biases",
}
StackTitle = Literal["Encoder", "Decoder"]
#: The text that each stack reads.
STACKS: dict[str, TextSide] = {"Encoder": "source", "Decoder": "translation"}


def _panel(title: str, table: Floats, quantity: str = "") -> Panel:
    n, d_model = table.shape
    names = counted(n, 0), counted(d_model, 0), "position", "dimension"
    return Panel(title, table, *names, "diverging", quantity)


def positions(n: int, d_model: int, layout: PositionLayout = "interleaved") -> Exhibit:
    """Return the encoding of the first `n` positions as a figure."""
    table = encoding(n, d_model, layout)
    return Exhibit(
        name="positions",
        title=f"Sinusoidal positions, d_model {d_model}, {layout}",
        caption="Rows are positions, columns are dimensions (section 3.5).",
        parts=(_panel("PE", table),),
        arrays={"table": table},
    )


def position_curves(
    n: int, d_model: int, dimensions: Sequence[int], layout: PositionLayout = "interleaved", *,
    labels: Sequence[str] = (),
) -> Exhibit:  # fmt: skip
    """Return dimensions of the encoding, dimension 0 by default, as curves over `n` positions."""
    chosen = list(dimensions) or [0]
    values = encoding(n, d_model, layout)[:, chosen]
    lines = dict(zip(labels or map(str, chosen), values.T, strict=True))
    return Exhibit(
        name="positions-dimensions",
        title="Dimensions of the encoding by position",
        caption="Each dimension is a wave (section 3.5).",
        parts=(Series("value", np.arange(n), lines, "position", "value"),),
        arrays={"curves": values},
    )


def position_products(
    n: int, d_model: int, starts: Sequence[int], n_offsets: int,
    layout: PositionLayout = "interleaved",
) -> Exhibit:  # fmt: skip
    """Return PE times its transpose, and dot products by offset from `starts`, as a figure."""
    table = encoding(n, d_model, layout)
    by_offset = position_vectors.offset_products(starts, n_offsets, d_model)
    products, names = table @ table.T, counted(n, 0)
    lines = {f"from position {start}": by_offset[:, i] for i, start in enumerate(starts)}
    return Exhibit(
        name="positions-products",
        title=f"Dot products of positions, d_model {d_model}",
        caption="The product depends only on the distance (section 3.5).",
        parts=(
            Panel("PE · PE", products, names, names, "position", "position", "diverging"),
            Series("by offset", np.arange(n_offsets), lines, "offset k", "PE(pos) · PE(pos + k)"),
        ),
        arrays={"products": products, "by_offset": by_offset},
    )


def position_shift(
    pos: int, k: int, d_model: int, layout: PositionLayout = "interleaved"
) -> Exhibit:
    """Return the (sin, cos) pairs of PE(pos) before and after M_k turns them, as a figure."""
    shift = position_vectors.shift(pos, k, d_model, layout)
    before, after = shift.before, shift.after
    lines = {"sin at pos": before[:, 0], "sin after the turn": after[:, 0],
             "cos at pos": before[:, 1], "cos after the turn": after[:, 1]}  # fmt: skip
    return Exhibit(
        name="positions-shift",
        title=f"PE({pos}) turned by M_k, k = {k}",
        caption="M_k turns every (sin, cos) pair by k ω and lands on PE(pos + k) (section 3.5).",
        parts=(Series("pairs", np.arange(len(before)), lines, "pair i", "value"),),
        arrays={"before": before, "after": after, "expected": shift.expected},
    )


def positions_beyond(limit: int, d_model: int) -> Exhibit:
    """Return curves of the encoding before and after position `limit`, as a figure."""
    return _beyond(limit, d_model, {}, "")


def stored_positions_beyond(
    model: Translator, limit: int, d_model: int, *, kind: Literal["learned", "stored"] = "learned"
) -> Exhibit:
    """Return `positions_beyond` with curves of a model's tables, which are of this `kind`."""
    return _beyond(limit, d_model, tables_of(model.model), kind)


def _beyond(limit: int, d_model: int, tables: dict[str, Floats], kind: str) -> Exhibit:
    values, names = position_vectors.around(limit, d_model, tables, kind)
    lines = dict(zip(names, values.T, strict=True))
    return Exhibit(
        name="positions-beyond",
        title=f"Positions beyond {limit}",
        caption=f"Training reached position {limit - 1}; later positions have values that the "
        "model never saw.",
        parts=(Series("value", np.arange(len(values)), lines, "position", "value"),),
        arrays={"curves": values},
    )


def learned_positions(model: Translator, side: StackTitle = "Encoder") -> Exhibit:
    """Return cosine similarities of a stack's learned positions, and of sinusoids, as a figure."""
    rows = tables_of(model.model)[side][:128]
    n, even = len(rows), rows.shape[1] + rows.shape[1] % 2
    tables = {"learned": cosines(rows), "formula": cosines(encoding(n, even, "interleaved"))}
    names = counted(n, 0)
    return Exhibit(
        name="positions-learned",
        title=f"Learned positions of the {side.lower()}",
        caption="Cosine similarity of learned positions and of sinusoids (table 3, row E).",
        parts=tuple(
            Panel(title, values, names, names, "position", "position", "diverging")
            for title, values in tables.items()
        ),
        arrays=dict(tables),
    )


def stored_positions(model: Translator, side: StackTitle = "Encoder", *, n: int = 128) -> Exhibit:
    """Return `n` rows of a stack's table, and their difference from the formula, as a figure."""
    table = tables_of(model.model)[side][:n]
    exact: Floats = sinusoids(model.model.config, len(table)).numpy()
    return Exhibit(
        name="positions-stored",
        title=f"Stored positions of the {side.lower()}",
        caption=stored_note(model.model),
        parts=(
            _panel("stored", table),
            _panel("stored minus formula", table - exact, "difference"),
        ),
        arrays={"stored": table, "formula": exact, "difference": table - exact},
    )


def relative_positions(
    model: Translator, side: StackTitle = "Encoder", *, reach: int = 40
) -> Exhibit:
    """Return what relative positions add, by head and distance up to `reach`, as a figure.

    Args: side: "Encoder", or "Decoder", in which later keys are masked.
    """
    distances = np.arange(-reach, (reach if side == "Encoder" else 0) + 1)
    numbers = position_vectors.distance_numbers(model.model, distances)[side]
    heads = counted(len(numbers))
    return Exhibit(
        name="positions-relative",
        title=f"What distances add to the {side.lower()}'s logits",
        caption="Each self-attention head adds a trained number for the distance from query to "
        "key, the same in every layer (Raffel et al. 2020).",
        parts=(Panel("added", numbers, heads, tuple(map(str, distances.tolist())), "head",
                     "distance", "diverging", "added"),),
        arrays={"numbers": numbers, "distances": distances},
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class OwnPositions:
    """One stack's position vectors."""

    table: Floats  # [n, d_model], added to the embeddings at positions 0 to n - 1
    about: str  # the kind of positions, in a few words


def own_positions(model: Translator, side: TextSide, n: int) -> OwnPositions:
    """Return a stack's first `n` position vectors, or fewer if its table is shorter."""
    module = model.model.src_positions if side == "source" else model.model.tgt_positions
    if isinstance(module, TablePositions):
        n = min(n, module.table.size(0))
    table: Floats = module(0, n).detach().float().cpu().numpy()
    described = about(model.config)
    if isinstance(module, StoredPositions):
        described += f": {about_table(module.table, model.config)}"
    return OwnPositions(table, described)


def about(config: ModelConfig) -> str:
    """Describe a model's positions in a few words."""
    if config.positions == "relative":
        return "nothing is added; heads use distances"
    if config.positions != "sinusoidal":
        return f"{config.positions}, a table of {config.max_positions:,} × {config.d_model}"
    offset = f", counted from {config.position_offset}" if config.position_offset else ""
    slower = "" if config.position_frequencies == "paper" else ", slower at the end"
    return f"sinusoids, {config.position_layout}, {config.d_model} dimensions{offset}{slower}"


def added_positions(model: Translator, stack: StackTitle = "Encoder", n: int = 100) -> Exhibit:
    """Return what a stack ("Encoder", "Decoder") adds at its first `n` positions, as a figure."""
    own = own_positions(model, STACKS[stack], n)
    n = len(own.table)
    return Exhibit(
        name=f"positions-{stack.lower()}",
        title=f"What the {stack.lower()} adds at positions 0 to {n - 1}",
        caption="Rows are positions, columns are dimensions (section 3.5).",
        parts=(_panel(own.about, own.table),),
        arrays={"positions": own.table},
    )


def split_name(kind: AttentionKind, head: int) -> str:
    """Return the file stem of a split's figure; `head` counts from 0."""
    return file_stem("logits", KIND_NAMES[kind], "layer 1 head", head + 1, "content position")


def content_and_position(
    model: Translator, trace: Trace, kind: AttentionKind = "encoder_self", head: int = 0
) -> Exhibit:
    """Return the logits of a layer-1 head as a sum of content and position parts, as a figure."""
    split = split_logits(model.model, trace, kind, head)
    queries, keys = numbered(query_labels(trace, kind)), numbered(split.tokens)
    panels = {SPLIT_NAMES[name]: values for name, values in split.parts.items()}
    panels["sum: the logits"] = split.logits
    where = f"layer 1, head {head + 1}"
    return Exhibit(
        name=split_name(kind, head),
        title=f"{KIND_NAMES[kind]}, {where}: content and position",
        caption=(
            "The parts of the logits q · k / √dₖ; the query's part is named first. They add up "
            f"to the model's own logits within {split.residual:.1e}. {stored_note(model.model)}"
        ).rstrip(),
        parts=tuple(
            Panel(title, np.where(split.mask, values, np.nan), queries, keys, "query", "key",
                  "diverging", "logit")
            for title, values in panels.items()
        ),
        arrays={**split.parts, "logits": split.logits, "mask": split.mask},
        facts=facts_of(trace, where),
        offline=split_component(split, trace).offline(),
    )  # fmt: skip


def split_component(split: LogitSplit, trace: Trace) -> Component[None]:
    """Return the component that draws a split's parts and their sum."""
    return parts_component(
        {SPLIT_NAMES[name]: values for name, values in split.parts.items()},
        split.logits, query_labels(trace, split.kind), split.tokens, split.mask,
        label=f"Layer 1, head {split.head + 1}: logits as a sum of content and position",
        total_name="logits q · k / √dₖ",
    )  # fmt: skip


def within_rows(values: Floats, mask: NDArray[np.bool_]) -> float:
    """Return a map's RMS deviation from its row means, which a softmax ignores."""
    seen = np.where(mask, values.astype(np.float64), np.nan)
    around = seen - np.nanmean(seen, axis=1, keepdims=True)
    return float(np.sqrt(np.nanmean(around**2)))
