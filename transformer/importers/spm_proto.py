"""Restricts SentencePiece models to a vocabulary."""

from __future__ import annotations

from collections.abc import Collection

from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from transformer.text.tokenizer import TokenizerError


def restrict(model: bytes, vocabulary: Collection[str]) -> bytes:
    """Mark every ordinary piece unused that is neither in the vocabulary nor a single character.

    Args:
        model: a serialized SentencePiece `ModelProto`; fields that this version of SentencePiece
            does not know are kept.

    Raises: `TokenizerError` if the bytes are no such message.
    """
    kinds = ModelProto.SentencePiece
    try:
        proto = ModelProto.FromString(model)
        for piece in proto.pieces:
            text = piece.piece
            if piece.type == kinds.NORMAL and len(text) > 1 and text not in vocabulary:
                piece.type = kinds.UNUSED
    except (DecodeError, UnicodeDecodeError):
        raise TokenizerError("not a SentencePiece model (damaged, or another format)") from None
    return bytes(proto.SerializeToString())
