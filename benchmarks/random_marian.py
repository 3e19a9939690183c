"""Parts of Marian models with random weights: wide weights and a small SentencePiece model.

Used by the benchmark and by tests; needs `torch` and `sentencepiece`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import sentencepiece as spm


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


def marian_config(
    vocab_size: int, d_model: int, d_ff: int, n_heads: int, layers: tuple[int, int], **more: Any
) -> Any:
    """Return a `MarianConfig` of a shape; `layers` are the encoder's and the decoder's."""
    from transformers import MarianConfig

    return MarianConfig(
        vocab_size=vocab_size, d_model=d_model, encoder_layers=layers[0], decoder_layers=layers[1],
        encoder_attention_heads=n_heads, decoder_attention_heads=n_heads, encoder_ffn_dim=d_ff,
        decoder_ffn_dim=d_ff, **{"max_position_embeddings": 512, **more},
    )  # fmt: skip


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
