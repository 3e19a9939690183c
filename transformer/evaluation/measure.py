"""Measurements of a model by its kind, with their stamps, for metrics.json.

See `transformer.evaluation.records` for stamps.

default_decoding    decoding of `Translator`, the command line and the app
tests               scores of each test set with the default decoding
decoding_on_val     every setting tried on the validation text, see `tune.Tuning`
other_decodings     scores with the best setting on val and with the paper's, if not the default
training_text       kind and length of the text trained on, see `TrainingText`
typed               verdicts on the typed sentences, for translators of everyday sentences
predictions         of models that continue or fill in: perplexity, the exponential of the mean
negative log-likelihood of the next token or of hidden ones, and the share whose most probable
token is right; perplexities of models with different pieces are not comparable
parsing             scores of a parser on GUM dev
parsing_baselines   scores of other parsers and settings
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from transformer.checkpoint import folder as checkpoints
from transformer.checkpoint.weights import weights_digest
from transformer.config import ConfigError, parse_json
from transformer.evaluation.card import card
from transformer.evaluation.card import kind_of as model_kind
from transformer.evaluation.parsing import EXTRA_LENGTH, baselines, evaluate, load_parser, parser_of
from transformer.evaluation.records import (
    BASELINES,
    OTHER_DECODINGS,
    OWN,
    PARSING,
    PREDICTIONS,
    TESTS,
    TYPED,
    stamped,
    stamps,
)
from transformer.evaluation.scores import measure_test
from transformer.evaluation.tune import grid, tune
from transformer.files.folders import replaced_folder, write_atomic
from transformer.models.one_stack.model import OneStack, StackCheckpoint
from transformer.models.one_stack.tracer import StackModel
from transformer.search.request import DEFAULT_DECODING, PAPER_DECODING, Decoding, default_decoding
from transformer.text.tokenizer import Tokenizer
from transformer.training import data as corpora
from transformer.training import typed
from transformer.training.corpus import GUM, encode_pairs, load_corpus, load_held_out
from transformer.training.objective import tally, task_of, text_of
from transformer.training.recipe import Recipe
from transformer.training.run_folder import files_of
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
    beams: Sequence[int] = ()
    alphas: Sequence[float] = ()
    device: str = "auto"  # "auto", "cpu" or "cuda"
    keep_scores: bool = False  # keep the scores of held-out text; measure only the rest
    weights: str = ""  # digest of the measured weights' file, for the stamps
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

    Args: notes: sentences for the card's section on limits; None keeps the notes in metrics.json.

    Raises: `ConfigError` if metrics.json does not record the training, `DataError` if text is
        missing, `InputError` for an invalid setting.
    """
    grid(how.beams, how.alphas)  # checks the settings before any work
    recipe, metrics = read_metrics(checkpoint)
    if model_kind(recipe) == "parser":
        raise ConfigError(f"{checkpoint}: a parser is scored by `parse --gold` and by `publish`")
    how = replace(how, weights=weights_digest(checkpoint))
    stale = {path[0] for path, stamp in stamps(metrics) if stamp.get("model") != how.weights}
    if stale and how.keep_scores:
        raise ConfigError(f"{checkpoint}: {', '.join(sorted(stale))} of other weights; measure all")
    metrics = {key: value for key, value in metrics.items() if key not in stale}
    held_out = None if how.keep_scores else held_out_text(recipe, how.data)
    loaded = files_of(recipe).load(checkpoint)
    metrics = measured(loaded, recipe, held_out, metrics, how)
    if notes is not None:
        metrics["notes"] = list(notes)
    text = card(checkpoint.absolute().name, loaded.model.config, recipe, metrics)
    with replaced_folder(checkpoint) as new:  # both or neither
        figures = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
        write_atomic(new / checkpoints.METRICS, figures.encode())
        write_atomic(new / checkpoints.CARD, text.encode())
    return checkpoint


def held_out_text(recipe: Recipe, data: Path) -> corpora.Corpus | None:
    """Return validation and test text, or None for a parser. Raises `DataError`."""
    if model_kind(recipe) == "parser":
        return None
    return text_of(recipe, load_held_out(recipe.data, data))


def measured(
    loaded: checkpoints.Checkpoint | StackCheckpoint, recipe: Recipe,
    held_out: corpora.Corpus | None, metrics: Mapping[str, Any], how: Measuring,
) -> dict[str, Any]:  # fmt: skip
    """Return `metrics` with all figures of a model of its kind.

    Args: held_out: see `held_out_text`; None keeps the existing scores.

    Raises: `DataError` if text is missing.
    """
    if held_out is None and isinstance(loaded.model, OneStack):
        return dict(metrics)
    match model_kind(recipe):
        case "parser":
            assert isinstance(loaded, checkpoints.Checkpoint)
            return {**metrics, **parser_scores(loaded, how)}
        case "continue" | "fill":
            assert isinstance(loaded.model, OneStack) and held_out is not None
            texts = {"val": held_out.val, **held_out.tests}
            if typed.has_languages(recipe.data.src, recipe.data.tgt):
                sentences = typed.typed_sentences(recipe.data.src, recipe.data.tgt)
                texts["typed_sentences"] = tuple((sentence.source,) * 2 for sentence in sentences)
            setting = task_of(recipe, loaded.tokenizer).setting
            scores = {}
            for name, pairs in texts.items():
                text = pairs[:MOST_SENTENCES]
                values = predictions(loaded.model, loaded.tokenizer, recipe, text)
                if values["tokens"]:
                    lines = [source for source, _ in text]
                    scores[name] = stamped(values, how.weights, setting, name, lines)
            return {**metrics, PREDICTIONS: scores}
        case "one_stack":
            assert isinstance(loaded.model, OneStack) and held_out is not None
            model = StackModel(loaded.model, loaded.tokenizer, device=how.device)
            tests = _tests(model, recipe, held_out, PAPER_DECODING, how)
            return {**metrics, DEFAULT_DECODING: PAPER_DECODING.to_dict(), TESTS: tests}
        case _:
            assert isinstance(loaded, checkpoints.Checkpoint)
            translator = Translator.from_checkpoint(loaded, how.device)
            if held_out is not None:
                metrics = _decoded(translator, recipe, held_out, metrics, how)
            return _with_texts(translator, recipe, metrics, how)


def parser_scores(loaded: checkpoints.Checkpoint, how: Measuring) -> dict[str, Any]:
    """Score a parser on GUM dev with the paper's decoding; compare others with the app's."""
    gold, report = corpora.corpus_folder(GUM, how.data) / DEV, how.report("parsers")
    trees = corpora.read_lines(corpora.find_file(gold))

    def scored(
        parser: Translator,
        how: Decoding = PARSER_DECODING,
        more: str = "",
        weights: str = how.weights,
    ) -> dict[str, Any]:
        values = evaluate(parser, gold, how.beam_size, how.alpha, report)
        return stamped(values, weights, f"{how}{more}", "GUM dev", trees)

    parser, free = (parser_of(loaded, how.device, free=free) for free in (False, True))
    others = {OWN: scored(parser), f"{OWN} without a grammar": scored(free, more=", no grammar")}
    for name, path in how.baselines.items():
        others[name] = scored(load_parser(path, how.device), weights=weights_digest(path))
    for name, values in baselines(gold, report).items():
        others[name] = stamped(values, "", "given the tags", "GUM dev", trees)
    return {
        DEFAULT_DECODING: PARSER_DECODING.to_dict() | {"extra_length": EXTRA_LENGTH},
        TESTS: {},
        PARSING: scored(parser, parser.decoding),
        BASELINES: others,
    }


def predictions(
    model: OneStack, tokenizer: Tokenizer, recipe: Recipe, pairs: Sequence[corpora.Pair]
) -> dict[str, float]:
    """Score a model's predictions in some texts: of every next token, or of hidden ones.

    Returns: "perplexity", "right" (a share), and "tokens" predicted; NaN for none.
    """
    _, texts = encode_pairs(pairs, tokenizer, model.config.max_positions)
    nll, right, count = tally(model, texts, texts, prepare=task_of(recipe, tokenizer).examine)
    mean = count or math.nan
    return {
        "perplexity": round(math.exp(nll / mean), 3),
        "right": round(right / mean, 4),
        "tokens": count,
    }


def _decoded(
    translator: Translator, recipe: Recipe, held_out: corpora.Corpus, metrics: Mapping[str, Any],
    how: Measuring,
) -> dict[str, Any]:  # fmt: skip
    """Return `metrics` with the default decoding of a translator and its scores."""
    kept = {
        key: value for key, value in metrics.items() if key not in ("decoding", OTHER_DECODINGS)
    }
    default, others = PAPER_DECODING, []
    # BLEU counts words, and each string of the toy is a single word.
    if held_out.val and model_kind(recipe) != "toy":
        settings, report = grid(how.beams, how.alphas), how.report("settings tried on val")
        val = held_out.val[:VAL_PAIRS]
        tuning = tune(translator, val, settings, on_tried=report)
        default = tuning.chosen
        others = [
            decoding
            for decoding in dict.fromkeys([tuning.best, PAPER_DECODING])
            if decoding != default
        ]
        record = tuning.to_dict()
        kept["decoding_on_val"] = stamped(record, how.weights, "that of each trial", "val", val)
    kept[DEFAULT_DECODING] = default.to_dict()
    kept[TESTS] = _tests(translator, recipe, held_out, default, how)
    if others:
        kept[OTHER_DECODINGS] = [
            {
                "decoding": decoding.to_dict(),
                TESTS: _tests(translator, recipe, held_out, decoding, how),
            }
            for decoding in others
        ]
    return kept


def _with_texts(
    translator: Translator, recipe: Recipe, metrics: Mapping[str, Any], how: Measuring
) -> dict[str, Any]:
    """Return `metrics` with the training text and the typed sentences, where they apply.

    Raises: `DataError` if text is missing.
    """
    records: dict[str, Any] = {}
    kind = checkpoints.kind_of(recipe.data.corpora)
    if kind:
        corpus = load_corpus(replace(recipe.data, train_only=None), how.data)
        sources = list(dict.fromkeys(src for src, _ in corpus.train))
        lengths = [len(ids) for ids in translator.tokenizer.encode_many(sources)]
        longest = int(np.quantile(lengths, checkpoints.COVERED, method="inverted_cdf"))
        setting = f"the longest of {checkpoints.COVERED:.0%} of the different sources"
        about = asdict(checkpoints.TrainingText(kind, longest))
        records[checkpoints.TRAINING_TEXT] = stamped(
            about, how.weights, setting, "training text", sources
        )
        if kind == checkpoints.KINDS["tatoeba"] and typed.has_languages(
            recipe.data.src, recipe.data.tgt
        ):
            sentences = typed.typed_sentences(recipe.data.src, recipe.data.tgt)
            near = typed.near_sources((sentence.source for sentence in sentences), sources)
            decoding = default_decoding(metrics)
            verdicts = typed.judge(translator, sentences, decoding)
            judged = typed.to_dict(
                [replace(verdict, near=verdict.source in near) for verdict in verdicts]
            )
            records[TYPED] = stamped(judged, how.weights, decoding, *typed.typed_text(sentences))
    return {**metrics, **records}


def read_metrics(folder: Path) -> tuple[Recipe, dict[str, Any]]:
    """Read the recipe and all of metrics.json of a run or checkpoint.

    Raises: `ConfigError`.
    """
    try:
        metrics = parse_json((folder / checkpoints.METRICS).read_text(encoding="utf-8"))
        return Recipe.from_record(metrics["training"]["recipe"]), metrics
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{folder}: {checkpoints.METRICS} does not record the training ({error})"
        ) from None


def _tests(
    translator: Translator | StackModel, recipe: Recipe, held_out: corpora.Corpus,
    decoding: Decoding, how: Measuring,
) -> dict[str, Any]:  # fmt: skip
    figures, report = {}, how.report("test sets")
    for count, (name, pairs) in enumerate(held_out.tests.items(), 1):
        language = recipe.data.tgt if name in corpora.MULTI30K_TESTS else None
        values = measure_test(translator, pairs, decoding, language)
        figures[name] = stamped(values, how.weights, decoding, name, pairs)
        report(count, len(held_out.tests))
    return figures
