"""The parser of a command's arguments: a mistake becomes one line that says what was meant."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from zlpr._counted import enumeration
from zlpr._errors import UserError
from zlpr._escape import for_terminal
from zlpr._names import nearest, unknown
from zlpr.cli._colour import paint_help

_EXAMPLE = "example:\n  "
_MISSING = re.compile(r"the following arguments are required: (?P<names>.*)")


class Parser(argparse.ArgumentParser):
    """A parser that repeats what was typed without obeying it, and guesses what was meant."""

    def __init__(self, *arguments: Any, example: str = "", **options: Any) -> None:
        """As argparse's, with an example that its help and its messages show."""
        super().__init__(
            *arguments,
            **{
                "epilog": f"{_EXAMPLE}{example}",
                "formatter_class": argparse.RawDescriptionHelpFormatter,
                "allow_abbrev": False,
                **options,
            },
        )
        self.example = example

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; a flag that there is none of is refused first, with the one it resembles."""
        given = sys.argv[1:] if args is None else list(args)
        self._check_flags(given)
        return super().parse_known_args(given, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as one line, instead of the whole usage."""
        if missing := _MISSING.fullmatch(message):
            example = f"; for example: {self.example}" if self.example else ""
            names = enumeration(missing["names"].split(", "))
            raise UserError(f"{self.prog} needs {names}{example}")
        extra = message.removeprefix("unrecognized arguments: ")
        if extra != message:
            raise UserError(f"{self.prog} does not take {extra!r}; see {self.prog} --help")
        raise UserError(f"{self.prog}: {message}")

    def flags(self) -> list[str]:
        """All flags, those of a command's actions too."""
        own = list(self._option_string_actions)
        return own + [flag for action in self.actions().values() for flag in action.flags()]

    def actions(self) -> "dict[str, Parser]":
        """The parsers of a command's actions by name; most commands have none."""
        return {
            name: parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name, parser in action.choices.items()
        }

    def _check_flags(self, given: Sequence[str]) -> None:
        if self.actions():
            return  # each checks its own
        known = self.flags()
        for argument in given[: given.index("--")] if "--" in given else given:
            flag = argument.partition("=")[0]
            if flag.startswith("--") and not re.search(r"\s", argument) and flag not in known:
                guess = nearest(flag, known)
                hint = f"did you mean {guess}?" if guess else f"see {self.prog} --help"
                raise UserError(f"{self.prog} has no flag {flag}; {hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            raise unknown("action", value, action.choices)
        names = [str(choice) for choice in action.choices]
        guess = nearest(str(value), names)
        hint = f"; did you mean {guess}?" if guess else ""
        flag = "/".join(action.option_strings) or action.metavar or action.dest
        raise UserError(f"{flag} takes one of {', '.join(names)}, not {value!r}{hint}")

    def _print_message(self, message: str, file: Any = None) -> None:
        stream = file or sys.stderr
        safe = for_terminal(message, keep="\n")
        super()._print_message(paint_help(safe, stream), stream)
