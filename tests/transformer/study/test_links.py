import numpy as np

from tests.tiny_models import uneven_model
from transformer.measures.pharaoh import Linked, read_links
from transformer.measures.words import diagonal, word_maps, words_of
from transformer.study.links import ROLES, randomised, tally_of
from transformer.study.roles import MAX_OFFSET
from transformer.study.statistics import judged
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator

PAIRS = [
    Linked("A dog runs.", "Ein Hund rennt.", read_links("0-0 1-1 1p2")),
    Linked("The cat sat on the mat.", "Die Katze sitzt.", read_links("1-1 0p0 2-2")),
    Linked("A cat runs.", "Eine Katze rennt.", read_links("1-1 0p2")),
    Linked("A dog sat.", "Ein Hund saß.", read_links("1-1")),
]


def test_hits_and_controls_equal_loops(tiny_tokenizer: Tokenizer) -> None:
    model = Translator(uneven_model(tiny_tokenizer), tiny_tokenizer, device="cpu")
    control = randomised(model, seed=4)
    assert isinstance(control, Translator)
    tally = tally_of(model, control, PAIRS)
    n_heads = model.config.n_decoder_layers * model.config.n_heads
    #: the word to which a target word is linked most often in pairs 2 and 4, and in 1 and 3
    halves = (
        {"die": "the", "katze": "cat", "sitzt.": "sat", "hund": "dog"},
        {"ein": "a", "hund": "dog", "rennt.": "dog", "katze": "cat"},
    )
    for document, pair in enumerate(PAIRS):
        traces = [one.trace(pair.source, pair.target) for one in (model, control)]
        for number, row in enumerate(ROLES):
            words = words_of(traces[0], row)
            right = {
                to: {a for a, t in pair.gold.possible if t == to} for _, to in pair.gold.possible
            }
            assert tally.pairs[document, number] == len(right)
            for table, trace in ((tally.hits, traces[0]), (tally.random, traces[1])):
                keys = word_maps(trace, row).argmax(-1).reshape(n_heads, -1)
                hits = [sum(key[to] in places for to, places in right.items()) for key in keys]
                assert table[document, number].tolist() == hits
            along = sum((at, to) in pair.gold.possible for at, to in diagonal(
                len(words.targets), len(words.sources)
            ))  # fmt: skip
            offsets = tally.offsets[document, number]
            assert offsets[MAX_OFFSET] == along == offsets.sum()
            known = sum(
                halves[document % 2].get(words.targets[to].lower())
                in {words.sources[a].lower() for a in places}
                for to, places in right.items()
            )
            assert tally.words[document, number, "most frequent link"] == known


def test_a_head_that_follows_links_gets_the_role(tiny_tokenizer: Tokenizer) -> None:
    model = Translator(uneven_model(tiny_tokenizer), tiny_tokenizer, device="cpu")
    tally = tally_of(model, model, PAIRS * 40)
    tally.hits[:, 0, 2] = tally.pairs[:, 0]
    arrays = judged([*ROLES.values()], [tally], None)
    assert arrays["named"][0, 2] and not np.delete(arrays["named"], 2, 1).any()
    assert arrays["score"][0, 2] == 1 and arrays["offset"][0, 2] == 0
