"""The opening's second half: heads taken out until a word changes."""

import dataclasses
import re

import numpy as np
import pytest

from tests.factories import make_trace
from tests.riddles import ANIMAL, aimed, decisive, scene
from transformer.trace.records import Trace
from transformer.trace.removals import Head, heads_of
from transformer.translator import Translator
from ui.core.examples import examples_for
from ui.removals.views import Effect, effect_of
from ui.tours.breaking import break_of, head_in, is_lost, marked
from ui.tours.opening import stage
from ui.tours.stops import Target
from ui.work.roots import checkpoints_root

FRENCH = "parce qu'elle avait faim."


@pytest.mark.parametrize(("word", "before", "after", "lost"), [
    ("sie", "Weil sie, sie war.", "Weil sie war.", True),
    ("sie", "Weil sie war.", "Weil Sie war.", False),
    ("elle", FRENCH, "parce qu'il avait faim.", True),
    ("elle", FRENCH, "car elle a faim", False),
    ("es", "das Haus, weil es", "das es", False),
])  # fmt: skip
def test_a_word_is_lost_if_it_occurs_less_often(
    word: str, before: str, after: str, lost: bool
) -> None:
    assert is_lost(word, before, after) == lost


@pytest.mark.parametrize(("before", "after", "said"), [
    ("a b c.", "a b c.", "a b c."),
    ("a b c.", "a x y c.", "a **x y **c."),
    ("the road not, as", "the road, as", "the road ~~not~~, as"),
    ("home, then, she", "home, she", "home,  ~~then~~ she"),
    ("", "a", "**a**"),
    ("a b", "", " ~~a b~~ "),
    ("b", "a b", "**a **b"),
])  # fmt: skip
def test_new_words_are_strong_and_lost_ones_struck(before: str, after: str, said: str) -> None:
    assert marked(before, after) == said


def trials_of(trace: Trace, word: str, *texts: str) -> list[tuple[str, str, bool]]:
    heads = [Head("decoder_self", 0, n) for n in range(len(texts))]
    changes = np.full(9, -0.2, np.float32)
    effects = {head: Effect(changes, text) for head, text in zip(heads, texts, strict=True)}
    found = break_of(trace, Target(word, 1), heads[0], effects)
    assert [trial.head for trial in found.trials] == heads
    assert all(trace.attention(kind).shape[:2] == shape for kind, _, shape in found.kinds)
    return [(trial.heading, trial.verdict, trial.hit) for trial in found.trials]


def test_a_trial_says_what_changed() -> None:
    trace = dataclasses.replace(make_trace(), text="Die Katze, weil sie schlief.")
    same, other, lost, gone = trials_of(
        trace, "sie", trace.text, "Eine Katze, weil sie schlief.",
        "Die Katze, weil es schlief.", "Die Katze schlief.",
    )  # fmt: skip
    assert "Nothing changed" in same[0] and "the head lit at the start" in same[1] and not same[2]
    before, after = (float(share) for share in re.findall(r"([\d.]+)%", same[1]))
    assert after / before == pytest.approx(np.exp(-0.2), abs=0.02)
    assert other[0] == "The translation changes, but “sie” stays." and not other[2]
    assert lost[0] == "Without this head, “sie” becomes “es”." and lost[2]
    assert gone[0] == "Without this head, “sie” is gone." and "not what it is for" in gone[1]


def test_only_a_head_of_the_model_is_taken_out() -> None:
    trace = aimed(scene(), "cross", 0, 0, ANIMAL)
    n_layers, n_heads = trace.cross.shape[:2]
    last = ["cross", n_layers - 1, n_heads - 1]
    assert head_in(last, trace) == Head("cross", n_layers - 1, n_heads - 1)
    for wrong in (
        ["cross", n_layers, 0], ["cross", 0, -1], ["self", 0, 0], ["cross", 0, "0"], last[:2], {},
        None, 3,
    ):  # fmt: skip
        assert head_in(wrong, trace) is None


@pytest.mark.parametrize("code", ["de", "fr"])
def test_a_decisive_head_is_found_in_the_shipped_models(code: str) -> None:
    """Without it the pronoun is lost; without the lit head nothing changes."""
    name = f"everyday-en-{code}"
    translator = Translator.load(checkpoints_root() / name, device="cpu")
    riddle = examples_for(name).riddles[code]
    staged = stage(riddle, [translator.trace(act.sentence) for act in riddle.acts])
    found = []
    for one in staged:
        target = one.target(riddle)
        assert target and is_lost(target.word, one.trace.text, "")
        head = decisive(translator, one.trace, target)
        found.append(head)
        if head is None:
            continue
        effect = effect_of(str(head.off)).make(translator, one.trace)
        plain = translator.edited(head.off).trace(
            one.act.sentence, target=one.trace.predicted_ids[: one.trace.n_words]
        )
        assert is_lost(target.word, one.trace.text, effect.text)
        assert effect.changes[target.step] == pytest.approx(
            plain.log_probs[target.step] - one.trace.log_probs[target.step], abs=1e-3
        )
    assert any(found[:-1]) and found[-1], (
        "no head changes a word: the opening lacks its second half"
    )
    first, lit = staged[0], staged[0].lit
    target = first.target(riddle)
    assert lit in heads_of(translator.config.head_shapes) and target
    assert effect_of(str(lit.off)).make(translator, first.trace).text == first.trace.text
