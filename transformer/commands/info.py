"""`info` and `import`: describe checkpoints, and convert another library's model into one."""

import argparse
import json
from pathlib import Path
from typing import Annotated, Any

from transformer.commands.options import Json, progress_bar
from transformer.files import hub
from transformer.models.importers.registry import FORMATS
from transformer.search.request import DEFAULT_DECODING, Decoding, default_decoding
from transformer.types import CheckpointError, InputError


def info(
    path: Annotated[Path, "PATH", "a checkpoint, or a folder of them"],
    *,
    json_: Json = False,
    table: Annotated[bool, "print a table of measured figures"] = False,
) -> None:
    """Describe a checkpoint."""
    from transformer.evaluation.records import summary_table
    from transformer.models.catalogue import inspect_entry, list_entries, looks_like_model

    entries = [] if looks_like_model(path) else list_entries([path])
    entries = entries or [inspect_entry(path)]
    values: list[dict[str, Any]] = []
    for entry in entries:
        about: dict[str, Any] = {"name": entry.name, "path": str(entry.path)}
        if entry.about:
            about |= {"kind": entry.kind, "about": entry.about}
        if entry.unused:
            about["unused_generation_settings"] = entry.unused
        if entry.config is not None:
            about["parameters"] = entry.config.n_parameters
        if entry.config is not None or DEFAULT_DECODING in entry.metrics:
            about["decoding"] = default_decoding(entry.metrics).to_dict()
        if entry.config is not None:
            about["config"] = json.loads(entry.config.to_json())
        if entry.stack is not None:
            about |= {"parameters": entry.stack.n_parameters, "config": entry.stack.to_dict()}
        if entry.error is not None:
            about["error"] = entry.error
        values.append(about | {"metrics": dict(entry.metrics)})
    if len(entries) == 1 and entries[0].error is not None:
        raise CheckpointError(entries[0].error)
    if table:
        print(summary_table([e for e in entries if e.kind in ("checkpoint", "one_stack")]))
        return
    if json_:
        print(json.dumps(values[0] if len(values) == 1 else values, indent=2, ensure_ascii=False))
        return
    for about in values:
        print(about["name"] + (f": {about['error']}" if "error" in about else ""))
        if "about" in about:
            print(f"  {about['about']}")
        if unused := about.get("unused_generation_settings"):
            print(f"  generation settings not used: {', '.join(unused)}")
        if "parameters" in about:
            print(f"  parameters: {about['parameters']:,}")
        if "decoding" in about:
            print(f"  default decoding: {Decoding(**about['decoding'])}")
        for name, value in (*about.get("config", {}).items(), *about["metrics"].items()):
            if value is not None and not isinstance(value, dict | list):
                print(f"  {name}: {value}")


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
