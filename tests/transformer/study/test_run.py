import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.forks import forked
from tests.random_stacks import random_stack
from tests.transformer.study.corpora import Head, Planted, even, looking, relation, write_corpus
from transformer.config import ModelConfig
from transformer.models.catalogue import resolve
from transformer.models.one_stack.tracer import StackModel
from transformer.study import run
from transformer.study.corpus import Sentence, read
from transformer.study.links import control_of, randomised
from transformer.study.page import section
from transformer.study.records import Role, Study, studies_of
from transformer.study.roles import Tally, annotated
from transformer.study.run import study
from transformer.study.statistics import judged, paired_p
from transformer.text.tokenizer import Tokenizer
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, InputError

Heads = Mapping[AttentionKind, Sequence[Sequence[Head]]]

PREVIOUS, NEXT, SAME = (looking(lambda q, n, m, by=by: q + by) for by in (-1, 1, 0))
END, FIRST = looking(lambda q, n, m: m - 1, 0.6), looking(lambda q, n, m: 0, 0.6)
DIAGONAL = looking(lambda q, n, m: round(q * (m - 1) / max(n - 1, 1)), 0.4)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "rules.conllu")


def studied(
    corpus: Path, tmp_path: Path, heads: Heads, control: Heads, patch: pytest.MonkeyPatch,
    **options: Any,
) -> Study:  # fmt: skip
    """Study a planted model against another planted model as its random control."""
    patch.setattr(run, "open_tracer", lambda ref, device: Planted(corpus, heads))
    patch.setattr(run, "control_of", lambda ref, model: (Planted(corpus, control), "even"))
    (tmp_path / "planted").mkdir(exist_ok=True)
    return Study.load(study(tmp_path / "planted", corpus, tmp_path / "out", **options))


def flat(heads: Heads) -> Heads:
    return {kind: [[even] * len(layer) for layer in layers] for kind, layers in heads.items()}


def test_planted_heads_have_exactly_the_planted_roles(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: Heads = {
        "encoder_self": [
            [PREVIOUS, NEXT, SAME],
            [relation("nsubj"), relation("nsubj", down=True), even],
            [relation("det"), relation("obj", down=True), END],
        ],
        "decoder_self": [[PREVIOUS, FIRST], [SAME, even]],
        "cross": [[DIAGONAL, END], [even, FIRST]],
    }
    found = studied(corpus, tmp_path, heads, flat(heads), monkeypatch)
    named = {tuple(head): {each.role.name for each in found.findings(head) if each.named}
             for head in found.heads}  # fmt: skip
    assert named == {
        ("encoder_self", 0, 0): {"previous"}, ("encoder_self", 0, 1): {"next"},
        ("encoder_self", 0, 2): {"same"},
        # Across a noun, the verb's subject is its subject still.
        ("encoder_self", 1, 0): {"up:nsubj", "end"},
        ("encoder_self", 1, 1): {"down:nsubj", "agreement", "end"},
        ("encoder_self", 1, 2): set(),
        ("encoder_self", 2, 0): {"up:det", "end"}, ("encoder_self", 2, 1): {"down:obj", "end"},
        ("encoder_self", 2, 2): {"end"},
        ("decoder_self", 0, 0): {"previous"}, ("decoder_self", 0, 1): {"first"},
        ("decoder_self", 1, 0): {"same"}, ("decoder_self", 1, 1): set(),
        ("cross", 0, 0): {"diagonal"}, ("cross", 0, 1): {"end"},
        ("cross", 1, 0): set(), ("cross", 1, 1): {"first"},
    }  # fmt: skip


def test_random_models_have_no_roles(
    corpus: Path, tmp_path: Path, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Holm's correction allows any role with probability 0.05: three of 20 models are rare."""
    stack = StackModel(*random_stack("fill", tiny_config, tiny_tokenizer, 1), device="cpu")
    monkeypatch.setattr(run, "control_of", lambda ref, model: (randomised(stack), "seed 0"))
    (tmp_path / "random").mkdir()
    found = []
    for seed in range(1, 21):
        model = randomised(stack, seed)
        monkeypatch.setattr(run, "open_tracer", lambda ref, device, model=model: model)
        made = Study.load(study(tmp_path / "random", corpus, tmp_path / str(seed), sentences=60))
        assert np.isfinite(made.scores["score"]).sum() > 40
        found.append([each for head in made.heads for each in made.findings(head) if each.named])
    assert sum(map(bool, found)) <= 3


@pytest.mark.parametrize("task", ["continue", "translate", "bert"])
def test_models_of_every_kind_are_studied(
    task: Any, corpus: Path, tmp_path: Path, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer,
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "model").mkdir()
    if task == "bert":
        path, model = made[task].folder, made[task].ours
    else:
        path = tmp_path / "model"
        model = StackModel(*random_stack(task, tiny_config, tiny_tokenizer), device="cpu")
        monkeypatch.setattr(run, "open_tracer", lambda ref, device: model)
    found = Study.load(study(path, corpus, tmp_path / "out", sentences=40))
    assert found.kinds == model.kinds and found.n_skipped < 20
    annotated_kinds = {each.head.kind for head in found.heads for each in found.findings(head)
                       if each.role.needs == "dependencies"}  # fmt: skip
    assert annotated_kinds <= {model.kinds[0]}
    if task == "continue":  # it sees what stands before only: determiners never see their noun
        role = found.role("up:det")
        assert role and all(found.finding(role, head) is None for head in found.heads)
        assert (role := found.role("down:det")) and found.finding(role, found.heads[0])


def test_blank_texts_are_left_out(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Blank(Planted):
        """Translates the first word as nothing, and the last sentence as special tokens only."""

        def trace(self, sentence: str, target: Any = None, *args: Any, **options: Any) -> Trace:
            found = super().trace(sentence, target)
            blank = sentence == "a" or sentence == [*self.sentences][-1]
            return replace(found, tgt_special=(*range(len(found.tgt_tokens)),)) if blank else found

        def translate(self, texts: Sequence[str], beam: int) -> list[Any]:
            found = super().translate(texts, beam)
            return [SimpleNamespace(ids=(), complete=True) if text == "a" else each
                    for text, each in zip(texts, found, strict=True)]  # fmt: skip

    heads: Heads = {"encoder_self": [[PREVIOUS]], "decoder_self": [[even]], "cross": [[END]]}
    monkeypatch.setattr(run, "open_tracer", lambda ref, device: Blank(corpus, heads))
    monkeypatch.setattr(run, "control_of", lambda ref, model: (Planted(corpus, heads), "itself"))
    (tmp_path / "a.txt").write_text("a\na\n")
    with pytest.raises(InputError, match="planted cannot read any of the sentences"):
        study(tmp_path, tmp_path / "a.txt", tmp_path / "none")
    found = Study.load(study(tmp_path, corpus, tmp_path / "out", sentences=30))
    assert found.n_skipped == 1 and all(each.target for each in found.sentences)


def test_scores_equal_loops(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sharp(sentence: Sentence, n: int, m: int) -> Floats:
        weights = np.random.default_rng(n).random((n, m)) ** 9
        return np.float32(weights / weights.sum(1, keepdims=True))

    heads: Heads = {
        "encoder_self": [[relation("nsubj", down=True), sharp, PREVIOUS]],
        "decoder_self": [[sharp]], "cross": [[sharp]],
    }  # fmt: skip
    control: Heads = {**flat(heads), "encoder_self": [[sharp, even, NEXT]]}
    found = studied(corpus, tmp_path, heads, control, monkeypatch)
    model, other = Planted(corpus, heads), Planted(corpus, control)
    #: by document, then head or control
    hits: dict[str, list[Counter[Any]]] = defaultdict(lambda: [Counter() for _ in range(12)])
    for sentence in model.sentences.values():
        n, document = len(sentence.words), int(sentence.document[1:]) // 10
        for name, query, target in annotated(sentence):
            counts = hits[name][document]
            counts["pairs"] += 1
            counts["offset", target - query] += 1
            near = [at for at in range(n) if at != query
                    and sentence.words[at] == sentence.words[target]]  # fmt: skip
            best = min(near, key=lambda at: (abs(at - query), at))
            counts["word", sentence.words[target]] += best == target
            for of, tracer in (("score", model), ("random", other)):
                for head, maps in enumerate(tracer.trace(sentence.text).encoder_self[0]):
                    row = [maps[query, at] if at != query else -1 for at in range(n)]
                    counts[of, head] += row.index(max(row)) == target
                    if of == "score":
                        asked = [place for place in range(n) if place != query]
                        row = [sum(maps[place, at] for place in asked if place != at)
                               if at != query else -1 for at in range(n)]  # fmt: skip
                        counts["blind", head] += int(np.argmax(np.round(row, 5))) == target
    for name in ("up:nsubj", "down:nsubj", "up:det", "down:amod", "agreement"):
        role = found.role(name)
        assert role
        first, tested = sum(hits[name][::2], Counter()), hits[name][1::2]

        def score(key: Any, counts: Counter[Any]) -> float:
            return counts[key] / counts["pairs"]

        def best_of(kind: str, first: Counter[Any] = first) -> Any:
            return max((key for key in first if key[0] == kind), key=first.__getitem__)

        total = sum(tested, Counter())
        for head in found.heads[:3]:
            finding = found.finding(role, head)
            assert finding and finding.pairs == total["pairs"]
            assert finding.score == pytest.approx(score(("score", head.head), total))
            controls = {
                "offset": ("offset", finding.offset), "word": best_of("word"),
                "random": best_of("random"), "blind": ("blind", head.head),
            }  # fmt: skip
            assert first["offset", finding.offset] == first[best_of("offset")]
            bars = [finding.offset_score, finding.word_score, finding.random, finding.blind]
            expected = [score(key, total) for key in controls.values()]
            assert bars == pytest.approx(expected) and finding.bar == pytest.approx(max(bars))
            bar = max(score(key, first) for key in controls.values())
            assert finding.choice == pytest.approx(score(("score", head.head), first) - bar)
            for control, key in controls.items():
                differences = [[counts["score", head.head] - counts[key]] for counts in tested]
                p = getattr(finding, f"{control}_p")
                assert p == pytest.approx(paired_p(np.array(differences, float))[0], rel=1e-4)
                assert not finding.p < p


def test_cut_translations_count_for_the_encoder_alone(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [*read(corpus)]
    cut = {sentence.text for sentence in sentences[::3]}

    class Cut(Planted):
        """Repeats itself to the length limit in every third sentence."""

        def translate(self, texts: Sequence[str], beam: int) -> list[Any]:
            found = super().translate(texts, beam)
            return [SimpleNamespace(ids=each.ids, complete=text not in cut)
                    for text, each in zip(texts, found, strict=True)]  # fmt: skip

    def unless_cut(sentence: Sentence, n: int, m: int) -> Floats:
        return (FIRST if sentence.text in cut else PREVIOUS)(sentence, n, m)

    heads: Heads = {"encoder_self": [[PREVIOUS]], "decoder_self": [[unless_cut]], "cross": [[even]]}
    monkeypatch.setattr(run, "open_tracer", lambda ref, device: Cut(corpus, heads))
    monkeypatch.setattr(run, "control_of", lambda ref, _: (Planted(corpus, flat(heads)), "even"))
    found = Study.load(study(tmp_path, corpus, tmp_path / "out"))
    whole = [sentence.text for sentence in sentences if sentence.text not in cut]
    assert found.n_cut == 40 and [each.text for each in found.sentences] == whole
    assert "leave out 40 translations" in section(found)
    role = found.role("previous")
    assert role
    encoder, decoder = (found.finding(role, head) for head in found.heads[:2])
    assert encoder and decoder and decoder.score == 1
    tested = [each for each in sentences if int(each.document[1:]) // 10 % 2]
    assert encoder.pairs == sum(len(each.words) - 1 for each in tested)
    assert decoder.pairs == sum(len(each.words) - 1 for each in tested if each.text not in cut)


def test_a_role_of_a_text_must_hold_on_the_second_text(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = write_corpus(tmp_path / "second.conllu", seed=1)
    texts = {sentence.text for sentence in read(second)}

    def here_only(sentence: Sentence, n: int, m: int) -> Floats:
        return (NEXT if sentence.text in texts else PREVIOUS)(sentence, n, m)

    heads: Heads = {"encoder_self": [[here_only, PREVIOUS, relation("nsubj")]]}

    class Both(Planted):
        def __init__(self, heads: Heads) -> None:
            super().__init__(corpus, heads)
            self.sentences |= {sentence.text: sentence for sentence in read(second)}

    monkeypatch.setattr(run, "open_tracer", lambda ref, device: Both(heads))
    monkeypatch.setattr(run, "control_of", lambda ref, model: (Both(flat(heads)), "even"))

    def named(name: str, other: Path | None) -> list[set[str]]:
        made = Study.load(study(tmp_path, corpus, tmp_path / name, second=other))
        return [{f.role.name for f in made.findings(head) if f.named} for head in made.heads]

    alone = named("alone", None)
    assert alone[0] == alone[1] == {"previous"} and "up:nsubj" in alone[2]
    plain = tmp_path / "plain.txt"
    plain.write_text("\n".join(texts))
    for name, other in (("again", second), ("plain", plain)):  # annotated, and without annotation
        both = named(name, other)
        assert both[0] == set() and both[1] == {"previous"} and "up:nsubj" in both[2]


def test_the_best_of_many_heads_is_measured_like_any_other() -> None:
    rng, shape = np.random.default_rng(0), (40, 1, 300)
    pairs = np.full(shape[:2], 10, np.int32)
    lucky = Tally(rng.binomial(10, 0.3, shape), pairs, np.zeros(shape), np.zeros(shape),
                  np.zeros((40, 1, 21)))  # fmt: skip
    found = judged((Role("up:det", "determiner to noun", "dependencies"),), [lucky], None)
    best = found["choice"][0].argmax()
    assert found["choice"][0, best] > 0.35 > 0.31 > abs(found["score"][0, best] - 0.3) + 0.25
    assert found["low"][0, best] < 0.3 < found["high"][0, best]


def test_examples_follow_heads(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: Heads = {
        "encoder_self": [[relation("det"), PREVIOUS]], "decoder_self": [[PREVIOUS]],
        "cross": [[END], [DIAGONAL]],
    }  # fmt: skip
    found = studied(corpus, tmp_path, heads, flat(heads), monkeypatch, examples=25)
    assert len(found.sentences) == 25 and len({each.document for each in found.sentences}) == 12
    for number, sentence in enumerate(found.sentences):
        assert sentence.target == tuple(sentence.text.split())
        keys, weights = found.looks["encoder_self"].of(found.heads[0], number)
        for word, (parent, label) in enumerate(
            zip(sentence.parents, sentence.relations, strict=True)
        ):
            if label == "det":
                assert keys[word] == parent and weights[word] == 1
            else:
                assert weights[word] == 0, "all weight is on the end mark, which is no word"
        keys, weights = found.looks["decoder_self"].of(found.heads[2], number)
        assert list(keys) == [0, *range(len(sentence.target) - 1)] and weights[0] == 0


def test_a_killed_study_goes_on_to_the_same_files(
    corpus: Path, tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "PART", 30)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    study(tiny_checkpoint, corpus, whole)

    def kill(done: int, total: int) -> None:
        if done >= 60:
            os.kill(os.getpid(), 9)

    status, _ = forked(
        lambda: study(tiny_checkpoint, corpus, broken, progress=kill), tmp_path / "log"
    )
    assert status and not broken.exists()
    (parts,) = tmp_path.glob("broken.*.parts")
    assert sorted(each.name for each in parts.iterdir()) == ["000000.npz", "000001.npz"]
    seen: list[tuple[int, int]] = []
    study(tiny_checkpoint, corpus, broken, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (120, 120) and not parts.exists()
    first, second = Study.load(whole), Study.load(broken)
    for name, array in first.scores.items():
        np.testing.assert_array_equal(array, second.scores[name])
    assert first.sentences == second.sentences
    for name in ("study.json", "sentences.json"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes()
    for kind, looks in first.looks.items():
        np.testing.assert_array_equal(looks.keys, second.looks[kind].keys)


def test_two_studies_in_one_place_do_not_mix(
    corpus: Path, tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "PART", 30)
    whole = Study.load(study(tiny_checkpoint, corpus, tmp_path / "whole", sentences=60))
    begun: list[int] = []

    def other(done: int, total: int) -> None:
        if done and not begun:
            begun.append(done)
            study(tiny_checkpoint, corpus, tmp_path / "out", sentences=59)

    found = Study.load(study(tiny_checkpoint, corpus, tmp_path / "out", sentences=60,
                             progress=other))  # fmt: skip
    assert begun and found.sentences == whole.sentences
    np.testing.assert_array_equal(found.scores["pairs"], whole.scores["pairs"])


def test_another_corpus_starts_anew(corpus: Path, tmp_path: Path, tiny_checkpoint: Path) -> None:
    class Stop(Exception):  # noqa: N818
        pass

    def stop(done: int, total: int) -> None:
        if done:
            raise Stop

    with pytest.raises(Stop):
        study(tiny_checkpoint, corpus, tmp_path / "out", progress=stop)
    found = Study.load(study(tiny_checkpoint, corpus, tmp_path / "out", sentences=50, examples=3))
    assert (found.n_sentences, len(found.sentences)) == (50, 3)


def test_studies_lie_beside_their_model_or_in_the_cache(
    corpus: Path, tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ref = resolve(tiny_checkpoint)
    edited = ref.edited("off encoder.1.1")
    monkeypatch.setattr(run.os, "access", lambda path, how: False)
    in_cache = study(edited, corpus, sentences=60)
    assert in_cache.is_relative_to(tmp_path / "cache")
    assert studies_of(edited) == [in_cache] and not studies_of(ref)
    found, head = Study.load(in_cache), ("encoder_self", 0, 0)
    assert (found.edits, tuple(found.heads[0])) == ("off encoder.1.1", head)
    monkeypatch.setattr(run, "open_tracer", None)
    assert study(edited, corpus, sentences=60) == in_cache, "is there already"


def test_controls_are_first_or_random_weights_of_one_shape(
    tiny_checkpoint: Path, corpus: Path
) -> None:
    model = run.open_tracer(tiny_checkpoint, "cpu")
    control, about = control_of(resolve(tiny_checkpoint), model)
    again = randomised(model)
    first, second = (each.trace("A dog runs.", [5, 6]) for each in (control, again))  # type: ignore[arg-type]
    np.testing.assert_array_equal(first.encoder_self, second.encoder_self)
    assert "seed 0" in about
    other = model.trace("A dog runs.", [5, 6])  # type: ignore[arg-type]
    assert first.cross.shape == other.cross.shape
    assert not np.allclose(first.cross, other.cross)
    with pytest.raises(InputError, match="planted"):
        randomised(Planted(corpus, {}))
