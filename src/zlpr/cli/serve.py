"""`zlpr serve`: models over HTTP, and a page to look at them."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._escape import for_terminal
from zlpr.cli._console import say

if TYPE_CHECKING:
    from zlpr.models import FittedModel
    from zlpr.serving import Limits

EXAMPLE = "zlpr serve reviews-model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The models, where to listen and how much to take on."""
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="+",
        help="folders that 'zlpr train' wrote",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen at (default 127.0.0.1, which only this machine reaches)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8000,
        help="port to listen at (default 8000; 0 takes a free one)",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="a file with the token that requests must bear (Authorization: Bearer TOKEN)",
    )
    parser.add_argument(
        "--no-token", action="store_true", help="let anyone in who reaches --host beyond loopback"
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name by which clients may call the server, as behind a proxy; may repeat",
    )
    parser.add_argument("--quiet", action="store_true", help="no line per request")
    _add_limits(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    for flag, kind, metavar, words in (
        ("--max-body", int, "BYTES", "of a request (default 4000000)"),
        ("--max-texts", int, "N", "texts in a request (default 1000)"),
        ("--max-characters", int, "N", "of a text (default 100000)"),
        ("--max-seconds", float, "S", "for an answer (default 30)"),
        ("--max-waiting", int, "N", "texts that may wait for the model (default 10000)"),
        ("--max-connections", int, "N", "at a time (default 1000)"),
    ):
        group.add_argument(flag, type=kind, metavar=metavar, help=words)


def run(args: argparse.Namespace) -> None:
    """Load the models, listen."""
    from zlpr.serving import server
    from zlpr.serving.app import create_app
    from zlpr.serving.service import Service

    token = None if args.token_file is None else server.read_token(Path(args.token_file))
    names = frozenset(name.lower() for name in args.allow_host)
    access = server.access_of(args.host, token, no_token=args.no_token, names=names)
    limits = _limits(args)
    folders = _by_name(args.folders)
    models = {name: _load(folder) for name, folder in folders.items()}
    with server.listen(args.host, args.port) as listening:
        app = create_app(Service(models, limits, folders), access=access)
        _log_requests(args.quiet)
        for name, model in models.items():
            labels = counted(len(model.label_names), "label")
            say(f"serving {for_terminal(name)}: {labels}, {for_terminal(model.kind)}")
        say(f"look at it: {server.address_of(listening)}/ (routes: /docs)")
        say("stop with Ctrl-C")
        server.run(server.make_server(app, limits), listening)
    say("stopped")


def _limits(args: argparse.Namespace) -> "Limits":
    from zlpr.serving.limits import Limits

    given = {
        "body_bytes": args.max_body,
        "texts": args.max_texts,
        "text_characters": args.max_characters,
        "seconds": args.max_seconds,
        "waiting": args.max_waiting,
        "connections": args.max_connections,
    }
    for value in given.values():
        if value is not None and not value > 0:
            raise UserError(f"a limit of {value}: expected more than 0")
    return Limits(**{name: value for name, value in given.items() if value is not None})


def _by_name(given: Sequence[str]) -> dict[str, Path]:
    """Model folders by the names that they are served by."""
    from zlpr.serving.service import names_of

    return names_of([Path(name) for name in given])


def _load(folder: Path) -> "FittedModel":
    from zlpr import load

    return load(folder)


def _log_requests(quiet: bool) -> None:
    """Lines on standard error: faults, and each request unless told otherwise."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger("zlpr.serving")
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.WARNING if quiet else logging.INFO)
