"""From a finished run to a checkpoint to ship: choose on val, measure on the tests, write the card.

Everything that is chosen (how many epochs to average, how much of another run to mix in, the
default decoding) is chosen on the validation text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
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
from transformer.evaluation.card import model_card
from transformer.evaluation.measure import VAL_PAIRS, described, read_metrics
from transformer.evaluation.scores import score
from transformer.evaluation.tune import ALPHAS, BEAMS
from transformer.search.decoding import PAPER_DECODING, Decoding
from transformer.training.corpus import load_held_out
from transformer.training.run_folder import RunFolder, average_weights
from transformer.translator import Translator

#: Numbers of last epochs whose mean is tried.
AVERAGES = (1, 3, 5, 8, 10, 20)
#: Shares of another run's weights, where one is named.
SHARES = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8)


@dataclass(frozen=True)
class Choice:
    """Weights and a decoding that were tried on val, and their cased sacreBLEU there.

    `mixed_share` of the weights is another run's, the rest the mean of this run's last epochs.
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
    beams: Sequence[int] = BEAMS,
    alphas: Sequence[float] = ALPHAS,
    device: str = "auto",
    dtype: str = "float16",
    made_by: str = "",
    notes: Sequence[str] = (),
    mix: Path | None = None,
) -> Path:
    """Write the checkpoint of a run to `out`, with metrics.json and a model card.

    Args:
        run: the output folder of `train`.  data: the folder it was trained from.
        beams, alphas: settings that the default decoding is chosen from, beside the paper's.
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
    recipe, trained = read_metrics(run)
    corpus = load_held_out(recipe.data, data)
    val = corpus.val[:VAL_PAIRS]
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

    def trial(model: Translator, count: int, how: Decoding, share: float = 0.0) -> Choice:
        texts = model.translate([src for src, _ in val], how.beam_size, how.alpha)
        value = score([each.text for each in texts], [tgt for _, tgt in val]).bleu
        tried.append(Choice(count, how.beam_size, how.alpha, round(value, 4), share))
        return tried[-1]

    greedy = [
        trial(with_weights(average_weights(files[-n:])), n, Decoding(1, 0.0))
        for n in AVERAGES
        if n <= len(files)
    ]
    count = max(greedy, key=lambda choice: choice.val_bleu).averaged_epochs
    weights, share = average_weights(files[-count:]), 0.0
    if mix is not None:
        other = _other_weights(mix, checkpoint)
        # A beam tells similar models apart with less noise than greedy decoding.
        blends = [
            trial(with_weights(blended(weights, other, each)), count, PAPER_DECODING, each)
            for each in SHARES
        ]
        share = max(blends, key=lambda choice: choice.val_bleu).mixed_share
        weights = blended(weights, other, share)
    # Measured as shipped: rounded to the stored precision and back, tables of positions excepted.
    stored = getattr(torch, dtype)
    translator = with_weights(
        {n: t if n in POSITION_TABLES else t.to(stored).float() for n, t in weights.items()}
    )
    metrics = {
        **trained,
        "earlier_parts": earlier_parts(recipe.training.init),
        "chosen_on_val": {"averaged_epochs": count, "mixed_share": share},
        "stored_as": dtype,
        "command": made_by,
        "notes": list(notes),
        **({"mixed_with": str(mix)} if mix is not None else {}),
    }
    metrics = described(translator, recipe, corpus, metrics, beams, alphas)
    tried += [
        Choice(count, each["beam_size"], each["alpha"], each["val_bleu"], share)
        for each in metrics.get("decoding_on_val", {}).get("trials", ())
    ]
    metrics["tried_on_val"] = [asdict(choice) for choice in tried]
    save_checkpoint(
        out, translator.model.cpu(), checkpoint.tokenizer, metrics=metrics, dtype=dtype,
        card=model_card(out.resolve().name, translator.config, recipe, metrics),
    )  # fmt: skip
    return out


def earlier_parts(init: str) -> list[dict[str, Any]]:
    """What the runs recorded of their training from which another one began, the first one first.

    `init` is the folder that the later run began from. A folder that is gone, or that says nothing
    of its training, ends the way back.
    """
    parts: list[dict[str, Any]] = []
    while init:
        try:
            recipe, metrics = read_metrics(Path(init))
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
