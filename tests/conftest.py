"""Small real checkpoints, made once a session: tokenizer and model are trained on the spot."""

from __future__ import annotations

import gc
from pathlib import Path

import hypothesis
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.text.tokenizer import Tokenizer, train_tokenizer
from transformer.translator import Translator

# The same examples on every run, and no clock: a busy machine is not a failure.
hypothesis.settings.register_profile("seeded", deadline=None, derandomize=True)
hypothesis.settings.load_profile("seeded")


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector need not look at it before every test."""
    gc.collect()
    gc.freeze()


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


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Tokenizer:
    """110 joint pieces; characters that it has not seen become `<unk>`."""
    return train_tokenizer(SENTENCES, 110)


@pytest.fixture(scope="session")
def tiny_config(tiny_tokenizer: Tokenizer) -> ModelConfig:
    """Unequal depths, three heads, d_k != d_v."""
    return ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size,
        d_model=24,
        n_heads=3,
        d_k=6,
        d_v=10,
        d_ff=40,
        n_encoder_layers=2,
        n_decoder_layers=3,
        output_bias=True,
        max_positions=600,
    )


def random_model(config: ModelConfig, seed: int = 0) -> Transformer:
    """Random weights, spread wide enough that attention and predictions are far from uniform."""
    torch.manual_seed(seed)
    model = Transformer(config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "attention" in name or "embedding" in name:
            parameter.mul_(2.0)
    if model.generator.bias is not None:
        model.generator.bias[config.eos_id] = 2.0  # so that translations end
    return model


@pytest.fixture(scope="session")
def tiny_model(tiny_config: ModelConfig, tiny_tokenizer: Tokenizer) -> Transformer:
    """Trained for a second on SENTENCES, so that its translations end; do not change it."""
    torch.manual_seed(0)
    model = Transformer(tiny_config)
    ids = [torch.tensor(each) for each in tiny_tokenizer.encode_many(SENTENCES)]
    bos, eos = torch.tensor([tiny_config.bos_id]), torch.tensor([tiny_config.eos_id])
    src = pad_sequence([torch.cat([each, eos]) for each in ids[::2]], batch_first=True)
    tgt_in = pad_sequence([torch.cat([bos, each]) for each in ids[1::2]], batch_first=True)
    tgt_out = pad_sequence([torch.cat([each, eos]) for each in ids[1::2]], batch_first=True)
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(120):
        logits = model(src, tgt_in)  # [B, T, V]
        loss = cross_entropy(logits.transpose(1, 2), tgt_out, ignore_index=tiny_config.pad_id)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="session")
def tiny_translator(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> Translator:
    """A translator around the tiny model."""
    return Translator(tiny_model, tiny_tokenizer, device="cpu", name="tiny")


@pytest.fixture(scope="session")
def tiny_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> Path:
    """The tiny model as a folder; copy it before changing a file."""
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny"
    return save_checkpoint(folder, tiny_model, tiny_tokenizer, metrics={"bleu": 0.0})
