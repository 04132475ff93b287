"""The arguments with which every command reads data, and the reading itself."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from zlpr._escape import for_terminal
from zlpr.cli._console import say
from zlpr.cli._flags import words
from zlpr.cli._progress import progress

if TYPE_CHECKING:
    from zlpr.data import Columns, Dataset
    from zlpr.models import FittedModel


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments that say how a file is to be read; what is not given is found out from the file."""
    group = parser.add_argument_group("how to read the data, where it cannot be guessed")
    group.add_argument("--format", metavar="NAME", help="file format, such as csv or jsonl")
    group.add_argument(
        "--text",
        metavar="COLUMN",
        type=words,
        action="append",
        help="column that holds the text; may be repeated",
    )
    group.add_argument(
        "--features-columns",
        metavar="COLUMN",
        type=words,
        nargs="+",
        action="extend",
        help="columns to learn from instead of a text, as names, 'sensor_*' or first:last "
        "(default: all "
        "columns of numbers where there is no text)",
    )
    group.add_argument(
        "--categorical-columns",
        metavar="COLUMN",
        type=words,
        nargs="+",
        action="extend",
        help="columns whose numbers name kinds rather than amounts",
    )
    group.add_argument(
        "--labels",
        metavar="COLUMN",
        type=words,
        action="append",
        help="column of label sets; repeated, columns of 0 and 1",
    )
    group.add_argument(
        "--label-delimiter", metavar="MARK", type=words, help="what separates labels in a cell"
    )
    group.add_argument(
        "--label-names", metavar="FILE", help="file with the labels in order, one per line"
    )
    group.add_argument(
        "--hierarchy",
        metavar="FILE",
        help="which labels stand below which: CSV or TSV lines 'label,parent'; each label then "
        "counts with its ancestors, in the data as in what is predicted",
    )
    group.add_argument(
        "--hierarchy-separator",
        metavar="MARK",
        type=words,
        help="the same from names such as Sports/Football, which '/' parts",
    )
    group.add_argument("--id", metavar="COLUMN", type=words, help="column of identifiers")
    group.add_argument(
        "--group",
        metavar="COLUMN",
        type=words,
        help="column of groups, which are never divided between parts",
    )
    group.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first row holds the columns' names",
    )
    group.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of the file (default utf-8)"
    )
    group.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="leave rows out that cannot be read, and say how many",
    )


def load_data(
    spec: str,
    args: argparse.Namespace,
    like: "Columns | None" = None,
    *,
    may_be_flat: bool = False,
    mixed: bool = False,
) -> "Dataset":
    """Load a file, a folder or "demo" as the arguments say, and say what was read as what.

    Args:
        spec: the file, the folder, or "demo".
        args: the parsed arguments of `add_reading_arguments`.
        like: how a model's training data was read, for what the arguments leave open.
        may_be_flat: whether a hierarchy may say nothing of these labels, as of a test part.
        mixed: whether its parts will be divided anew.
    """
    from zlpr.data import load

    with progress(f"reading {spec}"):
        options = {**reading_options(args), "may_be_flat": may_be_flat, "mixed": mixed}
        data = load(spec, like=like, **options)
    announce(spec, data.columns, error=getattr(args, "json", False))
    return data


def announce(spec: str, columns: "Columns | None", *, error: bool) -> None:
    """Say what was read as what; of several processes, the first speaks."""
    if columns is not None and is_first_process():
        say(for_terminal(f"read {spec} as {columns.describe()}"), error=error)


def is_first_process() -> bool:
    """Whether this is the first of torchrun's processes, or alone; the others only compute.

    Schedulers number jobs by the same variable that have nothing to do with each other.
    """
    alone = os.environ.get("WORLD_SIZE", "1") == "1"
    return alone or os.environ.get("RANK", "0") == "0"


def columns_of(model: "FittedModel") -> "Columns | None":
    """How a model's training data was read, as its folder remembers."""
    from zlpr.data import Columns

    held = model.record.data.get("columns")
    return None if held is None else Columns.from_json(held)


def given_reading(args: argparse.Namespace) -> dict[str, Any]:
    """Those of the arguments that were given, as a grid has them."""
    left_open = {"encoding": "utf-8", "skip_bad_rows": False}
    options = reading_options(args)
    return {name: value for name, value in options.items() if value != left_open.get(name)}


def reading_options(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments as `zlpr.data.load` takes them."""
    return {
        "format": args.format,
        "text": _one_or_all(args.text),
        "features": args.features_columns,
        "categories": args.categorical_columns,
        "labels": _one_or_all(args.labels),
        "label_delimiter": args.label_delimiter,
        "label_names": args.label_names,
        "hierarchy": args.hierarchy,
        "hierarchy_separator": args.hierarchy_separator,
        "id": args.id,
        "group": args.group,
        "header": args.header,
        "encoding": args.encoding,
        "skip_bad_rows": args.skip_bad_rows,
    }


def _one_or_all(columns: list[str] | None) -> str | list[str] | None:
    """Columns by name, or by position from 0 where digits are given that are no name."""
    return columns[0] if columns is not None and len(columns) == 1 else columns
