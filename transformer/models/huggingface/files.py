"""Read untrusted model folders in the format of the `transformers` library.

Config and weights are data: no code runs, and addresses in files are ignored.
`transformer.models.huggingface.building` gives the library values and tensors instead of a path.
"""

import importlib
import importlib.util
import math
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

from transformer.checkpoint.shards import weight_files
from transformer.checkpoint.weights import describe_weights
from transformer.files.safe import MAX_LAYERS, json_object, one_line
from transformer.files.unread import unread
from transformer.models.importers.settings import GENERATING, LISTS, Settings
from transformer.types import CheckpointError

CONFIG, GENERATION = "config.json", "generation_config.json"
#: Weight file names, in order of preference.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
INDEX = ".index.json"

#: Files to fetch from the hub, and settings that do not apply here or that point the library
#: elsewhere.
FILES, IGNORED = (LISTS["huggingface"][name] for name in ("files", "ignored"))

#: Limits of integers in a config, and of weight files.
MAX_PREFIX, MAX_TASKS = 200, 50  # characters of a prefix, prefixes
MAX_NUMBER, MAX_HEADS, MAX_LABELS, MAX_SHARDS = 10**8, 10_000, 10_000, 1_000
#: Parts of names whose numbers are not sizes, such as the base of rotary positions.
HARMLESS = ("theta", "param", "flop", "seed", "max_length")


def library(path: Path) -> Any:
    """Import the silenced `transformers` library. Raises `CheckpointError` if it is missing."""
    check_installed(path)
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError as error:
        raise CheckpointError(
            f"{path}: the transformers library cannot be used ({one_line(error)}); "
            "pip install .[hf]"
        ) from None
    warnings.filterwarnings("ignore", module=r"(transformers|tokenizers|huggingface_hub)(\.|$)")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def check_installed(path: Path) -> None:
    """Raise `CheckpointError` if the library is not installed, without importing it."""
    if importlib.util.find_spec("transformers") is None:
        raise CheckpointError(
            f"{path}: a model of the transformers library, which is not installed; "
            "pip install .[hf]"
        )


def read_values(folder: Path) -> dict[str, Any]:
    """Read and check config.json. Raises `CheckpointError` naming the file."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    if reason := unread(folder):
        raise CheckpointError(f"{folder}: {reason}")
    path = folder / CONFIG
    values = json_object(path)
    if not isinstance(values.get("model_type"), str):
        raise CheckpointError(f"{path}: model_type is missing; it names the architecture")
    checked: dict[str, Any] = _checked(path, values)
    return checked


def _checked(path: Path, values: Any, name: str = "") -> Any:
    """Return config values without ignored settings, after checks of code, types and sizes."""
    if isinstance(values, dict):
        checked: dict[str, Any] = {}
        for key, value in values.items():
            if key == "auto_map" and value:
                raise CheckpointError(
                    f"{path}: auto_map requires the model's own code, which is never run"
                )
            if key in ("quantization_config", "compression_config") and value:
                raise CheckpointError(
                    f"{path}: {key}: quantised weights are not supported; "
                    "expected float32, float16 and bfloat16"
                )
            if key in GENERATING:  # see `generation_settings`
                continue
            inner = _checked(path, value, f"{key}")
            if key not in IGNORED:
                checked[key] = inner
        return checked
    if isinstance(values, list):
        return [_checked(path, value, name) for value in values]
    if isinstance(values, float) and not math.isfinite(values):
        raise CheckpointError(f"{path}: {name[:80]}={values} is not a finite number")
    if isinstance(values, int) and not isinstance(values, bool):
        allowed = MAX_NUMBER
        for part, most in (("layer", MAX_LAYERS), ("head", MAX_HEADS), ("num_labels", MAX_LABELS)):
            if part in name and "token" not in name and "dim" not in name and "size" not in name:
                allowed = most
        if abs(values) > allowed and not any(part in name for part in HARMLESS):
            raise CheckpointError(f"{path}: {name}={values:,}; at most {allowed:,} are allowed")
    return values


def generation_settings(folder: Path) -> Settings:
    """Return the generation settings from their file, as the library does.

    Older models have no such file: they come from config.json, or else from its decoder's config.
    """
    if (path := folder / GENERATION).exists():
        return Settings(path, json_object(path))
    values = json_object(folder / CONFIG)
    inner: Any = next(filter(None, map(values.get, ("decoder", "generator", "text_config"))), {})
    given = {name: value for name, value in values.items() if value is not None}
    return Settings(folder / CONFIG, {**(inner if isinstance(inner, dict) else {}), **given})


def task_prefixes(folder: Path) -> dict[str, str]:
    """Return the texts that a model was trained to read before its input, by task.

    They are in `task_specific_params`, as of T5, and the prefix of all tasks in `prefix`.
    """
    prefixes: dict[str, str] = {}
    for path in filter(Path.exists, (folder / CONFIG, folder / GENERATION)):
        values = json_object(path)
        tasks = values.get("task_specific_params")
        tasks = {"default": values, **(tasks if isinstance(tasks, dict) else {})}
        for name, settings in tasks.items():
            text = settings.get("prefix") if isinstance(settings, dict) else None
            if isinstance(text, str) and text.strip() and len(text) <= MAX_PREFIX:
                prefixes[name[:MAX_PREFIX]] = text
    return dict(islice(prefixes.items(), MAX_TASKS))


def check_folder(folder: Path) -> int:
    """Check everything that does not need the library. Raises `CheckpointError`.

    Returns: how many numbers the weights have, an upper limit for files other than safetensors.
    """
    read_values(folder)
    n_numbers = 0
    index, placed = weight_files(folder, WEIGHTS, MAX_SHARDS)
    for path in [folder / name for name in sorted(set(placed.values()))] if placed else [index]:
        if path.suffix == ".safetensors":
            n_numbers += sum(math.prod(shape) for shape, _ in describe_weights(path).values())
        elif path.exists():
            n_numbers += path.stat().st_size // 2  # two bytes per number
        else:
            raise CheckpointError(f"{path}: the file is missing")
    return n_numbers
