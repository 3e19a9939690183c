"""From a finished run to a checkpoint to ship: choose on val, measure on the tests, write the card.

Everything that is chosen (how many epochs to average, beam and length penalty) is chosen on the
validation text. The test sets are then translated once.
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

from transformer.checkpoint import CheckpointError, load_checkpoint, save_checkpoint, write_atomic
from transformer.config import ConfigError, ModelConfig
from transformer.data import Pair, source_key
from transformer.evaluate import PROTOCOLS, score
from transformer.prepare import load_corpus
from transformer.recipe import Recipe
from transformer.run_folder import RunFolder, average_weights
from transformer.translator import Translator

#: What is tried on the validation text.
AVERAGES = (1, 3, 5, 8, 10, 20)
ALPHAS = (0.6, 1.0, 1.4)

#: Where the named corpora come from and on what terms.
SOURCES = {
    "multi30k": "Multi30k (Elliott et al. 2016, 2017): image captions; research and education use",
    "tatoeba": "Tatoeba (tatoeba.org, via manythings.org/anki): everyday sentences; CC-BY 2.0",
    "reversal": "random strings of 1 to 24 letters, made by `transformer.data.reversal`",
}


@dataclass(frozen=True)
class Choice:
    """A decoding that was tried on val, and its cased sacreBLEU there."""

    averaged_epochs: int
    beam_size: int
    alpha: float
    val_bleu: float


def publish(
    run: Path,
    data: Path,
    out: Path,
    *,
    beam_size: int = 5,
    device: str = "auto",
    dtype: str = "float16",
    command: str = "",
    notes: Sequence[str] = (),
) -> Path:
    """Write the checkpoint of a run to `out`, with metrics.json and a model card.

    Args:
        run: the output folder of `train`.  data: the folder it was trained from.
        beam_size: width used to choose alpha and on the tests.
        dtype: how the weights are stored; the figures are of the weights as stored.
        command: what trains this model again, for the card.
        notes: sentences for the card's section on limits.

    Raises: `ConfigError` where `run` holds no recipe, `CheckpointError` without weights.
    """
    recipe, trained = _read_run(run)
    corpus = load_corpus(recipe.data, data)
    val = corpus.val[:1500]
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
    weights = average_weights(files[-count:])
    # Measured as shipped: rounded to the stored precision and back.
    stored = getattr(torch, dtype)
    translator = with_weights({n: t.to(stored).float() for n, t in weights.items()})
    tried += [Choice(count, beam_size, a, _bleu(translator, val, beam_size, a)) for a in ALPHAS]
    best = max(tried[-len(ALPHAS) :], key=lambda choice: choice.val_bleu)
    tests = {
        name: measure(translator, pairs, recipe, best.beam_size, best.alpha)
        for name, pairs in corpus.tests.items()
    }
    metrics = {
        **trained,
        "chosen_on_val": asdict(best),
        "tried_on_val": [asdict(choice) for choice in tried],
        "decoding": {"beam_size": best.beam_size, "alpha": best.alpha},
        "stored_as": dtype,
        "tests": tests,
        "command": command,
    }
    save_checkpoint(out, translator.model.cpu(), checkpoint.tokenizer, metrics=metrics, dtype=dtype)
    card = model_card(out.resolve().name, translator.config, recipe, metrics, notes)
    write_atomic(out / "README.md", card.encode())
    return out


def measure(
    translator: Translator, pairs: Sequence[Pair], recipe: Recipe, beam_size: int, alpha: float
) -> dict[str, Any]:
    """Figures of one test set.

    Each pair counts as a sentence with one reference. Where sources repeat (Tatoeba), the figures
    with each source once and all its references are given beside it.
    """
    sources = [src for src, _ in pairs]
    unique = list(dict.fromkeys(sources))
    done = translator.translate(unique, beam_size=beam_size, alpha=alpha)
    texts = {src: translation.text for src, translation in zip(unique, done, strict=True)}
    hypotheses = [texts[src] for src in sources]
    captions = set(recipe.data.corpora) >= {"multi30k"} and len(unique) == len(sources)
    scores = score(
        hypotheses,
        [tgt for _, tgt in pairs],
        protocol=PROTOCOLS[0] if captions else None,
        language=recipe.data.tgt,
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
        "distinct_keys": len({source_key(src) for src in references}),
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


def model_card(
    name: str,
    model: ModelConfig,
    recipe: Recipe,
    metrics: dict[str, Any],
    notes: Sequence[str] = (),
) -> str:
    """The model card, in Markdown."""
    training, trained = recipe.training, metrics["training"]
    decoding = metrics["decoding"]
    rows = []
    for test, values in metrics["tests"].items():
        cells = [test, f"{values['sentences']:,}", f"{values['bleu']:.1f}", f"{values['chrf']:.1f}"]
        lc_tok = values.get("lc_tok_bleu")
        once = values.get("each_source_once")
        cells += [
            f"{lc_tok:.1f}" if lc_tok is not None else "",
            f"{once['bleu_all_references']:.1f} ({once['sentences']:,})" if once else "",
            f"{100 * values['exact_match']:.1f}%",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    signature = next(iter(metrics["tests"].values()))["signature"]
    lines = [
        f"# {name}",
        "",
        f"An encoder-decoder Transformer, {recipe.data.src} to {recipe.data.tgt}: "
        f"{model.n_encoder_layers}+{model.n_decoder_layers} layers, d_model {model.d_model}, "
        f"d_ff {model.d_ff}, {model.n_heads} heads, {model.n_parameters / 1e6:.1f}M parameters, "
        f"{model.vocab_size:,} shared pieces, stored as {metrics['stored_as']}.",
        "",
        "## Data",
        "",
        *(f"- {SOURCES.get(corpus, corpus)}" for corpus in recipe.data.corpora),
        "",
        "## Figures",
        "",
        f"Beam {decoding['beam_size']}, alpha {decoding['alpha']}, the last "
        f"{metrics['chosen_on_val']['averaged_epochs']} epochs averaged; all three chosen on the "
        "validation text.",
        "",
        "| test set | pairs | sacreBLEU, cased | chrF | lc_tok_bleu | each source once, "
        "all references (sources) | exact |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"sacreBLEU signature: `{signature}`. `lc_tok_bleu` scores lower-cased Moses tokens, as "
        "the Multi30k literature does; it is not comparable with the cased figure.",
        "",
        "## Training",
        "",
        f"- {trained['epochs']} epochs, {trained['updates']:,} updates, "
        f"{trained['target_tokens']:,} target tokens, seed {training.seed}",
        f"- {trained['hours']} hours on {trained['hardware']}"
        + (", matrix products in bfloat16" if trained["bfloat16"] else ""),
        f"- command: `{metrics['command']}`" if metrics["command"] else "- no command recorded",
        "",
        "## Limits",
        "",
        "Trained on short sentences of one kind; elsewhere it will be fluent and wrong. Not for "
        "any use where a mistranslation does harm.",
        *notes,
        "",
    ]
    return "\n".join(lines)
