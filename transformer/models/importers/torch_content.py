"""Torch files with settings and training state beside the weights.

`weights_only=True` builds numbers, texts, lists and dictionaries and refuses everything else.
`argparse.Namespace`, common in such files, is allowed, too: creating a namespace runs no code of
the file, and its values only become attributes.
"""

import argparse
import re
from pathlib import Path
from typing import Any

from transformer.checkpoint.shards import Stored
from transformer.checkpoint.weights import is_plain
from transformer.files.torch_file import ALLOWED, read_torch
from transformer.types import CheckpointError

#: Names allowed in pickles, see `transformer.files.torch_file`.
_NAMES = re.compile(ALLOWED.pattern + r"|argparse Namespace|(__builtin__|builtins) set")


def read_content(path: Path, kind: str) -> tuple[Stored, dict[str, Any]]:
    """Describe the weights in a torch file, and return them with the whole content.

    Raises: `CheckpointError`, one line that names the file, and how to convert it if it holds more
        than data.
    """
    content = read_torch(
        path, allowed=_NAMES, safe_globals=[argparse.Namespace], hint=f"; {hint(kind)}"
    )
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: not a checkpoint (a dictionary)")
    state = content.get(key := KEPT[kind][0])
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and is_plain(tensor) for name, tensor in state.items()
    ):
        raise CheckpointError(f"{path}: {key!r} is not a state dict (plain tensors by name)")
    return Stored.of(path, state), content


def plain(value: object) -> dict[str, Any]:
    """Return a namespace or a dictionary as a dictionary, and {} for anything else."""
    values = vars(value) if isinstance(value, argparse.Namespace) else value
    items = values.items() if isinstance(values, dict) else ()
    return {name: setting for name, setting in items if isinstance(name, str)}


#: Keys of the weights and of the settings in a checkpoint, by format.
KEPT: dict[str, tuple[str, tuple[str, ...]]] = {
    "fairseq": ("model", ("args", "cfg")),
    "joeynmt": ("model_state", ()),
}


def hint(kind: str) -> str:
    """Return the command that prints the conversion script."""
    return f"`python -m transformer import {kind} --explain` prints how to convert it"


def explanation(kind: str) -> str:
    """Return a conversion script for users who trust the file."""
    weights, settings = KEPT[kind]
    return _SCRIPT.format(kind=kind, weights=weights, settings=settings)


#: All objects but tensors and plain values become empty shells, so no other package is needed.
_SCRIPT = """\
# convert.py: python convert.py OLD NEW
# Reading a pickle can run what its author wrote into it: do this only with a file that you trust.
# Put NEW where OLD was, then: python -m transformer import {kind} DIR --out PATH
import pickle, sys, types, torch

class Shell(dict):
    __hash__ = object.__hash__
    def __init__(self, *args, **more): pass
    def __setstate__(self, state): self.update(state if isinstance(state, dict) else {{}})
    def append(self, value): pass
    def extend(self, values): pass

class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        known = module.split(".")[0] in ("torch", "collections", "argparse", "numpy", "_codecs")
        known = known or name in ("set", "frozenset", "bytearray", "complex", "slice")
        return super().find_class(module, name) if known else Shell

def plain(value):
    value = getattr(value, "__dict__", None) or value
    for inside in ("_content", "_val"):  # where omegaconf keeps its values
        value = value[inside] if isinstance(value, dict) and inside in value else value
    if isinstance(value, dict):
        return {{str(name): plain(each) for name, each in value.items()}}
    return value if isinstance(value, (str, int, float, bool)) else None

def load(file, **more): return Unpickler(file, **more).load()

reader = types.SimpleNamespace(Unpickler=Unpickler, load=load, __name__="pickle")
old = torch.load(sys.argv[1], map_location="cpu", weights_only=False, pickle_module=reader)
kept = {{name: plain(old[name]) for name in {settings!r} if old.get(name) is not None}}
torch.save({{{weights!r}: dict(old[{weights!r}]), **kept}}, sys.argv[2])
"""
