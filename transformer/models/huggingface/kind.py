"""Models of the `transformers` library: config.json has a model type."""

from __future__ import annotations

from transformer.checkpoint.reference import ModelRef
from transformer.errors import CheckpointError, InputError
from transformer.models.entry import Entry, identity
from transformer.models.huggingface import HuggingFaceModel, files
from transformer.models.importers.kind import MARIAN
from transformer.search.decoding import DEFAULT_DECODING, library_decoding
from transformer.trace.tracer import Tracer


def fits(ref: ModelRef) -> bool:
    """Return True if config.json has a model type other than Marian's."""
    model_type = (identity(ref.folder) or {}).get("model_type")
    return isinstance(model_type, str) and model_type != MARIAN and ref.updates is None


def describe(ref: ModelRef) -> Entry:
    """Describe a folder without importing the library. Raises `CheckpointError`."""
    folder = ref.folder
    files.check_installed(folder)
    n_numbers = files.check_folder(folder)
    values = files.read_values(folder)
    about = f"A model of the transformers library ({values['model_type'][:40]})."
    parts = (values.get(name) for name in ("encoder", "decoder"))
    sizes = [part.get("vocab_size") for part in parts if isinstance(part, dict)]
    if len(sizes) == 2 and sizes[0] == sizes[1]:
        about += (
            " Its two vocabularies have one size, so its tokenizer is assumed to name both sides."
        )
    try:
        decoding = library_decoding(files.generation_values(folder, values))
    except InputError as error:
        raise CheckpointError(f"{files.generation_path(folder)}: {error}") from None
    return Entry(
        ref.name, ref, n_numbers=n_numbers, about=about,
        unused=files.unused_settings(folder, values),
        metrics={DEFAULT_DECODING: decoding.to_dict()},
    )  # fmt: skip


def open(ref: ModelRef, device: str) -> Tracer:
    """Import the library and build the model."""
    return HuggingFaceModel.load(ref.folder, device)
