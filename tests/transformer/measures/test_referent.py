"""The head that looks from a pronoun at its noun is found, and no other."""

import dataclasses

import numpy as np
import pytest

from tests.riddles import ANIMAL, IT, NOUNS, STEP, STREET, aimed, scene
from transformer.measures.referent import find_referent, turned


@pytest.mark.parametrize(("kind", "layer", "head"), [("encoder_self", 2, 4), ("cross", 1, 0)])
def test_the_head_that_looks_at_the_noun_alone_is_found(kind: str, layer: int, head: int) -> None:
    found = find_referent(aimed(scene(), kind, layer, head, ANIMAL), "it", NOUNS)
    assert found is not None and (found.step, found.nouns, found.pronoun) == (STEP, (1, 4), 6)
    best = found.best(0)
    assert best is not None and (best.kind, best.layer, best.head) == (kind, layer, head)
    assert best.weights[found.nouns[0]] == pytest.approx(1)  # the pieces of "animal" add up
    assert found.n_heads == 3 * 5 + 2 * 5


@pytest.mark.parametrize("seed", range(5))
def test_the_best_head_has_the_most_weight_of_those_that_prefer_the_noun(seed: int) -> None:
    found = find_referent(scene(seed), "it", NOUNS)
    shares = np.concatenate([each.reshape(-1, each.shape[-1]) for each in found.weights.values()])
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    for noun in (0, 1):
        this, that = shares[:, found.nouns[noun]], shares[:, found.nouns[1 - noun]]
        best = found.best(noun)
        assert best.weights[found.nouns[noun]] == this[this > that].max()
        assert ((found.preferred == noun) == (this > that)).all()


def test_heads_that_look_as_much_at_the_other_noun_or_turn_to_it() -> None:
    trace = scene()
    encoder, cross = trace.encoder_self.copy(), trace.cross.copy()
    for maps, row in ((encoder, IT), (cross, STEP)):
        maps[:, :, row, STREET] = maps[:, :, row, list(ANIMAL)].sum(axis=-1)
    even = find_referent(dataclasses.replace(trace, encoder_self=encoder, cross=cross), "it", NOUNS)
    assert even is not None and even.best(0) is None and even.best(1) is None
    assert set(even.preferred.tolist()) == {-1}
    one, other = (
        find_referent(aimed(scene(), "cross", 1, 2, noun), "it", NOUNS)
        for noun in (ANIMAL, (STREET,))
    )
    assert one is not None and other is not None
    assert turned(one, other, 0, 1) == 1 and turned(one, other, 1, 0) == turned(one, one, 0, 1) == 0


def test_what_is_not_in_the_sentence_or_not_translated_is_not_found() -> None:
    trace = scene()
    assert find_referent(trace, "she", NOUNS) is None
    assert find_referent(trace, "it", ("animal", "bridge")) is None
    assert find_referent(trace, "it", ()) is None
    assert find_referent(trace, "animal", ("street",)) is None  # a noun after its pronoun
    cross = trace.cross.copy()
    cross[:, :, :, 6] = 2  # every row looks at another word most
    assert find_referent(dataclasses.replace(trace, cross=cross), "it", NOUNS) is None
    signs = ("<s>", "▁die", "▁Katze", ",", "▁auf", "▁der")
    ends = dataclasses.replace(trace, predicted_tokens=(*signs[1:4], ".", "▁der", "</s>"))
    assert find_referent(ends, "it", NOUNS) is None
    without = dataclasses.replace(trace, encoder_self=np.zeros((0, 0, 0, 0), np.float32))
    assert find_referent(without, "it", NOUNS) is None
