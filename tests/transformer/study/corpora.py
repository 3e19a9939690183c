"""A rule-based annotated corpus, and models whose heads have given roles."""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from transformer.study.corpus import Sentence, read
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats

#: Many words of each sort, so that none is at home in one place of a sentence.
_NAMES = [a + b + c for a in "bdfgklmn" for b in "aeiou" for c in "nrst"]
random.Random(7).shuffle(_NAMES)
NOUNS, VERBS, ADJECTIVES, ADVERBS = _NAMES[:60], _NAMES[60:100], _NAMES[100:130], _NAMES[130:]


def write_corpus(path: Path, n: int = 120, documents: int = 12, seed: int = 0) -> Path:
    """Write sentences of subject, verb and object at varying distances."""
    rng, rows = random.Random(seed), []
    for number in range(n):
        if number % (n // documents) == 0:
            rows.append(f"# newdoc id = d{number}\n")
        words: list[tuple[str, str, int, str]] = []  # form, tag, head from 1, relation

        def noun(relation: str, head: int, words: list[tuple[str, str, int, str]] = words) -> int:
            n_adjectives = rng.randint(0, 2)
            at = len(words) + 2 + n_adjectives
            words.append((rng.choice(["the", "a"]), "DET", at, "det"))
            words.extend((rng.choice(ADJECTIVES), "ADJ", at, "amod") for _ in range(n_adjectives))
            words.append((rng.choice(NOUNS), "NOUN", head, relation))
            return at

        subject = noun("nsubj", 0)
        if rng.random() < 0.5:
            words.append(("near", "ADP", 0, "case"))
            case = len(words) - 1
            words[case] = ("near", "ADP", noun("nmod", subject), "case")
        n_adverbs = rng.randint(0, 2)
        verb = len(words) + 1 + n_adverbs
        words += [(rng.choice(ADVERBS), "ADV", verb, "advmod") for _ in range(n_adverbs)]
        words.append((rng.choice(VERBS), "VERB", 0, "root"))
        words[subject - 1] = (*words[subject - 1][:2], verb, "nsubj")
        noun("obj", verb)
        words.append((".", "PUNCT", verb, "punct"))
        rows += [
            f"{at}\t{form}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t"
            f"{'SpaceAfter=No' if at == len(words) - 1 else '_'}\n"
            for at, (form, tag, head, relation) in enumerate(words, 1)
        ]
        rows.append("\n")
    path.write_text("".join(rows))
    return path


#: The weights [queries, keys] of one head.
Head = Callable[[Sentence, int, int], Floats]


def looking(target: Callable[[int, int, int], int], share: float = 1.0) -> Head:
    """Return a head whose query q looks at target(q, n, m), with the rest spread evenly."""

    def head(sentence: Sentence, n: int, m: int) -> Floats:
        weights = np.full((n, m), (1 - share) / m, np.float32)
        for query in range(n):
            weights[query, min(max(target(query, n, m), 0), m - 1)] += share
        return weights

    return head


def even(sentence: Sentence, n: int, m: int) -> Floats:
    return np.full((n, m), 1 / m, np.float32)


def relation(name: str, *, down: bool = False) -> Head:
    """Return a head that looks along a relation, and otherwise at the end of the sentence."""

    def head(sentence: Sentence, n: int, m: int) -> Floats:
        weights = np.zeros((n, m), np.float32)
        weights[:, -1] = 1
        for word, (parent, label) in enumerate(
            zip(sentence.parents, sentence.relations, strict=True)
        ):
            if label == name:
                query, key = (parent, word) if down else (word, parent)
                weights[query] = 0
                weights[query, key] = 1
        return weights

    return head


class Planted:
    """A `Tracer` that copies its source, with given heads by kind and layer."""

    name, device, max_tokens = "planted", "cpu", 100

    def __init__(
        self, corpus: Path, heads: Mapping[AttentionKind, Sequence[Sequence[Head]]]
    ) -> None:
        self.sentences = {each.text: each for each in read(corpus)}
        self.heads = heads
        self.kinds = tuple(kind for kind in ATTENTION_KINDS if kind in heads)

    def lacks(self, ability: str) -> str | None:
        return None

    def translate(self, texts: Sequence[str], beam: int) -> list[Any]:
        return [SimpleNamespace(ids=tuple(range(5, 5 + len(self._of(each).words))), complete=True)
                for each in texts]  # fmt: skip

    def _of(self, text: str) -> Sentence:
        return self.sentences.get(text) or Sentence("d", (text,), text=text, chunks=(0,))

    def trace(self, sentence: str, target: Any = None, *args: Any, **options: Any) -> Trace:
        of = self._of(sentence)
        starts = ["▁" if at == 0 or of.chunks[at] != of.chunks[at - 1] else ""
                  for at in range(len(of.words))]  # fmt: skip
        words = tuple(start + word for start, word in zip(starts, of.words, strict=True))
        n = len(words)
        rows = {"encoder_self": n + 1, "decoder_self": n + 1, "cross": n + 1}
        maps = {
            kind: np.array([[head(of, rows[kind], n + 1) for head in layer] for layer in layers])
            for kind, layers in self.heads.items()
        }
        lower = np.tril(np.ones((n + 1, n + 1), np.float32))
        if "decoder_self" in maps:
            maps["decoder_self"] = maps["decoder_self"] * lower
        none = np.zeros((0, 1, n + 1, n + 1), np.float32)
        return Trace(
            src_tokens=(*words, "</s>"), tgt_tokens=("<s>", *words),
            predicted_tokens=(*words, "</s>"), src_ids=(*range(5, 5 + n), 2),
            tgt_ids=(1, *range(5, 5 + n)), predicted_ids=(*range(5, 5 + n), 2),
            encoder_self=maps.get("encoder_self", none),
            decoder_self=maps.get("decoder_self", none), cross=maps.get("cross", none),
            log_probs=np.zeros(n + 1, np.float32), top_ids=np.zeros((n + 1, 1), np.int64),
            top_log_probs=np.zeros((n + 1, 1), np.float32), top_tokens=(("a",),) * (n + 1),
            entropy=np.zeros(n + 1, np.float32), source=of.text, text=of.text, score=0.0,
            src_special=(n,), tgt_special=(0,),
        )  # fmt: skip
