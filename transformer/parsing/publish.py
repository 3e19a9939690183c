"""Publish a parser: score it beside its baselines, write the checkpoint and its card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint.folder import (
    POSITION_TABLES,
    STORED_DTYPES,
    load_checkpoint,
    save_checkpoint,
)
from transformer.config import ConfigError, ModelConfig
from transformer.evaluation.card import PARSING, part_line
from transformer.evaluation.measure import read_metrics
from transformer.evaluation.publish import earlier_parts
from transformer.parsing.evaluation import evaluate
from transformer.parsing.parser import EXTRA_LENGTH, load_parser
from transformer.search.decoding import DEFAULT_DECODING
from transformer.search.request import Progress
from transformer.training.data import corpus_folder
from transformer.training.treebank import GUM, TREE

#: In metrics.json: the scores of other parsers by name.
BASELINES = "parsing_baselines"
#: Text on which parsers are compared.
DEV = "dev.ptb"
#: The app's search. 21 hypotheses, the paper's, score the same and take five times as long to draw.
APP_BEAM, APP_ALPHA = 4, 0.3


def publish_parser(
    run: Path,
    data: Path,
    out: Path,
    *,
    device: str = "auto",
    dtype: str = "float16",
    made_by: str = "",
    notes: Sequence[str] = (),
    baselines: Mapping[str, Path] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the checkpoint of a parser's run to `out`, with metrics.json and a card.

    Args:
        run: the output folder of `train` with trees as the target.  data: holds GUM.
        dtype: type of the stored weights, which are also the ones measured.
        baselines: other parsers, by what the card calls them.

    Raises: `ConfigError` if `run` is no parser's or `dtype` is unknown.
    """
    if dtype not in STORED_DTYPES:
        raise ConfigError(f"dtype {dtype!r} is not one of: {', '.join(STORED_DTYPES)}")
    recipe, trained = read_metrics(run)
    if recipe.data.tgt != TREE:
        raise ConfigError(f"{run}: trained to write {recipe.data.tgt!r}, not trees")
    checkpoint, stored = load_checkpoint(run), getattr(torch, dtype)
    weights = {
        name: tensor if name in POSITION_TABLES else tensor.to(stored).float()
        for name, tensor in checkpoint.model.state_dict().items()
    }
    checkpoint.model.load_state_dict(weights)
    gold = corpus_folder(GUM, data) / DEV
    metrics: dict[str, Any] = {
        **trained,
        "earlier_parts": earlier_parts(recipe.training.init),
        "stored_as": dtype,
        "command": made_by,
        "notes": list(notes),
        DEFAULT_DECODING: {
            "beam_size": APP_BEAM, "alpha": APP_ALPHA, "extra_length": EXTRA_LENGTH
        },
        "tests": {},
    }  # fmt: skip
    save_checkpoint(out, checkpoint.model, checkpoint.tokenizer, metrics=metrics, dtype=dtype)
    metrics[PARSING] = evaluate(load_parser(out, device), gold, on_parsed=progress)
    others = {
        f"this model, beam {APP_BEAM}": load_parser(out, device),
        f"the same without a grammar, beam {APP_BEAM}": load_parser(out, device, free=True),
        **{
            f"{name}, beam {APP_BEAM}": load_parser(path, device)
            for name, path in (baselines or {}).items()
        },
    }
    metrics[BASELINES] = {
        name: evaluate(parser, gold, APP_BEAM, APP_ALPHA, progress)
        for name, parser in others.items()
    }
    save_checkpoint(
        out, checkpoint.model, checkpoint.tokenizer, metrics=metrics, dtype=dtype,
        card=parser_card(out.resolve().name, checkpoint.model.config, metrics),
    )  # fmt: skip
    return out


def parser_card(name: str, model: ModelConfig, metrics: Mapping[str, Any]) -> str:
    """Write the model card of a parser, in Markdown."""
    found = metrics[PARSING]
    rows = [(f"this model, beam {found['beam_size']:.0f}", found), *metrics[BASELINES].items()]
    branching = found["right_branching_f1"]
    parts = (*metrics["earlier_parts"], metrics["training"])
    lines = [
        f"# {name}",
        "",
        "An encoder-decoder Transformer that parses English (section 6.3): words in, the symbols "
        f"of their phrase-structure tree out. {model.n_encoder_layers}+{model.n_decoder_layers} "
        f"layers, d_model {model.d_model}, d_ff {model.d_ff}, {model.heads_in_words}, "
        f"{model.n_parameters / 1e6:.1f}M parameters, {model.vocab_size:,} pieces, "
        f"{model.target_vocab_size} symbols, stored as {metrics['stored_as']}.",
        "",
        "## Data",
        "",
        "- GUM (gucorpling.org/gum; Zeldes 2017): phrase-structure trees of texts under CC-BY and "
        "CC-BY-SA, annotations CC-BY 4.0; function tags and indices left out",
        "- Tatoeba (tatoeba.org, via manythings.org/anki): the sentences of the translator whose "
        "weights it starts from, and of trees that an earlier parser made; CC-BY 2.0",
        "",
        "## Figures",
        "",
        f"GUM dev, {found['sentences']:.0f} sentences; labelled brackets by EVALB's rules, "
        f"alpha {found['alpha']:g}, at most the source length + {EXTRA_LENGTH} symbols "
        "(`python -m transformer parse --gold`). Repaired: output that was "
        "not the sequence of a tree over all the words.",
        "",
        "| parser | F1 | precision | recall | exact | tags | repaired |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(_row(name, values) for name, values in rows),
        f"| right-branching | {branching:.1f} | | | | | |",
        "",
        "The paper's parsers reached 91.3 on the Wall Street Journal from 40,000 trees, and 92.7 "
        "with 17 million sentences parsed by others.",
        "",
        "## Training",
        "",
        *map(part_line, parts),
        f"- command: `{metrics['command']}`" if metrics["command"] else "- no command recorded",
        "",
        "## Limits",
        "",
        "Trained on few trees of a few kinds of text; long sentences come out worst.",
        *metrics["notes"],
        "",
    ]
    return "\n".join(lines)


def _row(name: str, values: Mapping[str, float]) -> str:
    keys = ("f1", "precision", "recall", "exact", "tags", "repaired")
    return f"| {name} | " + " | ".join(f"{values[key]:.1f}" for key in keys) + " |"
