"""Publish a run of one stack: measure it on held-out text, and write its card.

A model that continues or fills in is scored by the tokens that it predicts: perplexity, the
exponential of the mean negative log-likelihood, and the share whose most probable token is right.
Perplexities of models with different pieces do not compare. A translator is scored like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint.folder import STORED_DTYPES
from transformer.config import ConfigError
from transformer.evaluation.card import PREDICTIONS, SOURCES, part_line
from transformer.evaluation.measure import measure_test, read_metrics, write_figures
from transformer.one_stack.config import StackConfig
from transformer.one_stack.files import StackCheckpoint, load_stack, save_stack
from transformer.one_stack.model import OneStack
from transformer.one_stack.tracer import ALPHA, BEAM_SIZE, StackModel
from transformer.search.decoding import DEFAULT_DECODING, Decoding
from transformer.text.tokenizer import Tokenizer
from transformer.training.corpus import encode_pairs, load_held_out
from transformer.training.data import MULTI30K_TESTS, Corpus, Pair, collate, in_chunks
from transformer.training.recipe import Recipe
from transformer.training.tasks import task_of, text_of

#: Sentences of each text that are scored.
MOST_SENTENCES = 2_000

#: What the tasks are called in a card, and what each model is not for.
_ABOUT = {
    "continue": (
        "A decoder without encoder, as GPT is: it continues an English sentence",
        "It knows short everyday sentences, and goes on fluently without knowing anything.",
    ),
    "fill": (
        "An encoder without decoder, as BERT is: it fills in words of an English sentence that "
        "are hidden behind `[MASK]`",
        "It knows short everyday sentences; what it fills in fits its surroundings, not the facts.",
    ),
    "translate": (
        "A translator of one stack: source and translation are one text, {src} to {tgt}",
        "Trained on short sentences of one kind; elsewhere it will be fluent and wrong. Not for "
        "any use where a mistranslation does harm.",
    ),
}


def publish_stack(
    run: Path,
    data: Path,
    out: Path,
    *,
    device: str = "auto",
    dtype: str = "float16",
    made_by: str = "",
    notes: Sequence[str] = (),
) -> Path:
    """Write the checkpoint of a run to `out`; arguments as of `publish`.

    Raises: like `publish`.
    """
    if dtype not in STORED_DTYPES:
        raise ConfigError(f"dtype {dtype!r} is not one of: {', '.join(STORED_DTYPES)}")
    recipe, trained = read_metrics(run)
    found = load_stack(run)
    stored = getattr(torch, dtype)
    rounded = {name: each.to(stored).float() for name, each in found.model.state_dict().items()}
    found.model.load_state_dict(rounded)  # measured as stored
    metrics = {
        **trained,
        **measured(found, recipe, _held_out(recipe, data), device),
        "stored_as": dtype,
        "command": made_by,
        "notes": list(notes),
    }
    card = stack_card(out.resolve().name, found.model.config, recipe, metrics)
    return save_stack(
        out, found.model.cpu(), found.tokenizer, metrics=metrics, dtype=dtype, card=card
    )


def measured(
    found: StackCheckpoint, recipe: Recipe, held_out: Corpus, device: str = "auto"
) -> dict[str, Any]:
    """Return the figures of a model of one stack on held-out text, as in metrics.json."""
    if recipe.stack is None:
        raise ConfigError(f"{found.path}: not a model of one stack")
    if found.model.config.task != "translate":
        texts = {"val": held_out.val, **held_out.tests}
        model, tokenizer = found.model, found.tokenizer
        return {
            PREDICTIONS: {
                name: predictions(model, tokenizer, recipe, pairs[:MOST_SENTENCES])
                for name, pairs in texts.items()
                if pairs
            }
        }
    how = Decoding(BEAM_SIZE, ALPHA)
    translator = StackModel(found.model, found.tokenizer, device=device)
    tests = {
        name: measure_test(
            translator, pairs, how, recipe.data.tgt if name in MULTI30K_TESTS else None
        )
        for name, pairs in held_out.tests.items()
    }
    return {DEFAULT_DECODING: how.to_dict(), "tests": tests}


def predictions(
    model: OneStack, tokenizer: Tokenizer, recipe: Recipe, pairs: Sequence[Pair]
) -> dict[str, float]:
    """Score what a model predicts in some texts: of every next token, or of hidden ones.

    Which are hidden is drawn with seed 0.

    Returns: "perplexity", "right" (a share), and "tokens" predicted.
    """
    _, texts = encode_pairs(pairs, tokenizer, model.config.max_positions)
    task, device = task_of(recipe, tokenizer), model.embedding.weight.device
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    nll, right, count = 0.0, 0, 0
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for rows in in_chunks(order, 64):
            chosen = [texts[row] for row in rows]
            batch = task.ask(collate(chosen, chosen))
            wanted = batch.tgt_out != model.config.pad_id
            logits = model(batch.src.to(device), batch.tgt_in.to(device)).cpu()[wanted]
            asked = batch.tgt_out[wanted]
            nll -= float(logits.log_softmax(-1).gather(1, asked[:, None]).double().sum())
            right += int((logits.argmax(-1) == asked).sum())
            count += len(asked)
    if not count:
        return {"perplexity": float("nan"), "right": float("nan"), "tokens": 0}
    return {
        "perplexity": round(math.exp(nll / count), 3),
        "right": round(right / count, 4),
        "tokens": count,
    }


def remeasure_stack(
    checkpoint: Path, data: Path, *, device: str = "auto", notes: Sequence[str] | None = None
) -> Path:
    """Measure a published model again, and rewrite its metrics.json and card."""
    recipe, metrics = read_metrics(checkpoint)
    found = load_stack(checkpoint)
    metrics |= measured(found, recipe, _held_out(recipe, data), device)
    if notes is not None:
        metrics["notes"] = list(notes)
    card = stack_card(checkpoint.resolve().name, found.model.config, recipe, metrics)
    write_figures(checkpoint, metrics, card)
    return checkpoint


def _held_out(recipe: Recipe, data: Path) -> Corpus:
    return text_of(recipe, load_held_out(recipe.data, data))


def stack_card(name: str, config: StackConfig, recipe: Recipe, metrics: Mapping[str, Any]) -> str:
    """Write the model card, in Markdown."""
    about, limits = _ABOUT[config.task]
    blocks = config.blocks
    about = about.format(src=recipe.data.src, tgt=recipe.data.tgt)
    lines = [
        f"# {name}",
        "",
        f"{about}. {config.n_layers} layers, d_model {blocks.d_model}, d_ff {blocks.d_ff}, "
        f"{blocks.heads_in_words}, {config.n_parameters / 1e6:.1f}M parameters, "
        f"{blocks.vocab_size:,} pieces, stored as {metrics['stored_as']}.",
        "",
        "## Data",
        "",
        *(f"- {SOURCES.get(corpus, corpus)}" for corpus in dict.fromkeys(recipe.data.corpora)),
        *([] if config.task == "translate" else ["- the English side, each sentence once"]),
        "",
        "## Figures",
        "",
        *_figures(config, metrics),
        "",
        "## Training",
        "",
        part_line(metrics["training"]),
        f"- command: `{metrics['command']}`" if metrics["command"] else "- no command recorded",
        "",
        "## Limits",
        "",
        limits,
        *metrics.get("notes", ()),
        "",
    ]
    return "\n".join(lines)


def _figures(config: StackConfig, metrics: Mapping[str, Any]) -> list[str]:
    if config.task == "translate":
        how = metrics[DEFAULT_DECODING]
        return [
            *(
                f"- {name}: {each['bleu']:.1f} BLEU, {each['chrf']:.1f} chrF2 "
                f"({each['sentences']:,} sentences, `{each['signature']}`)"
                for name, each in metrics["tests"].items()
            ),
            f"- decoded with beam {how['beam_size']}, alpha {how['alpha']}",
        ]
    what = "next tokens" if config.causal else "hidden tokens"
    return [
        f"- {name}: perplexity {each['perplexity']:.1f}, {100 * each['right']:.1f}% of "
        f"{each['tokens']:,} {what} right"
        for name, each in metrics[PREDICTIONS].items()
    ]
