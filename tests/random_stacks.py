"""One-stack models with random weights."""

import torch

from tests.tiny_models import sharpen
from transformer.config import ModelConfig
from transformer.models.one_stack.config import StackConfig, Task
from transformer.models.one_stack.model import MASK, OneStack
from transformer.text.tokenizer import Tokenizer, with_symbols

#: Blocks of the first model of one stack, and of later ones.
SHAPES = {
    "2017": {},
    "later": {
        "norm": "pre", "positions": "learned", "activation": "gelu", "attention_bias": True,
        "scale_embedding": False, "max_positions": 60,
    },
}  # fmt: skip


def random_stack(
    task: Task, config: ModelConfig, tokenizer: Tokenizer, n_layers: int = 3
) -> tuple[OneStack, Tokenizer]:
    """Return a random model with non-uniform attention and predictions."""
    if task == "fill":
        tokenizer = with_symbols(tokenizer, [MASK])
    torch.manual_seed(0)
    blocks = config.replace(vocab_size=tokenizer.vocab_size)
    model = OneStack(StackConfig(task, n_layers, blocks)).eval().requires_grad_(False)
    sharpen(model, blocks.eos_id)
    return model, tokenizer
