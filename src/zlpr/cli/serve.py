"""`zlpr serve`: models over HTTP, and a page to look at them."""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._escape import for_terminal
from zlpr.cli._console import say
from zlpr.cli._label_numbers import with_model_names
from zlpr.cli._progress import progress
from zlpr.cli._reading import add_reading_arguments, columns_of, load_data

if TYPE_CHECKING:
    from zlpr.data import Columns, Dataset
    from zlpr.models import FittedModel
    from zlpr.serving import Limits
    from zlpr.serving.review import Review

EXAMPLE = "zlpr serve reviews-model reviews.csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The models, the data, where to listen and how much to take on."""
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="+",
        help="folders that 'zlpr train' wrote, and at most one DATA: a file, a folder of parts, or "
        "'demo', on which the page shows thresholds, errors and labels",
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
        "--no-token", action="store_true", help="serve other machines without a token"
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name by which clients may call the server, as behind a proxy; may be repeated",
    )
    parser.add_argument("--quiet", action="store_true", help="log no line per request")
    parser.add_argument(
        "--allow-save",
        action="store_true",
        help="let the page save a rule in a copy of the model folder even where other machines "
        "reach it",
    )
    _add_limits(parser)
    add_reading_arguments(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    for flag, kind, metavar, words in (
        ("--max-body", int, "BYTES", "largest request (default 4000000)"),
        ("--max-texts", int, "N", "most texts in a request (default 1000)"),
        ("--max-characters", int, "N", "longest text, in characters (default 100000)"),
        ("--max-seconds", float, "S", "longest time for an answer (default 30)"),
        ("--max-waiting", int, "N", "most texts that may wait for the model (default 10000)"),
        ("--max-connections", int, "N", "most connections at a time (default 1000)"),
    ):
        group.add_argument(flag, type=kind, metavar=metavar, help=words)


def run(args: argparse.Namespace) -> None:
    """Load the models, read the data, listen."""
    from zlpr import load
    from zlpr.serving import server
    from zlpr.serving.app import create_app
    from zlpr.serving.service import Service

    token = None if args.token_file is None else server.read_token(Path(args.token_file))
    names = frozenset(name.lower() for name in args.allow_host)
    access = server.access_of(args.host, token, no_token=args.no_token, names=names)
    limits = _limits(args)
    folders, data = _sort(args.folders)
    models = {name: load(folder) for name, folder in folders.items()}
    for model in models.values():
        model.prepare()
    with server.listen(args.host, args.port) as listening:
        reviews = {} if data is None else _reviews(models, data, args)
        service = Service(models, limits, folders)
        may_save = args.allow_save or server.is_loopback(args.host)
        app = create_app(service, access=access, reviews=reviews, may_save=may_save)
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


def _sort(given: Sequence[str]) -> tuple[dict[str, Path], str | None]:
    """Model folders by name, and what is none of them: the data."""
    from zlpr.models.folder import CONFIG, read_config
    from zlpr.serving.service import names_of

    models = [Path(name) for name in given if (Path(name) / CONFIG).is_file()]
    others = [name for name in given if not (Path(name) / CONFIG).is_file()]
    if not models:
        read_config(Path(given[0]))  # which says what is wrong with it
    if len(others) > 1:
        raise UserError(
            f"{others[0]} and {others[1]}: neither is a model folder, and data may be given once"
        )
    return names_of(models), others[0] if others else None


def _reviews(
    models: "Mapping[str, FittedModel]", spec: str, args: argparse.Namespace
) -> "dict[str, Review]":
    """Every model on the same samples, those that the first was validated on."""
    from zlpr.serving.review import review
    from zlpr.training.parts import seen_of_another, to_review

    first = next(iter(models.values()))
    like = columns_of(first)
    data = load_data(spec, args, like, may_be_flat=first.hierarchy is not None)
    data = _closed(with_model_names(data, first, like), first)
    refit = bool(first.record.settings.get("refit"))
    chosen = to_review(data, first.record.data, refit=refit)
    reviews = {}
    for name, model in models.items():
        notes = list(chosen.notes)
        if model is not first:
            notes = [note for note in [seen_of_another(chosen, data, model.record.data)] if note]
        if args.text is None and model is not first:
            notes += _other_columns(name, columns_of(model), data.columns)
        names = model.label_names
        part = _closed(chosen.data, model).with_label_names(names, unknown="drop")
        test = chosen.test
        if test is not None:
            test = _closed(test, model).with_label_names(names, unknown="drop")
        notes += part.notes[len(chosen.data.notes) :]
        samples = len(part) + (0 if test is None else len(test))
        with progress(f"scoring {counted(samples, 'sample')}", steps=samples) as advance:
            reviews[name] = review(
                model, part, test, part=chosen.part, notes=notes, progress=advance
            )
        for note in notes:
            say(f"note: {for_terminal(name)}: {for_terminal(note)}", error=True)
    return reviews


def _closed(data: "Dataset", model: "FittedModel") -> "Dataset":
    """The data as the model's hierarchy wants it, where it has one."""
    return data if model.hierarchy is None else data.with_ancestors(model.hierarchy)


def _other_columns(name: str, own: "Columns | None", read: "Columns | None") -> list[str]:
    """What to say of a model that read other columns in training than are read here.

    Raises:
        UserError: these are in the data too, so that its figures would be of the wrong ones.
    """
    from zlpr.data.problems import quote_all

    if own is None or read is None:
        return []
    # Features without names are taken by position, whatever those of the first model are called.
    both_named = own.attributes is not None and read.attributes is not None
    if both_named and own.attributes != read.attributes:
        raise UserError(
            f"{name}: was trained on other attributes, or on others of their values, than the "
            "first model; serve the data with one of them at a time"
        )
    if (own.text, own.features) == (read.text, read.features):
        return []
    if read.features is not None or own.features is not None:
        raise UserError(
            f"{name}: was trained on other feature columns than the first model; serve the data "
            "with one of them at a time"
        )
    if not (own.text and read.text):  # columns without names
        return []
    said = f"was trained on texts from {quote_all(own.text)}, and gets {quote_all(read.text)} here"
    if set(own.text) <= {*read.also_text, *read.unread}:
        raise UserError(
            f"{name}: {said}, as the first model; serve the data with one of them at a time, or "
            "name the column for all with --text"
        )
    return [said]


def _log_requests(quiet: bool) -> None:
    """Lines on standard error: faults, and each request unless told otherwise."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger("zlpr.serving")
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.WARNING if quiet else logging.INFO)
