"""Study records, stored as a folder of plain files.

    study = Study.load("checkpoints/everyday-en-de/studies/gum")
    study.findings(study.heads[0])[0]  # the first head's clearest role

    study.json      JSON: `schema`, settings, roles and heads
    sentences.json  JSON: stored example sentences, a list of `Sentence` fields
    scores.npz      score, low, high, p, ... [R, N] for R roles and N heads; NaN where a role does
                    not apply to a head. importance.NAME.KIND [L, H]
    looks.npz       KIND.keys, KIND.weights, KIND.own [L, H, W]: the word that each head looks at
                    from each of the W words in stored sentences

Units are words: words of the corpus (plain text is split into words, punctuation and clitics) and
space-separated words of translations. Weights are summed over the tokens of a key word and averaged
over the tokens of a query word (Clark et al. 2019). Special tokens are excluded: the words in a row
lack the weight on `</s>`.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.weights import weights_digest
from transformer.files.folders import replaced_folder, write_atomic
from transformer.files.npz import read_npz
from transformer.files.safe import json_object
from transformer.study.corpus import Sentence
from transformer.trace.removals import Head, heads_of
from transformer.types import ATTENTION_KINDS, AttentionKind, CheckpointError, Floats, literals

#: Version of the file format and study design; other versions are rejected.
SCHEMA = 2
#: Folder name for a checkpoint's studies, and the file that marks a study.
FOLDER, FILE = "studies", "study.json"
_SENTENCES = "sentences.json"
#: Maximum JSON size in bytes and in values.
_MOST_JSON, _MOST_VALUES = 512 << 20, 10_000_000

#: Annotation that a role requires: none, dependencies, coreference, or word links.
Needs = Literal["text", "dependencies", "coreference", "links"]


@dataclass(frozen=True)
class Role:
    """A pattern of attention: the words that each query should look at."""

    name: str  # "previous", "up:det" (word to its head), "down:nsubj" (head to its dependent), ...
    title: str  # on screen: "determiner to noun"
    needs: Needs = "text"


class Finding(NamedTuple):
    """Score of one head in one role, with its controls and tests. Shares are 0 to 1."""

    role: Role
    head: Head
    score: float  # share of pairs in which the head looks at the right word
    pairs: int  # tested pairs, or queries for a role without annotation
    low: float  # 95% interval of the score, by bootstrap over documents
    high: float
    offset: int  # best fixed offset, key minus query; 0 if there is none
    # Scores of controls; offset, word and blind are NaN for a role without annotation.
    offset_score: float  # best fixed offset
    word_score: float  # nearest occurrence of the best fixed word
    random: float  # best head of this kind with random weights
    blind: float  # the word with most weight from all other words
    # Highest control. For a role without annotation: random weights or 0.5, or 1 if random weights
    # exceed 0.5.
    bar: float
    # Uncorrected p-values of paired tests against each control.
    random_p: float
    offset_p: float
    word_p: float
    blind_p: float
    p: float  # their maximum after Holm's correction; NaN if the head was not chosen
    choice: float  # score minus the highest control in the documents used to choose heads
    again_score: float  # score, lower end of its interval, and maximum p on the second text
    again_low: float
    again_p: float
    named: bool  # True if the head has the role by the rules of `transformer.study.statistics`

    @property
    def margin(self) -> float:
        """Score minus the highest control."""
        return self.score - self.bar


@dataclass(frozen=True, eq=False)
class Looks:
    """The word that each head looks at from each query word in stored sentences.

    Sentence i has the columns starts[i] to starts[i + 1]. In self-attention, `keys` is the *other*
    word with the largest weight, and `own` is a word's weight on itself. A word that sees no other
    word has its own index and weight 0.
    """

    starts: NDArray[np.int64]  # [sentences + 1]
    keys: NDArray[Any]  # [L, H, W] unsigned, index of the key word in its sentence
    weights: NDArray[np.uint8]  # [L, H, W], weight on the key word in 255ths
    own: NDArray[np.uint8] | None  # [L, H, W], own weight in 255ths; None in cross-attention

    def of(self, head: Head, sentence: int) -> tuple[NDArray[Any], Floats]:
        """Return a head's key words [n] in one sentence, and their weights [n]."""
        place = head.layer, head.head, slice(*self.starts[sentence : sentence + 2])
        weights: Floats = np.divide(self.weights[place], 255, dtype=np.float32)
        return self.keys[place], weights


_clearness = attrgetter("named", "choice")
_SCORES = Finding._fields[2:]
_LOOKS = ("keys", "weights", "own")


@dataclass(frozen=True, eq=False)
class Study:
    """Roles of one model's heads over one corpus."""

    checkpoint: str  # name, with a snapshot's update count
    weights: str  # weight file digest
    edits: str  # from `transformer.edits.language.text_of`
    corpus: str  # name
    corpus_digest: str
    source: str  # corpus source and licence; "" if unknown
    n_sentences: int
    n_words: int
    n_documents: int
    n_skipped: int  # sentences too long for the model
    control: str  # description of the random weights
    roles: tuple[Role, ...]  # [R]
    heads: tuple[Head, ...]  # [N], by kind, layer and number
    scores: Mapping[str, NDArray[Any]]  # by field of `Finding`, [R, N]
    sentences: tuple[Sentence, ...] = ()  # stored sentences, a part of the corpus
    looks: Mapping[AttentionKind, Looks] = field(default_factory=dict)
    #: by measure and kind, [L, H]
    importance: Mapping[str, Mapping[AttentionKind, Floats]] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)  # how each measure was computed
    key: str = ""  # digest of checkpoint, corpora and settings
    n_cut: int = 0  # translations cut at the length limit, excluded for decoder and cross heads
    second: str = ""  # description of the second text; "" if there is none

    @property
    def read(self) -> str:
        """The sentences read: "4,145 English sentences of the GUM corpus"."""
        source = self.source.partition(",")[0]
        english = "English " if source.startswith("GUM") else ""
        of = f"the {source}" if source else self.corpus
        n = self.n_sentences - self.n_skipped
        return f"{n:,} {english}sentence{'s' * (n != 1)} of {of}"

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Kinds of attention in the model."""
        return tuple(kind for kind in ATTENTION_KINDS if any(h.kind == kind for h in self.heads))

    @literals
    def shape(self, kind: AttentionKind) -> tuple[int, int]:
        """Return the number of layers and heads for one kind."""
        last = max(head for head in self.heads if head.kind == kind)
        return last.layer + 1, last.head + 1

    def role(self, name: str) -> Role | None:
        """Return the role with this name, or None if there is none."""
        return next((role for role in self.roles if role.name == name), None)

    def finding(self, role: Role, head: Head) -> Finding | None:
        """Return the finding for a role and head, or None if the role does not apply."""
        at = self.roles.index(role), self.heads.index(head)
        values = {name: self.scores[name][at].item() for name in _SCORES}
        return Finding(role, head, **values) if values["pairs"] else None

    def findings(self, head: Head) -> list[Finding]:
        """Return a head's findings, named roles first, then by `choice`."""
        findings = [finding for role in self.roles if (finding := self.finding(role, head))]
        return sorted(findings, key=_clearness, reverse=True)

    def in_role(self, role: Role) -> list[Finding]:
        """Return all heads' findings in a role, in the order of `findings`."""
        findings = [finding for head in self.heads if (finding := self.finding(role, head))]
        return sorted(findings, key=_clearness, reverse=True)

    @literals
    def grid(self, role: Role, kind: AttentionKind, name: str = "score") -> NDArray[Any]:
        """Return a field of `Finding` for all heads of a kind in a role, [L, H]."""
        row = self.scores[name][self.roles.index(role)]
        chosen = [value for head, value in zip(self.heads, row, strict=True) if head.kind == kind]
        return np.array(chosen).reshape(self.shape(kind))

    def save(self, folder: str | Path) -> None:
        """Write the study, replacing the folder atomically. Raises `OSError`."""
        about = {option.name: getattr(self, option.name) for option in fields(self)}
        for name in ("scores", "looks", "sentences"):
            del about[name]
        about["roles"] = [asdict(role) for role in self.roles]
        about["importance"] = {name: list(kinds) for name, kinds in self.importance.items()}
        sentences = {
            "sentences": [asdict(sentence) for sentence in self.sentences],
            "starts": {kind: looks.starts.tolist() for kind, looks in self.looks.items()},
        }
        scores = {**self.scores, **{
            f"importance.{name}.{kind}": array
            for name, kinds in self.importance.items()
            for kind, array in kinds.items()
        }}  # fmt: skip
        looks = {
            f"{kind}.{name}": array
            for kind, looks in self.looks.items()
            for name in _LOOKS
            if (array := getattr(looks, name)) is not None
        }
        with replaced_folder(Path(folder)) as new:
            np.savez_compressed(new / "scores.npz", **scores)  # type: ignore[arg-type]
            np.savez_compressed(new / "looks.npz", **looks)
            write_atomic(new / _SENTENCES, _json(sentences))
            write_atomic(new / FILE, _json({"schema": SCHEMA, **about}))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load the study in a folder. Raises `CheckpointError`."""
        folder = Path(folder)
        path = folder / FILE
        about = json_object(path)
        if about.pop("schema", None) != SCHEMA:
            raise CheckpointError(f"{path}: not a study; expected schema {SCHEMA}")
        try:
            measured = about.pop("importance")
            about["roles"] = tuple(Role(**role) for role in about["roles"])
            about["heads"] = tuple(Head(*head) for head in about["heads"])
            study = cls(**about, scores={})
            _check_study(study)
            path = folder / _SENTENCES
            stored = json_object(path, _MOST_JSON, _MOST_VALUES)
            sentences, starts = tuple(map(Sentence.of, stored["sentences"])), stored["starts"]
            _check_sentences(study, sentences, starts)
            path = folder / "scores.npz"
            scores = _arrays(path, dict.fromkeys(_SCORES, (len(study.roles), len(study.heads))))
            importance = {
                name: {
                    kind: _arrays(path, {(n := f"importance.{name}.{kind}"): study.shape(kind)})[n]
                    for kind in kinds
                }
                for name, kinds in measured.items()
                if kinds
            }
            path = folder / "looks.npz"
            looks = _arrays(path, {
                f"{kind}.{name}": (*study.shape(kind), starts[kind][-1])
                for kind in study.kinds for name in _LOOKS if (kind, name) != ("cross", "own")
            }, "u")  # fmt: skip
            for kind in study.kinds:
                sizes = [max(1, len(sentence.keys(kind))) for sentence in sentences]
                most = np.repeat(np.array(sizes, np.int64), np.diff(starts[kind]))
                if any((layer >= most).any() for layer in looks[f"{kind}.keys"]):
                    raise ValueError(f"{kind}.keys is out of range for its sentence")
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"{path}: invalid study ({error})") from None
        return replace(study, scores=scores, importance=importance, sentences=sentences, looks={
            kind: Looks(np.array(starts[kind], np.int64), looks[f"{kind}.keys"],
                        looks[f"{kind}.weights"], looks.get(f"{kind}.own"))
            for kind in study.kinds
        })  # fmt: skip


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def _arrays(
    path: Path, shapes: Mapping[str, tuple[int, ...]], kinds: str = "fiub"
) -> dict[str, Any]:
    arrays = read_npz(path, shapes)
    for name, shape in shapes.items():
        if (array := arrays[name]).dtype.kind not in kinds:
            raise CheckpointError(f"{path}: {name} has type {array.dtype}; expected {kinds}")
        if array.shape != shape:
            raise CheckpointError(f"{path}: {name} is {[*array.shape]}; expected {[*shape]}")
    return arrays


def _check_study(study: Study) -> None:
    for option in fields(study):
        kind = option.type if option.type in (str, int) else object
        if not isinstance(getattr(study, option.name), kind):
            raise ValueError(f"{option.name} is invalid; expected {kind.__name__}")
    shapes = {kind: study.shape(kind) for kind in study.kinds}
    if len(study.heads) != sum(map(math.prod, shapes.values())) or study.heads != heads_of(shapes):
        raise ValueError("heads do not form complete layers")
    texts = [text for role in study.roles for text in (role.name, role.title)]
    if not isinstance(study.notes.get("importance", {}), dict) or not all(
        isinstance(text, str) for text in texts
    ):
        raise ValueError("notes or roles are invalid; expected text")


def _check_sentences(
    study: Study, sentences: Sequence[Sentence], starts: Mapping[str, Sequence[int]]
) -> None:
    for sentence in sentences:
        n = len(sentence.words)
        lists = sentence.tags, sentence.parents, sentence.relations, sentence.antecedents
        texts = (sentence.text, sentence.document, *sentence.words, *sentence.tags,
                 *sentence.relations, *sentence.target)  # fmt: skip
        if (
            {*map(len, lists)} not in ({0}, {n})
            or len(sentence.chunks) not in (0, n)
            or not all(isinstance(text, str) for text in texts)
            or not all(word in range(-1, n) for word in (*sentence.parents, *sentence.antecedents))
        ):
            raise ValueError(f"annotations do not match the words of {sentence.text!r:.60}")
    for kind in study.kinds:
        if starts[kind] != [0, *accumulate(len(sentence.queries(kind)) for sentence in sentences)]:
            raise ValueError(f"{kind} starts do not match its sentences")


def cache_folder() -> Path:
    """Return the folder for studies of read-only checkpoints."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "headlight" / FOLDER


def about(folder: Path) -> dict[str, Any]:
    """Return study.json in a folder, or {} if there is none."""
    try:
        return json_object(folder / FILE)
    except CheckpointError:
        return {}


def studies_of(ref: ModelRef) -> list[Path]:
    """Return folders of finished studies that match a model's weights and edits."""
    expected = SCHEMA, ref.name, weights_digest(ref.folder), ref.edits
    roots = (ref.folder / FOLDER, cache_folder())
    paths = (path for root in roots if root.is_dir() for path in sorted(root.iterdir()))
    names = ("schema", "checkpoint", "weights", "edits")
    return [path for path in paths if (*map(about(path).get, names),) == expected]
