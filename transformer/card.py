"""Model cards, and the table of checkpoints: measured figures as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformer.checkpoint import CheckpointEntry
from transformer.config import ModelConfig
from transformer.recipe import Recipe

#: Where the named corpora come from and on what terms.
SOURCES = {
    "multi30k": "Multi30k (Elliott et al. 2016, 2017): image captions; research and education use",
    "tatoeba": "Tatoeba (tatoeba.org, via manythings.org/anki): everyday sentences; CC-BY 2.0",
    "reversal": "random strings of 1 to 24 letters, made by `transformer.data.reversal`",
}


def model_card(
    name: str,
    model: ModelConfig,
    recipe: Recipe,
    metrics: dict[str, Any],
    notes: Sequence[str] = (),
) -> str:
    """The model card, in Markdown."""
    training, trained = recipe.training, metrics["training"]
    decoding = metrics["decoding"]
    rows = []
    for test, values in metrics["tests"].items():
        cells = [test, f"{values['sentences']:,}", f"{values['bleu']:.1f}", f"{values['chrf']:.1f}"]
        lc_tok = values.get("lc_tok_bleu")
        once = values.get("each_source_once")
        cells += [
            f"{lc_tok:.1f}" if lc_tok is not None else "",
            f"{once['bleu_all_references']:.1f} ({once['sentences']:,})" if once else "",
            f"{100 * values['exact_match']:.1f}%",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    signature = next(iter(metrics["tests"].values()))["signature"]
    lines = [
        f"# {name}",
        "",
        f"An encoder-decoder Transformer, {recipe.data.src} to {recipe.data.tgt}: "
        f"{model.n_encoder_layers}+{model.n_decoder_layers} layers, d_model {model.d_model}, "
        f"d_ff {model.d_ff}, {model.n_heads} heads, {model.n_parameters / 1e6:.1f}M parameters, "
        f"{model.vocab_size:,} shared pieces, stored as {metrics['stored_as']}.",
        "",
        "## Data",
        "",
        *(f"- {SOURCES.get(corpus, corpus)}" for corpus in recipe.data.corpora),
        "",
        "## Figures",
        "",
        f"Beam {decoding['beam_size']}, alpha {decoding['alpha']}, the last "
        f"{metrics['chosen_on_val']['averaged_epochs']} epochs averaged; all three chosen on the "
        "validation text.",
        "",
        "| test set | pairs | sacreBLEU, cased | chrF | lc_tok_bleu | each source once, "
        "all references (sources) | exact |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"sacreBLEU signature: `{signature}`. `lc_tok_bleu` scores lower-cased Moses tokens, as "
        "the Multi30k literature does; it is not comparable with the cased figure.",
        "",
        "## Training",
        "",
        f"- {trained['epochs']} epochs, {trained['updates']:,} updates, "
        f"{trained['target_tokens']:,} target tokens, seed {training.seed}",
        f"- {trained['hours']} hours on {trained['hardware']}"
        + (", matrix products in bfloat16" if trained["bfloat16"] else ""),
        f"- command: `{metrics['command']}`" if metrics["command"] else "- no command recorded",
        "",
        "## Limits",
        "",
        "Trained on short sentences of one kind; elsewhere it will be fluent and wrong. Not for "
        "any use where a mistranslation does harm.",
        *notes,
        "",
    ]
    return "\n".join(lines)


def summary_table(entries: Sequence[CheckpointEntry]) -> str:
    """One Markdown row a checkpoint: shape, size, and its figures on every test set."""
    lines = ["| checkpoint | shape | measured |", "|---|---|---|"]
    for entry in entries:
        if entry.config is None or entry.error is not None:
            lines.append(f"| {entry.name} | cannot be loaded | |")
            continue
        config = entry.config
        shape = (
            f"{config.n_encoder_layers}+{config.n_decoder_layers} layers, {config.n_heads} heads, "
            f"d_model {config.d_model}, {config.n_parameters / 1e6:.1f}M parameters"
        )
        tests: Mapping[str, Any] = entry.metrics.get("tests", {})
        measured = "; ".join(_figures(name, values) for name, values in tests.items())
        lines.append(f"| {entry.name} | {shape} | {measured} |")
    return "\n".join(lines)


def _figures(name: str, values: Mapping[str, Any]) -> str:
    if name == "reverse_test":
        return f"{100 * values['exact_match']:.1f}% of {values['sentences']} strings reversed"
    figures = f"{name}: {values['bleu']:.1f} sacreBLEU"
    if "lc_tok_bleu" in values:
        figures += f", {values['lc_tok_bleu']:.1f} lc_tok_bleu"
    return figures
