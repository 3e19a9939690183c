"""Models of the `transformers` library: config.json has a model type."""

from transformer.checkpoint.reference import ModelRef
from transformer.models.entry import Entry, identity
from transformer.models.huggingface import HuggingFaceModel, files
from transformer.models.huggingface.generate import read_generation
from transformer.models.importers.kind import MARIAN
from transformer.search.request import DEFAULT_DECODING
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
    inner = (part for part in (values.get("decoder"), values.get("text_config")) if part)
    owners = [values, *(part for part in inner if isinstance(part, dict))]
    named = [owner.get(name) for owner in owners for name in ("tgt_vocab_size", "vocab_size")]
    size = next((value for value in named if type(value) is int), files.MAX_NUMBER)
    generation = read_generation(
        files.generation_settings(folder), size,
        starts=values.get("is_encoder_decoder") is True,
    )  # fmt: skip
    return Entry(
        ref.name, ref, n_numbers=n_numbers, about=about, unused=generation.unused,
        metrics={DEFAULT_DECODING: generation.decoding.to_dict()},
        prefixes=files.task_prefixes(folder),
    )  # fmt: skip


def open(ref: ModelRef, device: str) -> Tracer:
    """Import the library and build the model."""
    return HuggingFaceModel.load(ref.folder, device)
