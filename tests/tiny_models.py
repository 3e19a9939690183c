"""Tiny models, with random weights or trained for a second."""

from functools import cache
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.nn.utils.rnn import pad_sequence

from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.models.one_stack.model import OneStack
from transformer.text.tokenizer import Tokenizer, train_tokenizer, with_symbols

#: English sentences, each followed by its German translation.
SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "The cat sat on the mat because it was tired.",
    "Die Katze saß auf der Matte, weil sie müde war.",
    "A dog runs across the green grass.",
    "Ein Hund rennt über das grüne Gras.",
    "Two men are playing guitar in front of a crowd.",
    "Zwei Männer spielen Gitarre vor einer Menschenmenge.",
    "A little girl climbs into a wooden playhouse.",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
)
#: Arguments of `train_tokenizer`; "bytes" is a unigram tokenizer with byte fallback.
KINDS: dict[str, dict[str, Any]] = {
    "unigram": {"vocab_size": 110},
    "bytes": {"vocab_size": 420, "byte_fallback": True, "fewer": True},
    "bpe": {"vocab_size": 130, "model_type": "bpe"},
    "char": {"vocab_size": 60, "model_type": "char"},
}


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    """Return the tokenizer of a kind, trained on `SENTENCES`."""
    return train_tokenizer(SENTENCES, **KINDS[kind])


#: Unequal depths, head counts other than 8, d_k and d_v of their own, every option used once.
CONFIGS = {
    "post-norm": ModelConfig(
        vocab_size=30, d_model=24, n_heads=3, d_k=6, d_v=10, d_ff=40,
        n_encoder_layers=2, n_decoder_layers=3,
    ),
    "pre-norm, learned positions": ModelConfig(
        vocab_size=30, d_model=15, n_heads=3, d_ff=20, n_encoder_layers=3, n_decoder_layers=2,
        norm="pre", positions="learned", max_positions=40, tie_embeddings="none",
        attention_bias=True, activation="gelu", output_bias=True,
    ),
    "two vocabularies, one head": ModelConfig(
        vocab_size=25, tgt_vocab_size=30, d_model=10, n_heads=1, d_k=16, d_ff=20,
        n_encoder_layers=1, n_decoder_layers=2, tie_embeddings="decoder",
        position_layout="concatenated", scale_embedding=False, activation="silu",
    ),
    "relative positions": ModelConfig(
        vocab_size=30, d_model=24, n_heads=3, n_decoder_heads=4, d_ff=20, positions="relative",
        n_encoder_layers=2, n_decoder_layers=3, norm="pre", max_positions=7,
    ),
    "a decoder of its own shape": ModelConfig(
        vocab_size=30, d_model=20, n_heads=5, n_decoder_heads=2, d_ff=12, decoder_d_ff=28,
        n_encoder_layers=2, n_decoder_layers=1, attention_bias=True,
    ),
}  # fmt: skip

#: As small as a model gets, with a decoder deeper than its encoder.
SMALL = ModelConfig(
    vocab_size=110, d_model=12, n_heads=3, d_ff=8, n_encoder_layers=1, n_decoder_layers=2
)

#: Sources of 6 and 4 tokens, targets of 5 and 3, padded with 0.
SRC = torch.tensor([[5, 9, 7, 12, 21, 2], [14, 8, 8, 2, 0, 0]])
TGT = torch.tensor([[1, 6, 11, 28, 9], [1, 17, 4, 0, 0]])


def random_model(config: ModelConfig, seed: int = 0) -> Transformer:
    """Return a random model with non-uniform attention and predictions."""
    torch.manual_seed(seed)
    model = Transformer(config).eval().requires_grad_(False)
    sharpen(model, config.eos_id)
    return model


def sharpen(model: Transformer | OneStack, eos_id: int) -> None:
    """Make the attention and predictions of random weights non-uniform."""
    for name, parameter in model.named_parameters():
        if "attention" in name or "embedding" in name:
            parameter.mul_(2.0)
        if "distances" in name:
            parameter.normal_()
        if name == "positions.table":
            parameter.mul_(20.0)
    if model.generator.bias is not None:
        model.generator.bias[eos_id] = 2.0  # so that translations end


def uneven_model(tokenizer: Tokenizer) -> Transformer:
    """Return a random model with other depths and heads than `tiny_model`."""
    return random_model(ModelConfig(
        vocab_size=tokenizer.vocab_size, d_model=20, n_heads=5, d_ff=24, n_encoder_layers=1,
        n_decoder_layers=2, max_positions=600,
    ))  # fmt: skip


def random_parser(config: ModelConfig, tokenizer: Tokenizer) -> tuple[Transformer, Tokenizer]:
    """Return a random model that writes short trees, forced by the grammar."""
    known = with_symbols(tokenizer, ["⟩", "⟨S", "⟨NP", "⟨VP", "·NN", "·DT", "·VBD", "·."])
    model = random_model(config.replace(vocab_size=known.vocab_size, output_bias=True))
    tags = [index for index, piece in enumerate(known.pieces) if piece.startswith("▁·")]
    assert model.generator.bias is not None
    model.generator.bias[tags] = 6.0  # rather the next word than one phrase more around it
    return model, known


def trained_model(config: ModelConfig, tokenizer: Tokenizer) -> Transformer:
    """Train a model on `SENTENCES` for 80 updates, so that its translations end."""
    torch.manual_seed(0)
    model = Transformer(config).eval()  # dropout's operation would import PyTorch's compiler
    ids = [torch.tensor(each) for each in tokenizer.encode_many(SENTENCES)]
    bos, eos = torch.tensor([config.bos_id]), torch.tensor([config.eos_id])
    src = pad_sequence([torch.cat([each, eos]) for each in ids[::2]], batch_first=True)
    tgt_in = pad_sequence([torch.cat([bos, each]) for each in ids[1::2]], batch_first=True)
    tgt_out = pad_sequence([torch.cat([each, eos]) for each in ids[1::2]], batch_first=True)
    # Adam by hand: importing torch.optim takes longer than all of this training.
    parameters = list(model.parameters())
    values = parameters_to_vector(parameters).detach()
    mean, square = torch.zeros_like(values), torch.zeros_like(values)
    for update in range(1, 81):
        logits = model(src, tgt_in)  # [B, T, V]
        loss = cross_entropy(logits.transpose(1, 2), tgt_out, ignore_index=config.pad_id)
        slope = torch.cat([each.flatten() for each in torch.autograd.grad(loss, parameters)])
        mean.lerp_(slope, 0.1)
        square.lerp_(slope.square(), 0.001)
        size = (square / (1 - 0.999**update)).sqrt_().add_(1e-8)
        values -= 0.01 / (1 - 0.9**update) * mean / size
        vector_to_parameters(values, parameters)
    return model.requires_grad_(False)


def sentence_of(tokenizer: Tokenizer, count: int, first: int = 0) -> str:
    """Return a sentence of `count` tokens including `</s>`; `first` varies its letters."""
    letters = "abcdeghiklmnoprstuw"
    text, at = "", first
    while (length := len(tokenizer.encode_many([text])[0]) + 1) < count:
        longer = f"{text} {letters[at % len(letters)]}".strip()
        fits = len(tokenizer.encode_many([longer])[0]) < count
        text, at = (longer if fits else f"{text}{letters[at % len(letters)]}"), at + 7
    assert length == count
    return text
