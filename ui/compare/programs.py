"""The programs that come with Compare's downloads: the same numbers through the public API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transformer.types import AttentionKind
from ui.export.programs import Source, roots_lines

LETTERS = "AB"


@dataclass(frozen=True)
class Compared:
    """Both sides, as captions and programs name them.

    Attributes:
        about: what A and B are, in a sentence or two.
        sources: where the traces of A and B come from.
    """

    about: str
    sources: tuple[Source, Source]


_MATCHING = """
sentences_a = {sentences[0]}
sentences_b = {sentences[1]}
found = []
for sentence_a, sentence_b in zip(sentences_a, sentences_b, strict=True):
    try:
        one = model_a.trace(sentence_a{arguments[0]})
        target = one.text if {follow} and one.text.strip() else None
        other = model_b.trace(sentence_b, target=target{arguments[1]})
    except InputError:
        continue
    found.append(head_agreements(one, other).get({kind!r}))
matching = match(found)
values, pairs = matching.values, np.array(matching.pairs)
"""


def reading(sources: tuple[Source, Source], *imports: str) -> str:
    """Lines that leave both models and their traces, model_a, model_b, a and b, and `imports`."""
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
    compared: Compared,
    kind: AttentionKind,
    greedy: tuple[Sequence[Source], Sequence[Source]],
    *,
    follow: bool,
) -> str:
    """A program that leaves `values` and `pairs`, the heads matched over sentences.

    Args:
        greedy: of A and of B, one source a sentence, decoded greedily.
        follow: whether B follows A's translations.
    """
    both = [[source.sentence for source in side] for side in greedy]
    written = _listed(both[0]), "sentences_a" if both[1] == both[0] else _listed(both[1])
    arguments = [_written(side[0].arguments) if side else "" for side in greedy]
    return reading(
        compared.sources,
        "from transformer.errors import InputError",
        "from transformer.measures.agreement import head_agreements, match",
    ) + _MATCHING.format(kind=kind, sentences=written, arguments=arguments, follow=follow)


def following_call(sources: tuple[Source, Source], side: int) -> str:
    """The call that makes a side follow the text of the other one's trace, `a` or `b`."""
    own, other, source = "ab"[side], "ba"[side], sources[side]
    languages = [each for each in source.arguments if each[0] in ("src_lang", "tgt_lang")]
    return f"model_{own}.trace({source.sentence!r}, target={other}.text{_written(languages)})"


def _written(arguments: Iterable[tuple[str, object]]) -> str:
    return "".join(f", {name}={value!r}" for name, value in arguments)


def _listed(sentences: Sequence[str]) -> str:
    return "[\n" + "".join(f"    {sentence!r},\n" for sentence in sentences) + "]"
