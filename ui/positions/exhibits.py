"""The figure of the split of layer 1; `figures.position_exhibits` has those of the encoding."""

from __future__ import annotations

from dataclasses import replace

from figures.exhibit import Exhibit, Offline
from figures.head import SPLIT_NAMES, split_exhibit
from figures.labels import query_labels
from transformer.trace.records import LogitSplit, Trace
from ui.components.parts import parts_message
from ui.export.programs import Source, header


def split_figure(split: LogitSplit, trace: Trace, note: str, source: Source) -> Exhibit:
    """Return a head's logits as a sum of content and position; `note` ends the caption."""
    page = Offline("parts", split_message(split, trace))
    made = split_exhibit(split, header(source), query_labels(trace, split.kind), page, note)
    return replace(made, facts=source.facts(f"layer 1, head {split.head + 1}", trace.source))


def split_message(split: LogitSplit, trace: Trace) -> bytes:
    """Return the message of the component that draws the parts and their sum."""
    return parts_message(
        {SPLIT_NAMES[name]: values for name, values in split.parts.items()},
        split.logits, query_labels(trace, split.kind), split.tokens, split.mask,
        label=f"Layer 1, head {split.head + 1}: logits as a sum of content and position",
        total_name="logits q · k / √dₖ",
    )  # fmt: skip
