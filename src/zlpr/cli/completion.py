"""`zlpr completion`: a script by which a shell completes commands, flags and names."""

import argparse
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from zlpr.cli._console import say

if TYPE_CHECKING:
    from zlpr.cli._parser import Parser

EXAMPLE = "zlpr completion bash > ~/.local/share/bash-completion/completions/zlpr"
_ZSH = "#compdef zlpr\nautoload -U +X bashcompinit && bashcompinit\n"

_SCRIPT = """\
# Completes the commands of zlpr; printed by: zlpr completion {shell}
_zlpr() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command=${{COMP_WORDS[1]}} flags= words=
    case "$command" in
        {actions}) [ "$COMP_CWORD" -gt 2 ] && command="$command ${{COMP_WORDS[2]}}" ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words={commands}
    else
        case "$command" in
{flags}
        esac
        case "$command $before" in
{values}
        esac
    fi
    if [[ $word == -* ]]; then words=$flags; fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _zlpr zlpr
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which shell it is for."""
    parser.add_argument(
        "shell",
        metavar="SHELL",
        choices=("bash", "zsh"),
        help="bash or zsh. For bash, keep what is printed in the file of the example. For zsh, "
        "keep "
        "it in a file of your own and add 'source FILE' to ~/.zshrc, below compinit. Then open a "
        "new shell",
    )


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    say(script(args.shell))


def script(shell: str) -> str:
    """The script for a shell: words for each command and after each flag; files for all else."""
    from zlpr.cli.main import COMMANDS, parser_of

    parsers = {name: parser_of(name) for name in COMMANDS}
    named = _names()
    flags, values = [], []
    for command, parser in _with_actions(parsers):
        flags.append((command, parser.flags() if " " in command or not parser.actions() else []))
        values += list(_values(command, parser, named))
    with_actions = [name for name, parser in parsers.items() if parser.actions()]
    return (_ZSH if shell == "zsh" else "") + _SCRIPT.format(
        shell=shell,
        commands=shlex.quote(" ".join(COMMANDS)),
        actions="|".join(with_actions),
        flags="\n".join(_case(command, words, "flags") for command, words in flags),
        values="\n".join(_case(place, words, "words") for place, words in values),
    )


def _with_actions(parsers: "dict[str, Parser]") -> "Iterator[tuple[str, Parser]]":
    for name, parser in parsers.items():
        yield name, parser
        for action, own in parser.actions().items():
            yield f"{name} {action}", own


def _values(
    command: str, parser: "Parser", named: dict[str, list[str]]
) -> Iterator[tuple[str, list[str]]]:
    """What may follow: after a flag its values, after the command its actions or topics."""
    for action in parser._actions:
        known = named if action.option_strings or action.dest == "topics" else {}
        words = known.get(action.dest) or [str(choice) for choice in action.choices or ()]
        for place in action.option_strings or [command.rpartition(" ")[2]]:
            if words:
                yield f"{command} {place}", words


def _names() -> dict[str, list[str]]:
    """The names that arguments take although their parsers do not list them."""
    from zlpr import decoding, losses, metrics
    from zlpr.cli.theory import TOPICS
    from zlpr.models import registry

    models = [registry.info(name).usage.partition("NAME")[0] for name in registry.available()]
    known = list(losses.available())
    return {
        "loss": known,
        "losses": known,
        "model": ["auto", *models],
        "models": models,
        "decode": ["auto", *decoding.available()],
        "metric": list(metrics.available()),
        "decode_metric": list(metrics.DECISION_METRICS),
        "topics": ["all", *TOPICS],
    }


def _case(pattern: str, words: list[str], name: str) -> str:
    return f"            {shlex.quote(pattern)}) {name}={shlex.quote(' '.join(words))} ;;"
