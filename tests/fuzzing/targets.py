"""Fuzz targets: for each kind of input, valid examples and the code that reads them.

A reader may refuse its input with an error of this project's own, which pages and commands show as
one line. Any other exception is a fault.
"""

import gzip
import shutil
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from tests.tiny_models import SENTENCES, SMALL, random_model
from tests.transformer.damage import torch_file
from tests.transformer.models.huggingface import models as huggingface
from tests.transformer.models.importers import foreign
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.checkpoint.reference import SNAPSHOTS
from transformer.checkpoint.snapshots import pack, read_history
from transformer.checkpoint.weights import layout_of
from transformer.evaluation.records import summary_table
from transformer.models.catalogue import inspect_entry
from transformer.models.importers.registry import FORMATS
from transformer.search.request import default_decoding
from transformer.text.tokenizer import train_tokenizer
from transformer.training.corpus import read_treebank
from transformer.training.data import read_csv, read_lines, read_tsv
from transformer.training.watching import read_run
from transformer.translator import Translator
from transformer.types import CheckpointError

#: Numbers at which lengths and counts go wrong, and marks of the formats that are read.
_TELLING = (
    *(value.to_bytes(8, "little", signed=True)[:size]
      for value in (0, 1, -1, 127, 255, 2**15, 2**16, 2**31 - 1, -(2**31), 2**62)
      for size in (1, 2, 4, 8)),
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\r", b"\n", b"\t",
    b"[", b"]", b"{", b"}", b"(", b")", b'"', b"'", b",", b":", b"&a [*a]",
    b"!!python/object:os.system", b"NaN", b"Infinity", b"-1", b"1e999", b"null", b"true",
    b"[[[[[[[[", b"9" * 40, b"\\u0000", b"%00",
    b"<script>", b"__metadata__", b"PK\x03\x04", b"PK\x05\x06", b"../", b"</s>", b"<unk>", b"@@",
)  # fmt: skip


class Mutation(NamedTuple):
    """A mutation: its kind, relative position, offset, and new bytes."""

    kind: int
    at: float
    length: int
    new: bytes


MUTATIONS = st.lists(
    st.builds(
        Mutation,
        st.integers(0, 5),
        st.floats(0, 1),
        st.integers(0, 60),
        st.sampled_from(_TELLING) | st.binary(max_size=12),
    ),
    max_size=6,
)


def mutated(data: bytes, changes: Sequence[Mutation]) -> bytes:
    for kind, share, length, new in changes:
        at = min(len(data), int(share * (len(data) + 1)))
        if kind == 0:  # other bytes in the place of as many
            data = data[:at] + new + data[at + len(new) :]
        elif kind == 1:  # more
            data = data[:at] + new + data[at:]
        elif kind == 2:  # fewer
            data = data[:at] + data[at + length :]
        elif kind == 3:  # a piece again
            data = data[: at + length] + data[at:]
        elif kind == 4:  # an end
            data = data[:at] + new
        elif data:  # one bit
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ (1 << length % 8)]) + data[at + 1 :]
    return data


class Target(NamedTuple):
    """An input kind: name, valid examples, and the code that reads it."""

    name: str
    examples: tuple[bytes, ...]
    read: Callable[[bytes], object]


def check(target: Target, data: bytes) -> None:
    """Read an input; re-raise anything but a one-line refusal by the project's own errors."""
    try:
        target.read(data)
    except ValueError as error:
        own = type(error).__module__.startswith("transformer.")
        if not own or "\n" in str(error).strip():
            raise


class Bench(dict[str, Target]):
    """Targets by name, built on demand in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> Target:
        return self.setdefault(name, self._make(name))

    @cached_property
    def translator(self) -> Translator:
        tokenizer = train_tokenizer(SENTENCES, 110)
        config = SMALL.replace(vocab_size=tokenizer.vocab_size, max_positions=60)
        return Translator(random_model(config), tokenizer, device="cpu", name="fuzzed")

    @cached_property
    def ours(self) -> Path:
        """A checkpoint with all optional files."""
        metrics = {
            "bleu": 1.0, "default_decoding": {"beam_size": 2, "alpha": 0.5},
            "training": {"updates": 3, "longest_source": 9, "recipe": {"data": {"src": "en"}}},
            "tests": {"val": {"bleu": 12.5, "chrf": 40.0, "signature": "x"}},
            "training_text": {"kind": "sentences", "source": [3, 9], "target": [3, 9]},
        }  # fmt: skip
        model = self.translator.model
        made = save_checkpoint(
            self.folder / "ours", model, self.translator.tokenizer, metrics=metrics
        )
        whole = model.state_dict()
        states = [{name: whole[name] for name in layout_of(model.config).stored}] * 2
        arrays = {
            "updates": np.array([0, 5]), "about": np.array('{"end": true, "cosine": 1.0}'),
            "val_nll": np.zeros(2, np.float32), "far_1": np.array([[3], [999]], np.int32),
            **pack(states, 8.0),
        }  # fmt: skip
        np.savez_compressed(made / SNAPSHOTS, **arrays)
        return made

    def _make(self, name: str) -> Target:
        if name in _OURS:
            return self._in_folder(name, _OURS[name])
        if name in _FOREIGN:
            return self._importing(name, *_FOREIGN[name])
        read_file, *contents = _FILES[name]
        place = self.folder / "alone" / name
        place.mkdir(parents=True)
        return Target(name, tuple(contents), _written(place / name, read_file, place / name))

    def _in_folder(self, file: str, read: Callable[[Path], object]) -> Target:
        """Return the target for one file in a checkpoint, with other files unchanged."""
        place = self.folder / "places" / file
        shutil.copytree(self.ours, place)
        if file == "model.pt":
            torch_file(lambda state: state, file)(place)
        return Target(file, ((place / file).read_bytes(),), _written(place / file, read, place))

    def _importing(self, name: str, make: Callable[..., object], shape: str) -> Target:
        """Return the target for a model to import; the first byte selects the file."""
        good, place = self.folder / name, self.folder / "places" / name
        make(good, shape)
        names = sorted(each.name for each in good.iterdir())
        out = place.with_name(f"{name} imported")

        def read(data: bytes) -> None:
            shutil.rmtree(place, ignore_errors=True)
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(good, place)
            (place / names[(data or b"\0")[0] % len(names)]).write_bytes(data[1:])
            try:
                FORMATS[name].convert(place, out)
            except CheckpointError:
                assert not out.exists()
                raise
            _whole(out)

        examples = (bytes([at]) + (good / each).read_bytes() for at, each in enumerate(names))
        return Target(name, tuple(examples), read)


def _written(path: Path, read: Callable[[Path], object], given: Path) -> Callable[[bytes], object]:
    return lambda data: (path.write_bytes(data), read(given))


def _whole(folder: Path) -> None:
    loaded = load_checkpoint(folder)
    assert inspect_entry(folder).ok
    assert all(bool(each.isfinite().all()) for each in loaded.model.parameters())
    for ids in loaded.tokenizer.encode_many([*SENTENCES[:2], "é ﬁ 你."]):
        assert all(0 <= index < loaded.config.vocab_size for index in ids)
        loaded.tokenizer.decode(ids)


def _figures(folder: Path) -> None:
    entry = inspect_entry(folder)
    default_decoding(entry.metrics)
    summary_table([entry])
    _whole(folder)


def _history(folder: Path) -> None:
    inspect_entry(folder)
    for each in read_history(folder).snapshots:
        load_checkpoint(f"{folder}@{each.updates}")


_TREE = "(S (NP (DT A) (NN dog)) (VP (VBD ran) (PP (IN off))) (. .))\n"
_PAIRS = "\n".join(f"{one}\t{two}" for one, two in pairwise(SENTENCES))


#: The readers of a checkpoint's files.
_OURS: dict[str, Callable[[Path], object]] = {
    **dict.fromkeys(("config.json", "tokenizer.model", "model.safetensors", "model.pt"), _whole),
    "metrics.json": _figures, SNAPSHOTS: _history,
}  # fmt: skip

#: For each other library: what makes a model, and its shape.
_FOREIGN: dict[str, tuple[Callable[..., object], str]] = {
    "joeynmt": (foreign.joeynmt, "post-norm, separate"),
    "fairseq": (foreign.fairseq, "post-norm, all shared"),
    "marian": (huggingface.make_folder, "separate vocabularies"),
}

#: Readers of single files, and their contents.
_FILES: dict[str, tuple[Any, ...]] = {
    "pairs.tsv": (read_tsv, _PAIRS.encode()),
    "pairs.csv": (lambda path: read_csv(path, "en", "de"),
                  b"en,de\n" + _PAIRS.replace("\t", ",").encode()),
    "lines.gz": (read_lines, gzip.compress(_PAIRS.encode(), mtime=0)),
    "trees.ptb": (read_treebank, _TREE.encode() * 3, b"(TOP (NN x))"),
    "metrics.jsonl": (
        lambda path: read_run(path.parent),
        b'{"kind": "update", "update": 5, "epoch": 0, "nll": 2.5, "lr": 0.1}\n' * 3,
    ),
    "recipe.json": (lambda path: read_run(path.parent), b'{"model": {"d_model": 8}}'),
}  # fmt: skip

#: Every target.
NAMES = (*_FILES, *_OURS, *_FOREIGN)
