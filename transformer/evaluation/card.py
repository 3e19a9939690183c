"""Model cards: one form, with the sentences and figures of each kind of model."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from transformer.checkpoint.folder import COVERED, training_text
from transformer.config import ModelConfig
from transformer.evaluation import records
from transformer.evaluation.alignment import ALIGNMENT
from transformer.models.one_stack.config import StackConfig
from transformer.search.decoding import DEFAULT_DECODING, PAPER_DECODING, Decoding, default_decoding
from transformer.training.corpus import TREE
from transformer.training.recipe import Recipe
from transformer.training.typed import Verdict, by_topic, from_dict

#: "translator", "toy" and "parser" have an encoder and a decoder, the others one stack.
Kind = Literal["translator", "toy", "parser", "continue", "fill", "one_stack"]

#: Kinds whose decoding is chosen on validation text.
TRANSLATORS: tuple[Kind, ...] = ("translator", "toy")

#: Sentences by kind of model, and the origin and terms of the named corpora.
_WORDS = tomllib.loads(Path(__file__).with_name("cards.toml").read_text("utf-8"))


def kind_of(recipe: Recipe) -> Kind:
    """Return the kind of model that a recipe trains."""
    if recipe.stack is not None:
        return "one_stack" if recipe.stack.task == "translate" else recipe.stack.task
    if recipe.data.tgt == TREE:
        return "parser"
    return "toy" if recipe.data.corpora == ("reversal",) else "translator"


def card(
    name: str, config: ModelConfig | StackConfig, recipe: Recipe, metrics: Mapping[str, Any]
) -> str:
    """Write the card of a published model, in Markdown."""
    kind = kind_of(recipe)
    words, data, sources = _WORDS[kind], recipe.data, _WORDS["sources"]
    corpora = dict.fromkeys(data.corpora)
    if isinstance(config, StackConfig):
        model, layers, departures = config.blocks, str(config.n_layers), ""
    else:
        model, layers = config, f"{config.n_encoder_layers}+{config.n_decoder_layers}"
        parts = []
        if config.positions == "relative":
            parts.append("numbers for distances in place of positions")
        elif config.positions != "sinusoidal":
            parts.append(f"{config.positions} positions")
        if config.norm == "pre":
            parts.append("LayerNorm in front of each block")
        departures = f" Unlike the paper's: {', '.join(parts)}." if parts else ""
    pieces = words["pieces"].format(vocab=model.vocab_size, symbols=model.target_vocab_size)
    command = metrics["command"]
    figures = [
        stamp
        for path, stamp in records.stamps(metrics)
        if path[0] not in (ALIGNMENT, records.BASELINES)
    ]
    days, models = (sorted({stamp[key] for stamp in figures}) for key in ("date", "model"))
    origin = f"Measured on {', '.join(days)} on the weights `{'`, `'.join(models)}` (the first "
    origin += "digits of `sha256sum model.safetensors`). metrics.json has text, setting and day of "
    measured = ["", f"{origin}each figure."] if figures else []
    return "\n".join([
        f"# {name}",
        "",
        f"{words['about'].format(src=data.src, tgt=data.tgt)} {layers} layers, "
        f"d_model {model.d_model}, d_ff {model.d_ff}, {model.heads_in_words}, "
        f"{config.n_parameters / 1e6:.1f}M parameters, {pieces}, stored as "
        f"{metrics['stored_as']}.{departures}",
        "",
        "## Data",
        "",
        *words.get("data", (f"- {sources.get(corpus, corpus)}" for corpus in corpora)),
        *(_extra(path) for path in data.train_only or ()),
        *_length(metrics),
        *words.get("more_data", ()),
        "",
        "## Figures",
        "",
        " ".join(meanings(metrics)),
        "",
        *_FIGURES[kind](metrics),
        *measured,
        "",
        *(["## Decoding", "", *_decoding(metrics), ""] if kind in TRANSLATORS else []),
        "## Training",
        "",
        *([f"- weights: {_weights(metrics)}"] if "chosen_on_val" in metrics else []),
        *map(part_line, (*metrics.get("earlier_parts", ()), metrics["training"])),
        f"- command: `{command}`" if command else "- no command recorded",
        "",
        "## Limits",
        "",
        words["limits"],
        *metrics.get("notes", ()),
        "",
        *_typed(metrics),
    ])  # fmt: skip


def meanings(metrics: Mapping[str, Any]) -> list[str]:
    """Return one sentence on each kind of figure that a model has."""
    kinds = (
        "letters" if record.name == "reverse_test" else record.kind
        for record in records.records(metrics)
    )
    return [_WORDS["means"][kind] for kind in dict.fromkeys(kinds)]


def _extra(path: str) -> str:
    """Return the line of a training-only corpus; its folder may name a known corpus."""
    known = _WORDS["sources"].get(path.split("/", 1)[0])
    return f"- `{path}`, for training only" + (f": {known}" if known else "")


def _length(metrics: Mapping[str, Any]) -> list[str]:
    text = training_text(metrics)
    if text is None:
        return []
    share = f"{100 * COVERED:.0f}% of the different sources"
    return [f"- {share} have at most {text.src_tokens} tokens"]


def _typed(metrics: Mapping[str, Any]) -> list[str]:
    if records.TYPED not in metrics:
        return []
    verdicts = from_dict(metrics[records.TYPED])
    topics = [f"{topic} {right} of {n}" for topic, (right, n) in by_topic(verdicts).items()]
    right = sum(verdict.right for verdict in verdicts)
    rows = [
        (
            verdict.source,
            verdict.translation,
            "right" if verdict.right else f"instead of: {verdict.reference}",
        )
        for verdict in verdicts
    ]
    return [
        "## Typed sentences",
        "",
        f"**{right} of {len(verdicts)} right** with {records.setting_of(metrics[records.TYPED])}: "
        "sentences as visitors type them, none from the training text, judged as a strict language "
        f"teacher would (`python -m transformer typed`). By topic: {', '.join(topics)}.",
        "",
        _WORDS["typed"]["development"],
        *_near(verdicts),
        "",
        "| sentence | translation | verdict |",
        "|---|---|---|",
        # A bar would end the cell, and not every reader of Markdown knows an escaped one.
        *(f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |" for row in rows),
        "",
    ]


def _near(verdicts: Sequence[Verdict]) -> list[str]:
    """Return lines on typed sentences that are almost in the training text, and on the others."""
    others = [verdict for verdict in verdicts if not verdict.near]
    if len(others) == len(verdicts):
        return []
    right = sum(verdict.right for verdict in others)
    return [
        "",
        f"The training text has {len(verdicts) - len(others)} of them but for one word. Of the "
        f"other {len(others)}, {right} are right.",
    ]


def part_line(trained: Mapping[str, Any]) -> str:
    """Return the line of a training run, or of one of its stages."""
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
    chosen = metrics["chosen_on_val"]
    count, share = chosen["averaged_epochs"], chosen.get("mixed_share", 0.0)
    epochs = "the last epoch's" if count == 1 else f"the average of the last {count} epochs"
    if share:
        fixed = metrics.get("share_given")
        what = "number of epochs was" if fixed else "number of epochs and the share were"
        return (
            f"{100 * (1 - share):.0f}% {epochs}, {100 * share:.0f}% those of "
            f"`{metrics['mixed_with']}`; the {what} chosen on the validation text"
        )
    return f"{epochs}; the number of epochs was chosen on the validation text"


def _decoding(metrics: Mapping[str, Any]) -> list[str]:
    default = default_decoding(metrics)
    tuning = metrics.get("decoding_on_val")
    if tuning is None:
        return [f"The default is the paper's: {default}."]
    why = (
        "the paper's: on the validation text no other setting is better by half a point beyond "
        "chance"
        if default == PAPER_DECODING
        else "the least departure from the paper's that is better by half a point beyond chance on "
        "the validation text"
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


def _toy_figures(metrics: Mapping[str, Any]) -> list[str]:
    return [
        f"{records.text_name(name)}: {100 * values['exact_match']:.2f}% of {values['sentences']:,} "
        f"strings come out exactly reversed, with {records.setting_of(values)}."
        for name, values in metrics[records.TESTS].items()
    ]


def _translation_figures(metrics: Mapping[str, Any]) -> list[str]:
    tests = metrics[records.TESTS]
    others = [decoding[records.TESTS] for decoding in metrics.get(records.OTHER_DECODINGS, ())]
    default = default_decoding(metrics)
    lines = [
        f"The default decoding is {default}; figures of others are for comparison.",
        "",
        "| test set | pairs | decoding | sacreBLEU, cased | chrF | lc_tok_bleu | each source once, "
        "all references (sources) |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in tests:
        lines += [f"| {' | '.join(_row(name, figures[name]))} |" for figures in (tests, *others)]
    values = next(iter(tests.values()))
    return [
        *lines,
        "",
        f"sacreBLEU signature: `{values['signature']}`; chrF's: `{values['chrf_signature']}`. "
        "`lc_tok_bleu` scores lower-cased Moses tokens, as the Multi30k literature does; it is not "
        "comparable with the cased figure.",
    ]


def _row(name: str, values: Mapping[str, Any]) -> list[str]:
    lc_tok, once = values.get("lc_tok_bleu"), values.get("each_source_once")
    return [
        records.text_name(name),
        f"{values['sentences']:,}",
        records.setting_of(values),
        f"{values['bleu']:.1f}",
        f"{values['chrf']:.1f}",
        f"{lc_tok:.1f}" if lc_tok is not None else "",
        f"{once['bleu_all_references']:.1f} ({once['sentences']:,})" if once else "",
    ]


def _prediction_figures(metrics: Mapping[str, Any]) -> list[str]:
    return [
        f"- {records.text_name(name)}: perplexity {values['perplexity']:.1f}, "
        f"{100 * values['right']:.1f}% of {values['tokens']:,} tokens right "
        f"({records.setting_of(values)})"
        for name, values in metrics[records.PREDICTIONS].items()
    ]


def _parser_figures(metrics: Mapping[str, Any]) -> list[str]:
    scores = metrics[records.PARSING]
    rows = [(records.OWN, scores), *metrics[records.BASELINES].items()]
    keys = ("f1", "precision", "recall", "exact", "tags", "repaired")
    extra_length = metrics[DEFAULT_DECODING]["extra_length"]
    return [
        f"GUM dev, {scores['sentences']:.0f} sentences; labelled brackets by EVALB's rules, "
        f"at most the source length + {extra_length} symbols "
        "(`python -m transformer parse --gold`). Repaired: output that was "
        "not the sequence of a tree over all the words.",
        "",
        "| parser | setting | F1 | precision | recall | exact | tags | repaired |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {name} | {records.setting_of(values)} | "
            + " | ".join(f"{values[key]:.1f}" for key in keys)
            + " |"
            for name, values in rows
        ),
    ]


_FIGURES: dict[Kind, Callable[[Mapping[str, Any]], list[str]]] = {
    "translator": _translation_figures,
    "toy": _toy_figures,
    "parser": _parser_figures,
    "continue": _prediction_figures,
    "fill": _prediction_figures,
    "one_stack": _translation_figures,
}
