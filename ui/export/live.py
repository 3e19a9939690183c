"""A translator as a script: weights, vocabulary and settings for the model in the browser.

The scripts in `live/` compute the paper's model for what the shipped translators use. A page that
was opened from a file may not fetch, so the data are a string in a script that the page loads; they
are deflated, 16-bit floats in two planes, since their high bytes repeat and their low bytes do not.
"""

import base64
import json
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np

from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer, clean
from transformer.translator import Translator
from ui.components.packing import deflate

#: Settings that the scripts compute.
_SETTINGS = {
    "tgt_vocab_size": None, "n_decoder_heads": None, "d_k": None, "d_v": None, "decoder_d_ff": None,
    "activation": "relu", "norm": "post", "positions": "sinusoidal",
    "position_layout": "interleaved", "position_frequencies": "paper", "position_offset": 0,
    "tie_embeddings": "all", "scale_embedding": True, "attention_bias": False,
    "output_bias": False, "suppressed_ids": (), "renormalise": False, "forced_eos": False,
}  # fmt: skip


def why_not_live(translator: Translator) -> str | None:
    """Return a sentence naming what the scripts cannot compute, or None."""
    for name, value in _SETTINGS.items():
        if getattr(translator.config, name) != value:
            return f"The browser computes models with {name} = {value} only."
    tokenizer = translator.tokenizer
    if type(tokenizer) is not Tokenizer or tokenizer.kind not in ("unigram", "char"):
        return "The browser segments by unigram and character vocabularies of SentencePiece only."
    if translator.edits or translator.decoding.early_stopping is not None:
        return "The browser translates with unedited models by the paper's rule only."
    return None


def live_model(translator: Translator) -> bytes:
    """Return the script that hands a translator, in 16-bit floats, to the page that loads it.

    Raises: `ValueError` for a translator that `why_not_live` refuses.
    """
    if (reason := why_not_live(translator)) is not None:
        raise ValueError(reason)
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    tokenizer, state = translator.tokenizer, translator.model.state_dict()
    normaliser = ModelProto.FromString(tokenizer.to_bytes()).normalizer_spec
    tied = ("generator.weight", "tgt_embedding.weight")
    tensors = {name: tensor.numpy() for name, tensor in state.items() if name not in tied}
    flat = np.concatenate([tensor.ravel() for tensor in tensors.values()]).astype("<f2")
    planes = flat.view(np.uint8).reshape(-1, 2)
    charsmap = normaliser.precompiled_charsmap
    scores = np.array(tokenizer.scores, "<f4").tobytes()
    header = {
        "name": translator.name,
        "config": _numbers(translator.config),
        "beam": translator.decoding.beam_size,
        "alpha": translator.decoding.alpha,
        "tensors": [[name, tensor.size] for name, tensor in tensors.items()],
        "charsmap": len(charsmap),
        "kind": tokenizer.kind,
        "pieces": tokenizer.pieces,
        "bytes": sorted(tokenizer.byte_ids),
        **_characters(),
    }
    data = deflate(header, planes[:, 0].tobytes(), planes[:, 1].tobytes(), charsmap, scores)
    text = base64.b64encode(data).decode()
    return f"headlightModel({json.dumps(translator.name)}, {len(data)}, '{text}');\n".encode()


def _numbers(config: ModelConfig) -> dict[str, float]:
    names = (
        "d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "layer_norm_eps",
        "pad_id", "bos_id", "eos_id", "unk_id",
    )  # fmt: skip
    return {name: getattr(config, name) for name in names}


@cache
def _characters() -> dict[str, list[list[int]]]:
    """Return the ranges of code points that `clean` turns into spaces, and that it removes.

    Python's table of characters decides: a browser's may be older or newer.
    """

    def ranges(of: Callable[[str], bool]) -> list[list[int]]:
        inside = np.array([False, *(of(chr(code)) for code in range(sys.maxunicode + 1)), False])
        edges = np.flatnonzero(inside[1:] != inside[:-1]).tolist()
        return [[first, last - 1] for first, last in [*pairwise(edges)][::2]]

    odd = {c for c in map(chr, range(sys.maxunicode + 1))
           if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")}  # fmt: skip
    return {
        "spaces": ranges(lambda c: c in odd and clean(f"a{c}b") == "a b"),
        "removed": ranges(lambda c: c in odd and clean(f"a{c}b") == "ab"),
    }
