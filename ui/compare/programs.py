"""The programs that come with downloads of the Compare page: the same numbers by the public API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from transformer.types import AttentionKind
from ui.compare.choice import Setup
from ui.core.request import Request
from ui.core.view import View
from ui.work.cache import key_of

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


def reading(setup: Setup) -> str:
    """Lines that leave both models and their traces: model_a, model_b, a and b."""
    views = setup.left, setup.right
    given = [_arguments(view) for view in views]
    sampling = (
        "from transformer.search.sampling import Sampling\n"
        if "Sampling(" in "".join(given)
        else ""
    )
    lines = roots_lines(f"from transformer.catalogue import open_tracer\n{sampling}")
    for letter, view, arguments in zip("ab", views, given, strict=True):
        lines += (
            f"model_{letter} = open_tracer(path_of({view.checkpoint!r}), device={view.device!r})\n"
            f"{letter} = model_{letter}.trace(\n    {key_of(view).sentence!r},\n{arguments})\n"
        )
    return lines


def matching_program(
    kind: AttentionKind, views: tuple[View, View], sentences: Sequence[str], *, follow: bool
) -> str:
    """Lines after `reading` that leave `values` and `pairs`, the heads matched over sentences.

    Args:
        follow: whether the second model follows the first one's translations.
    """
    keys = [[key_of(replace(view, sentence=each)) for each in sentences] for view in views]
    both = [[key.sentence for key in side] for side in keys]  # perhaps with a language's tag
    told = [_languages(side[0]) if side else "" for side in keys]
    written = _listed(both[0]), "sentences_a" if both[1] == both[0] else _listed(both[1])
    return _MATCHING.format(kind=kind, sentences=written, told=told, follow=follow)


def followed_call(views: tuple[View, View], side: int) -> str:
    """The call that makes a side follow the text of the other one's trace, `a` or `b`."""
    key = key_of(views[side])
    own, other = "ab"[side], "ba"[side]
    return f"model_{own}.trace({key.sentence!r}, target={other}.text{_languages(key)})"


def _languages(key: Request) -> str:
    """Further arguments of a call for a model that is told languages."""
    given = {"src_lang": key.src_lang, "tgt_lang": key.tgt_lang}
    return "".join(f", {name}={code!r}" for name, code in given.items() if code is not None)


def _listed(sentences: Sequence[str]) -> str:
    return "[\n" + "".join(f"    {sentence!r},\n" for sentence in sentences) + "]"


def roots_lines(imports: str) -> str:
    """The start of a program: imports, and `path_of` that finds a checkpoint by its name."""
    return (
        "import os\n"
        "from pathlib import Path\n"
        "\n"
        "import numpy as np\n"
        "\n"
        f"{imports}"
        "\n"
        "# Run this in Headlight's folder, or say where the checkpoints are.\n"
        'roots = os.environ.get("HEADLIGHT_CHECKPOINTS", "checkpoints").split(os.pathsep)\n'
        "\n"
        "\n"
        "def path_of(name):\n"
        "    paths = [Path(root) / name for root in roots]\n"
        "    return next(path for path in paths if path.exists())\n"
        "\n"
        "\n"
    )


def _arguments(view: View) -> str:
    """What `trace` is given beside the sentence, a line each; typed text stays a literal."""
    given = view.request.arguments()
    return "".join(f"    {name}={value!r},\n" for name, value in given.items())
