"""Models with one stack in this project's format, with a task in config.json."""

from transformer.checkpoint.folder import read_metrics
from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import readable_history
from transformer.models.entry import Entry, identity
from transformer.models.one_stack.files import check_stack
from transformer.models.one_stack.tracer import StackModel

_TASKS = {
    "continue": "Decoder only (GPT), continues a text",
    "fill": "Encoder only (BERT), fills in hidden words",
    "translate": "Decoder only, translates",
}


def fits(ref: ModelRef) -> bool:
    """Return True if config.json has a task."""
    return "task" in (identity(ref.folder) or {})


def describe(ref: ModelRef) -> Entry:
    """Describe a checkpoint without reading its weights. Raises `CheckpointError`."""
    config, folder = check_stack(ref), ref.folder
    layers = "1 layer" if config.n_layers == 1 else f"{config.n_layers} layers"
    about = (
        f"{_TASKS[config.task]}: {layers}, d_model {config.d_model:,}, "
        f"{config.blocks.heads_in_words}, {config.n_parameters / 1e6:.1f}M parameters."
    )
    return Entry(
        ref.name, ref, n_numbers=config.n_parameters, about=about, stack=config,
        metrics=read_metrics(folder), history=readable_history(folder),
    )  # fmt: skip


def open(ref: ModelRef, device: str) -> StackModel:
    """Load a checkpoint or a snapshot."""
    return StackModel.load(ref, device)
