"""Train and score the runs of table 3; each has a folder and can be resumed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformer.checkpoint.weights import weights_digest
from transformer.device import resolve_device
from transformer.evaluation.ablations import BASE, Results, Run, Variation
from transformer.evaluation.measure import read_metrics
from transformer.evaluation.records import MEASURED, stamped
from transformer.evaluation.scores import score
from transformer.files.folders import write_atomic
from transformer.search.request import PAPER_DECODING
from transformer.training.corpus import load_held_out
from transformer.training.distributed import wants_bfloat16
from transformer.training.run import train
from transformer.translator import Translator
from transformer.types import InputError, Report

#: The file of a finished run, in its folder.
RESULT = "result.json"


def run_folder(out: Path, row: str, seed: int) -> Path:
    """Return the folder of one run."""
    return out / f"{row}-seed-{seed}"


def finished(out: Path) -> Iterator[Run]:
    """Read the results under `out`. Raises `InputError` naming an invalid file."""
    for file in sorted(out.glob(f"*/{RESULT}")):
        try:
            yield Run.from_dict(json.loads(file.read_text("utf-8")))
        except ValueError as error:
            raise InputError(f"{file}: {error}") from None


_PRECISIONS = ("float32", "bfloat16")


def precision(device: str, start: Mapping[str, Mapping[str, Any]] = BASE) -> str:
    """Return the training precision on this machine."""
    setting = start["training"].get("precision", "auto")
    return _PRECISIONS[wants_bfloat16(setting, resolve_device(device).type)]


def make(
    variation: Variation, seed: int, data: Path, out: Path, *,
    start: Mapping[str, Mapping[str, Any]] = BASE, device: str = "auto", show_progress: bool = True,
    report: Report | None = None,
) -> Run:  # fmt: skip
    """Train and score one model, resuming if an earlier call was killed.

    Args:
        start: tables from which the row departs; the run's recipe names a precision in any case.
        report: called with the sentences translated and their number, while scoring.

    Raises: see `transformer.training.run.train`.
    """
    tables = {**start, "training": {**start["training"], "precision": precision(device, start)}}
    recipe, folder = variation.recipe(seed, tables), run_folder(out, variation.name, seed)
    if not (folder / "model.safetensors").exists():
        train(recipe, data, folder, resume=True, device=device, show_progress=show_progress)
    trained = read_metrics(folder)[1]["training"]
    trained["recipe"]["training"]["precision"] = _PRECISIONS[trained["bfloat16"]]
    translator = Translator.load(folder, device)
    held_out = load_held_out(recipe.data, data).val
    translations = translator.translate(
        [source for source, _ in held_out],
        beam_size=PAPER_DECODING.beam_size, alpha=PAPER_DECODING.alpha, on_translated=report,
    )  # fmt: skip
    texts = [translation.text for translation in translations]
    run = Run(
        row=variation.name,
        seed=seed,
        nll=trained["val_nll"],
        bleu=round(score(texts, [target for _, target in held_out]).bleu, 2),
        parameters=translator.config.n_parameters,
        pieces=translator.config.vocab_size,
        updates=trained["updates"],
        target_tokens=trained["target_tokens"],
        hours=trained["hours"],
        hardware=trained["hardware"],
        torch=trained["torch"],
        recipe=trained["recipe"],
        measured=stamped({}, weights_digest(folder), PAPER_DECODING, "val", held_out)[MEASURED],
    )
    write_atomic(folder / RESULT, (json.dumps(asdict(run), indent=1) + "\n").encode())
    # What is needed only to resume takes gigabytes in sixty runs.
    for file in (folder / "state.pt", *(folder / "epochs").glob("*.safetensors")):
        file.unlink(missing_ok=True)
    return run


def gather(out: Path, table: Path) -> Results:
    """Add the finished runs under `out` to `table`."""
    before = Results.from_json(table.read_text("utf-8")).runs if table.exists() else ()
    results = Results.of([*before, *finished(out)])
    write_atomic(table, results.to_json().encode())
    return results


def missing(
    results: Results, rows: Sequence[Variation], seeds: Sequence[int], precision: str
) -> list[tuple[Variation, int]]:
    """Return the runs missing at a precision, row by row."""
    done = {(run.row, run.seed) for run in results.runs if run.precision == precision}
    return [(row, seed) for row in rows for seed in seeds if (row.name, seed) not in done]
