"""From a finished run to a checkpoint to ship: choose on val, measure on the tests, write the card.

Everything that is chosen (how many epochs to average, how much of another run to mix in, beam and
length penalty) is chosen on the validation text. The test sets are then translated once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor

from transformer.checkpoint.folder import (
    POSITION_TABLES,
    STORED_DTYPES,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from transformer.config import ConfigError
from transformer.errors import CheckpointError
from transformer.files.atomic import write_atomic
from transformer.training.card import model_card
from transformer.training.corpus import load_corpus
from transformer.training.data import MULTI30K_TESTS, Pair
from transformer.training.evaluate import PROTOCOLS, score
from transformer.training.recipe import Recipe
from transformer.training.run_folder import RunFolder, average_weights
from transformer.translator import Translator

#: What is tried on the validation text.
AVERAGES = (1, 3, 5, 8, 10, 20)
ALPHAS = (0.6, 1.0, 1.4, 1.8, 2.2)
#: Shares of another run's weights, where one is named.
SHARES = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8)


@dataclass(frozen=True)
class Choice:
    """Weights and a decoding that were tried on val, and their cased sacreBLEU there.

    `mixed_share` of the weights are another run's, the rest the mean of this one's last epochs.
    """

    averaged_epochs: int
    beam_size: int
    alpha: float
    val_bleu: float
    mixed_share: float = 0.0


def publish(
    run: Path,
    data: Path,
    out: Path,
    *,
    beam_size: int = 5,
    device: str = "auto",
    dtype: str = "float16",
    made_by: str = "",
    notes: Sequence[str] = (),
    mix: Path | None = None,
) -> Path:
    """Write the checkpoint of a run to `out`, with metrics.json and a model card.

    Args:
        run: the output folder of `train`.  data: the folder it was trained from.
        beam_size: width used to choose alpha and on the tests.
        dtype: how the weights are stored; the figures are of the weights as stored.
        made_by: the command that trains this model again, for the card.
        notes: sentences for the card's section on limits.
        mix: a checkpoint of the same shape and vocabulary, say the one that this run began from.
            Weights between the two are often better than either (Wortsman et al. 2022); which
            share of it, if any, is chosen on val.

    Raises: `ConfigError` where `run` holds no recipe or `dtype` is no such type, `CheckpointError`
        without weights or where `mix` has other shapes or pieces.
    """
    if dtype not in STORED_DTYPES:
        raise ConfigError(f"dtype {dtype!r} is not one of: {', '.join(STORED_DTYPES)}")
    recipe, trained = _read_run(run)
    corpus = load_corpus(recipe.data, data)
    val = corpus.val[:1500]
    if not val or not all(corpus.tests.values()):
        raise ConfigError(f"{data}: too little text to hold out for validation and testing")
    checkpoint = load_checkpoint(run)
    files = RunFolder(run).epochs()
    if not files:
        raise CheckpointError(f"{run / 'epochs'}: holds no weights to average")

    def with_weights(weights: Mapping[str, Tensor]) -> Translator:
        # A translator packs its weights once, so other weights need another translator.
        checkpoint.model.load_state_dict(weights)
        return Translator.from_checkpoint(checkpoint, device)

    tried: list[Choice] = []
    for count in [n for n in AVERAGES if n <= len(files)]:
        averaged = with_weights(average_weights(files[-count:]))
        tried.append(Choice(count, 1, 0.0, _bleu(averaged, val, 1, 0.0)))
    count = max(tried, key=lambda choice: choice.val_bleu).averaged_epochs
    weights, share = average_weights(files[-count:]), 0.0
    if mix is not None:
        other = _other_weights(mix, checkpoint)
        for each in SHARES:
            blend = with_weights(blended(weights, other, each))
            # A beam tells near models apart with less noise than greedy decoding.
            value = _bleu(blend, val, beam_size, ALPHAS[1])
            tried.append(Choice(count, beam_size, ALPHAS[1], value, each))
        share = max(tried[-len(SHARES) :], key=lambda choice: choice.val_bleu).mixed_share
        weights = blended(weights, other, share)
    # Measured as shipped: rounded to the stored precision and back, tables of positions excepted.
    stored = getattr(torch, dtype)
    translator = with_weights(
        {n: t if n in POSITION_TABLES else t.to(stored).float() for n, t in weights.items()}
    )
    tried += [
        Choice(count, beam_size, a, _bleu(translator, val, beam_size, a), share) for a in ALPHAS
    ]
    best = max(tried[-len(ALPHAS) :], key=lambda choice: choice.val_bleu)
    tests = {
        name: measure(translator, pairs, best, recipe.data.tgt if name in MULTI30K_TESTS else None)
        for name, pairs in corpus.tests.items()
    }
    metrics = {
        **trained,
        "earlier_parts": earlier_parts(recipe.training.init),
        "chosen_on_val": asdict(best),
        "tried_on_val": [asdict(choice) for choice in tried],
        "decoding": {"beam_size": best.beam_size, "alpha": best.alpha},
        "stored_as": dtype,
        "tests": tests,
        "command": made_by,
        **({"mixed_with": str(mix)} if mix is not None else {}),
    }
    save_checkpoint(out, translator.model.cpu(), checkpoint.tokenizer, metrics=metrics, dtype=dtype)
    card = model_card(out.resolve().name, translator.config, recipe, metrics, notes)
    write_atomic(out / "README.md", card.encode())
    return out


def earlier_parts(init: str) -> list[dict[str, Any]]:
    """What the runs recorded of their training from which another one began, the first one first.

    `init` is the folder that the later run began from. A folder that is gone, or that says nothing
    of its training, ends the way back.
    """
    parts: list[dict[str, Any]] = []
    while init:
        try:
            recipe, metrics = _read_run(Path(init))
        except ConfigError:
            break
        if metrics["training"] in parts:  # a published folder that its own later part replaced
            break
        parts.insert(0, metrics["training"])
        if "earlier_parts" in metrics:
            return [*metrics["earlier_parts"], *parts]
        init = recipe.training.init
    return parts


def blended(
    weights: Mapping[str, Tensor], other: Mapping[str, Tensor], share: float
) -> dict[str, Tensor]:
    """Weights between two models of one shape: (1 - share) w + share o, share from 0 to 1."""
    return {name: torch.lerp(tensor, other[name], share) for name, tensor in weights.items()}


def _other_weights(path: Path, checkpoint: Checkpoint) -> dict[str, Tensor]:
    other = load_checkpoint(path)
    if other.config != checkpoint.config:
        raise CheckpointError(f"{path}: a model of another shape cannot be mixed in")
    if other.tokenizer.files() != checkpoint.tokenizer.files():
        raise CheckpointError(f"{path}: a model with other pieces cannot be mixed in")
    return {name: tensor.float().clone() for name, tensor in other.model.state_dict().items()}


def measure(
    translator: Translator, pairs: Sequence[Pair], how: Choice, language: str | None
) -> dict[str, Any]:
    """Figures of one test set.

    `language`, the target's, adds Multi30k's lc_tok_bleu.

    Each pair counts as a sentence with one reference. Where sources repeat (Tatoeba), the figures
    with each source once and all its references are given beside it.
    """
    sources = [src for src, _ in pairs]
    unique = list(dict.fromkeys(sources))
    done = translator.translate(unique, beam_size=how.beam_size, alpha=how.alpha)
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
    # sacreBLEU takes one stream for each rank of reference; a source with fewer repeats its first,
    # which changes no n-gram's largest count and no closest length.
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


def _bleu(translator: Translator, pairs: Sequence[Pair], beam_size: int, alpha: float) -> float:
    done = translator.translate([src for src, _ in pairs], beam_size=beam_size, alpha=alpha)
    return round(score([t.text for t in done], [tgt for _, tgt in pairs]).bleu, 4)


def _read_run(run: Path) -> tuple[Recipe, dict[str, Any]]:
    try:
        metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
        return Recipe.from_dict(metrics["training"]["recipe"]), metrics
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{run}: not the folder of a finished run ({error})") from None
