"""Parallel text: reading it, splitting it by source, cutting it into batches, holding it out."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.training import data
from transformer.training.corpus import load_corpus
from transformer.training.recipe import DataRecipe

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


@given(lengths=LENGTHS, budget=st.integers(1, 120), seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_batches_hold_every_sentence_once_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    src, tgt = (np.array(side, dtype=np.int64) for side in zip(*lengths, strict=True))
    batches = data.token_batches(src, tgt, budget, seed=seed, epoch=epoch)
    assert sorted(int(row) for batch in batches for row in batch) == list(range(len(src)))
    for batch in batches:
        padded = (max(src[batch].max(), tgt[batch].max()) + 1) * len(batch)
        assert padded <= budget or len(batch) == 1
    again = data.token_batches(src, tgt, budget, seed=seed, epoch=epoch)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))


def test_batches_are_filled_and_of_similar_length() -> None:
    rng = np.random.default_rng(0)
    src, tgt = rng.integers(3, 40, 2_000), rng.integers(3, 40, 2_000)
    batches = data.token_batches(src, tgt, 1_000, seed=1, epoch=0)
    filled = [(max(src[b].max(), tgt[b].max()) + 1) * len(b) for b in batches]
    assert np.mean(filled) > 900
    assert np.mean([np.ptp(tgt[b]) for b in batches]) < 2
    first, epoch, seed = (
        np.concatenate(data.token_batches(src, tgt, 1_000, seed=s, epoch=e))
        for s, e in ((1, 0), (1, 1), (2, 0))
    )
    assert not np.array_equal(first, epoch) and not np.array_equal(first, seed)


TEXT = st.text(st.sampled_from("ab !AB"), max_size=4)


@given(pairs=st.lists(st.tuples(TEXT, TEXT), max_size=40), order=st.randoms(use_true_random=False))
def test_a_split_separates_sources_whatever_their_order(pairs, order) -> None:  # type: ignore[no-untyped-def]
    parts = data.split_by_source(pairs, (0.5, 0.2, 0.3))
    keys = [{data.source_key(src) for src, _ in part} for part in parts]
    assert sum(map(len, keys)) == len(set.union(*keys))
    assert sorted(sum(parts, ())) == sorted(pairs)
    shuffled = list(pairs)
    order.shuffle(shuffled)
    assert [sorted(p) for p in data.split_by_source(shuffled, (0.5, 0.2, 0.3))] == [
        sorted(p) for p in parts
    ]
    # Nor does it matter which other pairs there are.
    assert data.split_by_source(pairs[:1], (0.5, 0.2, 0.3)) == tuple(
        tuple(pair for pair in part if pair is pairs[0])[:1] if pairs else () for part in parts
    )


def test_a_split_has_about_its_shares() -> None:
    pairs = [(f"sentence {n}", "x") for n in range(20_000)]
    train, val, test = data.split_by_source(pairs, (0.985, 0.005, 0.01))
    assert len(val) == pytest.approx(100, abs=35)
    assert len(test) == pytest.approx(200, abs=45)
    assert len(train) + len(val) + len(test) == 20_000
    for shares in ((0.5, 0.2, 0.2), (1.2, -0.1, -0.1)):
        with pytest.raises(ValueError, match="sum to 1"):
            data.split_by_source([], shares)


def test_merging_keeps_held_out_sources_out_of_training() -> None:
    """Whatever their case or punctuation."""
    assert (
        data.source_key("It's  HOT!") == data.source_key("its hot") != data.source_key("It's hat")
    )
    first = data.Corpus((("Hi.", "Hallo."), ("Go.", "Geh.")), (("Run!", "Lauf!"),))
    second = data.Corpus((("run", "laufen"), ("No.", "Nein.")), (), {"t": (("go", "los"),)})
    merged = data.merge([first, second])
    assert merged.train == (("Hi.", "Hallo."), ("No.", "Nein."))
    assert merged.val == (("Run!", "Lauf!"),) and merged.tests == {"t": (("go", "los"),)}


def test_collate_shifts_the_target_and_reversal_has_answers() -> None:
    batch = data.collate([[5, 6, 7], [8]], [[9], [10, 11]])
    assert batch.src.tolist() == [[5, 6, 7, 2], [8, 2, 0, 0]]
    assert batch.tgt_in.tolist() == [[1, 9, 0], [1, 10, 11]]
    assert batch.tgt_out.tolist() == [[9, 2, 0], [10, 11, 2]]
    assert batch.src.dtype == torch.int64
    assert batch.n_tokens == 5
    corpus = data.reversal(n=500)
    held_out = corpus.val + corpus.tests["reverse_test"]
    assert all(tgt == src[::-1] for src, tgt in corpus.train + held_out)
    assert not {src for src, _ in corpus.train} & {src for src, _ in held_out}
    assert data.reversal(n=500) == corpus


def write(path: Path, text: str | bytes) -> Path:
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def test_lines_end_at_line_feeds_only_and_pairs_lie_in_two_files_or_one(tmp_path: Path) -> None:
    for name in ("a.txt", "a.txt.gz"):
        path = write(tmp_path / name, "\ufeffone\r\ntwo\x0c\u2028still two\n\nfour")
        assert data.read_lines(path) == ["one", "two\x0c\u2028still two", "", "four"]
    write(tmp_path / "t.en", "a\nb\n")
    write(tmp_path / "t.de.gz", "x\ny\n")
    assert data.read_parallel(tmp_path / "t.en", tmp_path / "t.de") == (("a", "x"), ("b", "y"))
    tsv = write(tmp_path / "t.tsv", 'a "q"\tx\tCC-BY\nb\ty\n\n')
    assert data.read_tsv(tsv) == (('a "q"', "x"), ("b", "y"))
    path = write(tmp_path / "t.csv", 'a,x\n"b, ""c""","y\nz"\n\n')
    assert data.read_csv(path, "en", "de") == (("a", "x"), ('b, "c"', "y\nz"))
    write(path, "id,DE,En\n1,x,a\n2,y,b\n")
    assert data.read_csv(path, "en", "de") == (("a", "x"), ("b", "y"))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"\xff\xfe", "a.txt: not UTF-8"),
        ("a.txt.gz", b"not gzip", "a.txt.gz: Not a gzipped file"),
        ("b.txt.gz", gzip.compress(b"x" * 999, mtime=0)[:-20], "b.txt.gz: .* ended"),
        ("c.txt.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff", "c.txt.gz: Error"),
        ("t.tsv", b"a\tx\nno tab\n", r"t\.tsv: line 2 has no tab"),
        ("t.csv", b'a,x\n"b,y\n', r"t\.csv: line \d"), ("t.csv", b"a,x\nb\n", r"t\.csv: line \d"),
        ("t.csv", b"a," + b"x" * 200_000, r"t\.csv: line \d"),
        ("t.en", b"a\nb\n", r"t\.en has 2 lines but .*t\.de has 1"),
        ("t.fr", b"", r"t\.en: no such file \(nor t\.en\.gz\)"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    (tmp_path / "t.de").write_text("x\n")
    pair = path.with_suffix(".en"), tmp_path / "t.de"
    readers = {".tsv": data.read_tsv, ".csv": lambda path: data.read_csv(path, "en", "de")}
    readers |= dict.fromkeys((".en", ".fr"), lambda _: data.read_parallel(*pair))
    with pytest.raises(data.DataError, match=reason):
        readers.get(path.suffix, data.read_lines)(path)


def test_tatoeba_in_both_directions(tmp_path: Path) -> None:
    rows = [f"source {n}\tZiel {n}\tCC-BY" for n in range(500)]
    write(tmp_path / "en-de.tsv.gz", "\n".join(rows) + "\n")
    there, back = data.tatoeba(tmp_path, "en", "de"), data.tatoeba(tmp_path, "de", "en")
    for corpus in (there, back):
        assert len(corpus.train) + len(corpus.val) + len(corpus.tests["tatoeba_test"]) == 500
        assert corpus.tests["tatoeba_test"]
    assert there.train[0][0].startswith("source")
    assert back.train[0][0].startswith("Ziel")
    with pytest.raises(data.MissingFileError, match=r"en-fr\.tsv"):
        data.tatoeba(tmp_path, "en", "fr")


def test_train_only_text_holds_nothing_out(tmp_path: Path) -> None:
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
    with pytest.raises(data.DataError, match=f"one.tsv: {why}"):
        load_corpus(DataRecipe(("one.tsv",), val="one.tsv"), tmp_path)
