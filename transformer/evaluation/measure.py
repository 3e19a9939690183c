"""Measure a model by its kind, as metrics.json keeps it.

default_decoding    decoding of `Translator`, the command line and the app
tests               scores of each test set with the default decoding
decoding_on_val     every setting tried on the validation text, see `tune.Tuning`
other_decodings     scores with the best setting on val and with the paper's, unless they are
the default
training_text       kind and length of the text trained on, see `TrainingText`
typed               verdicts on the typed sentences, for translators of everyday sentences
predictions         of models that continue or fill in: perplexity, the exponential of the mean
negative log-likelihood, and the share whose most probable token is right;
perplexities of models with different pieces do not compare
parsing             scores of a parser on GUM dev
parsing_baselines   those of other parsers and settings
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from transformer.checkpoint.folder import (
    CARD,
    COVERED,
    KINDS,
    METRICS,
    TRAINING_TEXT,
    Checkpoint,
    TrainingText,
    kind_of,
    load_checkpoint,
)
from transformer.config import ConfigError
from transformer.evaluation.card import (
    BASELINES,
    OTHER_DECODINGS,
    PARSING,
    PREDICTIONS,
    card,
)
from transformer.evaluation.card import kind_of as model_kind
from transformer.evaluation.scores import measure_test
from transformer.evaluation.tune import ALPHAS, BEAMS, grid, tune
from transformer.evaluation.typed import (
    TYPED,
    has_languages,
    judge,
    near_sources,
    to_dict,
    typed_sentences,
)
from transformer.files.atomic import write_atomic
from transformer.files.folders import replaced_folder
from transformer.one_stack.files import StackCheckpoint, load_stack
from transformer.one_stack.model import OneStack
from transformer.one_stack.tracer import ALPHA, BEAM_SIZE, StackModel
from transformer.parsing.parser import EXTRA_LENGTH, evaluate, load_parser, parser_of
from transformer.search.decoding import (
    DEFAULT_DECODING,
    PAPER_DECODING,
    Decoding,
    default_decoding,
)
from transformer.text.tokenizer import Tokenizer
from transformer.training.corpus import GUM, encode_pairs, load_corpus, load_held_out
from transformer.training.data import (
    MULTI30K_TESTS,
    Corpus,
    Pair,
    corpus_folder,
)
from transformer.training.objective import tally
from transformer.training.recipe import Recipe
from transformer.training.tasks import task_of, text_of
from transformer.translator import Translator

#: Number of leading validation pairs used for choices; Multi30k has this many.
VAL_PAIRS = 1014
#: Sentences of each text whose tokens are predicted.
MOST_SENTENCES = 2_000
#: GUM text on which parsers are compared.
DEV = "dev.ptb"
#: The app's search for trees. 21 hypotheses, the paper's, score the same and take five times as
#: long to draw.
PARSER_DECODING = Decoding(4, 0.3)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Measuring:
    """Settings of a measurement."""

    data: Path  # the folder of the corpora
    #: beams, alphas: settings of a translator to try on the validation text, besides the paper's
    beams: Sequence[int] = BEAMS
    alphas: Sequence[float] = ALPHAS
    device: str = "auto"  # "auto", "cpu" or "cuda"
    keep_scores: bool = False  # keep the scores of held-out text; measure only the rest
    baselines: Mapping[str, Path] = field(default_factory=dict)  # other parsers to score, by name
    #: called with the name of the step, the amount done, and the total
    progress: Progress | None = None

    def report(self, what: str) -> Callable[[int, int], None]:
        """Return the callback of one step."""
        progress = self.progress
        return lambda done, total: progress(what, done, total) if progress is not None else None


def measure(checkpoint: Path, how: Measuring, *, notes: Sequence[str] | None = None) -> Path:
    """Remeasure a published checkpoint, and rewrite its metrics.json and model card.

    Text only for training may be missing from the data.

    Args: notes: sentences for the card's section on limits; None keeps those of metrics.json.

    Raises: `ConfigError` if metrics.json does not record the training, `DataError` if text is
        missing, `InputError` for an invalid setting.
    """
    grid(how.beams, how.alphas)  # checks the settings before any work
    recipe, metrics = read_metrics(checkpoint)
    if model_kind(recipe) == "parser":
        raise ConfigError(f"{checkpoint}: a parser is scored by `parse --gold` and by `publish`")
    held_out = None if how.keep_scores else held_out_text(recipe, how.data)
    found = load_any(checkpoint, recipe)
    metrics = measured(found, recipe, held_out, metrics, how)
    if notes is not None:
        metrics["notes"] = list(notes)
    text = card(checkpoint.resolve().name, found.model.config, recipe, metrics)
    write_figures(checkpoint, metrics, text)
    return checkpoint


def load_any(folder: Path, recipe: Recipe) -> Checkpoint | StackCheckpoint:
    """Read the checkpoint that a recipe trained. Raises `CheckpointError`."""
    return load_checkpoint(folder) if recipe.stack is None else load_stack(folder)


def held_out_text(recipe: Recipe, data: Path) -> Corpus | None:
    """Read the validation and test text; None for a parser. Raises `DataError`."""
    if model_kind(recipe) == "parser":
        return None
    return text_of(recipe, load_held_out(recipe.data, data))


def measured(
    found: Checkpoint | StackCheckpoint,
    recipe: Recipe,
    held_out: Corpus | None,
    metrics: Mapping[str, Any],
    how: Measuring,
) -> dict[str, Any]:
    """Return `metrics` with all figures of a model of its kind.

    Args: held_out: see `held_out_text`; None keeps the scores that there are.

    Raises: `DataError` if text is missing.
    """
    match model_kind(recipe):
        case "parser":
            assert isinstance(found, Checkpoint)
            return {**metrics, **parser_scores(found, how)}
        case "continue" | "fill":
            assert isinstance(found.model, OneStack)
            every = {} if held_out is None else {"val": held_out.val, **held_out.tests}
            scores = {
                name: predictions(found.model, found.tokenizer, recipe, pairs[:MOST_SENTENCES])
                for name, pairs in every.items()
                if pairs
            }
            return {**metrics, **({PREDICTIONS: scores} if scores else {})}
        case "one_stack":
            assert isinstance(found.model, OneStack)
            if held_out is None:
                return dict(metrics)
            model = StackModel(found.model, found.tokenizer, device=how.device)
            decoding = Decoding(BEAM_SIZE, ALPHA)
            tests = _tests(model, recipe, held_out, decoding, how.report("test sets"))
            return {**metrics, DEFAULT_DECODING: decoding.to_dict(), "tests": tests}
        case _:
            assert isinstance(found, Checkpoint)
            translator = Translator.from_checkpoint(found, how.device)
            if held_out is not None:
                metrics = _decoded(translator, recipe, held_out, metrics, how)
            return _with_texts(translator, recipe, how.data, metrics)


def parser_scores(found: Checkpoint, how: Measuring) -> dict[str, Any]:
    """Score a parser on GUM dev as the paper decodes, and beside others as the app does."""
    gold, report = corpus_folder(GUM, how.data) / DEV, how.report("parsers")
    beam, alpha = PARSER_DECODING.beam_size, PARSER_DECODING.alpha
    parser = parser_of(found, how.device)
    others = {
        "this model": parser,
        "the same without a grammar": parser_of(found, how.device, free=True),
        **{name: load_parser(path, how.device) for name, path in how.baselines.items()},
    }
    return {
        DEFAULT_DECODING: PARSER_DECODING.to_dict() | {"extra_length": EXTRA_LENGTH},
        "tests": {},
        PARSING: evaluate(parser, gold, on_parsed=report),
        BASELINES: {
            f"{name}, beam {beam}": evaluate(each, gold, beam, alpha, report)
            for name, each in others.items()
        },
    }


def predictions(
    model: OneStack, tokenizer: Tokenizer, recipe: Recipe, pairs: Sequence[Pair]
) -> dict[str, float]:
    """Score what a model predicts in some texts: of every next token, or of hidden ones.

    Returns: "perplexity", "right" (a share), and "tokens" predicted.
    """
    _, texts = encode_pairs(pairs, tokenizer, model.config.max_positions)
    prepare = task_of(recipe, tokenizer).prepare
    nll, right, count = tally(model, texts, texts, prepare=prepare)
    if not count:
        return {"perplexity": float("nan"), "right": float("nan"), "tokens": 0}
    return {
        "perplexity": round(math.exp(nll / count), 3),
        "right": round(right / count, 4),
        "tokens": count,
    }


def _decoded(
    translator: Translator,
    recipe: Recipe,
    held_out: Corpus,
    metrics: Mapping[str, Any],
    how: Measuring,
) -> dict[str, Any]:
    """Return `metrics` with the default decoding of a translator and its scores."""
    kept = {
        key: value for key, value in metrics.items() if key not in ("decoding", OTHER_DECODINGS)
    }
    default, others = PAPER_DECODING, []
    # BLEU counts words, and each string of the toy is a single word.
    if held_out.val and model_kind(recipe) != "toy":
        settings, report = grid(how.beams, how.alphas), how.report("settings tried on val")
        tuning = tune(
            translator,
            held_out.val[:VAL_PAIRS],
            settings,
            on_tried=report,
        )
        default = tuning.chosen
        others = [each for each in dict.fromkeys([tuning.best, PAPER_DECODING]) if each != default]
        kept["decoding_on_val"] = tuning.to_dict()
        if "chosen_on_val" in kept:
            (bleu,) = (each.bleu for each in tuning.trials if each.decoding == default)
            figure = default.to_dict() | {"val_bleu": round(bleu, 4)}
            kept["chosen_on_val"] = kept["chosen_on_val"] | figure
    kept[DEFAULT_DECODING] = default.to_dict()
    kept["tests"] = _tests(translator, recipe, held_out, default, how.report("test sets"))
    if others:
        kept[OTHER_DECODINGS] = [
            {
                "decoding": each.to_dict(),
                "tests": _tests(
                    translator, recipe, held_out, each, how.report(f"test sets, {each}")
                ),
            }
            for each in others
        ]
    return kept


def _with_texts(
    translator: Translator, recipe: Recipe, data: Path, metrics: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `metrics` with the training text and the typed sentences, where they apply.

    Raises: `DataError` if text is missing.
    """
    records: dict[str, Any] = {}
    kind = kind_of(recipe.data.corpora)
    if kind:
        corpus = load_corpus(replace(recipe.data, train_only=None), data)
        sources = list(dict.fromkeys(src for src, _ in corpus.train))
        lengths = [len(ids) for ids in translator.tokenizer.encode_many(sources)]
        longest = int(np.quantile(lengths, COVERED, method="inverted_cdf"))
        records[TRAINING_TEXT] = asdict(TrainingText(kind, longest))
        if kind == KINDS["tatoeba"] and has_languages(recipe.data.src, recipe.data.tgt):
            sentences = typed_sentences(recipe.data.src, recipe.data.tgt)
            near = near_sources((each.source for each in sentences), sources)
            verdicts = judge(translator, sentences, default_decoding(metrics))
            records[TYPED] = to_dict([replace(each, near=each.source in near) for each in verdicts])
    return {**metrics, **records}


def write_figures(checkpoint: Path, metrics: Mapping[str, Any], card: str) -> None:
    """Write metrics.json and the card that states its figures, both or neither."""
    with replaced_folder(checkpoint) as new:
        text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
        write_atomic(new / METRICS, text.encode())
        write_atomic(new / CARD, card.encode())


def read_metrics(folder: Path) -> tuple[Recipe, dict[str, Any]]:
    """Read the recipe and all of metrics.json of a run or checkpoint.

    Raises: `ConfigError`.
    """
    try:
        metrics = json.loads((folder / METRICS).read_text(encoding="utf-8"))
        return Recipe.from_record(metrics["training"]["recipe"]), metrics
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder}: {METRICS} does not record the training ({error})") from None


def _tests(
    translator: Translator | StackModel,
    recipe: Recipe,
    held_out: Corpus,
    decoding: Decoding,
    report: Callable[[int, int], None],
) -> dict[str, Any]:
    figures = {}
    for count, (name, pairs) in enumerate(held_out.tests.items(), 1):
        language = recipe.data.tgt if name in MULTI30K_TESTS else None
        figures[name] = measure_test(translator, pairs, decoding, language)
        report(count, len(held_out.tests))
    return figures
