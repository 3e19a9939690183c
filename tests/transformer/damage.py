"""Ways to damage a model's folder."""

import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import safetensors.torch
import torch
import yaml

from tests.transformer.importers.foreign import written

Damage = Callable[[Path], object]
State = dict[str, torch.Tensor]
P = ParamSpec("P")

WEIGHTS = "model.safetensors"


class Call:
    """Pickles as a call of any function with any arguments."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


class Evil(Call):
    """Makes the file `mark` when unpickled."""

    def __init__(self, mark: Path) -> None:
        super().__init__(Path.touch, mark)


def damaging(do: Callable[Concatenate[Path, P], object]) -> Callable[P, Damage]:
    """Make a function of a folder and arguments one of the arguments alone, for tables."""
    return lambda *given, **named: lambda folder: do(folder, *given, **named)


@damaging
def edit(folder: Path, name: str, *where: str, **changes: object) -> None:
    """Change values of a JSON or YAML file, in a group; `...` takes a key away."""
    path = folder / name
    text = path.read_text() if path.exists() else "{}"
    values: Any = yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)
    group = values
    for each in where:
        group = group[each]
    group |= changes
    for key in [key for key, value in group.items() if value is ...]:
        del group[key]
    path.write_text((yaml.safe_dump if path.suffix == ".yaml" else json.dumps)(values))


@damaging
def rewrite(folder: Path, name: str, change: Callable[[Any], object]) -> None:
    """Replace the content of a JSON file."""
    path = folder / name
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


@damaging
def twice(folder: Path, name: str, key: str, value: int = 7) -> None:
    """Append a key to a JSON object that has it already."""
    text = (folder / name).read_text().rstrip().removesuffix("}")
    (folder / name).write_text(f"{text}, {json.dumps(key)}: {value}}}")


@damaging
def cut(folder: Path, name: str, share: float) -> None:
    """Keep the first part of a file."""
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: int(share * len(data))])


def write(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data)


def append(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text((folder / name).read_text() + text)


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


@damaging
def become(folder: Path, name: str, change: Callable[[Path], object]) -> None:
    """Replace a file with something else."""
    (folder / name).unlink()
    change(folder / name)


@damaging
def weights(folder: Path, change: Callable[[State], object]) -> None:
    """Change the tensors of model.safetensors."""
    state = safetensors.torch.load_file(folder / WEIGHTS)
    change(state)
    safetensors.torch.save_file(state, folder / WEIGHTS, {"format": "pt"})


@damaging
def content(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of the folder's only torch file."""
    (path,) = [*folder.glob("*.pt"), *folder.glob("*.ckpt")]
    values = written(path)
    change(values)
    torch.save(values, path)


def state_in(key: str, change: Callable[[State], object]) -> Damage:
    """Change the state dict in a torch file."""
    return content(lambda values: change(values[key]))


@damaging
def header(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the description of every tensor in model.safetensors, not the numbers."""
    data = (folder / WEIGHTS).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    values = json.loads(data[8 : 8 + size])
    for name, each in values.items():
        if name != "__metadata__":
            change(each)
    (folder / WEIGHTS).write_bytes(safetensors_file(json.dumps(values), data[8 + size :]))


def safetensors_file(head: str, numbers: bytes = b"") -> bytes:
    return struct.pack("<Q", len(head)) + head.encode() + numbers


@damaging
def torch_file(folder: Path, make: Callable[[State], object], name: str) -> None:
    """Put a torch file in the place of model.safetensors."""
    state = safetensors.torch.load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    torch.save(make(state), folder / name)


@damaging
def archive(folder: Path, name: str, compression: int = zipfile.ZIP_STORED, **more: bytes) -> None:
    """Zip a torch file again, with other members; `__` is a slash in their names."""
    with zipfile.ZipFile(folder / name) as old:
        members = [(each.filename, old.read(each)) for each in old.infolist()]
    members += [(each.replace("__", "/"), data) for each, data in more.items()]
    with zipfile.ZipFile(folder / name, "w", compression) as new:
        for member, data in members:
            new.writestr(member, data)


@damaging
def split(folder: Path, ending: str = "safetensors") -> None:
    """Put the weights into two files, with an index."""
    save = safetensors.torch.save_file if ending == "safetensors" else torch.save
    stem = "model" if ending == "safetensors" else "pytorch_model"
    files = [f"{stem}-0000{part}-of-00002.{ending}" for part in (1, 2)]
    state = safetensors.torch.load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    placed = {name: files[at % 2] for at, name in enumerate(sorted(state))}
    for file in files:
        save({name: state[name] for name in placed if placed[name] == file}, folder / file)
    index = {"metadata": {"total_size": 1}, "weight_map": placed}
    (folder / f"{stem}.{ending}.index.json").write_text(json.dumps(index))


def in_turn(*damages: Damage) -> Damage:
    return lambda folder: [each(folder) for each in damages]


#: What may stand in the place of any file.
IN_PLACE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo, "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a loop": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "nothing": Path.touch,
}  # fmt: skip
