import random
from pathlib import Path

import pytest

from tests.transformer.training.runs import recipe
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


@pytest.fixture(scope="session")
def parser_folder(treebank: Path) -> Path:
    """A parser after three epochs, which knows next to nothing."""
    from transformer.training.recipe import Recipe
    from transformer.training.run import train

    path = recipe(
        treebank, "peak_lr = 1e-2", epochs=3, average=1, d_model=24, max_positions=64,
        vocab_size=60, batch_tokens=300, corpora=["gum"], val=None,
    )  # fmt: skip
    path.write_text(path.read_text().replace("[data]", '[data]\ntgt = "tree"'))
    return train(
        Recipe.load(str(path)), treebank, treebank / "parser", device="cpu", show_progress=False
    )
