from __future__ import annotations

import random
from pathlib import Path

import pytest

from transformer.trees.tree import read_tree

LINES = (
    "(ROOT (S (NP-SBJ (DT The) (NN {a})) (VP (VBZ sees) (NP (DT a) (NN {b}))) (. .)))",
    "(ROOT (S (NP-SBJ-1 (NNP Mary)) (VP (VBD ran) (PP (IN to) (NP (DT the) (NN {a})))) (. .)))",
    "(ROOT (NP (DT The) (JJ old) (NN {b})))",
    "(ROOT (UH Yes))",
)


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with gum/train.ptb and gum/dev.ptb."""
    draw, nouns = random.Random(1), ["cat", "dog", "house", "tree", "book", "child"]
    folder = tmp_path_factory.mktemp("data")
    (folder / "gum").mkdir()
    for name, size in (("train.ptb", 60), ("dev.ptb", 8)):
        lines = [
            LINES[index % len(LINES)].format(a=draw.choice(nouns), b=draw.choice(nouns))
            for index in range(size)
        ]
        assert all(map(read_tree, lines))
        (folder / "gum" / name).write_text("\n".join(lines) + "\n")
    return folder


RECIPE = """
[model]
d_model = 24
n_heads = 3
d_ff = 32
n_encoder_layers = 1
n_decoder_layers = 2
max_positions = 64

[tokenizer]
vocab_size = 60

[data]
corpora = ["gum"]
tgt = "tree"

[training]
epochs = 3
batch_tokens = 300
warmup = 10
precision = "float32"
average = 1
peak_lr = 1e-2
"""


@pytest.fixture(scope="session")
def parser_folder(treebank: Path) -> Path:
    """A parser after three epochs, which knows next to nothing."""
    from transformer.training.recipe import Recipe
    from transformer.training.run import train

    path = treebank / "recipe.toml"
    path.write_text(RECIPE)
    return train(
        Recipe.load(str(path)), treebank, treebank / "parser", device="cpu", show_progress=False
    )
