"""The table of checkpoints, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformer.catalogue import Entry
from transformer.evaluation.card import OTHER_DECODINGS, PARSING, PREDICTIONS
from transformer.evaluation.typed import TYPED
from transformer.one_stack.config import StackConfig
from transformer.search.decoding import DEFAULT_DECODING, Decoding, default_decoding


def summary_table(entries: Sequence[Entry]) -> str:
    """Tabulate checkpoints in Markdown: shape, default decoding, and figures on every test set.

    Other measured decodings have their own rows. metrics.json is untrusted: invalid figures are
    left out.
    """
    lines = ["| checkpoint | shape | decoding | measured |", "|---|---|---|---|"]
    for entry in entries:
        model, metrics = entry.stack or entry.config, entry.metrics
        if model is None or entry.error is not None:
            lines.append(f"| {entry.name} | cannot be loaded | | |")
            continue
        # Older files have the figures of a tuned decoding under this key.
        before = metrics.get("decoding")
        decoding = str(default_decoding(metrics) if before is None else _recorded(before))
        if isinstance(model, StackConfig):
            kept = "encoder" if model.task == "fill" else "decoder"
            layers = "1 layer" if model.n_layers == 1 else f"{model.n_layers} layers"
            layers, heads = f"{layers}, {kept} only", model.blocks.heads_in_words
            decoding = decoding if model.task == "translate" else ""
        else:
            layers = f"{model.n_encoder_layers}+{model.n_decoder_layers} layers"
            heads = model.heads_in_words
        millions = f"{model.n_parameters / 1e6:.1f}M parameters"
        shape = f"{layers}, {heads}, d_model {model.d_model}, {millions}"
        measured = _measured(metrics) or "nothing measured"
        lines.append(f"| {entry.name} | {shape} | {decoding} | {measured} |")
        others = metrics.get(OTHER_DECODINGS)
        for other in map(_mapping, others if isinstance(others, list) else ()):
            if figures := _measured(other):
                lines.append(f"| | | {_recorded(other.get('decoding'))} | {figures} |")
    return "\n".join(lines)


def _measured(metrics: Mapping[str, Any]) -> str:
    """Return the figures of every test set and the typed sentences, "" if there are none."""
    tests = _mapping(metrics.get("tests"))
    figures = [_figures(name, _mapping(tests[name])) for name in tests]
    for name, values in _mapping(metrics.get(PREDICTIONS)).items():
        match values:
            case {"perplexity": int(perplexity) | float(perplexity), "right": float(right)}:
                figures.append(f"{name}: perplexity {perplexity:.1f}, {100 * right:.1f}% right")
    match metrics.get(PARSING):
        case {"f1": int(f1) | float(f1), "sentences": int(sentences)}:
            figures.append(f"labelled F1 {f1:.1f} on {sentences:,} sentences of GUM dev")
    match metrics.get(TYPED):
        case {"right": int(right), "sentences": int(sentences)}:
            figures.append(f"{right} of {sentences} typed sentences right")
    return "; ".join(filter(None, figures))


def _recorded(record: object) -> Decoding:
    return default_decoding({DEFAULT_DECODING: record})


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _figures(name: str, values: Mapping[str, Any]) -> str:
    numbers = {key: value for key, value in values.items() if isinstance(value, int | float)}
    if name == "reverse_test" and {"exact_match", "sentences"} <= numbers.keys():
        return f"{100 * numbers['exact_match']:.2f}% of {numbers['sentences']:,} strings reversed"
    titles = {"bleu": "sacreBLEU", "lc_tok_bleu": "lc_tok_bleu"}
    figures = [f"{numbers[key]:.1f} {title}" for key, title in titles.items() if key in numbers]
    return f"{name}: {', '.join(figures)}" if figures else ""
