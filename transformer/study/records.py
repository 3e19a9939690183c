"""A study as a record and as a folder of plain files.

    study = Study.load("checkpoints/everyday-en-de/studies/gum")
    study.findings(study.heads[0])[0]  # what the first head does most

    study.json      JSON: `schema`, the settings, roles and heads
    sentences.json  JSON: the sentences kept as examples, a list of the fields of `Sentence`
    scores.npz      score, low, high, p, ... [R, N]: of R roles and N heads; NaN where a role does
                    not apply to a head. importance.NAME.KIND [L, H]
    looks.npz       KIND.keys, KIND.weights, KIND.own [L, H, W]: the word that each head looks at,
                    from each of the W words of the sentences kept

Everything is about words. A word is what the corpus calls one (plain text is split into words,
punctuation and clitics), and in a translation text between spaces. Weights are summed over
the tokens of a key word and averaged over those of a query word (Clark et al. 2019). Special
tokens are no words: what a head gives `</s>` is what the words of a row lack to 1.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.weights import weights_digest
from transformer.errors import CheckpointError
from transformer.files.atomic import write_atomic
from transformer.files.folders import replaced_folder
from transformer.files.npz import read_npz
from transformer.files.safe import json_object
from transformer.study.corpus import Sentence
from transformer.trace.removals import Head, heads_of
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats

#: Version of the files' layout; others are not read.
SCHEMA = 1
#: Folder of a checkpoint's studies, and the file whose presence makes a folder a study.
FOLDER, FILE = "studies", "study.json"
_SENTENCES = "sentences.json"
#: Largest JSON of a study, in bytes.
_MOST_JSON, _MOST_VALUES = 512 << 20, 10_000_000

#: What a role is measured against: nothing, dependencies, or coreference.
Needs = Literal["text", "dependencies", "coreference"]


@dataclass(frozen=True)
class Role:
    """Something that a head may do: each query has the words that it should look at."""

    name: str  # "previous", "up:det" (word to its head), "down:nsubj" (head to its dependent), ...
    title: str  # for people: "determiner to noun"
    needs: Needs = "text"


class Finding(NamedTuple):
    """One role and one head: a score, and what it is held against. Shares are 0 to 1."""

    role: Role
    head: Head
    score: float  # share of the pairs where the head looks at the right word
    pairs: int  # number of pairs; for a role without annotation, of queries
    low: float  # 95% interval of the score, by bootstrap over documents
    high: float
    offset: int  # best fixed offset of the same pairs, key minus query; 0 where there is none
    offset_score: float  # its score; NaN for a role without annotation
    word_score: float  # score of the nearest occurrence of one fixed word, the best; NaN likewise
    random: float  # score of the best head of this kind under random weights
    #: score of the word that this head looks at most from all other words; NaN likewise
    blind: float
    # The highest control: these four. For a role without annotation, random weights and 0.5; or 1
    # if random weights are above 0.5.
    bar: float
    p: float  # of the paired test, after Holm's correction over all roles and heads
    named: bool  # `low` above `bar`, and `p` < 0.05

    @property
    def margin(self) -> float:
        """Score minus the highest control."""
        return self.score - self.bar


@dataclass(frozen=True, eq=False)
class Looks:
    """The word that every head looks at, from every query word of the sentences kept.

    Sentence i has the columns starts[i] to starts[i + 1]. Itself is another matter: in
    self-attention `keys` is the word with the most weight among the *others*, and `own` the weight
    that a word gives itself. A word that sees no other has its own number and the weight 0.
    """

    starts: NDArray[np.int64]  # [sentences + 1]
    keys: NDArray[Any]  # [L, H, W] unsigned, the key word's number in its sentence
    weights: NDArray[np.uint8]  # [L, H, W], the weight on it in 255ths
    own: NDArray[np.uint8] | None  # [L, H, W], the weight on itself in 255ths; None for cross

    def of(self, head: Head, sentence: int) -> tuple[NDArray[Any], Floats]:
        """Return a head's key words [n] in one sentence, and the weights [n] on them."""
        place = head.layer, head.head, slice(*self.starts[sentence : sentence + 2])
        weights: Floats = np.divide(self.weights[place], 255, dtype=np.float32)
        return self.keys[place], weights


_SCORES = Finding._fields[2:]
_LOOKS = ("keys", "weights", "own")


@dataclass(frozen=True, eq=False)
class Study:
    """The roles of one model's heads over one corpus."""

    checkpoint: str  # its name, with the updates of a snapshot
    weights: str  # digest of its weight file
    edits: str  # of the model, as `transformer.edits.language.text_of` writes them
    corpus: str  # its name
    corpus_digest: str  # of its text
    source: str  # its source and terms, "" if unknown
    n_sentences: int  # read
    n_words: int
    n_documents: int
    n_skipped: int  # sentences too long for the model
    control: str  # what its random weights are, in words
    roles: tuple[Role, ...]  # [R]
    heads: tuple[Head, ...]  # [N], by kind, layer and number
    scores: Mapping[str, NDArray[Any]]  # by field of `Finding`, [R, N]
    sentences: tuple[Sentence, ...] = ()  # a part of the corpus
    looks: Mapping[AttentionKind, Looks] = field(default_factory=dict)
    #: by name of a measure and kind, [L, H]; empty where it was not measured
    importance: Mapping[str, Mapping[AttentionKind, Floats]] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)  # on what each measure was taken
    key: str = ""  # digest of checkpoint, corpus and settings

    @property
    def read(self) -> str:
        """Return what was read in words: "4,145 English sentences of the GUM corpus"."""
        source = self.source.partition(",")[0]
        english = "English " if source.startswith("GUM") else ""
        of = f"the {source}" if source else self.corpus
        return f"{self.n_sentences:,} {english}sentence{'s' * (self.n_sentences != 1)} of {of}"

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Kinds of attention that the model has."""
        return tuple(kind for kind in ATTENTION_KINDS if any(h.kind == kind for h in self.heads))

    def shape(self, kind: AttentionKind) -> tuple[int, int]:
        """Return the number of layers and heads of one kind."""
        last = max(head for head in self.heads if head.kind == kind)
        return last.layer + 1, last.head + 1

    def role(self, name: str) -> Role | None:
        """Return the role of this name."""
        return next((role for role in self.roles if role.name == name), None)

    def finding(self, role: Role, head: Head) -> Finding | None:
        """Return the numbers of a role and a head; None if it does not apply to the head."""
        at = self.roles.index(role), self.heads.index(head)
        values = {name: self.scores[name][at].item() for name in _SCORES}
        return Finding(role, head, **values) if values["pairs"] else None

    def findings(self, head: Head) -> list[Finding]:
        """Return all that is known of a head: what is named first, then by score minus control."""
        found = [each for role in self.roles if (each := self.finding(role, head))]
        return sorted(found, key=lambda each: (each.named, each.margin), reverse=True)

    def in_role(self, role: Role) -> list[Finding]:
        """Return the findings of all heads in a role, in the order of `findings`."""
        found = [each for head in self.heads if (each := self.finding(role, head))]
        return sorted(found, key=lambda each: (each.named, each.margin), reverse=True)

    def grid(self, role: Role, kind: AttentionKind, name: str = "score") -> NDArray[Any]:
        """Return one number of a role for the heads of a kind, [L, H]; see `Finding`."""
        row = self.scores[name][self.roles.index(role)]
        chosen = [value for head, value in zip(self.heads, row, strict=True) if head.kind == kind]
        return np.array(chosen).reshape(self.shape(kind))

    def save(self, folder: str | Path) -> None:
        """Write the study; what was in the folder is replaced at once. Raises `OSError`."""
        about = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("scores", "looks", "sentences"):
            del about[name]
        about["roles"] = [asdict(role) for role in self.roles]
        about["importance"] = {name: list(kinds) for name, kinds in self.importance.items()}
        sentences = {
            "sentences": [asdict(sentence) for sentence in self.sentences],
            "starts": {kind: each.starts.tolist() for kind, each in self.looks.items()},
        }
        scores = {**self.scores, **{
            f"importance.{name}.{kind}": array
            for name, kinds in self.importance.items()
            for kind, array in kinds.items()
        }}  # fmt: skip
        looks = {
            f"{kind}.{name}": array
            for kind, each in self.looks.items()
            for name in _LOOKS
            if (array := getattr(each, name)) is not None
        }
        with replaced_folder(Path(folder)) as new:
            np.savez_compressed(new / "scores.npz", **scores)  # type: ignore[arg-type]
            np.savez_compressed(new / "looks.npz", **looks)
            write_atomic(new / _SENTENCES, _json(sentences))
            write_atomic(new / FILE, _json({"schema": SCHEMA, **about}))

    @classmethod
    def load(cls, folder: str | Path) -> Study:
        """Open the study in a folder. Raises `CheckpointError`, one line naming the file."""
        folder = Path(folder)
        path = folder / FILE
        about = json_object(path)
        if about.pop("schema", None) != SCHEMA:
            raise CheckpointError(f"{path}: not a study of schema {SCHEMA}")
        try:
            measured = about.pop("importance")
            about["roles"] = tuple(Role(**role) for role in about["roles"])
            about["heads"] = tuple(Head(*head) for head in about["heads"])
            study = cls(**about, scores={})
            _check_study(study)
            path = folder / _SENTENCES
            kept = json_object(path, _MOST_JSON, _MOST_VALUES)
            sentences, starts = tuple(map(Sentence.of, kept["sentences"])), kept["starts"]
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
                sizes = [max(1, len(each.keys(kind))) for each in sentences]
                most = np.repeat(np.array(sizes, np.int64), np.diff(starts[kind]))
                if any((layer >= most).any() for layer in looks[f"{kind}.keys"]):
                    raise ValueError(f"{kind}.keys has a word that its sentence lacks")
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"{path}: not a whole study ({error})") from None
        return replace(study, scores=scores, importance=importance, sentences=sentences, looks={
            kind: Looks(np.array(starts[kind], np.int64), looks[f"{kind}.keys"],
                        looks[f"{kind}.weights"], looks.get(f"{kind}.own"))
            for kind in study.kinds
        })  # fmt: skip


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return a compressed .npz file of arrays."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _arrays(
    path: Path, shapes: Mapping[str, tuple[int, ...]], kinds: str = "fiub"
) -> dict[str, Any]:
    found = read_npz(path, shapes)
    for name, shape in shapes.items():
        if found[name].dtype.kind not in kinds:
            raise CheckpointError(f"{path}: {name} has the type {found[name].dtype}")
        if found[name].shape != shape:
            raise CheckpointError(f"{path}: {name} is {[*found[name].shape]}; expected {[*shape]}")
    return found


def _check_study(study: Study) -> None:
    for each in fields(study):
        kind = {"str": str, "int": int}.get(str(each.type), object)
        if not isinstance(getattr(study, each.name), kind):
            raise ValueError(f"{each.name} is no {each.type}")
    shapes = {each: study.shape(each) for each in study.kinds}
    if len(study.heads) != sum(map(math.prod, shapes.values())) or study.heads != heads_of(shapes):
        raise ValueError("heads are not those of whole layers")
    texts = [text for role in study.roles for text in (role.name, role.title)]
    if not isinstance(study.notes.get("importance", {}), dict) or not all(
        isinstance(text, str) for text in texts
    ):
        raise ValueError("notes or roles are not in words")


def _check_sentences(
    study: Study, sentences: Sequence[Sentence], starts: Mapping[str, Sequence[int]]
) -> None:
    for each in sentences:
        n = len(each.words)
        lists = each.tags, each.parents, each.relations, each.antecedents
        texts = (each.text, each.document, *each.words, *each.tags, *each.relations, *each.target)
        if (
            {*map(len, lists)} not in ({0}, {n})
            or len(each.chunks) not in (0, n)
            or not all(isinstance(text, str) for text in texts)
            or not all(word in range(-1, n) for word in (*each.parents, *each.antecedents))
        ):
            raise ValueError(f"the annotation of {each.text!r:.60} does not fit its words")
    for kind in study.kinds:
        if starts[kind] != [0, *accumulate(len(each.queries(kind)) for each in sentences)]:
            raise ValueError(f"starts of {kind} are not those of its sentences")


def cache_folder() -> Path:
    """Return the folder of studies whose checkpoint's folder is read-only."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "headlight" / FOLDER


def about(folder: Path) -> dict[str, Any]:
    """Return what study.json in a folder says; nothing if there is none."""
    try:
        return json_object(folder / FILE)
    except CheckpointError:
        return {}


def studies_of(ref: ModelRef) -> list[Path]:
    """Return the folders of finished studies of a model as it is now, its edits included."""
    wanted = SCHEMA, ref.name, weights_digest(ref.folder), ref.edits
    roots = (ref.folder / FOLDER, cache_folder())
    every = (each for root in roots if root.is_dir() for each in sorted(root.iterdir()))
    names = ("schema", "checkpoint", "weights", "edits")
    return [path for path in every if (*map(about(path).get, names),) == wanted]
