import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.factories import make_trace
from tests.tiny_models import KINDS, SENTENCES, tokenizer_of
from transformer.measures import vocabulary
from transformer.measures.cuts import (
    Replacement,
    changes,
    differing,
    merged,
    piece_texts,
    total_log_probability,
)
from transformer.measures.words import (
    Gold,
    Groups,
    alignment_error,
    group_labels,
    links,
    merge,
    predicted_words,
    word_groups,
)
from transformer.text.tokenizer import Tokenizer

PIECES = ("▁The", "▁di", "d", "n", "'", "t", "▁", "<unk>", "<0xF0>", ".", "▁x", "", "<b>", "▁שלום")
tokens_and_specials = st.lists(st.sampled_from(PIECES), max_size=20).flatmap(
    lambda tokens: st.tuples(
        st.just(tuple(tokens)),
        st.sets(st.integers(0, max(0, len(tokens) - 1)), max_size=3 if tokens else 0),
    )
)


@st.composite
def groups_of(draw: st.DrawFn, length: int) -> Groups:
    begins = [True, *(draw(st.booleans()) for _ in range(length - 1))]
    starts = [position for position, begin in enumerate(begins) if begin]
    return tuple(
        tuple(range(start, end)) for start, end in zip(starts, [*starts[1:], length], strict=True)
    )


def test_a_word_starts_at_its_mark_and_takes_in_what_follows() -> None:
    tokens = ("▁The", "▁di", "d", "n", "'", "t", "▁", "<unk>", ".", "</s>")
    groups = word_groups(tokens, special=(9,))
    assert groups == ((0,), (1, 2, 3, 4, 5), (6, 7, 8), (9,))
    assert group_labels(tokens, groups) == ("The", "didn't", "<unk>.", "</s>")
    assert word_groups(("<s>", "x", "y", "</s>"), special=(0, 3)) == ((0,), (1, 2), (3,))
    # The same text typed by a user is not a special token.
    assert word_groups(("▁a", "<s>"), special=()) == ((0, 1),)
    # Spelled bytes are shown as their character.
    tokens = ("▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "!", "<0xFF>", "▁a")
    assert word_groups(tokens) == ((0, 1, 2, 3, 4, 5, 6), (7,))
    assert group_labels(tokens, word_groups(tokens)) == ("😀!�", "a")
    assert group_labels(("▁", "▁a"), ((0,), (1,))) == ("▁", "a")


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        # Byte-level BPE: white space belongs to the word after it, at the end to the one before.
        ("if ▁x : <0x0A> <0x09> pass <0x0A><0x0A> end <0x0A>", "if x: pass end"),
        ("▁a ▁ ▁ ▁b ▁ </s> ▁c", "a b </s> c"),
        ("▁x ;<0x0A> y <0x0D><0x0A>▁▁ z", "x; y z"),
        # Other spaces, of one piece or inside one; a zero-width joiner is none.
        ("a \u00a0 b \u3000c \u2009d\u2003 e \u200b f <0xE2><0x80><0xA8> g", "a b c d e f g"),
        ("▁👩 \u200d 👩 \u200d 👧 ▁🇩 🇪", "👩\u200d👩\u200d👧 🇩🇪"),
        # Scripts without spaces, by character with its marks; pieces stay whole.
        ("▁ 我们 爱 北 京 。 （ 好 ） 2 0 26 年 Py thon", "我们 爱 北 京。 （好） 2026 年 Python"),
        ("▁コ ー ヒ ー が 、 人 々 の", "コー ヒー が、 人々 の"),
        ("▁ส ว ั ส ด ี ๆ ▁เ ท ศ ไ ท ย", "ส วั ส ดีๆ เท ศ ไท ย"),
        ("▁ខ ្ ម ែ រ ▁ລ າ ວ ▁မ ြ န ် မ ာ", "ខ្មែ រ ລ າ ວ မြ န် မာ"),
        ("▁한 국 어 ▁naï ve ▁e \u0301 t é", "한국어 naïve e\u0301té"),
        ("<0xE7> <0x8C> <0xAB> <0xE7><0x8A> <0xAC> !", "猫 犬!"),
    ],
)  # fmt: skip
def test_words_of_many_scripts(tokens: str, words: str) -> None:
    pieces = tokens.split(" ")
    groups = word_groups(pieces, [at for at, piece in enumerate(pieces) if piece == "</s>"])
    assert group_labels(pieces, groups) == tuple(words.split(" "))
    assert [*map(len, word_groups(["▁我", "们", "▁x"], only_spaces=True))] == [2, 1]


def test_a_word_that_is_read_leads_to_a_whole_word() -> None:
    predicted = ("▁Ka", "tze", ",", "▁weil", "▁müde", ".", "</s>")
    rows = word_groups(("<s>", *predicted[:-1]), (0,))
    assert predicted_words(predicted, rows) == ("Katze,", "weil", "müde.", "</s>")
    assert predicted_words(predicted[:-1], (*rows[:-1], (5,)), end=False)[-1] == "müde."


@given(tokens_and_specials)
def test_groups_cover_every_position_once_in_order(case: tuple[tuple[str, ...], set[int]]) -> None:
    tokens, special = case
    groups = word_groups(tokens, special)
    assert [i for group in groups for i in group] == list(range(len(tokens)))
    starts = {group[0] for group in groups}
    blank = {i for i, token in enumerate(tokens) if token.strip("▁") == ""}
    after = {i for i, token in enumerate(tokens) if token.startswith("▁") and i - 1 not in blank}
    assert after - blank <= starts
    assert all((position,) in groups for position in special if position < len(tokens))
    names = group_labels(tokens, groups)
    assert len(names) == len(groups)
    # White space at the end belongs to the last word.
    assert sum(name.rstrip("▁").count("▁") for name in names) <= len(groups)


@given(st.data(), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**16))
def test_merged_rows_sum_to_one_as_by_hand(data: st.DataObject, T: int, S: int, seed: int) -> None:
    maps = make_trace(S=S + 1, T=T + 1, seed=seed).cross
    queries, keys = data.draw(groups_of(T + 1)), data.draw(groups_of(S + 1))
    merged = merge(maps, queries, keys)
    assert merged.shape == (*maps.shape[:2], len(queries), len(keys))
    assert merged.dtype == np.float32
    np.testing.assert_allclose(merged.sum(axis=-1), 1, atol=1e-5)
    i, j = data.draw(st.integers(0, len(queries) - 1)), data.draw(st.integers(0, len(keys) - 1))
    block = maps[..., list(queries[i]), :][..., list(keys[j])]
    np.testing.assert_allclose(merged[..., i, j], block.sum(-1).mean(-1), atol=1e-6)
    # Averaging heads and merging words can be done in either order.
    np.testing.assert_allclose(merged.mean(1), merge(maps.mean(1), queries, keys), atol=1e-6)
    own = merge(make_trace(T=T + 1, seed=seed).decoder_self, queries, queries)
    assert not np.triu(own, k=1).any()  # a word never sees a later word


def test_single_pieces_leave_the_map_as_it_is_and_gaps_are_refused() -> None:
    maps = make_trace(S=7, T=5).cross
    alone = [tuple((i,) for i in range(n)) for n in (5, 7)]
    assert merge(maps, None, None) is maps
    np.testing.assert_array_equal(merge(maps, *alone), maps)
    np.testing.assert_allclose(merge(maps, None, (tuple(range(7)),)), 1, atol=1e-5)
    bad: tuple[Groups, ...] = (
        ((0, 1),), ((0,), (2,), (1,), (3, 4)), ((0, 1, 2, 3, 4), ()), ((0, 0), (1, 2, 3, 4)),
    )  # fmt: skip
    for groups in bad:
        with pytest.raises(ValueError, match="query groups must cover positions 0 to 4"):
            merge(maps, groups, None)
        with pytest.raises(ValueError, match="key groups"):
            merge(maps, None, groups)


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_links_and_their_error_rates(sure: set[tuple[int, int]]) -> None:
    words = np.array([[0.65, 0.35], [0.2, 0.8]], np.float32)  # linked to where it looks most
    assert links(words) == {(0, 0), (1, 1)} and links(words[:, :0]) == frozenset()
    known = frozenset(sure)
    assert alignment_error([known], [Gold(known, known)]) == 0
    gold = [Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))]
    # by hand; of {(0, 0), (4, 1)} one sure and possible link is right: 1 - (1 + 1) / (2 + 1)
    for found, error in (({(0, 0), (1, 1)}, 0), ({(5, 0)}, 1), ({(0, 0), (4, 1)}, 1 / 3)):
        assert alignment_error([frozenset(found)], gold) == pytest.approx(error)
    assert math.isnan(alignment_error([frozenset()], [Gold(frozenset(), frozenset())]))


HOSTILE = (
    "a 🐕é z 👩‍👩‍👧 fa\u0301mily", "שלום \u202e עולם", "two\nlines\tand \u00a0 spaces",
    "<script>alert(1)</script> & \"quotes\" 'n' $x$", "x" * 200, "ﬁne Ⅳ ½ ①", "▁ marks ▁▁",
)  # fmt: skip
texts = st.one_of(st.sampled_from(HOSTILE), st.sampled_from(SENTENCES), st.text(max_size=40))


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: tokenizer_of(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def spelling(tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers["bytes"]


@given(text=texts)
@settings(max_examples=40)
def test_pieces_joined_are_the_normalised_text(text: str, tokenizers: dict[str, Tokenizer]) -> None:
    for tokenizer in tokenizers.values():
        cut = tokenizer.tokenize(text)
        pieces = piece_texts(cut.pieces, cut.ids, tokenizer.byte_ids)
        assert "".join(pieces) == tokenizer.normalize(text)


@given(text=texts)
def test_every_other_cut_spells_the_same_text(text: str, spelling: Tokenizer) -> None:
    found = spelling.n_best(text, 6)
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert bool(found) == bool(spelling.tokenize(text).ids)
    for cut, _ in found:
        pieces = piece_texts(cut.pieces, cut.ids, spelling.byte_ids)
        assert "".join(pieces) == spelling.normalize(text)
        assert spelling.decode(cut.ids) == spelling.decode(found[0][0].ids)


@given(text=texts)
def test_the_total_is_at_least_what_the_best_cuts_have(text: str, spelling: Tokenizer) -> None:
    special = {0, 1, 2, 3, *spelling.byte_ids}
    log_probs = {
        piece: spelling.scores[i] for i, piece in enumerate(spelling.pieces) if i not in special
    }
    total = total_log_probability(spelling.normalize(text), log_probs)
    scores = np.array([score for _, score in spelling.n_best(text, 5)])
    # SentencePiece adds up in float32.
    assert np.logaddexp.reduce(scores, initial=-np.inf) <= total + 1e-5 * (1 - total)


def test_cuts_by_hand() -> None:
    one, other = ("▁st", "and", "ing", "▁on", "▁", "a"), ("▁stand", "ing", "▁on", "▁a")
    assert differing(one, other) == (((0, 2), (0, 1)), ((4, 6), (3, 4)))
    assert differing(one, one) == differing(("a", "", "é"), ("a", "", "é")) == ()
    with pytest.raises(ValueError, match="have different texts"):
        differing(("a",), ("b",))
    assert changes("ﬁne Ⅳ", "fine IV") == (Replacement("ﬁ", "fi", 0), Replacement("Ⅳ", "IV", 4))
    assert changes("same", "same") == ()
    assert changes("a\u200bb", "ab") == (Replacement("\u200b", "", 1),)
    log_probs = {"▁": -3.0, "▁a": -1.0, "a": -2.0, "b": -2.5, "ab": -1.5, "▁ab": -4.0}
    cuts = [("▁ab",), ("▁a", "b"), ("▁", "ab"), ("▁", "a", "b")]
    expected = math.log(sum(math.exp(sum(log_probs[p] for p in cut)) for cut in cuts))
    assert total_log_probability("▁ab", log_probs) == pytest.approx(expected)
    # A character without a piece: ten nats below the rarest piece.
    assert total_log_probability("é", log_probs) == pytest.approx(-14.0)
    assert total_log_probability("", log_probs) == 0


@given(text=st.text("▁ab", max_size=12), data=st.data())
def test_parting_stretches_hold_the_same_text(text: str, data: st.DataObject) -> None:
    def cut() -> tuple[str, ...]:
        ends = [*data.draw(st.sets(st.integers(1, max(1, len(text) - 1)))), 0, len(text)]
        borders = sorted({end for end in ends if end <= len(text)})
        return tuple(text[i:k] for i, k in pairwise(borders))

    one, other = cut(), cut()
    at = [0, 0]
    for (first, end), (start, stop) in differing(one, other):
        assert one[at[0] : first] == other[at[1] : start]
        assert "".join(one[first:end]) == "".join(other[start:stop])
        assert one[first:end] != other[start:stop]
        at = [end, stop]
    assert one[at[0] :] == other[at[1] :]


def test_merging_is_sentencepieces_and_dropout_skips(tokenizers: dict[str, Tokenizer]) -> None:
    merging = tokenizers["bpe"]
    kinds = {name: each.kind for name, each in tokenizers.items()}
    assert kinds == {"unigram": "unigram", "bytes": "unigram", "bpe": "bpe", "char": "char"}
    assert len(tokenizers["bytes"].byte_ids) == 256
    for each in (merging, tokenizers["char"]):  # of which each text has one cut
        assert each.n_best(SENTENCES[0], 4) == []
    ranks = {piece: merging.scores[i] for i, piece in enumerate(merging.pieces) if i > 3}
    for sentence in SENTENCES:
        whole = merged(merging.normalize(sentence), ranks)
        assert whole == merging.tokenize(sentence).pieces
    text = merging.normalize(SENTENCES[0])
    whole = merged(text, ranks)
    drawn = [
        merged(text, ranks, dropout=0.4, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    for each in drawn:
        assert "".join(each) == text and len(each) > len(whole)
        assert set(each) <= set(ranks) | set(text)


values = st.floats(-4, 4, width=32)
tables = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=7),
                elements=values)  # fmt: skip


@given(table=tables)
def test_cosine_is_symmetric_and_neighbours_fall(table: np.ndarray) -> None:
    grid = np.array([vocabulary.cosines(table, row) for row in table])
    np.testing.assert_allclose(grid, grid.T, atol=1e-6)
    for index in range(len(table)):
        found = vocabulary.neighbours(table, index, count=len(table))
        assert index not in found.ids
        assert (np.diff(found.cosines) <= 0).all()
        np.testing.assert_allclose(found.cosines, grid[index][found.ids], atol=1e-6)
        # No other is nearer; rows of zeros are no neighbours.
        assert len(found.ids) == np.isfinite(np.delete(grid[index], index)).sum()


def test_neighbours_leave_out_what_they_are_told() -> None:
    table = np.array([[1, 0], [2, 0.1], [0, 1], [-1, 0], [0, 0]], dtype=np.float32)
    assert vocabulary.neighbours(table, 0, 3).ids.tolist() == [1, 2, 3]
    assert vocabulary.neighbours(table, 0, 1).ids.tolist() == [1]
    assert vocabulary.neighbours(table, 0, 3, leave_out=(1,)).ids.tolist() == [2, 3]
    assert vocabulary.neighbours(table, 4, 3).ids.tolist() == []
    with pytest.raises(ValueError, match="valid rows are 0 to 4"):
        vocabulary.neighbours(table, 5, 1)
    with pytest.raises(ValueError, match="0 points"):
        vocabulary.principal_axes(np.zeros((0, 5), dtype=np.float32))


@given(points=tables, more=st.integers(0, 2**32 - 1))
def test_principal_axes_are_what_they_say(points: np.ndarray, more: int) -> None:
    k = min(2, points.shape[1])
    axes = vocabulary.principal_axes(points, k)
    np.testing.assert_allclose(axes.directions @ axes.directions.T, np.eye(k), atol=1e-5)
    assert axes.shares.sum() <= 1 + 1e-6
    assert (axes.shares >= 0).all() and (np.diff(axes.shares) <= 1e-6).all()
    places = vocabulary.project(points, axes)
    centred = points.astype(np.float64) - points.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(places, centred @ axes.directions.T, atol=1e-4)
    if len(points) == 1:
        assert not axes.shares.any() and not places.any()
    spread = float((centred**2).sum())
    if spread > 1e-3:
        np.testing.assert_allclose((places**2).sum(axis=0) / spread, axes.shares, atol=1e-4)
        # No other direction holds more variance than the first.
        other = np.random.default_rng(more).standard_normal(points.shape[1])
        other /= np.linalg.norm(other)
        assert ((centred @ other) ** 2).sum() / spread <= axes.shares[0] + 1e-4


WHOLE = ("<pad>", "<s>", "</s>", "<unk>", "<0x00>", "▁", "▁the", "▁The", "the", "or", "▁other", "7")


def test_what_a_vocabulary_holds() -> None:
    kinds = vocabulary.piece_kinds(WHOLE, special=range(4), byte_ids={4})
    assert kinds[3:8] == ("special", "byte", "starts a word", "starts a word", "starts a word")
    assert vocabulary.share_of_starts(kinds) == 4 / 7
    assert vocabulary.share_of_starts(kinds[:5]) == 0
    assert vocabulary.length_counts(WHOLE, kinds) == {
        "starts a word": {0: 1, 3: 2, 5: 1},
        "inside a word": {3: 1, 2: 1, 1: 1},
    }
    wanted: dict[str, tuple[int, ...]] = {
        "the": (6, 7, 8, 10), " the": (6, 7), "7": (7, 11), "HER": (10,), "o": (9, 10),
        "nothing": (), "<0x": (4,), "": tuple(range(12)),
    }  # fmt: skip
    assert {text: vocabulary.find(WHOLE, text) for text in wanted} == wanted
    assert [vocabulary.piece_length(piece) for piece in ("▁", "▁ab", "ab", "a▁")] == [0, 2, 2, 1]


@pytest.mark.parametrize(("pieces", "kinds", "lengths"), [
    (("cement▁", "ce", "is▁", "▁"), "eiee", [6, 2, 2, 0]),  # SentencePiece with spaces at the end
    (("play@@", "ing", "is", "ce@@"), "ieei", [4, 3, 2, 2]), (("low", "er</w>"), "ie", [3, 2]),
    (("dog", "￭s", "￭", "cat"), "eiee", [3, 1, 0, 3]), (("dog", "cat"), "ss", [3, 3]),
])  # fmt: skip
def test_words_are_marked_at_either_end(
    pieces: tuple[str, ...], kinds: str, lengths: list[int]
) -> None:
    found = vocabulary.piece_kinds(pieces, (), ())
    assert "".join(kind[0] for kind in found) == kinds
    assert [vocabulary.piece_length(piece) for piece in pieces] == lengths
    counts = vocabulary.length_counts(pieces, found)
    assert sum(map(sum, map(dict.values, counts.values()))) == len(pieces)
    marked = sum(letter in "se" for letter in kinds)
    assert vocabulary.share_of_starts(found) == marked / len(pieces)
