"""`study`: measure over a corpus what a model's heads do."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from transformer.commands.cluster import Dask, spread
from transformer.commands.options import Device, Quiet, of_kind, progress_bar


def study(
    checkpoints: Annotated[Sequence[Path], "CHECKPOINT", "models, or snapshots as NAME@UPDATES"],
    *,
    corpus: Annotated[
        Path | None, "PATH",
        "CoNLL-U folder or file, or plain text with one sentence per line; default: data/gum",
    ] = None,
    out: Annotated[
        Path | None, "DIR", "folder of the study; default: one in the checkpoint's folder"
    ] = None,
    edit: Annotated[
        str | None, "EDITS", "first take parts out of the models: “off cross.3.5; no positions”"
    ] = None,
    sentences: Annotated[int | None, "N", "read only N, evenly over the corpus"] = None,
    examples: Annotated[
        int | None, "N", "keep N example sentences, evenly over the corpus; default: all"
    ] = None,
    second: Annotated[
        Path | None,
        "PATH",
        "a corpus on which roles must hold again; default: typed sentences of the model's language",
    ] = None,
    page: Annotated[
        Path | None, "FILE", "instead: write a Markdown report of existing studies"
    ] = None,
    dask: Dask = None,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Measure what each attention head does, resuming a stopped study."""
    from transformer.edits.language import parse_edits, text_of
    from transformer.errors import InputError
    from transformer.files.atomic import check_place, write_atomic
    from transformer.study.page import markdown, section
    from transformer.study.records import FILE, Study, studies_of

    edits = text_of(parse_edits(edit or ""))
    refs = [
        of_kind(path, "checkpoint", "one_stack", "huggingface").edited(edits)
        for path in checkpoints
    ]
    for name, value in (("sentences", sentences), ("examples", examples)):
        if value is not None and value < (name == "sentences"):
            raise InputError(f"--{name} {value}; expected a number of sentences")
    if page is not None:
        check_place(page)
        studies = [Study.load(path) for ref in refs for path in studies_of(ref)]
        if not studies:
            raise InputError("there are no studies of these models yet; leave out --page")
        write_atomic(page, markdown(studies).encode())
        print(page)
        return
    if out is not None and len(refs) > 1:
        raise InputError("--out is the folder of one study; give one model")
    from transformer.study.importance import whole_study

    for ref in refs:
        started = time.time_ns()
        with progress_bar(disable=quiet or None, unit=" sentences") as report:
            folder = whole_study(
                ref, corpus, report, out, device=device, sentences=sentences, examples=examples,
                second=second, spread=partial(spread, dask) if dask else None,
            )  # fmt: skip
        if (folder / FILE).stat().st_mtime_ns < started:
            print(f"{folder}: finished before, with the same model, corpus and settings")
        else:
            print(folder)
            print(section(Study.load(folder)), end="")
