"""Model cards: one form, with the sentences and figures of each kind of model."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from transformer.checkpoint.folder import COVERED, training_text
from transformer.config import ModelConfig
from transformer.evaluation import records
from transformer.evaluation.alignment import ALIGNMENT
from transformer.evaluation.records import WORDS
from transformer.models.one_stack.config import StackConfig
from transformer.search.request import DEFAULT_DECODING, PAPER_DECODING, Decoding, default_decoding
from transformer.training.corpus import TREE
from transformer.training.recipe import Recipe
from transformer.training.typed import Verdict, by_topic, from_dict

#: "translator", "toy" and "parser" have an encoder and a decoder, the others one stack.
Kind = Literal["translator", "toy", "parser", "continue", "fill", "one_stack"]

#: Kinds whose decoding is chosen on validation text.
TRANSLATORS: tuple[Kind, ...] = ("translator", "toy")


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
    words, data, sources = WORDS[kind], recipe.data, WORDS["sources"]
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
        *_figures(metrics, kind),
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
    return [WORDS["means"][kind] for kind in dict.fromkeys(kinds)]


def _extra(path: str) -> str:
    """Return the line of a training-only corpus; its folder may name a known corpus."""
    known = WORDS["sources"].get(path.split("/", 1)[0])
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
    verdicts, words = from_dict(metrics[records.TYPED]), WORDS["typed"]
    topics = [f"{topic} {right} of {n}" for topic, (right, n) in by_topic(verdicts).items()]
    right, how = sum(v.right for v in verdicts), records.setting_of(metrics[records.TYPED])
    rows = [
        (v.source, v.translation, "right" if v.right else f"instead of: {v.reference}")
        for v in verdicts
    ]
    return [
        "## Typed sentences",
        "",
        words["head"].format(right=right, n=len(verdicts), setting=how, topics=", ".join(topics)),
        "",
        words["development"],
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
    right, near = sum(verdict.right for verdict in others), len(verdicts) - len(others)
    return ["", WORDS["typed"]["near"].format(near=near, others=len(others), right=right)]


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
    words = WORDS["decoding"]
    why = words["paper" if default == PAPER_DECODING else "other"]
    lines = [words["lines"].format(default=default, why=why, **tuning)]
    for trial in tuning["trials"]:
        low, high = trial["interval"]
        how = Decoding(trial["beam_size"], trial["alpha"])
        compared = "| | |" if how == PAPER_DECODING else (
            f"| {trial['difference']:+.2f} | {low:+.2f} to {high:+.2f} |"
        )  # fmt: skip
        lines.append(f"| {how} | {trial['val_bleu']:.2f} {compared}")
    return lines


def _figures(metrics: Mapping[str, Any], kind: Kind) -> list[str]:
    """Return the lines of a model's figures: text before them, a row each, and text after."""
    default = metrics.get(DEFAULT_DECODING, {})
    about = {"default": default_decoding(metrics), "extra_length": default.get("extra_length")}
    rows: list[tuple[str, Mapping[str, Any]]]
    if kind == "parser":
        rows = [(records.OWN, metrics[records.PARSING]), *metrics[records.BASELINES].items()]
    elif kind in ("continue", "fill"):
        rows = [*metrics[records.PREDICTIONS].items()]
    else:
        measured = metrics, *metrics.get(records.OTHER_DECODINGS, ())
        tests = [figures[records.TESTS] for figures in measured]
        rows = [(name, figures[name]) for name in tests[0] for figures in tests]
    words, lines = WORDS["figures"][WORDS[kind]["figures"]], []
    for name, values in rows:
        lc_tok, once = values.get("lc_tok_bleu"), values.get("each_source_once")
        lines.append(words["row"].format_map({
            **values,
            "name": records.text_name(name),
            "setting": records.setting_of(values),
            "lc_tok": "" if lc_tok is None else f"{lc_tok:.1f}",
            "once": f"{once['bleu_all_references']:.1f} ({once['sentences']:,})" if once else "",
        }))  # fmt: skip
    about |= rows[0][1] if rows else {}
    ends = [words.get(key, "").format(**about) for key in ("before", "after")]
    return [*filter(None, [ends[0], *lines, ends[1]])]
