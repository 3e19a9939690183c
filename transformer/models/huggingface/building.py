"""Build a model of the `transformers` library from values and tensors read as data.

The model is first built without memory, and its size is compared with the weight file before any
memory is taken.
"""

import copy
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.modules import module as torch_module

from transformer.checkpoint import weights as stores
from transformer.checkpoint.shards import describe_shards
from transformer.files.safe import one_line
from transformer.models.huggingface.files import CONFIG, MAX_SHARDS, WEIGHTS, library, read_values
from transformer.types import CheckpointError, InputError, literals

#: Size limit: 8 GB in float32, as for this project's own models.
MAX_PARAMETERS = 2_000_000_000
MAX_MODULES = 100_000
#: Parameters that files may omit, such as tables of sinusoids and unused heads.
UNSTORED_SHARE, UNSTORED = 0.1, 4_000_000

#: Types of masks and position numbers, which are recomputed.
COUNTED = frozenset({
    "I64", "I32", "I16", "I8", "U8", "BOOL", "torch.int64", "torch.int32", "torch.int16",
    "torch.int8", "torch.uint8", "torch.bool",
})  # fmt: skip

Family = Literal["encoder_decoder", "decoder", "encoder"]

#: Building a model briefly changes settings of the whole process.
_building = threading.Lock()


def build(folder: Path) -> tuple[Any, Family]:
    """Build the model in evaluation mode, float32, on the CPU, with eager attention.

    Raises: `CheckpointError` naming the bad file.
    """
    values = read_values(folder)
    library(folder)
    weights = describe_shards(folder, WEIGHTS, MAX_SHARDS)
    stored: dict[str, tuple[Path, stores.Described]] = {}
    for name, described in weights.found.items():
        if described[1] not in COUNTED:
            stores.check_type(weights.files[name], name, described[1])
            stored[name] = weights.files[name], described
    n_stored = sum(math.prod(shape) for _, (shape, _) in stored.values())
    _check_count(weights.path, n_stored)
    config, kind, family = architecture(folder / CONFIG, values)
    with _building:
        _check_shapes(folder, kind, config, stored, n_stored)
        state: dict[str, Tensor] = {}
        for path in dict.fromkeys(file for file, _ in stored.values()):
            here = {name: shape for name, (file, shape) in stored.items() if file == path}
            for name, tensor in stores.read_tensors(path, here):
                state[name] = stores.in_memory(path, name, tensor, own=True)
        try:
            model, report = kind.from_pretrained(
                None, config=config, state_dict=state, attn_implementation="eager",
                dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True,
                local_files_only=True, trust_remote_code=False,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
            raise CheckpointError(f"{folder}: cannot be built ({one_line(error)})") from None
    _check_report(weights.path, report, family)
    return model.eval().requires_grad_(False), family


def architecture(path: Path, values: dict[str, Any]) -> tuple[Any, Any, Family]:
    """Return the library's config, the model's class, and its family."""
    from transformers.models.auto import modeling_auto as auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type = values["model_type"]
    try:
        config = CONFIG_MAPPING[model_type].from_dict(values)
    except KeyError:
        raise CheckpointError(
            f"{path}: model_type={model_type!r} is not one that the transformers library knows"
        ) from None
    except Exception as error:  # noqa: BLE001 - the library may raise anything
        raise CheckpointError(f"{path}: {one_line(error)}") from None
    blocks = ("block_size",) if model_type == "pegasus_x" else ()
    for setting in ("attention_window", "local_radius", *blocks):
        if (value := getattr(config, setting, None)) is not None:
            raise CheckpointError(
                f"{path}: {setting}={value!r:.40} is attention in windows, which has no map of all "
                "queries and keys; supported are models of full attention, such as BART instead "
                "of LED, or T5 instead of LongT5"
            )
    architectures = values.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    causal, masked = (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )  # fmt: skip
    generates = model_type in causal and (name in causal.values() or model_type not in masked)
    if generates and name in masked.values():  # XLM's class is for both
        generates = bool(getattr(config, "causal", False) or getattr(config, "is_decoder", False))
    family: Family
    halves = auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES.values()
    if name in halves and str(name).endswith("EncoderModel"):
        family, mapping = "encoder", auto.MODEL_FOR_TEXT_ENCODING_MAPPING  # half of a T5
    elif getattr(config, "is_encoder_decoder", False):
        family, mapping = "encoder_decoder", auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    elif generates:
        family, mapping = "decoder", auto.MODEL_FOR_CAUSAL_LM_MAPPING
    elif model_type in masked:
        family, mapping = "encoder", auto.MODEL_MAPPING
    else:
        raise _unsupported(path, config, auto.MODEL_MAPPING)
    try:
        kind = mapping[type(config)]
    except (KeyError, ImportError):
        raise _unsupported(path, config, auto.MODEL_MAPPING) from None
    return config, kind[0] if isinstance(kind, tuple | list) else kind, family


def _unsupported(path: Path, config: Any, models: Any) -> CheckpointError:
    """Return the error for an unsupported architecture, with the model's input."""
    reads = "input_ids"
    with suppress(Exception):  # no such model, or a missing dependency
        kind = models[type(config)]
        reads = (kind[0] if isinstance(kind, tuple | list) else kind).main_input_name
    return CheckpointError(
        f"{path}: model_type={config.model_type!r} "
        + ("" if reads == "input_ids" else f"reads {reads.replace('_', ' ')} and no tokens; it ")
        + "is not supported; supported are encoder-decoders from text to text (T5, BART, M2M100), "
        "decoders of text (GPT-2), and encoders of text (BERT, T5EncoderModel)"
    )


def copied(name: str, model: Any) -> tuple[Any, Family, dict[str, Any]]:
    """Return a copy of a model in memory, as from `build`, and its config values.

    Raises: `InputError` for other objects, `CheckpointError` for an unsupported architecture.
    """
    if not isinstance(model, library(Path(name)).PreTrainedModel):
        raise InputError(f"of takes a model of the transformers library, not {type(model)!r:.80}")
    values = model.config.to_dict() | {"architectures": [type(model).__name__]}
    _, kind, family = architecture(Path(name), values)
    inner = next((part for part in (model, model.base_model) if isinstance(part, kind)), None)
    if inner is None:
        raise InputError(f"a {type(model).__name__} cannot be traced; give a {kind.__name__}")
    twin = copy.deepcopy(inner).float().eval().requires_grad_(False)
    twin.set_attn_implementation("eager")
    return twin, family, values


@literals
def vocabulary_sizes(model: Any, family: Family) -> tuple[int, int]:
    """Return source and target vocabulary sizes."""
    source = int(model.get_input_embeddings().num_embeddings)
    if family != "encoder_decoder":
        return source, source
    decoder = model.get_decoder()
    if hasattr(decoder, "get_input_embeddings"):
        return source, int(decoder.get_input_embeddings().num_embeddings)
    return source, int(getattr(model.config, "tgt_vocab_size", source))


def _check_count(path: Path, count: int) -> None:
    if count > MAX_PARAMETERS:
        raise CheckpointError(
            f"{path}: {count:,} parameters; at most {MAX_PARAMETERS:,} are allowed"
        )


class _TooLargeError(Exception):
    """A model under construction has more parts than allowed."""


@contextmanager
def _counting() -> Iterator[None]:
    """Stop this thread's construction of a model that has more parts than allowed."""
    thread = threading.get_ident()
    counts = {"modules": 0, "parameters": 0}

    def count(what: str, number: int, limit: int, slack: int = 1) -> None:
        if threading.get_ident() != thread:
            return
        counts[what] += number
        if counts[what] > slack * limit:
            raise _TooLargeError(f"{limit:,} {what}")

    def count_module(_: Any, name: str, part: Any) -> None:
        count("modules", part is not None, MAX_MODULES)

    def count_numbers(_: Any, name: str, tensor: Any) -> None:
        # Tied tensors are registered twice.
        count("parameters", 0 if tensor is None else tensor.numel(), MAX_PARAMETERS, slack=2)

    handles = [
        torch_module.register_module_module_registration_hook(count_module),
        torch_module.register_module_parameter_registration_hook(count_numbers),
        torch_module.register_module_buffer_registration_hook(count_numbers),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _check_shapes(
    folder: Path,
    kind: Any,
    config: Any,
    stored: Mapping[str, tuple[Path, stores.Described]],
    n_stored: int,
) -> None:
    """Build the model without memory and compare its tensors with the stored ones."""
    from transformers import initialization

    path = folder / CONFIG
    try:
        with _counting(), torch.device("meta"), initialization.no_init_weights():
            model = kind(config)
        model.tie_weights()
        expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        # A tied tensor counts once.
        count = sum(parameter.numel() for parameter in model.parameters())
    except _TooLargeError as error:
        raise CheckpointError(f"{path}: the model exceeds the limit of {error}") from None
    except Exception as error:  # noqa: BLE001 - the library may raise anything
        raise CheckpointError(
            f"{path}: no model can be built from it ({one_line(error)})"
        ) from None
    _check_count(path, count)
    prefix = f"{kind.base_model_prefix}."
    for name, (file, (shape, _)) in stored.items():
        for alias in (name, prefix + name, name.removeprefix(prefix)):
            if alias in expected:
                stores.check_shape(file, name, shape, expected[alias], CONFIG)
    if count > (1 + UNSTORED_SHARE) * n_stored + UNSTORED:
        raise CheckpointError(
            f"{path}: requires {count:,} parameters, but the weights are only {n_stored:,}"
        )


def _check_report(path: Path, report: Mapping[str, Any], family: Family) -> None:
    """Raise `CheckpointError` for tensors that the library reports as missing or mismatched."""
    for name, stored, expected in sorted(report.get("mismatched_keys") or ()):
        stores.check_shape(path, name, stored, expected, CONFIG)
    missing = sorted(report.get("missing_keys") or ())
    if family == "encoder":  # the pooler reads the encoder's output and has no attention
        missing = [name for name in missing if "pooler" not in name]
    stores.check_missing(path, missing)
    # Extra heads on the same model are harmless; extra layers are not.
    extra = sorted(
        name
        for name in report.get("unexpected_keys") or ()
        if any(part.isdecimal() for part in name.split("."))
    )
    if extra:
        raise CheckpointError(f"{path}: tensor {extra[0]!r} does not belong to this model")
