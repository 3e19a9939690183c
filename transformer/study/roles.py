"""Head roles, and tallies of how often a head follows a role.

**Text roles** apply to tokens, including special tokens, and each query is a trial.

    previous, next, same   largest weight on the previous token, the next token, or itself
    diagonal               (cross) largest weight within one token of the line from the first query
                           and key to the last, in sentences with at least 8 keys
    rarest                 largest weight among other words on the word that is rarest in the corpus
    first, end, marks      more than half of the weight on the first token, on later special
                           tokens, or on other punctuation tokens
    diffuse                entropy at least 0.9 times the maximum

Special tokens, and queries that have no such key or see fewer than two, are not trials. By
definition, a head with such a role follows it in more than half of the trials, so at most one of
the first three applies. It must also follow it more often than the best head with random weights.

**Annotation roles** apply to words, and each annotated pair is a trial: a hit has its largest
weight on the target, among words other than the query and without special tokens (Clark et al.
2019). In causal attention, only pairs whose target precedes the query count. A head must beat three
rules on the same pairs: the word at a fixed distance (up to 10 words), the nearest occurrence of a
fixed word, and the word with the head's largest weight from all other words in the sentence. The
last rule tests whether the query matters, since some words attract weight from every query, even
with random weights.

Translations cut at the length limit count for the encoder only, since they usually repeat.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from transformer.measures.heads import entropy_bits, pattern_mask
from transformer.measures.words import group_labels, word_groups
from transformer.study.corpus import NAMES, Corpus, Sentence
from transformer.study.records import Role
from transformer.text.marks import decoded, unmarked
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Bools, Floats, literals

#: Minimum trials for a score, and maximum distance for the fixed-distance rule.
MIN_PAIRS, MAX_OFFSET = 50, 10
#: Minimum keys for "diagonal", and minimum share of the maximum entropy for "diffuse".
_DIAGONAL, _DIFFUSE = 8, 0.9

_TEXT = tuple(Role(name, title) for name, title in NAMES["text_roles"].items())
#: Relations without syntactic meaning.
_LEFT_OUT = {"punct", "root", "_", "dep", "goeswith", "reparandum"}
_AGREEMENT = Role("agreement", "verb to subject across a noun", "dependencies")
_ANTECEDENT = Role("antecedent", "pronoun to antecedent", "coreference")
_SUBJECTS = ("nsubj", "nsubj:pass", "csubj", "nsubj:outer")
_NOUNS = ("NOUN", "PROPN")


def roles_of(corpus: Corpus) -> tuple[Role, ...]:
    """Return roles with enough trials in a corpus."""
    roles = list(_TEXT)
    for relation, n in sorted(corpus.relations.items()):
        if n >= MIN_PAIRS and relation not in _LEFT_OUT:
            dependent, head = NAMES["relations"].get(relation, (relation, "head"))
            roles += [
                Role(f"up:{relation}", f"{dependent} to {head}", "dependencies"),
                Role(f"down:{relation}", f"{head} to {dependent}", "dependencies"),
            ]
    if any(corpus.relations[relation] for relation in _SUBJECTS):
        roles.append(_AGREEMENT)
    if corpus.n_pronouns >= MIN_PAIRS:
        roles.append(_ANTECEDENT)
    return tuple(roles)


def annotated(sentence: Sentence) -> Iterator[tuple[str, int, int]]:
    """Yield (role, query word, target word) for each annotated pair, including unstudied roles."""
    parents, tags, relations = sentence.parents, sentence.tags, sentence.relations
    helpers: dict[int, list[int]] = defaultdict(list)
    for word, (parent, relation) in enumerate(zip(parents, relations, strict=True)):
        if parent >= 0:
            yield f"up:{relation}", word, parent
            yield f"down:{relation}", parent, word
            if relation.partition(":")[0] in ("aux", "cop"):
                helpers[parent].append(word)
    for word, (parent, relation) in enumerate(zip(parents, relations, strict=True)):
        if relation in _SUBJECTS and word < parent:
            # The first auxiliary or copula after the subject agrees with it, otherwise the verb.
            verb = next((helper for helper in helpers[parent] if helper > word), parent)
            finite = verb != parent or tags[parent] == "VERB"
            if finite and any(tags[at] in _NOUNS for at in range(word + 1, verb)):
                yield _AGREEMENT.name, verb, word
    for word, antecedent in enumerate(sentence.antecedents):
        if antecedent >= 0:
            yield _ANTECEDENT.name, word, antecedent


def aligned(
    sentence: Sentence, tokens: Sequence[str], special: Collection[int]
) -> list[tuple[int, ...]]:
    """Return token positions of each word in the first run without special tokens.

    A token belongs to the word with most of its characters. Positions are empty if the tokenizer
    changes the text so that a word cannot be located.
    """
    tokens = decoded(tokens)
    positions: list[list[int]] = [[] for _ in sentence.words]
    start = next((at for at in range(len(tokens)) if at not in special), len(tokens))
    end = next((at for at in range(start, len(tokens)) if at in special), len(tokens))
    begins = [start + group[0] for group in word_groups(tokens[start:end], only_spaces=True)]
    chunks: dict[int, list[int]] = defaultdict(list)
    for word, chunk in enumerate(sentence.chunks):
        chunks[chunk].append(word)
    if len(begins) != len(chunks):
        return [()] * len(positions)
    for words, (first, last) in zip(chunks.values(), pairwise([*begins, end]), strict=True):
        owners = [word for word in words for _ in _letters(sentence.words[word])]
        pieces = [_letters(token) for token in tokens[first:last]]
        if len(words) == 1:
            positions[words[0]] += range(first, last)
        elif owners and "".join(pieces) == "".join(_letters(sentence.words[at]) for at in words):
            done = 0
            for at, letters in enumerate(pieces, first):
                owned = owners[done : done + len(letters)] or owners[max(done - 1, 0) :][:1]
                positions[Counter(owned).most_common(1)[0][0]].append(at)
                done += len(letters)
    return [tuple(places) for places in positions]


def _letters(text: str) -> str:
    """Return the characters that every tokenizer preserves."""
    plain = unicodedata.normalize("NFKD", unmarked([text])[0].replace("▁", "")).casefold()
    return "".join(
        letter for letter in plain if not (unicodedata.combining(letter) or letter.isspace())
    )


@dataclass(frozen=True, eq=False)
class Words:
    """Query and key words for one kind of attention in one trace."""

    queries: tuple[str, ...]  # [n]
    keys: tuple[str, ...]  # [m]
    rows: Sequence[tuple[int, ...]]  # [n], token positions of each query word; may be empty
    columns: Sequence[tuple[int, ...]]  # [m], token positions of each key word
    of_corpus: bool  # whether queries are annotated words of the corpus


@literals
def words_of(sentence: Sentence, trace: Trace, kind: AttentionKind) -> Words:
    """Return query and key words for one kind of attention."""
    queries, keys = trace.axis_tokens(kind)
    source, target = trace.src_special, trace.tgt_special
    if kind == "encoder_self" or not trace.src_tokens:
        tokens = aligned(sentence, queries, source if kind == "encoder_self" else target)
        return Words(sentence.words, sentence.words, tokens, tokens, of_corpus=True)
    groups = [group for group in word_groups(queries, target) if group[0] not in set(target)]
    words = group_labels(queries, tuple(groups))
    if kind == "decoder_self":
        return Words(words, words, groups, groups, of_corpus=False)
    columns = aligned(sentence, keys, source)
    return Words(words, sentence.words, groups, columns, of_corpus=False)


@literals
def looks(
    maps: Floats, words: Words, kind: AttentionKind
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats | None]:
    """Return the other word that each head looks at from each word.

    Args: maps: [N, tokens, tokens], for all heads.

    Returns: keys [N, n]; keys with the largest weight from all other queries [N, n]; weights on
        `keys` [N, n]; and own weights, or None in cross-attention.
    """
    n, m = len(words.rows), len(words.columns)
    rows, columns = np.zeros((n, maps.shape[1])), np.zeros((maps.shape[2], m))
    for at, places in enumerate(words.rows):
        rows[at, list(places)] = 1 / max(len(places), 1)
    for at, places in enumerate(words.columns):
        columns[list(places), at] = 1
    merged = rows.astype(np.float32) @ maps @ columns.astype(np.float32)  # [N, n, m]
    unseen = (rows.sum(1) == 0)[:, None] | (columns.sum(0) == 0)
    own: Floats | None = None
    if kind != "cross":
        own = merged[:, range(n), range(n)].copy()
        unseen |= np.eye(n, dtype=bool)
    if kind == "decoder_self":
        unseen |= np.triu(np.ones((n, m), bool))
    if not n or not m:
        none = np.zeros((len(maps), n), np.int64)
        return none, none, none.astype(np.float32), own
    merged[:, unseen] = 0
    # Round so that sums that differ by rounding errors are equal.
    others = np.round(merged.sum(1, keepdims=True) - merged, 5)
    others[:, unseen] = merged[:, unseen] = -1
    keys, blind = merged.argmax(-1), others.argmax(-1)
    alone = unseen.all(1)
    keys[:, alone] = np.minimum(np.arange(n), m - 1)[alone]
    return keys, blind, np.maximum(merged.max(-1), 0), own


#: By role: each head's hits [N], and the number of trials.
Hits = dict[str, tuple[NDArray[np.int64], int]]


@literals
def text_hits(
    maps: Floats,
    kind: AttentionKind,
    tokens: Sequence[str],
    special: tuple[Collection[int], Collection[int]],
) -> Hits:
    """Count trials and hits for text roles except "rarest".

    Args:
        maps: [N, n, m], for all heads of a kind.
        tokens: [m], keys from `decoded`.  special: positions of special queries and keys.
    """
    _, n, m = maps.shape
    query, key = np.indices((n, m))
    seen = key <= query if kind == "decoder_self" else np.ones((n, m), bool)
    trial = ~np.isin(np.arange(n), list(special[0])) & (seen.sum(1) > 1)  # [n]
    ordinary = ~np.isin(np.arange(m), list(special[1]))
    best = maps.argmax(-1)  # [N, n]
    counts: Hits = {}

    def count(name: str, hits: Bools, rows: Bools) -> None:
        chosen = rows & trial
        counts[name] = hits[:, chosen].sum(1), int(chosen.sum())

    def most_on(name: str, mask: Bools) -> None:
        count(name, mask[np.arange(n), best], np.asarray(mask.any(1)))

    def half_on(name: str, mask: Bools, rows: Bools) -> None:
        count(name, np.asarray((maps * mask).sum(-1) > 0.5), np.asarray(rows & mask.any(1)))

    at = np.arange(n)
    marks = ordinary & np.array([is_mark(token) for token in tokens], bool)
    if kind != "cross":
        most_on("previous", (key == query - 1) & ordinary)
        if kind == "encoder_self":
            most_on("next", (key == query + 1) & ordinary)
        most_on("same", key == query)
        half_on("first", (key == 0) & seen, at > 1)
        half_on("marks", marks & seen & (key != query), ~marks)
    else:
        if m >= _DIAGONAL:
            most_on("diagonal", pattern_mask("diagonal", n, m, same=False))
        half_on("first", key == 0, at > 0)
        half_on("marks", marks & seen, at > 0)
    half_on("end", ~ordinary & (key > 0) & seen, at >= 0)
    largest = np.log2(np.maximum(seen.sum(1), 2))
    enough: Bools = np.asarray(seen.sum(1) > 3)
    count("diffuse", entropy_bits(maps) >= _DIFFUSE * largest, enough)
    return counts


def is_mark(token: str) -> bool:
    """Return True if a token or word consists of punctuation and symbols."""
    text = token.replace("▁", "")
    return bool(text) and all(
        unicodedata.category(letter).startswith(("P", "S")) for letter in text
    )


@dataclass(eq=False)
class Tally:
    """Trials and hits for one kind of attention: D documents, R roles and N heads."""

    hits: NDArray[Any]  # [D, R, N]
    pairs: NDArray[Any]  # [D, R]
    random: NDArray[Any]  # [D, R, N], hits of the same heads with random weights
    blind: NDArray[Any]  # [D, R, N], hits on the word with most weight from all other queries
    offsets: NDArray[Any]  # [D, R, 2 * MAX_OFFSET + 1], hits at each distance from -10 to 10
    #: hits on the nearest occurrence of a word, by document, role and word
    words: Counter[tuple[int, int, str]] = field(default_factory=Counter)

    @classmethod
    def empty(cls, n_documents: int, n_roles: int, n_heads: int) -> Self:
        """Return a tally with all counts 0."""
        hits, pairs, random, blind, offsets = (
            np.zeros((n_documents, n_roles, *size), np.int32)
            for size in ((n_heads,), (), (n_heads,), (n_heads,), (2 * MAX_OFFSET + 1,))
        )
        return cls(hits, pairs, random, blind, offsets)

    def add(
        self, document: int, roles: Mapping[str, int], trials: Sequence[tuple[str, int, int]],
        words: Words, keys: tuple[NDArray[np.int64], ...], text: tuple[Hits, Hits], *, causal: bool,
    ) -> None:  # fmt: skip
        """Add one sentence.

        Args:
            roles: index of each role.
            trials: pairs from `annotated`, for studied roles only.
            keys: words that heads look at, [N, n]: with trained weights, from all other words, and
                with random weights.
            text: hits in text roles with trained and with random weights.
        """
        for name, (hits, n) in text[0].items():
            self.hits[document, roles[name]] += hits
            self.pairs[document, roles[name]] += n
            self.random[document, roles[name]] += text[1][name][0]
        forms = [word.casefold() if at else "" for word, at in zip(words.queries, words.rows,
                                                                  strict=True)]  # fmt: skip
        for name, query, target in trials:
            if not (words.rows[query] and words.rows[target]) or (causal and target > query):
                continue
            role = roles[name]
            self.hits[document, role] += keys[0][:, query] == target
            self.blind[document, role] += keys[1][:, query] == target
            self.random[document, role] += keys[2][:, query] == target
            self.pairs[document, role] += 1
            if abs(target - query) <= MAX_OFFSET:
                self.offsets[document, role, target - query + MAX_OFFSET] += 1
            form, end = forms[target], query if causal else len(forms)
            same = [at for at in range(end) if forms[at] == form and at != query]
            nearest = min(same, key=lambda at: abs(at - query))
            self.words[document, role, form] += nearest == target


def rarest(
    sentence: Sentence, words: Words, keys: NDArray[np.int64], counts: Mapping[str, int], *,
    causal: bool,
) -> tuple[NDArray[np.int64], int]:  # fmt: skip
    """Count looks [N, n] at the rarest word in a sentence, from other words."""
    frequencies = [counts.get(word.casefold(), 0) if at else np.inf
             for word, at in zip(sentence.words, words.columns, strict=True)]  # fmt: skip
    target = int(np.argmin(frequencies))
    queries = [
        at for at, places in enumerate(words.rows)
        if places and (not words.of_corpus or (at > target if causal else at != target))
    ]  # fmt: skip
    if len(frequencies) < 4 or not words.columns[target]:
        queries = []
    return (keys[:, queries] == target).sum(1), len(queries)
