"""The table of checkpoints, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformer.catalogue import Entry
from transformer.evaluation.records import Record, records
from transformer.one_stack.config import StackConfig


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
        case "predictions", {"perplexity": int(value) | float(value), "right": float(right)}:
            return f"{record.name}: perplexity {value:.1f}, {100 * right:.1f}% right"
        case "parsing", {"f1": int(f1) | float(f1), "sentences": int(sentences)}:
            return f"labelled F1 {f1:.1f} on {sentences:,} sentences of {record.name}"
        case "typed", {"right": int(right), "sentences": int(sentences)}:
            return f"{right} of {sentences} typed sentences right"
        case "tests", values:
            return _scores(record.name, values)
    return ""


def _scores(name: str, values: Mapping[str, Any]) -> str:
    numbers = {key: value for key, value in values.items() if isinstance(value, int | float)}
    if name == "reverse_test" and {"exact_match", "sentences"} <= numbers.keys():
        return f"{100 * numbers['exact_match']:.2f}% of {numbers['sentences']:,} strings reversed"
    titles = {"bleu": "sacreBLEU", "lc_tok_bleu": "lc_tok_bleu"}
    figures = [f"{numbers[key]:.1f} {title}" for key, title in titles.items() if key in numbers]
    return f"{name}: {', '.join(figures)}" if figures else ""
