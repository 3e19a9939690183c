"""The command line: `python -m transformer COMMAND`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from transformer import importers

if TYPE_CHECKING:
    from transformer.translator import Translator

BAD_INPUT, INTERRUPTED = 2, 130


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see --help)\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m transformer",
        description='The Transformer of "Attention Is All You Need": train, use, look inside.',
    )
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )

    translate = commands.add_parser("translate", help="translate sentences")
    _add_decoding(translate)
    _add_steering(translate)
    translate.add_argument(
        "sentences", nargs="*", metavar="SENTENCE",
        help="without one, each line of standard input is translated to a line",
    )  # fmt: skip
    translate.set_defaults(run=_translate)

    evaluate = commands.add_parser("evaluate", help="translate a file and score it")
    _add_decoding(evaluate)
    evaluate.add_argument("--src", required=True, metavar="FILE", help="plain or .gz text")
    evaluate.add_argument("--ref", required=True, metavar="FILE", help="plain or .gz text")
    evaluate.add_argument("--json", action="store_true", help="print JSON")
    evaluate.add_argument(
        "--protocol", metavar="NAME",
        help="multi30k-lc-tok: also BLEU on lower-cased Moses tokens (lc_tok_bleu)",
    )  # fmt: skip
    evaluate.add_argument(
        "--language", metavar="CODE",
        help="the target's, for --protocol; default: from the name of --ref, as in test.de.gz",
    )  # fmt: skip
    evaluate.add_argument("--output", metavar="FILE", help="also write the translations here")
    evaluate.set_defaults(run=_evaluate)

    trace = commands.add_parser("trace", help="record every attention map of one sentence")
    _add_decoding(trace)
    _add_steering(trace)
    trace.add_argument("--src", required=True, metavar="TEXT", help="the sentence")
    trace.add_argument("--tgt", metavar="TEXT", help="a translation to follow instead of searching")
    trace.add_argument("--top-k", type=int, default=10, metavar="N", help="alternatives per step")
    trace.add_argument("--out", required=True, metavar="FILE.npz", help="where to write the arrays")
    trace.set_defaults(run=_trace)

    train = commands.add_parser("train", help="train a model")
    train.add_argument("recipe", metavar="PRESET_OR_TOML", help="a preset, or a TOML recipe")
    train.add_argument("--data", required=True, metavar="DIR", help="folder with the text")
    train.add_argument("--out", required=True, metavar="DIR", help="where the run is kept")
    train.add_argument("--resume", action="store_true", help="go on where the run stopped")
    train.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")
    train.add_argument("--device", default="auto", help="auto, cpu or cuda")
    train.add_argument("--download", action="store_true", help="fetch the corpora that DIR lacks")
    train.add_argument("--quiet", action="store_true", help="no progress bar")
    train.set_defaults(run=_train)

    data = commands.add_parser("data", help="fetch a public corpus to train on")
    data.add_argument("corpus", choices=("multi30k", "tatoeba"))
    data.add_argument("--out", required=True, metavar="DIR", help="a folder; then train --data DIR")
    data.add_argument(
        "--tgt", default="de", metavar="CODE", help="tatoeba's language beside English; default de"
    )
    data.add_argument("--home", metavar="URL", help="fetch from this address, for a mirror")
    data.add_argument("--sha256", metavar="HEX", help="checksum that tatoeba's archive has to have")
    data.add_argument("--quiet", action="store_true", help="no progress bar")
    data.set_defaults(run=_data)

    publish = commands.add_parser("publish", help="measure a finished run and write its checkpoint")
    publish.add_argument("run_folder", metavar="RUN", help="the --out folder of train")
    publish.add_argument("--data", required=True, metavar="DIR", help="folder with the text")
    publish.add_argument("--out", required=True, metavar="DIR", help="the checkpoint to write")
    publish.add_argument("--beam", type=int, default=5, metavar="N", help="beam size measured with")
    publish.add_argument("--dtype", default="float16", help="float32, float16 or bfloat16")
    publish.add_argument("--device", default="auto", help="auto, cpu or cuda")
    publish.add_argument(
        "--made-by", default="", metavar="COMMAND", help="what trains it again, for the card"
    )
    publish.add_argument("--note", action="append", default=[], help="a line for the card's limits")
    publish.set_defaults(run=_publish)

    importers.add_command(commands)

    info = commands.add_parser("info", help="say what a checkpoint holds")
    info.add_argument("path", metavar="PATH", help="a checkpoint, or a folder of them")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.add_argument("--table", action="store_true", help="print a table of measured figures")
    info.set_defaults(run=_info)
    return parser


def _add_decoding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", required=True, metavar="PATH", help="a checkpoint folder")
    parser.add_argument("--beam", type=int, default=4, metavar="N", help="beam size; 1 is greedy")
    parser.add_argument(
        "--alpha", type=float, default=0.6, metavar="A", help="exponent of the length penalty"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")


def _add_steering(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prefix", metavar="TEXT", help="what the translation has to begin with")
    parser.add_argument(
        "--sample", action="store_true", help="draw tokens at random in place of the best"
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="below 1 sharper, above 1 flatter; default 1"
    )
    parser.add_argument(
        "--sample-top-k", type=int, metavar="K", help="draw among the K most probable; default all"
    )
    parser.add_argument(
        "--top-p", type=float, metavar="P", help="draw from the nucleus of probability P; default 1"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of the random draws; default 0")
    parser.set_defaults(beam=None)


def _steering(options: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of `Translator.translate` and `trace` for the decoding options."""
    from transformer.inputs import InputError, checked_sampling

    asked = {
        "--temperature": options.temperature,
        "--sample-top-k": options.sample_top_k,
        "--top-p": options.top_p,
        "--seed": options.seed,
    }
    given = next((flag for flag, value in asked.items() if value is not None), None)
    if given is not None and not options.sample:
        raise InputError(f"{given} {asked[given]} needs --sample")
    sampling, beam = None, 4
    if options.sample:
        beam = 1
        sampling = checked_sampling(
            1.0 if options.temperature is None else options.temperature,
            options.sample_top_k or 0,
            1.0 if options.top_p is None else options.top_p,
            options.seed or 0,
        )
    return {
        "beam_size": beam if options.beam is None else options.beam,
        "alpha": options.alpha,
        "prefix": options.prefix,
        "sampling": sampling,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0, 2 for bad input, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        # One sentence must not end the run because a terminal cannot show it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    run: Callable[[argparse.Namespace], None] = options.run
    try:
        run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has what it wanted, as in `... | head`. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError) as error:
        # What can be wrong with the input derives from ValueError here, see the errors of
        # config, data, tokenizer, checkpoint and inputs.
        if not _is_about_input(error):
            raise
        print(f"python -m transformer {options.command}: {_one_line(error)}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _is_about_input(error: Exception) -> bool:
    return isinstance(error, OSError) or type(error).__module__.startswith("transformer.")


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _load(options: argparse.Namespace) -> Translator:
    from transformer.translator import Translator

    return Translator.load(options.checkpoint, device=options.device)


def _translate(options: argparse.Namespace) -> None:
    from transformer.inputs import InputError

    translator = _load(options)
    settings = _steering(options)
    translator.translate([], **settings)  # complains about settings before any input is read
    if options.sentences:
        for each in translator.translate(options.sentences, **settings):
            print(each.text)
        return
    n_read = 0
    for lines in _stdin_lines():
        bad: InputError | None = None
        for index, line in enumerate(lines):
            try:
                translator.tokenize(line)
            except InputError as error:
                bad, lines = InputError(f"line {n_read + index + 1}: {error}"), lines[:index]
                break
        for each in translator.translate(lines, **settings):
            print(each.text)
        sys.stdout.flush()
        if bad is not None:
            raise bad
        n_read += len(lines)


def _stdin_lines() -> Iterator[list[str]]:
    """Lines of standard input, as many at a time as are there.

    So a file is translated in large batches, while a program or a person that writes one line and
    waits gets its answer. Lines end at a newline only; bytes that are not UTF-8 become U+FFFD.
    """
    rest = b""
    stdin = cast(BufferedReader, sys.stdin.buffer)
    while block := stdin.read1(1 << 18):
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield [line.decode("utf-8", errors="replace") for line in lines]
    if rest:
        yield [rest.decode("utf-8", errors="replace")]


def _evaluate(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from transformer.evaluate import evaluate_files
    from transformer.weights import write_atomic

    translator = _load(options)
    with tqdm(unit=" sentences", delay=1, mininterval=0.5, file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        result = evaluate_files(
            translator,
            options.src,
            options.ref,
            beam_size=options.beam,
            alpha=options.alpha,
            protocol=options.protocol,
            language=options.language,
            on_translated=show,
        )
    if options.output:
        text = "".join(f"{line}\n" for line in result.hypotheses)
        write_atomic(Path(options.output), text.encode())
    values = result.to_dict()
    if options.json:
        print(json.dumps(values, indent=2))
    else:
        for name, value in values.items():
            print(f"{name:<18} {value}")


def _trace(options: argparse.Namespace) -> None:
    from transformer.tracing import save_npz

    trace = _load(options).trace(
        options.src,
        target=options.tgt,
        top_k=options.top_k,
        **_steering(options),
    )
    path = save_npz(trace, options.out)
    print(f"{trace.text}")
    print(f"{path}: {len(trace.src_tokens)} source tokens, {len(trace.tgt_tokens)} steps")


def _train(options: argparse.Namespace) -> None:
    from transformer.recipe import Recipe

    recipe = Recipe.load(options.recipe)
    from transformer.train import train

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder = train(
        recipe,
        Path(options.data),
        Path(options.out),
        device=options.device,
        resume=options.resume,
        download=options.download,
        tensorboard=options.tensorboard,
        show_progress=not options.quiet,
    )
    if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks
        print(folder)


def _data(options: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from transformer.download import fetch

    folder = fetch(
        options.corpus,
        Path(options.out),
        tgt=options.tgt,
        home=options.home,
        sha256=options.sha256,
        show_progress=not options.quiet,
    )
    print(folder)


def _publish(options: argparse.Namespace) -> None:
    from transformer.publish import publish

    folder = publish(
        Path(options.run_folder),
        Path(options.data),
        Path(options.out),
        beam_size=options.beam,
        device=options.device,
        dtype=options.dtype,
        made_by=options.made_by,
        notes=options.note,
    )
    print(folder)


def _info(options: argparse.Namespace) -> None:
    from transformer.card import summary_table
    from transformer.checkpoint import inspect_checkpoint, list_checkpoints
    from transformer.weights import CheckpointError

    path = Path(options.path)
    entries = list_checkpoints(path) or [inspect_checkpoint(path)]
    values: list[dict[str, Any]] = []
    for entry in entries:
        config = entry.config
        about: dict[str, Any] = {"name": entry.name, "path": str(entry.path)}
        if config is not None:
            about |= {"parameters": config.n_parameters, "config": json.loads(config.to_json())}
        if entry.error is not None:
            about["error"] = entry.error
        values.append(about | {"metrics": dict(entry.metrics)})
    if len(entries) == 1 and entries[0].error is not None:
        raise CheckpointError(entries[0].error)
    if options.table:
        print(summary_table(entries))
        return
    if options.json:
        print(json.dumps(values[0] if len(values) == 1 else values, indent=2, ensure_ascii=False))
        return
    for about in values:
        print(about["name"] + (f": {about['error']}" if "error" in about else ""))
        if "parameters" in about:
            print(f"  parameters: {about['parameters']:,}")
        for name, value in (*about.get("config", {}).items(), *about["metrics"].items()):
            if value is not None and not isinstance(value, dict | list):
                print(f"  {name}: {value}")


if __name__ == "__main__":
    sys.exit(main())
