"""The table of checkpoints, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from transformer.evaluation.records import PARSING, PREDICTIONS, TESTS, Record, records
from transformer.models.catalogue import Entry
from transformer.models.one_stack.config import StackConfig

_KEYS = {TESTS: ("bleu", "lc_tok_bleu"), PREDICTIONS: ("perplexity", "right"), PARSING: ("f1",)}


def summary_table(entries: Sequence[Entry]) -> str:
    """Tabulate checkpoints in Markdown: shape, and a row of figures for each setting.

    metrics.json is untrusted: invalid figures are left out.
    """
    lines = ["| checkpoint | shape | setting | measured |", "|---|---|---|---|"]
    for entry in entries:
        model = entry.stack or entry.config
        if model is None or entry.error is not None:
            lines.append(f"| {entry.name} | cannot be loaded | | |")
            continue
        if isinstance(model, StackConfig):
            kept = "encoder" if model.task == "fill" else "decoder"
            layers = "1 layer" if model.n_layers == 1 else f"{model.n_layers} layers"
            layers, heads = f"{layers}, {kept} only", model.blocks.heads_in_words
        else:
            layers = f"{model.n_encoder_layers}+{model.n_decoder_layers} layers"
            heads = model.heads_in_words
        millions = f"{model.n_parameters / 1e6:.1f}M parameters"
        first = f"{entry.name} | {layers}, {heads}, d_model {model.d_model}, {millions}"
        rows: dict[str, list[str]] = {}
        for record in records(entry.metrics):
            if figures := _figures(record):
                rows.setdefault(record.setting, []).append(figures)
        for setting, measured in (rows or {"": ["nothing measured"]}).items():
            lines.append(f"| {first} | {setting} | {'; '.join(measured)} |")
            first = "|"
    return "\n".join(lines)


def _figures(record: Record) -> str:
    """Return the figures of a record, "" if they are invalid."""
    match record.kind, record.figures:
        case "typed", {"right": int(right), "sentences": int(sentences)}:
            return f"{right} of {sentences} typed sentences right"
    keys = ("exact_match",) if record.name == "reverse_test" else _KEYS.get(record.kind, ())
    words = record.words(*keys)
    return f"{record.text}: {', '.join(words)}" if words else ""
