"""Random models of one stack, for every task."""

import pytest

from tests.random_stacks import SHAPES, random_stack
from transformer.config import ModelConfig
from transformer.one_stack.tracer import StackModel
from transformer.text.tokenizer import Tokenizer


@pytest.fixture(scope="module", params=SHAPES)
def blocks(request: pytest.FixtureRequest, tiny_config: ModelConfig) -> ModelConfig:
    """The blocks of a model."""
    return tiny_config.replace(**SHAPES[request.param])


@pytest.fixture(scope="module")
def reader(blocks: ModelConfig, tiny_tokenizer: Tokenizer) -> StackModel:
    """A model that fills in."""
    return StackModel(*random_stack("fill", blocks, tiny_tokenizer), device="cpu", name="reader")


@pytest.fixture(scope="module")
def writer(blocks: ModelConfig, tiny_tokenizer: Tokenizer) -> StackModel:
    """A model that continues."""
    return StackModel(
        *random_stack("continue", blocks, tiny_tokenizer), device="cpu", name="writer"
    )


@pytest.fixture(scope="module")
def translator(blocks: ModelConfig, tiny_tokenizer: Tokenizer) -> StackModel:
    """A model that translates."""
    return StackModel(
        *random_stack("translate", blocks, tiny_tokenizer), device="cpu", name="translator"
    )
