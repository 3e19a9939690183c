"""Instructions for converting files that a safe load refuses."""

from __future__ import annotations

#: Keys kept of a checkpoint, by format: (the weights, the settings).
KEPT: dict[str, tuple[str, tuple[str, ...]]] = {
    "fairseq": ("model", ("args", "cfg")),
    "joeynmt": ("model_state", ()),
}


def hint(kind: str) -> str:
    """Return a hint to append to the error."""
    return f"`python -m transformer import {kind} --explain` prints how to convert it"


def explanation(kind: str) -> str:
    """Return a conversion script, for users who trust the file."""
    weights, settings = KEPT[kind]
    return _SCRIPT.format(kind=kind, weights=weights, settings=settings)


#: Objects other than tensors and plain values become empty shells, so no other package is needed.
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
