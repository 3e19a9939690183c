"""Model cards, and the table of checkpoints: measured figures as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformer.checkpoint.folder import CheckpointEntry
from transformer.config import ModelConfig
from transformer.training.recipe import Recipe

#: Where the named corpora come from and on what terms.
SOURCES = {
    "multi30k": "Multi30k (Elliott et al. 2016, 2017): image captions; research and education use",
    "tatoeba": "Tatoeba (tatoeba.org, via manythings.org/anki): everyday sentences; CC-BY 2.0",
    "agreement": "clauses put after pairs of Tatoeba, in which a pronoun agrees with its noun, "
    "made by `transformer.training.pronouns`",
    "reversal": "random strings of 1 to 24 letters, made by `transformer.training.data.reversal`",
}


def model_card(
    name: str,
    model: ModelConfig,
    recipe: Recipe,
    metrics: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> str:
    """Write the model card, in Markdown."""
    trained = metrics["training"]
    toy = recipe.data.corpora == ("reversal",)
    task = "letters to the same, reversed" if toy else f"{recipe.data.src} to {recipe.data.tgt}"
    limits = (
        "It knows strings of up to 24 small letters and nothing else."
        if toy
        else "Trained on short sentences of one kind; elsewhere it will be fluent and wrong. Not "
        "for any use where a mistranslation does harm."
    )
    lines = [
        f"# {name}",
        "",
        f"An encoder-decoder Transformer, {task}: "
        f"{model.n_encoder_layers}+{model.n_decoder_layers} layers, d_model {model.d_model}, "
        f"d_ff {model.d_ff}, {model.heads_in_words}, {model.n_parameters / 1e6:.1f}M parameters, "
        f"{model.vocab_size:,} shared pieces, stored as {metrics['stored_as']}.",
        "",
        "## Data",
        "",
        *(f"- {SOURCES.get(corpus, corpus)}" for corpus in recipe.data.corpora),
        *(_extra(path) for path in recipe.data.train_only or ()),
        "",
        "## Figures",
        "",
        _how(metrics),
        "",
        *(_toy_figures(metrics["tests"]) if toy else _translation_figures(metrics["tests"])),
        "",
        "## Training",
        "",
        *(_part(part) for part in (*metrics.get("earlier_parts", ()), trained)),
        f"- command: `{metrics['command']}`" if metrics["command"] else "- no command recorded",
        "",
        "## Limits",
        "",
        limits,
        *notes,
        "",
    ]
    return "\n".join(lines)


def _extra(path: str) -> str:
    """A file that is only trained on; one of a named corpus lies in the folder of that name."""
    known = SOURCES.get(path.split("/", 1)[0])
    return f"- `{path}`, for training only" + (f": {known}" if known else "")


def _part(trained: Mapping[str, Any]) -> str:
    """One run, or one part of a training that had several."""
    settings = trained["recipe"]["training"]
    init = settings["init"]
    return (
        f"- {f'from the weights of `{init}` on: ' if init else ''}{trained['epochs']} epochs, "
        f"{trained['updates']:,} updates, {trained['target_tokens']:,} target tokens, "
        f"seed {settings['seed']}; {trained['hours']} hours on {trained['hardware']}"
        + (", matrix products in bfloat16" if trained["bfloat16"] else "")
    )


def _how(metrics: Mapping[str, Any]) -> str:
    decoding, count = metrics["decoding"], metrics["chosen_on_val"]["averaged_epochs"]
    epochs = "the last epoch" if count == 1 else f"the average of the last {count} epochs"
    share = metrics["chosen_on_val"].get("mixed_share", 0.0)
    if share:
        return (
            f"{100 * (1 - share):.0f}% the weights of {epochs} and {100 * share:.0f}% those of "
            f"`{metrics['mixed_with']}`, beam {decoding['beam_size']}, alpha {decoding['alpha']}; "
            "the number of epochs, the share and alpha were chosen on the validation text."
        )
    return (
        f"Weights of {epochs}, beam {decoding['beam_size']}, alpha {decoding['alpha']}; the "
        "number of epochs and alpha were chosen on the validation text."
    )


def _toy_figures(tests: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}: {100 * values['exact_match']:.2f}% of {values['sentences']:,} strings come out "
        "exactly reversed."
        for name, values in tests.items()
    ]


def _translation_figures(tests: Mapping[str, Any]) -> list[str]:
    if not tests:
        return ["No text was held out for testing: nothing but the validation text was measured."]
    lines = [
        "| test set | pairs | sacreBLEU, cased | chrF | lc_tok_bleu | each source once, "
        "all references (sources) |",
        "|---|---|---|---|---|---|",
    ]
    for name, values in tests.items():
        lc_tok, once = values.get("lc_tok_bleu"), values.get("each_source_once")
        cells = [
            name,
            f"{values['sentences']:,}",
            f"{values['bleu']:.1f}",
            f"{values['chrf']:.1f}",
            f"{lc_tok:.1f}" if lc_tok is not None else "",
            f"{once['bleu_all_references']:.1f} ({once['sentences']:,})" if once else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    signature = next(iter(tests.values()))["signature"]
    return [
        *lines,
        "",
        f"sacreBLEU signature: `{signature}`. `lc_tok_bleu` scores lower-cased Moses tokens, as "
        "the Multi30k literature does; it is not comparable with the cased figure.",
    ]


def summary_table(entries: Sequence[CheckpointEntry]) -> str:
    """One Markdown row a checkpoint: shape, size, and its figures on every test set.

    A file of metrics that someone else wrote may say anything; what is no figure is left out.
    """
    lines = ["| checkpoint | shape | measured |", "|---|---|---|"]
    for entry in entries:
        if entry.config is None or entry.error is not None:
            lines.append(f"| {entry.name} | cannot be loaded | |")
            continue
        config = entry.config
        shape = (
            f"{config.n_encoder_layers}+{config.n_decoder_layers} layers, {config.heads_in_words}, "
            f"d_model {config.d_model}, {config.n_parameters / 1e6:.1f}M parameters"
        )
        tests = entry.metrics.get("tests")
        figures = [
            _figures(name, values)
            for name, values in (tests.items() if isinstance(tests, dict) else ())
            if isinstance(values, dict)
        ]
        measured = "; ".join(filter(None, figures)) or "nothing measured"
        lines.append(f"| {entry.name} | {shape} | {measured} |")
    return "\n".join(lines)


def _figures(name: str, values: Mapping[str, Any]) -> str:
    found = {key: value for key, value in values.items() if isinstance(value, int | float)}
    if name == "reverse_test" and {"exact_match", "sentences"} <= found.keys():
        return f"{100 * found['exact_match']:.2f}% of {found['sentences']:,} strings reversed"
    titles = {"bleu": "sacreBLEU", "lc_tok_bleu": "lc_tok_bleu"}
    figures = [f"{found[key]:.1f} {title}" for key, title in titles.items() if key in found]
    return f"{name}: {', '.join(figures)}" if figures else ""
