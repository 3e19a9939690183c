"""BLEU and chrF of translations (section 6.1).

`bleu` is sacreBLEU's, cased and detokenised, always reported with its signature. `lc_tok_bleu` is
the older measure of the Multi30k literature on lower-cased Moses tokens; it may be higher or lower,
so the two are not interchangeable.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from transformer.models.one_stack.tracer import StackModel
from transformer.search.records import Translation
from transformer.search.request import Decoding
from transformer.training.data import Pair, read_parallel
from transformer.translator import Translator
from transformer.types import InputError

#: The protocol that adds a measure to BLEU and chrF.
PROTOCOL = "multi30k-lc-tok"

#: Languages for which the Moses scripts handle punctuation as `multi30k-lc-tok` needs.
MOSES_LANGUAGES = ("cs", "de", "en", "fr")


@dataclass(frozen=True)
class Scores:
    """Measures of a test set, all between 0 and 100."""

    bleu: float  # sacreBLEU, cased
    signature: str  # its sacreBLEU signature
    chrf: float  # chrF2
    chrf_signature: str  # its signature
    sentences: int  # number of sentences
    #: BLEU on lower-cased Moses tokens, if that protocol was requested
    lc_tok_bleu: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model, its translations, and its speed."""

    scores: Scores  # the measures
    hypotheses: tuple[str, ...]  # the translations, in the order of the file
    decoding: Decoding  # the decoding settings
    seconds: float  # time spent translating
    target_tokens: int  # pieces generated, `</s>` included

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        rate = self.target_tokens / self.seconds if self.seconds else 0.0
        speed = {"tokens_per_second": round(rate, 1), "seconds": round(self.seconds, 2)}
        return _rounded(asdict(self.scores)) | self.decoding.to_dict() | speed


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Round to four decimals, and leave None out."""
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in values.items()
        if value is not None
    }


def score(
    hypotheses: Iterable[str], references: Iterable[str], *, lc_tok_language: str | None = None
) -> Scores:
    """Measure translations against one reference each.

    Args: lc_tok_language: two-letter code of the target; adds `lc_tok_bleu`.

    Raises: `InputError` for empty lists, unequal lengths, or a language without `lc_tok`.
    """
    hypotheses, references = list(hypotheses), list(references)
    if len(hypotheses) != len(references):
        raise InputError(
            f"{len(hypotheses):,} translations and {len(references):,} references; "
            "expected one reference per translation"
        )
    if not hypotheses:
        raise InputError("nothing to score: there are no sentences")
    bleu, chrf = BLEU(), CHRF()
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        signature=str(bleu.get_signature()),
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        chrf_signature=str(chrf.get_signature()),
        sentences=len(hypotheses),
        lc_tok_bleu=(
            None
            if lc_tok_language is None
            else lc_tok_bleu(hypotheses, references, lc_tok_language)
        ),
    )


def lc_tok_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> float:
    """Return BLEU under Multi30k's `lc.norm.tok` protocol, 0 to 100: see `lc_tok`."""
    treat = lc_tok(language)
    # Suppresses sacreBLEU's warning about tokenised text.
    bleu = BLEU(tokenize="none", force=True)
    return float(
        bleu.corpus_score(list(map(treat, hypotheses)), [list(map(treat, references))]).score
    )


def lc_tok(language: str | None) -> Callable[[str], str]:
    """Return Multi30k's preparation of a line: lower-case, normalise punctuation, tokenise.

    The output for the raw references equals the published `*.lc.norm.tok.*` files, except that it
    has no XML escapes (`&quot;`), which do not change BLEU. Raises `InputError` for the language.
    """
    if language not in MOSES_LANGUAGES:
        raise InputError(
            f"{PROTOCOL} needs the target language, one of {', '.join(MOSES_LANGUAGES)}; "
            f"got {language!r}"
        )
    normalise = MosesPunctNormalizer(lang=language).normalize
    tokenizer = MosesTokenizer(lang=language)

    def treat(line: str) -> str:
        # The Perl scripts see each line with its newline, which affects the place of a full stop
        # before a final closing quotation mark.
        plain = normalise(line.lower() + "\n")
        return str(tokenizer.tokenize(plain, escape=False, return_str=True))

    return treat


def hypotheses_of(
    translator: Translator | StackModel, pairs: Sequence[Pair], decoding: Decoding
) -> list[str]:
    """Return the translations of the sources, each different one translated once."""
    unique = list(dict.fromkeys(src for src, _ in pairs))
    done = translator.translate(unique, decoding.beam_size, decoding.alpha)
    texts = {src: translation.text for src, translation in zip(unique, done, strict=True)}
    return [texts[src] for src, _ in pairs]


def measure_test(
    translator: Translator | StackModel,
    pairs: Sequence[Pair],
    decoding: Decoding,
    language: str | None,
) -> dict[str, Any]:
    """Measure one test set.

    Each pair counts as a sentence with one reference. If sources repeat, as in Tatoeba, scores
    with each source once and all its references are added.

    Args: language: of the target; adds Multi30k's lc_tok_bleu.
    """
    hypotheses = hypotheses_of(translator, pairs, decoding)
    values = asdict(score(hypotheses, [tgt for _, tgt in pairs], lc_tok_language=language))
    values["exact_match"] = sum(
        text == tgt for text, (_, tgt) in zip(hypotheses, pairs, strict=True)
    ) / len(pairs)
    texts = {src: text for text, (src, _) in zip(hypotheses, pairs, strict=True)}
    if len(texts) < len(pairs):
        values["each_source_once"] = _multi_reference(texts, pairs)
    return _rounded(values)


def _multi_reference(texts: dict[str, str], pairs: Sequence[Pair]) -> dict[str, Any]:
    references: dict[str, list[str]] = {}
    for src, tgt in pairs:
        references.setdefault(src, []).append(tgt)
    most = max(map(len, references.values()))
    # sacreBLEU needs equally many references per source; repeating the first one changes neither
    # the maximum count of any n-gram nor the closest length.
    streams = [[r[i] if i < len(r) else r[0] for r in references.values()] for i in range(most)]
    bleu = BLEU()
    result = bleu.corpus_score([texts[src] for src in references], streams)
    first = BLEU().corpus_score([texts[src] for src in references], [streams[0]])
    return {
        "sentences": len(references),
        "bleu_all_references": round(result.score, 4),
        "bleu_first_reference": round(first.score, 4),
        "signature": str(bleu.get_signature()),
    }


def evaluate_files(
    translator: Translator, src: str | Path, ref: str | Path, *, beam_size: int | None = None,
    alpha: float | None = None, protocol: str | None = None, language: str | None = None,
    on_translated: Callable[[int, int], None] | None = None,
    translate: Callable[[list[str]], list[Translation]] | None = None,
) -> Evaluation:  # fmt: skip
    """Translate a file and score it against another, line by line, plain or gzipped.

    Args:
        beam_size, alpha: see `Translator.translate`; None is the checkpoint's default.
        language: of the target; None takes it from the name of `ref` (`test.de.gz`).
        translate: translates the lines in place of `translator`, with the same settings.

    Raises: `DataError` naming an unreadable file or one of different length, `InputError`.
    """
    if protocol not in (None, PROTOCOL):
        raise InputError(f"protocol {protocol!r} is not {PROTOCOL}")
    language = (language or language_of(ref)) if protocol else None
    if protocol:
        lc_tok(language)  # complains about it first
    pairs = read_parallel(Path(src), Path(ref))
    if not pairs:
        raise InputError(f"{src}: the file is empty")
    decoding = translator.decoding.resolve(beam_size, alpha, drawn=False)
    start = time.perf_counter()
    sources = [source for source, _ in pairs]
    translations = translate(sources) if translate else translator.translate(
        sources, decoding.beam_size, decoding.alpha, on_translated=on_translated
    )  # fmt: skip
    seconds = time.perf_counter() - start
    hypotheses = tuple(translation.text for translation in translations)
    scores = score(hypotheses, [tgt for _, tgt in pairs], lc_tok_language=language)
    n_tokens = sum(len(translation.log_probs) for translation in translations)
    return Evaluation(scores, hypotheses, decoding, seconds, n_tokens)


def language_of(path: str | Path) -> str | None:
    """Return the language in a file name: "de" for `val.de.gz`, None if there is none."""
    suffixes = [suffix for suffix in Path(path).suffixes if suffix != ".gz"]
    last = suffixes[-1][1:].lower() if suffixes else ""
    return last if len(last) == 2 and last.isalpha() else None
