"""Measure a checkpoint: choose the default decoding on val, and score the test sets with it.

The results in metrics.json:

    default_decoding    decoding of `Translator`, the command line and the app
    decoding_on_val     every setting tried on the validation text, see `tune.Tuning`
    tests               scores of each test set with the default decoding
    other_decodings     the same for the best setting on val and for the paper's, unless they are
                        the default
    training_text       kind and length of the text trained on, see `TrainingText`
    typed               verdicts on the typed sentences, for models of everyday sentences
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from transformer.checkpoint.folder import CARD, METRICS
from transformer.checkpoint.training_text import (
    COVERED,
    KINDS,
    TRAINING_TEXT,
    TrainingText,
    kind_of,
)
from transformer.config import ConfigError
from transformer.evaluation.card import OTHER_DECODINGS, is_toy, model_card
from transformer.evaluation.scores import PROTOCOLS, score
from transformer.evaluation.tune import ALPHAS, BEAMS, Tuning, grid, tune
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
from transformer.one_stack.tracer import StackModel
from transformer.search.decoding import (
    DEFAULT_DECODING,
    PAPER_DECODING,
    Decoding,
    default_decoding,
)
from transformer.text.tokenizer import Tokenizer
from transformer.training.corpus import load_corpus, load_held_out
from transformer.training.data import MULTI30K_TESTS, Corpus, Pair
from transformer.training.recipe import Recipe
from transformer.training.treebank import TREE
from transformer.translator import Translator

#: Number of leading validation pairs used for choices; Multi30k has this many.
VAL_PAIRS = 1014

Progress = Callable[[str, int, int], None]


def measure(
    checkpoint: Path,
    data: Path,
    *,
    beams: Sequence[int] = BEAMS,
    alphas: Sequence[float] = ALPHAS,
    device: str = "auto",
    notes: Sequence[str] | None = None,
    keep_scores: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Remeasure a published checkpoint, and rewrite its metrics.json and model card.

    Args:
        data: the folder of its corpora; those only for training may be missing.
        beams, alphas: settings to try on the validation text, besides the paper's.
        notes: sentences for the card's section on limits; None keeps those of metrics.json.
        keep_scores: keep the decoding and the scores of the test sets; measure only the rest.
        progress: called with the name of the step, the amount done, and the total.

    Raises: `ConfigError` if metrics.json does not record the training, `DataError` if text is
        missing, `InputError` for an invalid setting.
    """
    grid(beams, alphas)  # checks the settings before any work
    recipe, metrics = read_metrics(checkpoint)
    if recipe.data.tgt == TREE:
        raise ConfigError(f"{checkpoint}: a parser is scored by `parse --gold` and by `publish`")
    held_out = None if keep_scores else load_held_out(recipe.data, data)
    translator = Translator.load(checkpoint, device)
    if held_out is not None:
        metrics = described(translator, recipe, held_out, metrics, beams, alphas, progress)
    metrics = with_texts(translator, recipe, data, metrics)
    if notes is not None:
        metrics["notes"] = list(notes)
    card = model_card(checkpoint.resolve().name, translator.config, recipe, metrics)
    write_figures(checkpoint, metrics, card)
    return checkpoint


def described(
    translator: Translator,
    recipe: Recipe,
    held_out: Corpus,
    metrics: Mapping[str, Any],
    beams: Sequence[int],
    alphas: Sequence[float],
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return `metrics` with the default decoding and scores of this model added."""

    def report(what: str) -> Callable[[int, int], None]:
        return lambda done, total: progress(what, done, total) if progress is not None else None

    kept = {
        key: value for key, value in metrics.items() if key not in ("decoding", OTHER_DECODINGS)
    }
    default, others = PAPER_DECODING, []
    # BLEU counts words, and each string of the toy is a single word.
    if held_out.val and not is_toy(recipe):
        settings = grid(beams, alphas)
        tuning = tune(
            translator, held_out.val[:VAL_PAIRS], settings, on_tried=report("settings tried on val")
        )
        default = tuning.chosen
        others = [how for how in dict.fromkeys([tuning.best, PAPER_DECODING]) if how != default]
        kept["decoding_on_val"] = tuning.to_dict()
        if "chosen_on_val" in kept:
            kept["chosen_on_val"] = kept["chosen_on_val"] | _figure(tuning, default)
    kept[DEFAULT_DECODING] = default.to_dict()
    kept["tests"] = _tests(translator, recipe, held_out, default, report("test sets"))
    if others:
        kept[OTHER_DECODINGS] = [
            {
                "decoding": how.to_dict(),
                "tests": _tests(translator, recipe, held_out, how, report(f"test sets, {how}")),
            }
            for how in others
        ]
    return kept


def with_texts(
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
        longest = _length_covering(sources, translator.tokenizer)
        records[TRAINING_TEXT] = asdict(TrainingText(kind, longest))
        if kind == KINDS["tatoeba"] and has_languages(recipe.data.src, recipe.data.tgt):
            sentences = typed_sentences(recipe.data.src, recipe.data.tgt)
            near = near_sources((each.source for each in sentences), sources)
            verdicts = judge(translator, sentences, default_decoding(metrics))
            records[TYPED] = to_dict([replace(each, near=each.source in near) for each in verdicts])
    return {**metrics, **records}


def _length_covering(sources: list[str], tokenizer: Tokenizer) -> int:
    """Return the length of the longest source, see `TrainingText`."""
    lengths = [len(ids) for ids in tokenizer.encode_many(sources)]
    return int(np.quantile(lengths, COVERED, method="inverted_cdf"))


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
        return Recipe.from_dict(metrics["training"]["recipe"]), metrics
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder}: {METRICS} does not record the training ({error})") from None


def _figure(tuning: Tuning, decoding: Decoding) -> dict[str, Any]:
    trial = next(each for each in tuning.trials if each.decoding == decoding)
    return decoding.to_dict() | {"val_bleu": round(trial.bleu, 4)}


def _tests(
    translator: Translator,
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


def measure_test(
    translator: Translator | StackModel,
    pairs: Sequence[Pair],
    decoding: Decoding,
    language: str | None,
) -> dict[str, Any]:
    """Measure one test set.

    Each pair counts as a sentence with one reference. If sources repeat, as in Tatoeba, scores
    with each source once and all its references are added.

    Args: language: of the target; adds Multi30k's lc_tok_bleu.
    """
    sources = [src for src, _ in pairs]
    unique = list(dict.fromkeys(sources))
    done = translator.translate(unique, decoding.beam_size, decoding.alpha)
    texts = {src: translation.text for src, translation in zip(unique, done, strict=True)}
    hypotheses = [texts[src] for src in sources]
    scores = score(
        hypotheses,
        [tgt for _, tgt in pairs],
        protocol=PROTOCOLS[0] if language else None,
        language=language,
    )
    values = {name: value for name, value in asdict(scores).items() if value is not None}
    values["exact_match"] = sum(texts[src] == tgt for src, tgt in pairs) / len(pairs)
    if len(unique) < len(sources):
        values["each_source_once"] = _multi_reference(texts, pairs)
    return {name: round(v, 4) if isinstance(v, float) else v for name, v in values.items()}


def _multi_reference(texts: dict[str, str], pairs: Sequence[Pair]) -> dict[str, Any]:
    references: dict[str, list[str]] = {}
    for src, tgt in pairs:
        references.setdefault(src, []).append(tgt)
    most = max(map(len, references.values()))
    # sacreBLEU needs equally many references per source; repeating the first one changes neither
    # the maximum count of any n-gram nor the closest length.
    streams = [[r[i] if i < len(r) else r[0] for r in references.values()] for i in range(most)]
    bleu = BLEU()
    result = bleu.corpus_score([texts[src] for src in references], streams)
    first = BLEU().corpus_score([texts[src] for src in references], [streams[0]])
    return {
        "sentences": len(references),
        "bleu_all_references": round(result.score, 4),
        "bleu_first_reference": round(first.score, 4),
        "signature": str(bleu.get_signature()),
    }
