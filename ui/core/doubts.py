"""Doubts about a translation: pieces that the model does not know, length, low probability, a cut.

A translation that ends in a loop is shown without the repetition, so that a repetition up to the
length limit neither fills a page nor looks intended. Needs no Streamlit.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

from figures.labels import code
from transformer.checkpoint.folder import COVERED, KINDS, TrainingText
from transformer.models.catalogue import Entry
from transformer.search.loops import Loop, find_loop
from transformer.text.marks import decoded, is_unknown, unmarked
from transformer.trace.records import Trace

#: Sentence, wrong words and their correction, by model.
_MISTAKES: dict[str, list[list[str]]] = tomllib.loads(
    Path(__file__).with_name("mistakes.toml").read_text("utf-8")
)
#: The piece that replaces anything missing from the vocabulary.
UNKNOWN = "<unk>"
#: A piece that spells one byte of a character without a piece of its own.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def unknown_pieces(pieces: Sequence[str], positions: Iterable[int]) -> list[str]:
    """Return the texts of unknown pieces, each once; a run of byte pieces as the text it spells."""
    runs, before = list[list[str]](), -1
    for at in positions:
        (piece,) = unmarked([pieces[at]])
        spelled = _BYTE.fullmatch(piece) and runs and _BYTE.fullmatch(runs[-1][-1])
        if spelled and at == before + 1:
            runs[-1].append(piece)
        else:
            runs.append([piece])
        before = at
    return list(dict.fromkeys(_bare("".join(decoded(run))) for run in runs))


def _bare(token: str) -> str:
    return token.removeprefix("▁") or token


def _listed(pieces: Sequence[str]) -> str:
    return ", ".join(code(piece, 20) for piece in pieces[:6]) + " and more" * (len(pieces) > 6)


def length_warning(text: TrainingText | None, trace: Trace) -> str:
    """Return a sentence if the source is longer than the text trained on, else ""."""
    length = len(trace.src_tokens) - len(trace.src_special)
    if text is None or length <= text.src_tokens:
        return ""
    return (
        f"This sentence has {length} tokens; {100 * COVERED:.0f}% of the training sentences have "
        f"at most {text.src_tokens}. Expect mistakes, or translate it in parts."
    )


#: Mean probability of the model's own tokens below which a translation is doubtful. On Tatoeba's
#: held-out sentences, three everyday models are wrong about 4 times as often below it as above it
#: (`benchmarks/certainty.py`); rare words, copies and the beam's disagreement reveal much less.
DOUBTED = 0.6


def uncertainty(trace: Trace) -> str:
    """Return a sentence if the model gave its own tokens a low probability, else ""."""
    mean = float(np.exp(trace.log_probs.mean()))
    if trace.n_forced or mean >= DOUBTED:
        return ""
    return (
        f"Doubtful: the model gave its own tokens a probability of {mean:.0%} on average. Below "
        f"{DOUBTED:.0%}, 4 in 10 translations of held-out sentences share little with a person's; "
        "above, 1 in 8."
    )


def loop_in(trace: Trace) -> Loop | None:
    """Return the loop at the end of a translation that was cut, or None."""
    return None if trace.complete else find_loop(trace.text)


def headline(trace: Trace) -> str:
    """Return the translation with a final loop shown once."""
    loop = loop_in(trace)
    return trace.text if loop is None else f"{loop.kept} …"


def first_words(trace: Trace, words: Sequence[str]) -> int:
    """Return the number of words or tokens that `headline` contains."""
    loop = loop_in(trace)
    if loop is None:
        return len(words)
    kept = len("".join(loop.kept.split()))
    letters = accumulate(len("".join(word.replace("▁", "").split())) for word in words)
    return next((n for n, so_far in enumerate(letters, 1) if so_far >= kept), len(words))


def cut_notice(trace: Trace) -> str:
    """Return a warning that names the cut and the repeated text, or ""."""
    if trace.complete or not trace.predicted_tokens:
        return ""
    loop, why = loop_in(trace), "the model did not finish the sentence by itself."
    if loop is not None:
        why = f"the model writes {code(loop.repeated, 60)} {loop.times} times. "
        why += "Shown once above; the maps show every repeat."
    return f"Cut at the length limit of {len(trace.predicted_tokens)} tokens: {why}"


def cut_in_short(trace: Trace) -> str:
    """Return a short form of `cut_notice`."""
    if trace.complete or not trace.predicted_tokens:
        return ""
    loop, cut = loop_in(trace), f"Cut at {len(trace.predicted_tokens)} tokens"
    return f"{cut}: {code(loop.repeated, 20)} {loop.times} times, shown once" if loop else cut


def known_mistake(entry: Entry, sentence: str, translation: str) -> str:
    """Return a sentence on an included model's mistake in an example, in Markdown, or ""."""
    for example, wrong, right in _MISTAKES.get(entry.name, ()):
        if example == sentence and wrong in translation:
            return f"A mistake of this model: *{wrong}*. Right: {right}."
    return ""


def doubts(entry: Entry, trace: Trace, *, sampled: bool = False) -> list[str]:
    """Return what makes a translation doubtful, in Markdown: unknown pieces, length, a cut."""
    doubtful, cut, text = uncertainty(trace), cut_notice(trace), entry.training_text
    reasons = [length_warning(text, trace), known_mistake(entry, trace.source, trace.text)]
    if trace.src_unknown:
        pieces = unknown_pieces(trace.src_tokens, trace.src_unknown)
        known = set(range(len(trace.src_tokens))) - {*trace.src_unknown, *trace.src_special}
        if all(trace.src_tokens[position] == "▁" for position in known):
            return [f"The model has never seen these characters: {_listed(pieces)}. The "
                    "translation is made up."]  # fmt: skip
        count = "one piece of this sentence" if len(pieces) == 1 else f"{len(pieces)} pieces"
        reasons.append(f"The model does not know {count}: {_listed(pieces)}.")
    elif text and text.kind == KINDS["tatoeba"] and entry.updates is None:  # as measured
        reasons.append("" if reasons[0] or sampled else doubtful)
    target = trace.predicted_tokens[: trace.n_forced]
    if lost := [at for at, p in enumerate(target) if is_unknown(p) or _bare(p) == UNKNOWN]:
        named = _listed(unknown_pieces(target, lost))
        reasons.append(f"Unknown pieces of the given target are read as {code(UNKNOWN)}: {named}.")
    return [*filter(None, reasons), cut]


def parts_of(sentence: str, entry: Entry, trace: Trace) -> list[str]:
    """Return the sentences of a text that is longer than the text trained on, else []."""
    parts = re.split(r"(?<=[.!?…])\s+", sentence.strip())
    return parts if parts[1:] and length_warning(entry.training_text, trace) else []
