"""Publish a finished run: choose on val, measure on held-out text, write the model card.

All choices of a translator (number of averaged epochs, share of another run's weights, default
decoding) are made on the validation text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint import folder
from transformer.checkpoint.reference import SNAPSHOTS
from transformer.checkpoint.weights import digest
from transformer.config import ConfigError
from transformer.evaluation import measure
from transformer.evaluation.card import TRANSLATORS, card, kind_of
from transformer.evaluation.scores import hypotheses_of, score
from transformer.search.request import PAPER_DECODING, Decoding
from transformer.text.layout import TOKENIZER_FILE
from transformer.training.data import Pair
from transformer.training.run_folder import RunFolder, average_weights, files_of
from transformer.training.snapshots import compare_again
from transformer.translator import Translator
from transformer.types import CheckpointError

#: Candidate numbers of last epochs to average.
AVERAGES = (1, 3, 5, 8, 10, 20)
#: Candidate shares of another run's weights, if one is given.
SHARES = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8)


@dataclass(frozen=True)
class Choice:
    """Weights and a decoding tried on val, with their cased sacreBLEU.

    The weights are `mixed_share` of another run's plus the rest of this run's epoch average.
    """

    averaged_epochs: int
    beam_size: int
    alpha: float
    val_bleu: float
    mixed_share: float = 0.0


def publish(
    run: Path, out: Path, how: measure.Measuring, *, dtype: str = "float16", made_by: str = "",
    notes: Sequence[str] = (), mix: Path | None = None, share: float | None = None,
) -> Path:  # fmt: skip
    """Write the checkpoint of a run to `out`, with metrics.json and a model card.

    Args:
        dtype: type of the stored weights, which are also the ones measured.
        made_by: the command that reproduces this model, for the card.  notes: for its limits.
        mix: a checkpoint of the same shape and vocabulary, such as the start of this run.
            Interpolated weights are often better than either (Wortsman et al. 2022).
        share: of `mix`, 0 to 1; None chooses it on val.

    Raises: `ConfigError` if `run` has no recipe, or `dtype`, `mix` or `share` is wrong,
        `CheckpointError` if there are no weights or `mix` has different shapes or pieces.
    """
    if dtype not in folder.STORED_DTYPES:
        raise ConfigError(f"dtype {dtype!r} is not one of: {', '.join(folder.STORED_DTYPES)}")
    if share is not None and (mix is None or not 0 <= share <= 1):
        raise ConfigError(f"share {share} is not a number from 0 to 1 with a checkpoint to mix in")
    recipe, trained = measure.read_metrics(run)
    translates = kind_of(recipe) in TRANSLATORS
    if mix is not None and not translates:
        raise ConfigError("--mix and --share are for translators with an encoder and a decoder")
    held_out = measure.held_out_text(recipe, how.data)
    files = files_of(recipe)
    loaded = files.load(run)
    chosen: dict[str, Any] = {}
    tried: list[Choice] = []
    weights: Mapping[str, Tensor] = loaded.model.state_dict()
    if translates:
        assert isinstance(loaded, folder.Checkpoint) and held_out is not None
        val = held_out.val[: measure.VAL_PAIRS]
        if not val or not all(held_out.tests.values()):
            raise ConfigError(f"{how.data}: too little text to hold out for validation and testing")
        weights, best, tried = _choose(run, loaded, val, how.device, mix, share)
        chosen = {
            "chosen_on_val": {
                "averaged_epochs": best.averaged_epochs, "mixed_share": best.mixed_share
            },
            **({} if share is None else {"share_given": True}),
            **({} if mix is None else {"mixed_with": str(mix)}),
        }  # fmt: skip
    # Measured as stored: weights rounded to the stored precision, except position tables.
    stored = getattr(torch, dtype)
    loaded.model.load_state_dict(
        {n: t if n in folder.POSITION_TABLES else t.to(stored).float() for n, t in weights.items()}
    )
    metrics = {
        **trained,
        "earlier_parts": earlier_parts(recipe.training.init),
        **chosen,
        "stored_as": dtype,
        "command": made_by,
        "notes": list(notes),
    }
    content = files.weights_file(loaded.model.config, loaded.model.state_dict(), dtype)
    metrics = measure.measured(
        loaded, recipe, held_out, metrics, replace(how, weights=digest(content))
    )
    if tried:
        tried += [
            replace(best, **{name: trial[name] for name in ("beam_size", "alpha", "val_bleu")})
            for trial in metrics.get("decoding_on_val", {}).get("trials", ())
        ]
        metrics["tried_on_val"] = [asdict(choice) for choice in tried]
    text = card(out.absolute().name, loaded.model.config, recipe, metrics)
    loaded.model.cpu()
    pieces = out / TOKENIZER_FILE
    if pieces.exists() and pieces.read_bytes() != loaded.tokenizer.files()[TOKENIZER_FILE]:
        (out / SNAPSHOTS).unlink(missing_ok=True)
    files.save(out, loaded.model, loaded.tokenizer, metrics=metrics, dtype=dtype, card=text)
    compare_again(out, loaded.model)
    return out


def _choose(
    run: Path, checkpoint: folder.Checkpoint, val: Sequence[Pair], device: str, mix: Path | None,
    share: float | None,
) -> tuple[dict[str, Tensor], Choice, list[Choice]]:  # fmt: skip
    """Return the weights that score best on val, how they were made, and all that was tried."""
    files = RunFolder(run).epochs()
    if not files:
        raise CheckpointError(f"{run / 'epochs'}: holds no weights to average")
    tried: list[Choice] = []

    def trial(
        weights: Mapping[str, Tensor], count: int, how: Decoding, share: float = 0.0
    ) -> Choice:
        # A translator packs its weights once, so new weights need a new translator.
        checkpoint.model.load_state_dict(weights)
        texts = hypotheses_of(Translator.from_checkpoint(checkpoint, device), val, how)
        value = score(texts, [tgt for _, tgt in val]).bleu
        tried.append(Choice(count, how.beam_size, how.alpha, round(value, 4), share))
        return tried[-1]

    best = max(
        (
            trial(average_weights(files[-n:], checkpoint.model), n, Decoding(1, 0.0))
            for n in AVERAGES
            if n <= len(files)
        ),
        key=lambda choice: choice.val_bleu,
    )
    count = best.averaged_epochs
    weights = average_weights(files[-count:], checkpoint.model)
    if mix is not None:
        mixed = folder.load_checkpoint(mix)
        if mixed.config != checkpoint.config:
            raise CheckpointError(f"{mix}: a model of another shape cannot be mixed in")
        if mixed.tokenizer.files() != checkpoint.tokenizer.files():
            raise CheckpointError(f"{mix}: a model with different pieces cannot be mixed in")
        other = {name: tensor.float() for name, tensor in mixed.model.state_dict().items()}
        # Beam search compares similar models with less noise than greedy decoding.
        best = max(
            (
                trial(blended(weights, other, part), count, PAPER_DECODING, part)
                for part in (SHARES if share is None else (share,))
            ),
            key=lambda choice: choice.val_bleu,
        )
        weights = blended(weights, other, best.mixed_share)
    return weights, best, tried


def earlier_parts(init: str) -> list[dict[str, Any]]:
    """Return the training records of the runs that a run started from, oldest first.

    `init` is the folder that the last run started from. The chain ends at a folder that is missing
    or has no training record.
    """
    parts: list[dict[str, Any]] = []
    while init:
        try:
            recipe, metrics = measure.read_metrics(Path(init))
        except ConfigError:
            break
        if metrics["training"] in parts:  # a published folder that its own later stage replaced
            break
        parts.insert(0, metrics["training"])
        if "earlier_parts" in metrics:
            return [*metrics["earlier_parts"], *parts]
        init = recipe.training.init
    return parts


def blended(
    weights: Mapping[str, Tensor], other: Mapping[str, Tensor], share: float
) -> dict[str, Tensor]:
    """Interpolate two models of one shape: (1 - share) w + share o, share from 0 to 1."""
    return {name: torch.lerp(tensor, other[name], share) for name, tensor in weights.items()}
