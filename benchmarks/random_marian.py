"""Marian models with random weights, and their parts, for benchmarks and tests.

Weights are so wide that rounding almost never decides the next token. In the model of `make`,
`</s>` is so improbable that every translation reaches the length limit.
"""

import io
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece as spm

#: Training text of the two SentencePiece models; the benchmark itself uses token ids.
TEXT = (
    "The animal didn't cross the street because it was too tired.",
    "Two men are playing guitar in front of a crowd.",
    "A little girl climbs into a wooden playhouse.",
)
UNKNOWN, END = 1, 0


def sentence_pieces(sentences: Sequence[str], vocab_size: int, whole: Sequence[str] = ()) -> bytes:
    """Return a SentencePiece model with the library's own special ids, as in OPUS models.

    Args: whole: texts that are one piece each.
    """
    written = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=written, vocab_size=vocab_size,
        minloglevel=2, num_threads=1, hard_vocab_limit=False, user_defined_symbols=list(whole),
    )  # fmt: skip
    return written.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """Return its pieces in the order of their ids, without the three special ones."""
    processor = spm.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(index) for index in range(3, len(processor))]


def spread(model: Any, pad: int) -> None:
    """Give a `MarianMTModel` weights so wide that attention and predictions are far from uniform.

    Its parameters must not require gradients. The rows of `pad` become 0, as in OPUS models.
    """
    for name, weight in model.named_parameters():
        if "positions" in name:
            continue
        if weight.dim() == 2:
            weight.normal_(std=1.5 * weight.size(1) ** -0.5)
        else:
            weight.normal_(std=0.2).add_(float("norm.weight" in name))
    # With tied embeddings a model would otherwise repeat its input.
    model.model.decoder.layers[-1].final_layer_norm.weight.normal_(std=1.5)
    for table in (model.model.encoder.embed_tokens, model.model.decoder.embed_tokens):
        table.weight[pad] = 0
    model.final_logits_bias.normal_(std=0.5)


@dataclass(frozen=True)
class Shape:
    """The model's sizes; `layers` is the depth of each stack."""

    vocab_size: int = 32_000
    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    layers: int = 6

    @property
    def step_weights(self) -> int:
        """Weights that a decoding step reads: the decoder's, less those of cross-attention's K, V.

        Of the embeddings it reads a row; biases and norms are left out.
        """
        d = self.d_model
        return self.layers * (6 * d * d + 2 * d * self.d_ff) + self.vocab_size * d

    @property
    def sentence_weights(self) -> int:
        """Weights read once a sentence: the encoder's and those of cross-attention's K and V."""
        d = self.d_model
        return self.layers * (4 * d * d + 2 * d * self.d_ff + 2 * d * d)


BASE = Shape()
TINY = Shape(vocab_size=300, d_model=32, n_heads=4, d_ff=48, layers=2)


def make(folder: Path, shape: Shape) -> None:
    """Write the model as Hugging Face does, import it, and convert it for CTranslate2.

    Leaves three folders: `marian`, `imported` and `converted`.
    """
    _write_marian(folder / "marian", shape)
    from ctranslate2.converters import TransformersConverter

    from transformer.models.importers.registry import FORMATS

    FORMATS["marian"].convert(folder / "marian", folder / "imported")
    TransformersConverter(str(folder / "marian")).convert(str(folder / "converted"))


def _write_marian(folder: Path, shape: Shape) -> None:
    import torch
    import transformers

    folder.mkdir(parents=True)
    _write_tokenizer(folder, shape)
    pad = shape.vocab_size - 1
    config = transformers.MarianConfig(
        vocab_size=shape.vocab_size, d_model=shape.d_model, max_position_embeddings=512,
        encoder_layers=shape.layers, encoder_attention_heads=shape.n_heads,
        decoder_layers=shape.layers, decoder_attention_heads=shape.n_heads,
        encoder_ffn_dim=shape.d_ff, decoder_ffn_dim=shape.d_ff,
        activation_function="swish", scale_embedding=True, static_position_embeddings=True,
        pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=END, forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    model: Any = transformers.MarianMTModel(config).eval().requires_grad_(False)
    spread(model, pad)
    model.final_logits_bias[0, END] = -1e4
    model.save_pretrained(folder)
    path = folder / "generation_config.json"
    decoding = {"bad_words_ids": [[pad]], "forced_eos_token_id": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | decoding))


def _write_tokenizer(folder: Path, shape: Shape) -> None:
    cutter = sentence_pieces(TEXT, 60)
    pieces = pieces_of(cutter)
    made_up = [f"▁w{number}" for number in range(shape.vocab_size - 3 - len(pieces))]
    table = ["</s>", "<unk>", *pieces, *made_up, "<pad>"]
    ids = {piece: index for index, piece in enumerate(table)}
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(cutter)
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MarianTokenizer", "separate_vocabs": False})
    )


def sources(shape: Shape, count: int, tokens: int) -> list[list[int]]:
    """Return random source sentences as ids, each with `</s>`; the first has `length` tokens.

    The others have between half and one and a half times as many, as uneven as in a real batch.
    """
    rng = random.Random(0)
    lengths = [tokens, *(rng.randint(tokens // 2, tokens + tokens // 2) for _ in range(count - 1))]
    return [
        [*(rng.randrange(2, shape.vocab_size - 1) for _ in range(length - 1)), END]
        for length in lengths
    ]
