"""Figures of a model's own positions; `figures.position_exhibits` has those of the encoding."""

from __future__ import annotations

from dataclasses import replace

from figures.exhibit import Exhibit, Panel
from figures.head import SPLIT_NAMES, split_exhibit
from figures.labels import query_labels
from transformer.trace.records import LogitSplit, Trace
from transformer.types import Floats
from ui.components.packing import Component
from ui.components.parts import parts_component
from ui.export.programs import Source, header


def split_figure(split: LogitSplit, trace: Trace, note: str, source: Source) -> Exhibit:
    """Return a head's logits as a sum of content and position; `note` ends the caption."""
    page = split_component(split, trace).offline()
    made = split_exhibit(split, header(source), query_labels(trace, split.kind), page, note)
    return replace(made, facts=source.facts(f"layer 1, head {split.head + 1}", trace.source))


def split_component(split: LogitSplit, trace: Trace) -> Component[None]:
    """Return the component that draws the parts and their sum."""
    return parts_component(
        {SPLIT_NAMES[name]: values for name, values in split.parts.items()},
        split.logits, query_labels(trace, split.kind), split.tokens, split.mask,
        label=f"Layer 1, head {split.head + 1}: logits as a sum of content and position",
        total_name="logits q · k / √dₖ",
    )  # fmt: skip


def own_exhibit(table: Floats, about: str, stack: str, source: Source) -> Exhibit:
    """Return the vectors [n, d_model] that a stack adds for its first positions.

    Args:
        about: the kind of positions.  stack: "Encoder" or "Decoder".
    """
    n, d_model = table.shape
    module = "src_positions" if stack == "Encoder" else "tgt_positions"
    panel = Panel(
        about, table, tuple(map(str, range(n))), tuple(map(str, range(d_model))), "position",
        "dimension", "diverging",
    )  # fmt: skip
    return Exhibit(
        name=f"positions-{stack.lower()}",
        title=f"What the {stack.lower()} adds for positions 0 to {n - 1}",
        caption="One row is one position, one column a dimension (section 3.5).",
        parts=(panel,),
        arrays={"positions": table},
        snippet=f"{header(source)}model = translator.model\n"
        f"positions = model.{module}(0, {n}).detach().float().cpu().numpy()\n",
    )
