"""`zlpr`: find the command, parse its arguments, run it, and turn mistakes into one clear line.

A command is a module of this room with three names, and two more where they hold:

- `EXAMPLE`: a command line that `--help` shows;
- `add_arguments(parser)`: its arguments; imports nothing heavy, so that `--help` is instant;
- `run(args)`: the work, importing what it needs; returns an exit code or None for 0;
- `INTERMIXED = True`, where values without a flag may stand after flags too;
- `BARE_SHOWS_HELP = True`, where the command by itself says what it could do.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from zlpr import __version__
from zlpr._errors import UserError
from zlpr._escape import for_terminal
from zlpr._names import unknown
from zlpr.cli._console import say, say_help, standard_streams
from zlpr.cli._flags import in_flags
from zlpr.cli._parser import Parser

READER_LEFT = 141
"""The exit code where the reader of the output left early: 128 + SIGPIPE, as shells report it."""

_LONGEST_NAME = 200
"""Characters of a path that a message shows whole."""


class CommandModule(Protocol):
    """What a command's file must hold."""

    EXAMPLE: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]


@dataclass(frozen=True)
class Command:
    """Where a command lives and the line that `zlpr --help` shows for it."""

    module: str
    summary: str


COMMANDS = {
    "train": Command("zlpr.cli.train", "train a model on labelled data"),
    "predict": Command("zlpr.cli.predict", "predict the labels of texts with a trained model"),
    "explain": Command("zlpr.cli.explain", "show which words of a text speak for its labels"),
    "export": Command("zlpr.cli.export", "write a trained model as one ONNX file"),
    "evaluate": Command("zlpr.cli.evaluate", "measure a trained model on labelled data"),
    "serve": Command("zlpr.cli.serve", "serve models over HTTP, with a page to try them"),
    "compare": Command("zlpr.cli.compare", "compare losses on your data and write a report"),
    "report": Command("zlpr.cli.report", "write the report of a comparison again"),
    "data": Command("zlpr.cli.data", "list, describe, prepare, download and split data sets"),
    "cache": Command("zlpr.cli.cache", "show or clear the cache of embeddings"),
    "models": Command("zlpr.cli.models", "list the kinds of models"),
    "losses": Command("zlpr.cli.losses", "list the losses"),
    "theory": Command("zlpr.cli.theory", "show the theory behind the loss in tables and figures"),
    "completion": Command(
        "zlpr.cli.completion", "print a script that completes commands in a shell"
    ),
}

# The extra that brings a package, for the line that a missing one gets.
EXTRA_OF = {
    "accelerate": "text",
    "datasets": "data",
    "fastapi": "serve",
    "jinja2": "report",
    "lxml": "data",
    "matplotlib": "report",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
    "pooch": "data",
    "pyarrow": "data",
    "ray": "ray",
    "rich": "text",
    "safetensors": "text",
    "scikit_posthocs": "report",
    "scipy": "text",
    "sklearn": "text",
    "tqdm": "data",
    "transformers": "text",
    "uvicorn": "serve",
}


def overview() -> str:
    """The text of `zlpr --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: zlpr COMMAND [ARGUMENTS]",
            "",
            "Multi-label classification around the ZLPR loss.",
            "",
            "commands:",
            *lines,
            "",
            "zlpr COMMAND --help shows a command's arguments and an example, zlpr --version the "
            "version.",
            "To complete commands and flags with the Tab key: zlpr completion --help",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done, 1 failed, 2 wrong input, 130 interrupted, 141 the reader of the output left early: a
    command that writes files has finished them then, one that only prints has stopped.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    with standard_streams() as output_trouble:
        code = _run(arguments)
        trouble = output_trouble()
        if code == 0 and trouble is not None:
            return _fail_to_write(trouble)
        return code


def _run(arguments: list[str]) -> int:
    """Run one command; what goes wrong becomes one line and an exit code."""
    name = arguments[0] if arguments else ""
    try:
        return _dispatch(arguments)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        return _fail(
            f'zlpr {name} needs the package {package}: pip install "zlpr[{EXTRA_OF[package]}]"'
        )
    except UnicodeEncodeError as trouble:
        return _fail(_describe_encoding(trouble), trouble, code=1)
    except UserError as mistake:
        return _fail(in_flags(str(mistake)), mistake)
    except OSError as trouble:
        return _fail_to_write(trouble)
    except KeyboardInterrupt:
        say("zlpr: interrupted", error=True)
        return 130


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        say_help(overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        say(f"zlpr {__version__}")
        return 0
    if arguments[0] not in COMMANDS:
        raise unknown("command", arguments[0], COMMANDS)
    return run_command(arguments[0], arguments[1:])


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Parse the arguments of one command and run it."""
    module = _module_of(name)
    parser = parser_of(name)
    if not arguments and getattr(module, "BARE_SHOWS_HELP", False):
        parser.print_help()
        return 2
    intermixed = getattr(module, "INTERMIXED", False)
    parse = parser.parse_intermixed_args if intermixed else parser.parse_args
    return module.run(parse(list(arguments))) or 0


def parser_of(name: str) -> Parser:
    """The parser of a command's arguments."""
    module, summary = _module_of(name), COMMANDS[name].summary
    parser = Parser(
        prog=f"zlpr {name}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        example=module.EXAMPLE,
    )
    module.add_arguments(parser)
    return parser


def _module_of(name: str) -> CommandModule:
    return cast("CommandModule", importlib.import_module(COMMANDS[name].module))


def _fail_to_write(trouble: OSError) -> int:
    """Name the file; a reader that left is told nothing, for it asked for no more."""
    if isinstance(trouble, BrokenPipeError):
        return READER_LEFT
    where = f"{_shortened(str(trouble.filename))}: " if trouble.filename else ""
    return _fail(f"{where}{trouble.strerror or trouble}", trouble, code=1)


def _shortened(name: str) -> str:
    """A path that can stand in one line; where names are too long, that is what is wrong."""
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}…{name[-half:]}"


def _describe_encoding(trouble: UnicodeEncodeError) -> str:
    lacking = trouble.object[trouble.start]
    return (
        f"the output's encoding, {trouble.encoding}, has no {lacking!r}: write to a file with "
        "--out where the command has it, or set PYTHONIOENCODING=utf-8"
    )


def _fail(message: str, cause: BaseException | None = None, *, code: int = 2) -> int:
    """Print one line; the traceback only where ZLPR_DEBUG asks for it."""
    if cause is not None and os.environ.get("ZLPR_DEBUG"):
        raise cause
    say(f"zlpr: error: {for_terminal(message)}", error=True)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
