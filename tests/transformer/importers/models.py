"""Random-weight Marian models, made with Hugging Face's code, and small tokenizers."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported

import pytest
import torch

from benchmarks.random_marian import pieces_of, sentence_pieces, spread
from tests.tiny_models import SENTENCES

transformers: Any = pytest.importorskip("transformers")
transformers.logging.disable_progress_bar()

ENGLISH, GERMAN = SENTENCES[::2], SENTENCES[1::2]
TAGS = (">>deu<<", ">>fra<<")

#: Settings of each model, on top of BASE. Vocabularies have the size of their pieces.
SHAPES: dict[str, dict[str, Any]] = {
    "tied, unequal depths": {"eos": 0},
    "a decoder of its own shape": {
        "eos": 5, "d_model": 20, "encoder_attention_heads": 5, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 12, "decoder_ffn_dim": 28, "encoder_layers": 3, "decoder_layers": 1,
        "activation_function": "relu", "scale_embedding": False,
    },
    "separate vocabularies": {"eos": 0, "share_encoder_decoder_embeddings": False},
    "separate and untied": {
        "eos": 3, "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False,
        "encoder_attention_heads": 1, "decoder_attention_heads": 1,
    },
    "one vocabulary, nothing tied": {
        "eos": 0, "tie_word_embeddings": False, "activation_function": "gelu",
    },
}  # fmt: skip

BASE: dict[str, Any] = {
    "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40,
    "max_position_embeddings": 80, "activation_function": "swish", "scale_embedding": True,
}  # fmt: skip


def numbered(pieces: Sequence[str], special: dict[str, int], seed: int) -> dict[str, int]:
    """Return a shuffled vocabulary, with the special pieces at their ids."""
    rest = sorted(set(pieces))
    random.Random(seed).shuffle(rest)
    size = len(rest) + len(special)
    free = iter(index for index in range(size) if index not in special.values())
    return special | {piece: next(free) for piece in rest}


def make_folder(folder: Path, shape: str, seed: int = 0, **changes: Any) -> Any:
    """Write a Marian model with its tokenizers to `folder`; return Hugging Face's model."""
    settings = {**BASE, **SHAPES[shape], **changes}
    eos = settings.pop("eos")
    folder.mkdir(parents=True, exist_ok=True)
    source, target = sentence_pieces(ENGLISH, 90), sentence_pieces(GERMAN, 110)
    english, german = [*pieces_of(source), *TAGS], pieces_of(target)
    special = {"</s>": eos, "<unk>": 1, "<pad>": 2}
    if settings.get("share_encoder_decoder_embeddings", True):
        # The last id, as in OPUS-MT.
        special["<pad>"] = len({*english, *german}) + 2
        vocabularies = [numbered([*english, *german], special, seed)]
    else:
        vocabularies = [numbered(english, special, seed), numbered(german, special, seed)]
    for name, ids in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        (folder / name).write_text(json.dumps(ids))
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    separate = {"separate_vocabs": len(vocabularies) > 1}
    (folder / "tokenizer_config.json").write_text(json.dumps(separate))
    pad = special["<pad>"]
    config = transformers.MarianConfig(
        vocab_size=len(vocabularies[0]), decoder_vocab_size=len(vocabularies[-1]),
        pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=eos, forced_eos_token_id=eos,
        attn_implementation="eager", **settings,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(config).eval().requires_grad_(False)
    spread(model, pad)
    model.final_logits_bias[0, eos] = 6.0
    model.save_pretrained(folder)
    decoding = json.loads((folder / "generation_config.json").read_text())
    decoding |= {"bad_words_ids": [[pad]], "max_length": 60}
    (folder / "generation_config.json").write_text(json.dumps(decoding))
    return transformers.MarianMTModel.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()
