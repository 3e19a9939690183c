"""The text of a recipe."""

from pathlib import Path

import pytest

from transformer.training.corpus import load_corpus
from transformer.training.data import DataError
from transformer.training.recipe import DataRecipe


def test_nothing_is_held_out_of_train_only_and_nothing_held_out_is_trained_on(
    tmp_path: Path,
) -> None:
    real = [(f"source {n}", f"Satz {n}") for n in range(2000)]
    (tmp_path / "real.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in real))
    alone = load_corpus(DataRecipe(("real.tsv",)), tmp_path)
    thrice = load_corpus(DataRecipe(("real.tsv",) * 3), tmp_path)  # read as often, held out once
    assert thrice.train == alone.train * 3
    assert (thrice.val, thrice.tests) == (alone.val, alone.tests)
    rows = ["de,en\n", *(f"{tgt},{src}\n" for src, tgt in real)]
    (tmp_path / "real.csv").write_text("".join(rows))
    assert load_corpus(DataRecipe(("real.csv",)), tmp_path) == alone
    held_out = {src for src, _ in (*alone.val, *alone.tests["real_test"])}
    assert held_out
    made = [(src, f"noch ein {tgt}") for src, tgt in real] + [("back", "zurück")]
    (tmp_path / "made.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in made))
    both = load_corpus(DataRecipe(("real.tsv",), train_only=("made.tsv",)), tmp_path)
    assert (both.val, both.tests) == (alone.val, alone.tests)
    assert both.train == alone.train + tuple(pair for pair in made if pair[0] not in held_out)


@pytest.mark.parametrize(
    ("text", "why"), [("a dog\tein Hund\n", "all pairs are held out"), ("", "no pairs")]
)
def test_why_there_is_nothing_to_train_on(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "one.tsv").write_text(text)
    with pytest.raises(DataError, match=f"one.tsv: {why}"):
        load_corpus(DataRecipe(("one.tsv",), val="one.tsv"), tmp_path)
