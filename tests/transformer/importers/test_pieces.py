"""SentencePiece models restricted to a vocabulary."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from transformer.importers.pieces import restrict
from transformer.text.tokenizer import TokenizerError


@given(st.binary(max_size=200))
def test_bytes_that_are_no_model_are_refused_or_kept(data: bytes) -> None:
    """Whatever the bytes, restricting a model ends, with an error if they are no message."""
    with contextlib.suppress(TokenizerError):
        assert isinstance(restrict(data, ()), bytes)


def test_only_ordinary_pieces_outside_the_vocabulary_become_unused() -> None:
    model = ModelProto()
    for text, kind in (("<unk>", 2), ("▁known", 1), ("▁other", 1), ("x", 1), ("<user>", 4)):
        model.pieces.add(piece=text, score=-1.5, type=kind)
    model.trainer_spec.vocab_size = 5
    unknown_field = b"\xd0\x3e\x07"  # number 1002, as a later version might add
    data = restrict(model.SerializeToString() + unknown_field, {"▁known"})
    model.pieces[2].type = 5
    assert data == model.SerializeToString() + unknown_field
