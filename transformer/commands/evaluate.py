"""Commands that measure models: scores, typed sentences, alignment, published figures."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from transformer.checkpoint.weights import weights_digest
from transformer.commands import options
from transformer.commands.options import Dask, whole_file
from transformer.config import ConfigError
from transformer.files.folders import check_place, write_atomic
from transformer.training.data import read_parallel
from transformer.types import InputError


def evaluate(
    *,
    model: options.Model,
    src: Annotated[Path, "FILE", "source sentences, plain or .gz"],
    ref: Annotated[Path, "FILE", "reference translations, plain or .gz"],
    json_: options.Json = False,
    protocol: Annotated[
        str | None, "NAME",
        "multi30k-lc-tok: also BLEU on lower-cased Moses tokens (lc_tok_bleu)",
    ] = None,
    language: Annotated[
        str | None, "CODE",
        "target language for --protocol; default: from the --ref name, as in test.de.gz",
    ] = None,
    output: Annotated[Path | None, "FILE", "also write the translations here"] = None,
    dask: Dask = None,
) -> None:  # fmt: skip
    """Translate a file and score it."""
    from transformer.evaluation.scores import evaluate_files

    if output:
        check_place(output)
    translator = model.load()
    with options.progress_bar(unit=" sentences", mininterval=0.5) as show:
        result = evaluate_files(
            translator, src, ref, beam_size=model.beam, alpha=model.alpha, protocol=protocol,
            language=language, on_translated=show,
            translate=None if dask is None else partial(whole_file, dask, model, show=show),
        )  # fmt: skip
    if output:
        write_atomic(output, "".join(f"{line}\n" for line in result.hypotheses).encode())
    values = result.to_dict()
    if json_:
        print(json.dumps(values, indent=2))
    else:
        for name, value in values.items():
            print(f"{name:<18} {value}")


def typed(
    *,
    model: options.Model,
    languages: Annotated[
        str, "SRC-TGT",
        "such as en-de; default: the languages of the model's training text",
    ] = "",
    json_: options.Json = False,
) -> None:  # fmt: skip
    """Translate 200 sentences that visitors type, and judge the translations."""
    from transformer.evaluation.measure import read_metrics
    from transformer.evaluation.records import stamped
    from transformer.training.typed import by_topic, judge, to_dict, typed_sentences, typed_text

    ref = options.of_kind(model.checkpoint, "checkpoint")
    src, _, tgt = languages.partition("-")
    if not languages:
        try:
            data = read_metrics(ref.folder)[0].data
        except ConfigError as error:
            raise ConfigError(f"{error}; give the languages with --languages") from None
        src, tgt = data.src, data.tgt
    sentences = typed_sentences(src, tgt)
    translator = model.load()
    decoding = translator.decoding.resolve(model.beam, model.alpha, drawn=False)
    with options.progress_bar(unit=" sentences") as show:
        verdicts = judge(translator, sentences, decoding, show)
    if json_:
        weights = weights_digest(model.checkpoint)
        record = stamped(to_dict(verdicts), weights, decoding, *typed_text(sentences))
        print(json.dumps(record, indent=2, ensure_ascii=False))
        return
    for verdict in verdicts:
        if not verdict.right:
            print(f"{verdict.source}\n  {verdict.translation}\n  instead of: {verdict.reference}")
    print()
    for topic, (right, n) in by_topic(verdicts).items():
        print(f"{topic:<14} {right:>3} of {n}")
    print(f"{'right':<14} {sum(verdict.right for verdict in verdicts):>3} of {len(verdicts)}")


def publish(
    run_folder: options.RunFolder,
    *,
    data: options.Data,
    out: Annotated[Path, "DIR", "the checkpoint to write"],
    beam: options.Beams = options.BEAMS,
    alpha: options.Alphas = options.ALPHAS,
    dtype: Annotated[str, "float32, float16 or bfloat16"] = "float16",
    device: options.Device = "auto",
    made_by: Annotated[str, "COMMAND", "the command to train it again, for the card"] = "",
    mix: Annotated[Path | None, "PATH", "a checkpoint to interpolate with"] = None,
    share: Annotated[
        float | None, "S", "share of --mix, 0 to 1; default: the one that scores best on val"
    ] = None,
    note: Annotated[
        Sequence[str], "TEXT", "a sentence for the card's limits; may be repeated",
        {"action": "append", "nargs": None},
    ] = (),
    baseline: Annotated[
        Sequence[tuple[str, str]], ("NAME", "PATH"),
        "for a parser: another parser to score beside it; may be repeated",
        {"action": "append", "nargs": 2, "type": str},
    ] = (),
) -> None:  # fmt: skip
    """Evaluate a finished run, and save it as a checkpoint with its scores."""
    from transformer.evaluation import publish as publishing
    from transformer.evaluation.measure import Measuring

    baselines = {name: Path(path) for name, path in baseline}
    with options.progress_bar() as report:
        how = Measuring(data, beam, alpha, device, baselines=baselines, progress=report)
        folder = publishing.publish(
            run_folder, out, how, dtype=dtype, made_by=made_by, notes=note, mix=mix, share=share
        )
    print(folder)


def measure(
    path: Annotated[Path, "CHECKPOINT", "a folder that publish wrote"],
    *,
    data: options.Data,
    beam: options.Beams = options.BEAMS,
    alpha: options.Alphas = options.ALPHAS,
    note: Annotated[
        Sequence[str] | None, "TEXT",
        "a sentence for the card's limits; may be repeated; default: those in metrics.json",
        {"action": "append", "nargs": None},
    ] = None,
    keep_scores: Annotated[
        bool, "keep decoding and test scores; measure only lengths and the typed sentences"
    ] = False,
    device: options.Device = "auto",
) -> None:  # fmt: skip
    """Choose a checkpoint's default decoding and measure it on the test sets."""
    from transformer.evaluation import measure as measuring

    options.of_kind(path, "checkpoint", "one_stack")
    with options.progress_bar() as report:
        how = measuring.Measuring(
            data, beam, alpha, device, keep_scores=keep_scores, progress=report
        )
        print(measuring.measure(path, how, notes=note))


def snapshots(
    run_folder: options.RunFolder,
    *,
    data: options.Data,
    checkpoint: Annotated[Path, "PATH", "the checkpoint to store them beside"],
) -> None:
    """Store a run's snapshots beside a checkpoint, to inspect its training."""
    from transformer.checkpoint.snapshots import read_history
    from transformer.training.snapshots import keep_snapshots

    with options.progress_bar(unit=" snapshots") as show:
        file = keep_snapshots(run_folder, checkpoint, data, progress=show)
    for snapshot in read_history(checkpoint).snapshots:
        print(f"{snapshot.updates:>9,} updates  {snapshot.val_nll:6.3f} nats per token")
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


def means(
    path: Annotated[Path, "CHECKPOINT", "an encoder-decoder"],
    *,
    data: Annotated[
        Path | None, "DIR", "folder of its training text, for 1,000 held-out pairs"
    ] = None,
    src: Annotated[Path | None, "FILE", "other sentences, plain or .gz"] = None,
    ref: Annotated[Path | None, "FILE", "their translations"] = None,
    device: options.Device = "auto",
) -> None:  # fmt: skip
    """Write heads' mean outputs beside a checkpoint, for the edit “mean cross.3.5”."""
    from transformer.checkpoint.folder import FILE, write_means
    from transformer.edits.model import head_means
    from transformer.evaluation.measure import read_metrics
    from transformer.training.corpus import MADE, load_held_out
    from transformer.translator import Translator

    model = options.of_kind(path, "checkpoint")
    if model.updates is not None:
        raise InputError(f"{path}: means need the checkpoint itself, not a snapshot")
    if src is not None and ref is not None:
        pairs, text = read_parallel(src, ref), src.name
    elif data is not None:
        recipe = read_metrics(model.folder)[0].data
        text = "+".join(name for name in dict.fromkeys(recipe.corpora) if name not in MADE)
        pairs = load_held_out(recipe, data).val
        pairs = pairs[:: max(1, len(pairs) // 1000)][:1000]
    else:
        raise InputError("give --data, or --src and --ref")
    translator = Translator.load(model, device)
    encoded = [translator.pair(*pair) for pair in pairs if all(map(str.strip, pair))]
    ids, file = [(pair.src_ids, pair.tgt_ids) for pair in encoded], model.folder / FILE
    with options.progress_bar(unit=" sentences") as show:
        write_means(model, head_means(translator.model, ids, show), text, len(ids))
    size = file.stat().st_size
    print(f"{file}: means over {len(ids):,} pairs of {text}, {size / 1000:.0f} kB")
