"""The command line: `python -m transformer COMMAND`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from transformer.commands import (
    ablations,
    align,
    complete,
    complexity,
    data,
    evaluate,
    import_,
    info,
    measure,
    parse,
    publish,
    show,
    snapshots,
    trace,
    train,
    translate,
    typed,
)

BAD_INPUT, INTERRUPTED = 2, 130

#: In the order of `--help`.
_COMMANDS = (
    translate, evaluate, typed, parse, complete, trace, show, train, data, publish, snapshots,
    measure, align, complexity, ablations, import_, info,
)  # fmt: skip

#: Options that name files and folders; an empty one would be the folder that one is in.
_PATHS = {
    "checkpoint", "data", "file", "gold", "html", "mix", "out", "output", "path", "run_folder",
    "source", "table",
}  # fmt: skip


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
    for module in _COMMANDS:
        name, _, text = (module.__doc__ or "``: ").splitlines()[0].partition(": ")
        command = commands.add_parser(name.strip("`"), help=text.rstrip("."))
        module.add(command)
        command.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0, 2 for bad input, 130 when interrupted."""
    _open_closed()
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        # One sentence must not end the run because a terminal cannot show it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    run: Callable[[argparse.Namespace], None] = options.run
    for name in _PATHS & vars(options).keys():
        if getattr(options, name) == "":
            print(f"python -m transformer {options.command}: {name} is empty", file=sys.stderr)
            return BAD_INPUT
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


def _open_closed() -> None:
    """Put nothing in the place of standard streams that were closed, as by `>&-`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _is_about_input(error: Exception) -> bool:
    return isinstance(error, OSError) or type(error).__module__.startswith("transformer.")


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _command() -> int:
    """`main` in a process of its own, where Ctrl-C ends it in one line at any moment."""
    hit = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal hit
        hit = True
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    try:
        return main()
    except (Exception, KeyboardInterrupt):
        # A compiled module whose import is interrupted fails in a way of its own.
        if not hit:
            raise
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(_command())
