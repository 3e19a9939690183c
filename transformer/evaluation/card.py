"""Model cards and the table of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformer.catalogue import Entry
from transformer.checkpoint.training_text import COVERED, training_text
from transformer.config import ModelConfig
from transformer.evaluation.typed import TYPED, Verdict, by_topic, from_dict
from transformer.one_stack.config import StackConfig
from transformer.search.decoding import (
    DEFAULT_DECODING,
    PAPER_DECODING,
    Decoding,
    default_decoding,
)
from transformer.training.recipe import Recipe

#: Key in metrics.json of further measured decodings, each with its `tests`.
OTHER_DECODINGS = "other_decodings"

#: Key of a parser's scores on GUM dev (`transformer.parsing.evaluation`).
PARSING = "parsing"

#: Key in metrics.json of the figures of models that continue or fill in, by text.
PREDICTIONS = "predictions"

#: Origin and terms of the named corpora.
SOURCES = {
    "multi30k": "Multi30k (Elliott et al. 2016, 2017): image captions; research and education use",
    "tatoeba": "Tatoeba (tatoeba.org, via manythings.org/anki): everyday sentences; CC-BY 2.0",
    "phrasebook": "Phrasebook: sentences written for Headlight; Apache-2.0",
    "wiktionary": "Words of English Wiktionary, by way of Matthias Buchmeier's lists; CC-BY-SA 3.0",
    "agreement": "pairs of Tatoeba extended by clauses in which a pronoun agrees with its noun, "
    "made by `transformer.training.pronouns`",
    "reversal": "random strings of 1 to 24 letters, made by `transformer.training.data.reversal`",
}


def is_toy(recipe: Recipe) -> bool:
    """Return whether the model reverses strings instead of translating sentences."""
    return recipe.data.corpora == ("reversal",)


def model_card(
    name: str,
    model: ModelConfig,
    recipe: Recipe,
    metrics: Mapping[str, Any],
) -> str:
    """Write the model card, in Markdown."""
    trained = metrics["training"]
    toy = is_toy(recipe)
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
        f"{model.vocab_size:,} shared pieces, stored as {metrics['stored_as']}."
        + _otherwise(model),
        "",
        "## Data",
        "",
        *(f"- {SOURCES.get(corpus, corpus)}" for corpus in dict.fromkeys(recipe.data.corpora)),
        *(_extra(path) for path in recipe.data.train_only or ()),
        *_length(metrics),
        "",
        "## Figures",
        "",
        *(_toy_figures(metrics["tests"]) if toy else _translation_figures(metrics)),
        "",
        "## Decoding",
        "",
        *_decoding(metrics),
        "",
        "## Training",
        "",
        f"- weights: {_weights(metrics)}",
        *(part_line(part) for part in (*metrics.get("earlier_parts", ()), trained)),
        f"- command: `{metrics['command']}`" if metrics["command"] else "- no command recorded",
        "",
        "## Limits",
        "",
        limits,
        *metrics.get("notes", ()),
        "",
        *_typed(metrics),
    ]
    return "\n".join(lines)


def _otherwise(model: ModelConfig) -> str:
    """Return what is not as in the paper, in a sentence after a space; "" if all is."""
    parts = []
    if model.positions == "relative":
        parts.append("numbers for distances in place of positions")
    elif model.positions != "sinusoidal":
        parts.append(f"{model.positions} positions")
    if model.norm == "pre":
        parts.append("LayerNorm in front of each block")
    return f" Unlike the paper's: {', '.join(parts)}." if parts else ""


def _extra(path: str) -> str:
    """Return the line of a corpus only for training; named ones lie in folders of their names."""
    known = SOURCES.get(path.split("/", 1)[0])
    return f"- `{path}`, for training only" + (f": {known}" if known else "")


def _length(metrics: Mapping[str, Any]) -> list[str]:
    """Return the line on the length of the training text."""
    text = training_text(metrics)
    if text is None:
        return []
    share = f"{100 * COVERED:.0f}% of the different sources"
    return [f"- {share} have at most {text.src_tokens} tokens"]


def _typed(metrics: Mapping[str, Any]) -> list[str]:
    """Tabulate every typed sentence, its translation and the verdict."""
    if TYPED not in metrics:
        return []
    verdicts = from_dict(metrics[TYPED])
    topics = [f"{topic} {right} of {n}" for topic, (right, n) in by_topic(verdicts).items()]
    right = sum(each.right for each in verdicts)
    rows = [
        (each.source, each.translation, "right" if each.right else f"instead of: {each.reference}")
        for each in verdicts
    ]
    return [
        "## Typed sentences",
        "",
        f"**{right} of {len(verdicts)} right** at the default decoding: sentences as visitors "
        "type them, none from the training text, judged as a strict language teacher would "
        f"(`python -m transformer typed`). By topic: {', '.join(topics)}.",
        *_near(verdicts),
        "",
        "| sentence | translation | verdict |",
        "|---|---|---|",
        # A bar would end the cell, and not every reader of Markdown knows an escaped one.
        *(f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |" for row in rows),
        "",
    ]


def _near(verdicts: Sequence[Verdict]) -> list[str]:
    """Say how many typed sentences the training text nearly has, and count the others."""
    others = [each for each in verdicts if not each.near]
    if len(others) == len(verdicts):
        return []
    right = sum(each.right for each in others)
    return [
        "",
        f"The training text has {len(verdicts) - len(others)} of them but for one word. Of the "
        f"other {len(others)}, {right} are right.",
    ]


def part_line(trained: Mapping[str, Any]) -> str:
    """Describe a training run, or one stage of several."""
    settings = trained["recipe"]["training"]
    init, epochs = settings["init"], trained["epochs"]
    length = {0: "less than an epoch", 1: "1 epoch"}.get(epochs, f"{epochs} epochs")
    return (
        f"- {f'from the weights of `{init}` on: ' if init else ''}{length}, "
        f"{trained['updates']:,} updates, {trained['target_tokens']:,} target tokens, "
        f"seed {settings['seed']}; {trained['hours']} hours on {trained['hardware']}"
        + (", matrix products in bfloat16" if trained["bfloat16"] else "")
    )


def _weights(metrics: Mapping[str, Any]) -> str:
    """Describe the averaged epochs and the mixed-in weights."""
    chosen = metrics["chosen_on_val"]
    count, share = chosen["averaged_epochs"], chosen.get("mixed_share", 0.0)
    epochs = "the last epoch's" if count == 1 else f"the average of the last {count} epochs"
    if share:
        given = metrics.get("share_given")
        what = "number of epochs was" if given else "number of epochs and the share were"
        return (
            f"{100 * (1 - share):.0f}% {epochs}, {100 * share:.0f}% those of "
            f"`{metrics['mixed_with']}`; the {what} chosen on the validation text"
        )
    return f"{epochs}; the number of epochs was chosen on the validation text"


def _decoding(metrics: Mapping[str, Any]) -> list[str]:
    """Describe the default decoding, the reason for it, and all settings tried."""
    default = default_decoding(metrics)
    tuning = metrics.get("decoding_on_val")
    if tuning is None:
        return [f"The default is the paper's: {default}."]
    why = (
        "the paper's: on the validation text no other setting is better beyond chance"
        if default == PAPER_DECODING
        else "the least departure from the paper's that is better beyond chance on the validation "
        "text"
    )
    lines = [
        f"The default is {default}, {why}. The table has cased sacreBLEU on the first "
        f"{tuning['sentences']:,} validation pairs and the difference to the paper's setting. Its "
        f"intervals hold with {100 * tuning['confidence']:.0f}% confidence for all settings at "
        f"once; they come from a paired bootstrap, {tuning['resamples']:,} resamples of the "
        f"{tuning['sources']:,} different sources, seed {tuning['seed']}.",
        "",
        "| decoding | BLEU on val | difference | interval |",
        "|---|---|---|---|",
    ]
    for trial in tuning["trials"]:
        low, high = trial["interval"]
        how = Decoding(trial["beam_size"], trial["alpha"])
        compared = "| | |" if how == PAPER_DECODING else (
            f"| {trial['difference']:+.2f} | {low:+.2f} to {high:+.2f} |"
        )  # fmt: skip
        lines.append(f"| {how} | {trial['val_bleu']:.2f} {compared}")
    return lines


def _toy_figures(tests: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}: {100 * values['exact_match']:.2f}% of {values['sentences']:,} strings come out "
        "exactly reversed."
        for name, values in tests.items()
    ]


def _translation_figures(metrics: Mapping[str, Any]) -> list[str]:
    """Tabulate every test set and decoding, the default first."""
    tests = metrics["tests"]
    if not tests:
        return ["No text was held out for testing: nothing but the validation text was measured."]
    default = default_decoding(metrics)
    others = [(Decoding(**o["decoding"]), o["tests"]) for o in metrics.get(OTHER_DECODINGS, ())]
    lines = [
        f"The first row of a test set is of the default decoding, {default}; the others are for "
        "comparison, see Decoding."
        if others
        else f"All figures are of the default decoding, {default}."
    ]
    lines += [
        "",
        "| test set | pairs | decoding | sacreBLEU, cased | chrF | lc_tok_bleu | each source once, "
        "all references (sources) |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in tests:
        for decoding, figures in [(default, tests), *others]:
            lines.append(_row(name, decoding, figures[name]))
    values = next(iter(tests.values()))
    return [
        *lines,
        "",
        f"sacreBLEU signature: `{values['signature']}`; chrF's: `{values['chrf_signature']}`. "
        "`lc_tok_bleu` scores lower-cased Moses tokens, as the Multi30k literature does; it is not "
        "comparable with the cased figure.",
    ]


def _row(name: str, decoding: Decoding, values: Mapping[str, Any]) -> str:
    lc_tok, once = values.get("lc_tok_bleu"), values.get("each_source_once")
    cells = [
        name,
        f"{values['sentences']:,}",
        str(decoding),
        f"{values['bleu']:.1f}",
        f"{values['chrf']:.1f}",
        f"{lc_tok:.1f}" if lc_tok is not None else "",
        f"{once['bleu_all_references']:.1f} ({once['sentences']:,})" if once else "",
    ]
    return "| " + " | ".join(cells) + " |"


def summary_table(entries: Sequence[Entry]) -> str:
    """Tabulate checkpoints in Markdown: shape, default decoding, and figures on every test set.

    Other measured decodings have their own rows. metrics.json is untrusted: invalid figures are
    left out.
    """
    lines = ["| checkpoint | shape | decoding | measured |", "|---|---|---|---|"]
    for entry in entries:
        if entry.stack is not None and entry.error is None:
            lines.append(_stack_row(entry, entry.stack))
            continue
        if entry.config is None or entry.error is not None:
            lines.append(f"| {entry.name} | cannot be loaded | | |")
            continue
        config, metrics = entry.config, entry.metrics
        shape = (
            f"{config.n_encoder_layers}+{config.n_decoder_layers} layers, {config.heads_in_words}, "
            f"d_model {config.d_model}, {config.n_parameters / 1e6:.1f}M parameters"
        )
        # Older files have the figures of a tuned decoding under this key.
        before = metrics.get("decoding")
        decoding = default_decoding(metrics) if before is None else _recorded(before)
        measured = _measured(metrics) or "nothing measured"
        lines.append(f"| {entry.name} | {shape} | {decoding} | {measured} |")
        others = metrics.get(OTHER_DECODINGS)
        for other in map(_mapping, others if isinstance(others, list) else ()):
            if figures := _measured(other):
                lines.append(f"| | | {_recorded(other.get('decoding'))} | {figures} |")
    return "\n".join(lines)


def _stack_row(entry: Entry, stack: StackConfig) -> str:
    kept = "encoder" if stack.task == "fill" else "decoder"
    layers = "1 layer" if stack.n_layers == 1 else f"{stack.n_layers} layers"
    shape = (
        f"{layers}, {kept} only, {stack.blocks.heads_in_words}, d_model {stack.d_model}, "
        f"{stack.n_parameters / 1e6:.1f}M parameters"
    )
    decoding = default_decoding(entry.metrics) if stack.task == "translate" else ""
    measured = _measured(entry.metrics) or "nothing measured"
    return f"| {entry.name} | {shape} | {decoding} | {measured} |"


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
