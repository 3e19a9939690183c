"""Models on the meta device have the right shapes, without memory."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from transformer.checkpoint.weights import outline
from transformer.config import ModelConfig
from transformer.model import Transformer

ROOT = Path(__file__).parents[3]

FIRST_TRANSLATION = """
import sys
from pathlib import Path
import transformer.huggingface.model
from transformer.catalogue import list_entries
from transformer.translator import Translator
assert list_entries([Path("checkpoints")])
translator = Translator.load("checkpoints/reverse-toy", device="cpu")
assert translator.trace("abc").text == "cba"
slow = {"sympy", "torch._dynamo", "transformers"}
assert "torch" in sys.modules and not slow & sys.modules.keys()
"""


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "stored"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_shapes_are_the_models_and_take_no_memory(positions: Any, norm: Any) -> None:
    config = ModelConfig(
        vocab_size=17, d_model=12, n_heads=3, d_ff=20, n_encoder_layers=2, n_decoder_layers=1,
        positions=positions, norm=norm, max_positions=9,
    )  # fmt: skip
    model, empty = Transformer(config), outline(config)
    assert {name: each.shape for name, each in empty.state_dict().items()} == {
        name: each.shape for name, each in model.state_dict().items()
    }
    tensors = [*empty.parameters(), *empty.buffers()]
    assert tensors and all(tensor.is_meta for tensor in tensors)
    assert [each.shape for each in empty.buffers()] == [each.shape for each in model.buffers()]


def test_a_first_translation_does_without_slow_libraries() -> None:
    """Neither PyTorch's compiler nor the `transformers` library is imported."""
    subprocess.run([sys.executable, "-c", FIRST_TRANSLATION], cwd=ROOT, check=True, timeout=250)
