"""The programs that come with downloads of the Compare page: the same numbers by the public API."""

from __future__ import annotations

from ui.compare_choice import Setup
from ui.takeaway import snippet_header

_MODEL = "translator = "

#: How alike two traces are, head by head; used by the programs below.
_WORDS = '''
from transformer.measures.compare import assign, similarity
from transformer.measures.words import group_labels, merge, word_groups


def by_words(trace, kind):
    """The maps of one kind between whole words, all heads in a row, and the words."""
    source = word_groups(trace.src_tokens, trace.src_special)
    target = word_groups(trace.tgt_tokens, trace.tgt_special)
    queries = source if kind == "encoder_self" else target
    keys = target if kind == "decoder_self" else source
    rows, columns = trace.axis_tokens(kind)
    maps = merge(trace.attention(kind), queries, keys)
    words = group_labels(rows, queries), group_labels(columns, keys)
    return maps.reshape(-1, *maps.shape[2:]), words

'''

#: Takes kind, sentences (as a list in Python) and follow.
MATCHING = (
    _WORDS
    + """
from transformer.translator import InputError

kind, sentences = {kind!r}, {sentences}
total, rows = 0.0, 0
for sentence in sentences:
    try:
        one = translator_a.trace(sentence, beam_size=1)
        follow = {follow} and one.text.strip()
        other = translator_b.trace(sentence, beam_size=1, target=one.text if follow else None)
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


def reading(setup: Setup) -> str:
    """Lines that leave both models and their traces: translator_a, translator_b, a and b."""
    return (
        f"{snippet_header(setup.left)}translator_a, a = translator, trace\n"
        f"\n{_without_imports(snippet_header(setup.right))}translator_b, b = translator, trace\n"
    )


def _without_imports(header: str) -> str:
    """A header from the line on that loads the model."""
    at = header.find(f"\n{_MODEL}")
    return header if at < 0 else header[at + 1 :]
