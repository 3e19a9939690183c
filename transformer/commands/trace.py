"""Commands that inspect one text: `trace` records its maps, `complete` continues it."""

import math
import sys
from pathlib import Path
from typing import Annotated, Any

from transformer.commands.options import Checkpoint, Device, Steering, listed, of_kind


def trace(
    *,
    model: Steering,
    src: Annotated[str, "TEXT", "the sentence"],
    tgt: Annotated[
        str | None, "TEXT", "follow this translation instead of searching for one"
    ] = None,
    top_k: Annotated[int, "N", "alternatives recorded per step"] = 10,
    cell: Annotated[
        str, "NAME", "beside the weights: norm, zeroing, contribution or effect of each edge"
    ] = "weight",
    out: Annotated[Path, "FILE.npz", "where to write the arrays"],
) -> None:
    """Record every attention map of one sentence."""
    from transformer.attribution.cells import measured
    from transformer.errors import InputError
    from transformer.models.arrays.trace_file import npz_path, save_arrays
    from transformer.models.catalogue import describe
    from transformer.search.reader import unknown_text
    from transformer.translator import Translator

    if tgt is not None and model.sample:
        raise InputError("--sample cannot be combined with --tgt, which is followed exactly")
    path = npz_path(out)
    ref = of_kind(model.checkpoint, "checkpoint", "one_stack", "huggingface")
    tracer = model.open(ref)
    entry = describe(ref)
    src = entry.prefixed(src, model.prefix_text)
    if note := entry.lacks_prefix(src) if not model.prefix_text else "":
        print(f"{note}; see --prefix-text", file=sys.stderr)
    settings = {name: value for name, value in model.settings().items() if value is not None}
    record = tracer.trace(src, target=tgt, top_k=top_k, **settings)
    measure: Any = cell
    cells = None if cell == "weight" else measured(tracer, record, measure).cells
    save_arrays(record, path, cells)
    unknown: tuple[str, ...] = ()
    if isinstance(tracer, Translator):
        unknown = unknown_text(tracer.tokenize(src))
        if tgt is not None:
            unknown += unknown_text(tracer.tokenize_target(tgt))
    if unknown:
        print(f"the model does not know {listed(unknown)}", file=sys.stderr)
    print(record.text)
    print(f"{path}: {len(record.src_tokens)} source tokens, {len(record.tgt_tokens)} steps")


def complete(
    text: Annotated[str, "TEXT", ""], *, checkpoint: Checkpoint,
    tokens: Annotated[int, "N", "continue by at most N tokens"] = 20,
    seed: Annotated[int | None, "N", "sample the tokens, with this seed"] = None,
    top_k: Annotated[int, "N", "guesses per [MASK]"] = 5, device: Device = "auto",
) -> None:  # fmt: skip
    """Continue a text with a one-stack model, or fill in its [MASK]."""
    from transformer.errors import InputError
    from transformer.models.catalogue import open_tracer
    from transformer.models.one_stack.tracer import StackModel
    from transformer.search.sampling import Sampling

    model = open_tracer(of_kind(checkpoint, "one_stack", "huggingface"), device)
    sampling = None if seed is None else Sampling(seed=seed)
    if not isinstance(model, StackModel):
        if "decoder_self" not in model.kinds or "encoder_self" in model.kinds:
            raise InputError(f"{checkpoint} does not continue texts; `trace` works with it")
        print(model.trace(text, beam_size=1, new_tokens=tokens, sampling=sampling).text)
    elif model.config.task == "fill":
        for gap in model.guesses(model.trace(text), top_k):
            shares = zip(gap.tokens, gap.log_probs, strict=True)
            guesses = ", ".join(f"{token} {100 * math.exp(value):.1f}%" for token, value in shares)
            print(f"{gap.position} {gap.token}: {guesses}")
    else:
        n_new = tokens if model.config.task == "continue" else 0
        print(model.trace(text, new_tokens=n_new, sampling=sampling).text)
