"""`import`: convert another library's model into a checkpoint."""

import argparse
from pathlib import Path
from typing import Annotated, Any

from transformer.commands.options import progress_bar
from transformer.models.importers.registry import FORMATS

_KINDS = "; ".join(f"{name}: {form.title}" for name, form in FORMATS.items())


def import_(
    kind: Annotated[str, None, _KINDS, {"choices": tuple(FORMATS)}],
    source: Annotated[
        str | None, "DIR",
        "its folder; owner/name on the Hugging Face hub; or a joeynmt or fairseq checkpoint file",
        {"nargs": "?"},
    ] = None,
    *,
    out: Annotated[Path | None, "PATH", "the checkpoint to write"] = None,
    moses: Annotated[
        str | None,
        "fairseq: Moses tokenised the text; default: yes if it is split by BPE merges",
        {"action": argparse.BooleanOptionalAction, "type": None, "metavar": None},
    ] = None,
    explain: Annotated[
        bool, "joeynmt, fairseq: print a script that converts a refused file"
    ] = False,
) -> None:  # fmt: skip
    """Convert another library's model into a checkpoint."""
    from transformer.errors import InputError
    from transformer.files import hub
    from transformer.models.importers.torch_content import KEPT, explanation

    if explain:
        if kind not in KEPT:
            raise InputError(f"{kind} files need no conversion")
        print(explanation(kind), end="")
        return
    if source is None or out is None:
        raise InputError("give DIR and --out PATH")
    more: dict[str, Any] = {} if moses is None else {"moses": moses}
    if more and kind != "fairseq":
        raise InputError(f"--moses is for fairseq; {kind} files record it")
    convert = FORMATS[kind].convert
    if kind in KEPT and Path(source).is_file():
        print(convert(Path(source), out, name=source, **more))
        return
    with (
        progress_bar(unit="B", unit_scale=True, leave=False, delay=0) as report,
        hub.opened(source, FORMATS[kind].files, out.parent, report) as folder,
    ):
        path = convert(folder, out, name=source, **more)
    print(path)
