"""Small real checkpoints, made once a session: random weights, a tokenizer trained on the spot."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from transformer.checkpoint import save_checkpoint
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.tokenizer import Tokenizer, train_tokenizer
from transformer.translator import Translator

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
def tiny_model(tiny_config: ModelConfig) -> Transformer:
    """A random model; do not change it."""
    return random_model(tiny_config)


@pytest.fixture(scope="session")
def tiny_translator(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> Translator:
    """A translator around the random model."""
    return Translator(tiny_model, tiny_tokenizer, device="cpu", name="tiny")


@pytest.fixture(scope="session")
def tiny_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> Path:
    """The random model as a folder; copy it before changing a file."""
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny"
    return save_checkpoint(folder, tiny_model, tiny_tokenizer, metrics={"bleu": 0.0})
