import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.search.scoring import masked
from transformer.trees.grammar import MOST_OPENED, TreeGrammar, symbols_of
from transformer.trees.symbols import rebuild

PIECES = (
    "<pad>", "<s>", "</s>", "<unk>", "▁the", "▁c", "at", "▁(", "▁⟨S", "▁⟨NP", "▁⟩", "▁·NN", "▁·DT",
    "▁⟨", "▁·", "⟨S",
)  # fmt: skip
SYMBOLS = symbols_of(PIECES, 2)
assert SYMBOLS is not None


@given(st.lists(st.sampled_from([[4], [5, 6], [7], [3]]), min_size=1, max_size=6), st.randoms())
def test_every_way_through_the_grammar_is_a_tree(words: list[list[int]], draw: object) -> None:
    source = [token for word in words for token in word]
    if words[0] == [3]:
        source = [4, *source]  # an unknown piece joins the word before it
    grammar = TreeGrammar(SYMBOLS, source)  # type: ignore[arg-type]
    state, written = grammar.start(), []
    while True:
        may = np.flatnonzero(grammar.allowed(state))
        token = draw.choice(may.tolist())  # type: ignore[attr-defined]
        if token == 2:
            break
        written.append(token)
        following = grammar.follow(state, token)
        assert following is not None
        state = following
        # A close as often as not, or the walk would hardly end.
        assert state.depth <= (len(grammar.words) + 1) * MOST_OPENED
    text = "".join(PIECES[token] for token in written).split("▁")
    copied = ["".join(PIECES[token] for token in word).strip("▁") for word in grammar.words]
    rebuilt = rebuild([item for item in text if item], copied)
    assert rebuilt.repairs == ()
    assert rebuilt.tree.words == copied


def test_what_is_not_allowed_ends_the_rules() -> None:
    grammar = TreeGrammar(SYMBOLS, [4])  # type: ignore[arg-type]
    assert grammar.follow(grammar.start(), 10) is None
    assert np.flatnonzero(grammar.allowed(grammar.start())).tolist() == [8, 9]
    assert symbols_of(PIECES[:8], 2) is None  # without brackets there is no grammar


def test_masked_logits_share_their_probability() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [5.0, 1.0, 1.0]])
    rows = [np.array([True, False, True]), None, np.array([False, True, False])]
    whole = torch.cat(list(masked(logits, rows)))
    assert torch.equal(whole, torch.cat(list(masked(iter(logits.split(2)), rows))))
    assert whole[0].tolist() == [1.0, -math.inf, 3.0]
    assert torch.equal(whole[1], logits[1])
    assert whole.softmax(1)[2].tolist() == [0.0, 1.0, 0.0]
