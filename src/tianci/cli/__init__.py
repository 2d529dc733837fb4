"""The command line: parse, call one function, print. One file per command, imported when called."""

from __future__ import annotations

import errno
import io
import signal
import sys
import threading
from importlib import import_module

import click

from tianci import __version__
from tianci.errors import Failed, Stopped, UserError, one_line, unknown

# name -> what it does; kept here as text so that `tianci --help` imports no command and no torch
COMMANDS = {
    "info": "configuration, parameters, bytes and FLOPs of a model",
    "vocab": "learn a vocabulary (tokenizer) from raw text",
    "tokenize": "tokens, ids and offsets of texts",
    "prepare": "raw text to a token store for pre-training",
    "audit": "measured masking and pairing rates of training examples",
    "pretrain": "pre-train a model on a corpus",
    "finetune": "train a model for a task on labelled rows",
    "predict": "what a fine-tuned model says, one JSON line per row",
    "check": "faults in labelled data, with file and line",
    "search": "nearest neighbours of texts in a file",
    "compare": "same text, budget and labels for several models, one table",
    "evaluate": "scores of a model on labelled rows, a corpus or a suite",
    "fill": "candidates for each [MASK] in a text",
    "score": "how likely texts are, the best one marked",
    "generate": "what a model writes behind a text",
    "rank": "which of several continuations is the likeliest",
    "embed": "one vector per line of a file",
    "serve": "HTTP server for any number of models",
    "page": "curves and reports of training runs in the browser",
    "convert": "other checkpoint formats to ours, with a parity gate",
    "export": "a bundle that runs without tianci (ONNX, int8), with a parity gate",
    "doctor": "versions, machine, a self-test, and what is wrong here",
    "verify": "checksums of a checkpoint, a run, a model or a token store",
    "demo": "the whole story on the demo text",
}

EPILOG = """\b
Example, from raw text to a vocabulary:
  tianci vocab texts/ --kind char --size 8000 --out vocab
  tianci tokenize vocab "今天天气不错"
"""


class Commands(click.Group):
    """Knows the commands by name and loads the file of the one that was called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            raise unknown("command", name, COMMANDS)
        command: click.Command = getattr(import_module(f"tianci.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Commands, epilog=EPILOG, no_args_is_help=True)
@click.version_option(__version__, prog_name="tianci")
def tianci() -> None:
    """tianci (填词): from your own raw text to a language model that works for you.

    `tianci COMMAND --help` shows the options of a command, with an example.
    """


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits: 0 done, 2 bad input, 1 failed while running, 130 stopped."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        # half a character, or one that the terminal cannot show, is written as JSON escapes it
        sys.stdout.reconfigure(errors="backslashreplace")
    received: list[int] = []
    try:
        _clean_up_on_termination(received)
        code = tianci.main(arguments, prog_name="tianci", standalone_mode=False)
    except (Exception, Stopped) as error:
        if "--debug" in arguments:
            raise
        known = isinstance(error, Stopped | click.Abort)
        # a library may have made something else of the signal that came inside of it
        told = error if known or not received else _stopped(received[0])
        code = _complain(told)
    sys.exit(code if isinstance(code, int) else 0)


def _clean_up_on_termination(received: list[int]) -> None:
    """SIGTERM ends like Ctrl-C does: with what is half-written removed, and an exit code."""

    def stop(number: int, _: object) -> None:
        received.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise _stopped(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)
        # not where it is ignored; but also over the handler of an earlier call in this process,
        # which would tell that call of the signal and not this one
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, stop)


def _stopped(number: int) -> Stopped:
    return Stopped(number, f"stopped by {signal.Signals(number).name}")


def _complain(error: Exception | Stopped) -> int:
    """One sentence on standard error; the exit code."""
    if isinstance(error, click.Abort):
        print("tianci: stopped", file=sys.stderr)
        return 130
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        print(error.format_message())
        return 2
    if isinstance(error, click.ClickException):
        name = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else None
        hint = f"; see {name} --help" if name else ""
        print(f"tianci: {one_line(error.format_message()).rstrip('.')}{hint}", file=sys.stderr)
        return 2
    if isinstance(error, Stopped):
        print(f"tianci: {error}", file=sys.stderr)
        return 128 + error.number
    if isinstance(error, UserError):
        print(f"tianci: {one_line(str(error))}", file=sys.stderr)
        return 2
    if isinstance(error, Failed):
        print(f"tianci: {one_line(str(error))}", file=sys.stderr)
        return 1
    if isinstance(error, BrokenPipeError):
        sys.stdout = None  # the reader has gone; python must not try to flush at exit
        return 1
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        name = str(error.filename)
        print(f"tianci: the file name {one_line(name[:60])}... is too long", file=sys.stderr)
        return 2
    said = one_line(f"{type(error).__name__}: {error}")
    print(f"tianci: {said} (--debug shows where)", file=sys.stderr)
    return 1
