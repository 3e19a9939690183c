"""Parse sentences with a model that writes their trees, and score the trees."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from transformer.checkpoint.folder import Checkpoint, load_checkpoint
from transformer.device import resolve_device
from transformer.measures.parse import Parse, parsed
from transformer.search.request import Decoding
from transformer.training.corpus import read_treebank
from transformer.training.data import MissingFileError
from transformer.translator import Translator
from transformer.trees.score import Pcfg, Score, right_branching, score
from transformer.trees.tree import CLOSE, Tree
from transformer.types import CheckpointError, InputError, Report, no_report

#: Section 6.3: "a beam size of 21 and alpha = 0.3", at most the source length + 300.
PAPER_PARSING = Decoding(21, 0.3)
EXTRA_LENGTH = 300


def is_parser(translator: Translator) -> bool:
    """Return True if the vocabulary has tree symbols."""
    return f"▁{CLOSE}" in translator.tokenizer.target.pieces


def load_parser(path: str | Path, device: str = "auto", *, free: bool = False) -> Translator:
    """Read a checkpoint that parses.

    Args: free: do not restrict the output to trees of the sentence.

    Raises: `CheckpointError`, and `InputError` for the device.
    """
    resolve_device(device)
    parser = parser_of(load_checkpoint(path), device, free=free)
    if not is_parser(parser):
        raise CheckpointError(f"{path}: translates, but does not write trees")
    return parser


def parser_of(checkpoint: Checkpoint, device: str = "auto", *, free: bool = False) -> Translator:
    """Return the parser of a loaded checkpoint; see `load_parser`."""
    return Translator(
        checkpoint.model,
        checkpoint.tokenizer,
        device=device,
        name=checkpoint.ref.name,
        path=checkpoint.ref.path,
        decoding=PAPER_PARSING,
        extra_length=EXTRA_LENGTH,
        follow_grammar=not free,
    )


def source_text(words: Sequence[str]) -> str:
    """Return the text that the encoder reads. Raises `InputError` for a word with a space."""
    for word in words:
        if not word or any(map(str.isspace, word)):
            raise InputError(f"the word {word!r} is empty or has a space in it")
    return " ".join(words)


def parse(
    translator: Translator, sentences: Iterable[Sequence[str]], beam_size: int | None = None,
    alpha: float | None = None, *, on_parsed: Report = no_report, max_length: int | None = None,
) -> list[Parse]:  # fmt: skip
    """Parse sentences, given as their words, as the Treebank splits them (see `split_words`).

    Args:
        beam_size, alpha, max_length: see `Translator.translate`.
        on_parsed: called with (sentences done, all sentences) after each batch.

    Raises: `InputError` for a sentence without words or of too many tokens (counted from 1).
    """
    sentences = list(sentences)
    for number, words in enumerate(sentences, 1):
        if not words:
            raise InputError(f"sentence {number} has no words")
    translations = translator.translate(
        [source_text(words) for words in sentences],
        beam_size,
        alpha,
        on_translated=on_parsed,
        max_length=max_length,
    )
    return [
        parsed(translation.ids, words, translator.tokenizer, complete=translation.complete)
        for translation, words in zip(translations, sentences, strict=True)
    ]


def evaluate(
    parser: Translator, reference: Path, beam_size: int | None = None, alpha: float | None = None,
    on_parsed: Report = no_report,
) -> dict[str, float]:  # fmt: skip
    """Parse the words of reference trees and score the result.

    Returns: labelled precision, recall and F1 by EVALB's rules, exact matches, tags and repaired
        trees, all in percent; crossing brackets a sentence; beam size and alpha.
    Raises: `DataError` naming the line of a tree that cannot be read.
    """
    trees = read_treebank(reference)
    if not trees:
        raise InputError(f"{reference}: no trees")
    parses = parse(parser, [tree.words for tree in trees], beam_size, alpha, on_parsed=on_parsed)
    scores = [score(tree, parse.tree) for tree, parse in zip(trees, parses, strict=True)]
    decoding = parser.decoding.resolve(beam_size, alpha, drawn=False)
    repaired = sum(bool(parse.rebuilt.repairs) for parse in parses)
    return _figures(sum(scores, Score()), repaired) | decoding.to_dict()


def baselines(reference: Path, on_parsed: Report = no_report) -> dict[str, dict[str, float]]:
    """Score baselines that build trees from the reference's tags, by name.

    Returns: the figures of right-branching trees, and of the most probable ones by the grammar of
        train.ptb beside the reference (PCFG), if that exists; right-branching where it has none.
    """
    trees = read_treebank(reference)
    makers: dict[str, Callable[..., Tree | None]] = {"right-branching": right_branching}
    with suppress(MissingFileError):
        makers["PCFG"] = Pcfg(read_treebank(reference.with_name("train.ptb"))).parse
    scores = dict.fromkeys(makers, Score())
    for done, tree in enumerate(trees, 1):
        tagged = tree.words, [leaf.label for leaf in tree.leaves()]
        for name, make in makers.items():
            scores[name] += score(tree, make(*tagged) or right_branching(*tagged))
        on_parsed(done, len(trees))
    return {name: _figures(value) for name, value in scores.items()}


def _figures(totals: Score, repaired: int = 0) -> dict[str, float]:
    return {
        "sentences": totals.sentences,
        "f1": _percent(totals.f1),
        "precision": _percent(totals.precision),
        "recall": _percent(totals.recall),
        "exact": _percent(totals.exact / totals.sentences),
        "tags": _percent(totals.tags / totals.words if totals.words else 0.0),
        "crossing_per_sentence": round(totals.crossing / totals.sentences, 2),
        "repaired": _percent(repaired / totals.sentences),
    }


def _percent(share: float) -> float:
    return round(100 * share, 2)
