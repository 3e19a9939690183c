"""The programs that come with downloads of the Compare page: the same numbers by the public API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from transformer.types import AttentionKind
from ui.compare.choice import Setup
from ui.core.request import Request
from ui.core.view import View
from ui.export.download import source_of
from ui.export.programs import roots_lines

#: Similarity of two traces, head by head; used by the programs below.
_WORDS = '''
from transformer.measures.compare import assign, similarity
from transformer.measures.words import maps_by_words


def by_words(trace, kind):
    """The maps of one kind between whole words, all heads in a row, and the words."""
    found = maps_by_words(trace, kind)
    return found.weights.reshape(-1, *found.weights.shape[2:]), (found.queries, found.keys)

'''

#: Takes kind, the sentences of both (as Python), what each is told beside them, and follow.
_MATCHING = (
    _WORDS
    + """
from transformer.translator import InputError

kind, sentences_a = {kind!r}, {sentences[0]}
sentences_b = {sentences[1]}
total, rows = 0.0, 0
for sentence_a, sentence_b in zip(sentences_a, sentences_b, strict=True):
    try:
        one = model_a.trace(sentence_a, beam_size=1{told[0]})
        follow = {follow} and one.text.strip()
        other = model_b.trace(
            sentence_b, beam_size=1, target=one.text if follow else None{told[1]}
        )
    except InputError:
        continue
    (maps_a, words_a), (maps_b, words_b) = by_words(one, kind), by_words(other, kind)
    if words_a == words_b:
        total = total + similarity(maps_a, maps_b) * maps_a.shape[1]
        rows += maps_a.shape[1]
values = total / rows
pairs = np.array(assign(values))
"""
)

#: Takes kinds.
AGREEMENT = (
    _WORDS
    + """
agreement = []
for kind in {kinds!r}:
    maps_a, maps_b = by_words(a, kind)[0], by_words(a_by_b or b, kind)[0]
    alike = similarity(maps_a, maps_b)
    mean_a, mean_b = (maps.mean(axis=0, dtype="f8", keepdims=True) for maps in (maps_a, maps_b))
    pairs = assign(alike)
    agreement.append([similarity(mean_a, mean_b)[0, 0], np.mean([alike[pair] for pair in pairs])])
agreement = np.array(agreement)
"""
)


def reading(setup: Setup, *imports: str) -> str:
    """Lines that leave both models and their traces, model_a, model_b, a and b, and `imports`."""
    sources = [source_of(view) for view in (setup.left, setup.right)]
    lines = ["from transformer.catalogue import open_tracer", *imports]
    if any("sampling" in dict(source.arguments) for source in sources):
        lines.append("from transformer.search.sampling import Sampling")
    program = roots_lines(*lines)
    for letter, source in zip("ab", sources, strict=True):
        arguments = "".join(f"    {name}={value!r},\n" for name, value in source.arguments)
        program += (
            f"model_{letter} = open_tracer("
            f"path_of({source.checkpoint!r}), device={source.device!r})\n"
            f"{letter} = model_{letter}.trace(\n    {source.sentence!r},\n{arguments})\n"
        )
    return program


def matching_program(
    kind: AttentionKind, views: tuple[View, View], sentences: Sequence[str], *, follow: bool
) -> str:
    """Lines after `reading` that leave `values` and `pairs`, the heads matched over sentences.

    Args:
        follow: whether the second model follows the first one's translations.
    """
    keys = [[replace(view, sentence=each).request for each in sentences] for view in views]
    both = [[key.sentence for key in side] for side in keys]  # perhaps with a language's tag
    told = [_languages(side[0]) if side else "" for side in keys]
    written = _listed(both[0]), "sentences_a" if both[1] == both[0] else _listed(both[1])
    return _MATCHING.format(kind=kind, sentences=written, told=told, follow=follow)


def followed_call(views: tuple[View, View], side: int) -> str:
    """The call that makes a side follow the text of the other one's trace, `a` or `b`."""
    key = views[side].request
    own, other = "ab"[side], "ba"[side]
    return f"model_{own}.trace({key.sentence!r}, target={other}.text{_languages(key)})"


def _languages(key: Request) -> str:
    """Further arguments of a call for a model that is told languages."""
    given = {"src_lang": key.src_lang, "tgt_lang": key.tgt_lang}
    return "".join(f", {name}={code!r}" for name, code in given.items() if code is not None)


def _listed(sentences: Sequence[str]) -> str:
    return "[\n" + "".join(f"    {sentence!r},\n" for sentence in sentences) + "]"
