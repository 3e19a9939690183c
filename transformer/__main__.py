"""The command line: `python -m transformer COMMAND`."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from transformer.commands.align import align
from transformer.commands.evaluate import evaluate, means, measure, publish, snapshots, typed
from transformer.commands.experiments import ablations, complexity, study
from transformer.commands.info import import_, info
from transformer.commands.options import add_options, call
from transformer.commands.parse import parse
from transformer.commands.show import complete, show, trace
from transformer.commands.train import data, train
from transformer.commands.translate import translate

BAD_INPUT, INTERRUPTED = 2, 130

#: In the order of `--help`.
_COMMANDS = (
    translate, evaluate, typed, parse, complete, trace, show, train, data, publish, snapshots,
    means, measure, align, study, complexity, ablations, import_, info,
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
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
    for run in _COMMANDS:
        text = (run.__doc__ or "").rstrip(".")
        command = commands.add_parser(run.__name__.rstrip("_"), help=text[:1].lower() + text[1:])
        add_options(command, run)
        command.set_defaults(run=run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0, 2 for bad input, 130 if interrupted."""
    for stream_name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, stream_name) is None:  # closed, as by `>&-`
            setattr(sys, stream_name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        # A sentence that a terminal cannot show must not end the run.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        call(options.run, vars(options))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader stopped early, as in `... | head`. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        extra = {"distributed": "cluster", "sacrebleu": "evaluate", "sacremoses": "evaluate"}
        if name not in extra:
            raise
        line = f"needs {name}: pip install .[{extra[name]}]"
        print(f"python -m transformer {options.command}: {line}", file=sys.stderr)
        return BAD_INPUT
    except (ValueError, OSError) as error:
        # This project's errors about input derive from ValueError.
        ours = type(error).__module__.startswith("transformer.")
        if not ours and not isinstance(error, OSError):
            raise
        line = " ".join(str(error).split())
        if isinstance(error, OSError) and error.filename is not None:
            line = f"{error.filename}: {error.strerror}"
        print(f"python -m transformer {options.command}: {line}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _command() -> int:
    """Run `main` as a separate process, which Ctrl-C ends in one line at any moment."""
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
        # An interrupted import of a compiled module raises its own kind of error.
        if not hit:
            raise
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(_command())
