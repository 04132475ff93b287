"""`zlpr predict`: label names, scores and probabilities for texts."""

import argparse
import contextlib
import csv
import io
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from zlpr._errors import UserError
from zlpr._escape import for_spreadsheet, for_terminal
from zlpr.cli._console import data_stream, json_text, say
from zlpr.cli._decision import add_decision_arguments, decide_by_hand
from zlpr.cli._flags import words
from zlpr.cli._progress import progress
from zlpr.cli._reading import add_reading_arguments, announce, columns_of, reading_options

if TYPE_CHECKING:
    from zlpr.data import Block, Columns
    from zlpr.models import FittedModel
    from zlpr.models.answers import Answer

EXAMPLE = 'zlpr predict reviews-model "Arrived broken, and nobody answers."'
INTERMIXED = True  # texts may follow options, as in zlpr predict DIR --csv TEXT
BATCH = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the texts and the form of the answer."""
    parser.add_argument("model", metavar="DIR", help="a folder that 'zlpr train' wrote")
    parser.add_argument(
        "texts",
        metavar="TEXT",
        nargs="*",
        type=words,
        help="texts; none reads standard input, a text per line",
    )
    parser.add_argument(
        "--file",
        metavar="FILE",
        action="append",
        default=[],
        help="a data file, or one with a text per line; may repeat",
    )
    parser.add_argument("--csv", action="store_true", help="CSV instead of JSON lines")
    parser.add_argument(
        "--raw-csv",
        action="store_true",
        help="as --csv, with cells that start with =, +, - or @ as they are; --csv puts an "
        "apostrophe before them, so that no spreadsheet takes them for formulas",
    )
    parser.add_argument(
        "--all-labels",
        action="store_true",
        help="scores and probabilities of every label that the model scores, not only of the "
        "predicted ones",
    )
    add_decision_arguments(parser)
    parser.add_argument("--out", metavar="FILE", help="write here instead of to standard output")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Read, predict and write in batches, so that a stream of any length passes through."""
    from zlpr import load
    from zlpr._atomic import replacing

    if args.texts and args.file:
        raise UserError("give texts or --file, not both")
    _check_out(args)
    _doubt_text(args.texts)
    model = load(args.model)
    if args.csv or args.raw_csv:
        _check_separable(model)
    decide_by_hand(model, args)
    # With answers on the screen they are progress enough.
    waiting = progress(f"predicting into {args.out}") if args.out else nullcontext()
    with waiting, replacing(args.out) if args.out else nullcontext() as beside:
        stream = beside.open("w", encoding="utf-8", newline="") if beside else data_stream()
        with stream if beside else nullcontext():
            like = columns_of(model)
            write = (
                _csv_writer(
                    stream,
                    model,
                    args.all_labels,
                    with_ids=any(_has_ids(name, args, like) for name in args.file),
                    cell=(lambda text: text) if args.raw_csv else for_spreadsheet,
                )
                if args.csv or args.raw_csv
                else _json_writer(stream, model, args.all_labels)
            )
            for batch in _batches(args, like):
                _predict(model, batch, write)
                stream.flush()


def _doubt_text(texts: Sequence[str]) -> None:
    """Say so where the only text is the name of a file, which was hardly meant as a text."""
    with contextlib.suppress(OSError, ValueError):  # no name that a file can have
        if len(texts) == 1 and Path(texts[0]).is_file():
            say(
                f"note: {for_terminal(texts[0])} is a file, and was read as a text; --file "
                f"{for_terminal(texts[0])} reads what is in it",
                error=True,
            )


def _lines_of_input(encoding: str) -> Iterator[str]:
    """The lines of standard input; bytes of another encoding are the user's mistake."""
    from zlpr.data.files import check_encoding

    check_encoding("standard input", encoding)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding=encoding, errors="strict")
    try:
        for line in sys.stdin:
            yield line.rstrip("\r\n")
    except UnicodeError as fault:
        reason = fault.reason if isinstance(fault, UnicodeDecodeError) else fault
        raise UserError(
            f"standard input: not {encoding} ({reason}); name its encoding with --encoding"
        ) from None


def _check_out(args: argparse.Namespace) -> None:
    """Refuse to write over a file that is there, above all over what is to be read."""
    from zlpr._atomic import is_special
    from zlpr.models.folder import UNCHECKED, read_config

    if args.out is None:
        return
    target = Path(args.out)
    if is_special(target):
        return
    if target.is_dir():
        raise UserError(f"{target}: a folder; --out takes a file")
    if not target.exists():
        return
    folder = Path(args.model)
    files = read_config(folder).get("files")
    names = (*UNCHECKED, *(files if isinstance(files, dict) else ()))
    read = [*args.file, *(folder / name for name in names)]
    if any(Path(path).exists() and target.samefile(path) for path in read):
        raise UserError(f"{target}: is read from; give --out another name")
    if not args.overwrite:
        raise UserError(f"{target}: is there already; choose another name, or --overwrite")


def _check_separable(model: "FittedModel") -> None:
    """Labels stand in one cell of a CSV, between bars."""
    for name in model.label_names:
        if "|" in name:
            raise UserError(
                f"the label {name!r} holds '|', which separates labels in a CSV cell; "
                "leave --csv out for JSON lines"
            )


@dataclass(frozen=True)
class Batch:
    """Some samples: texts or features, and their identifiers where they have some."""

    inputs: Any
    ids: Sequence[str] | None = None

    def __len__(self) -> int:
        return self.inputs.shape[0] if hasattr(self.inputs, "shape") else len(self.inputs)


@dataclass(frozen=True)
class Row:
    """One sample's answer, with its identifier and its text where it has them."""

    id: str | None
    text: str | None
    answer: "Answer"


Write = Callable[[Row], None]


def _predict(model: "FittedModel", batch: Batch, write: Write) -> None:
    from zlpr.models.answers import answer

    if not len(batch):
        return
    nothing = [None] * len(batch)
    texts = batch.inputs if isinstance(batch.inputs, list) else nothing
    names = zip(batch.ids or nothing, texts, strict=True)
    for (name, text), said in zip(names, answer(model, batch.inputs), strict=True):
        write(Row(name, text, said))


def _json_writer(stream: TextIO, model: "FittedModel", all_labels: bool) -> Write:
    names = model.label_names

    def write(row: Row) -> None:
        line = {
            **({} if row.id is None else {"id": row.id}),
            **({} if row.text is None else {"text": row.text}),
            **row.answer.to_json(names, all_labels=all_labels),
        }
        stream.write(json_text(line, stream) + "\n")

    return write


def _csv_writer(
    stream: TextIO,
    model: "FittedModel",
    all_labels: bool,
    *,
    with_ids: bool,
    cell: Callable[[str], str],
) -> Write:
    """A row per text: the labels, and their scores and probabilities in the same order."""
    if stream.isatty():
        safe, cell = cell, lambda text: for_terminal(safe(text))
    names = model.label_names
    table = csv.writer(stream, lineterminator="\n")
    figures = ["scores", "probabilities"]
    if all_labels:
        figures = [cell(f"{name} {kind}") for kind in ("score", "probability") for name in names]
    table.writerow([*(["id"] if with_ids else []), "text", "labels", *figures])

    def write(row: Row) -> None:
        chosen, parts = row.answer.chosen, (row.answer.scores, row.answer.probabilities)
        if all_labels:
            values = [
                f"{part[i]:.4f}" if i in part else "" for part in parts for i in range(len(names))
            ]
        else:
            values = ["|".join(f"{part[i]:.4f}" for i in chosen) for part in parts]
        own = [cell(row.id or "")] if with_ids else []
        labels = "|".join(names[i] for i in chosen)
        table.writerow([*own, cell(row.text or ""), cell(labels), *values])

    return write


def _batches(args: argparse.Namespace, like: "Columns | None") -> Iterator[Batch]:
    """What to predict: given texts, files, or the lines of standard input."""
    if args.texts:
        yield Batch(list(args.texts))
    elif args.file:
        for name in args.file:
            yield from _from_file(name, args, like)
    else:
        lines = _lines_of_input(args.encoding)
        while texts := list(itertools.islice(lines, BATCH)):
            yield Batch(texts)


def _from_file(name: str, args: argparse.Namespace, like: "Columns | None") -> Iterator[Batch]:
    """The samples of a file, read as `zlpr evaluate` reads it, but for the labels."""
    said = False
    for block in _blocks(name, args, like):
        if not said:
            announce(name, block.columns, error=True)
            said = True
        yield from _parts(block)


def _has_ids(name: str, args: argparse.Namespace, like: "Columns | None") -> bool:
    """Whether the samples of a file have identifiers, by its first rows."""
    return any(block.ids is not None for block in itertools.islice(_blocks(name, args, like), 1))


def _blocks(name: str, args: argparse.Namespace, like: "Columns | None") -> "Iterator[Block]":
    from zlpr.data import iterate

    options = reading_options(args)
    for unused in ("labels", "label_delimiter", "label_names"):
        options.pop(unused)
    return iterate(Path(name), labelled=False, like=like, **options)


def _parts(block: "Block") -> Iterator[Batch]:
    inputs: Any = block.features if block.texts is None else block.texts
    for start in range(0, len(block.labels), BATCH):
        rows = slice(start, start + BATCH)
        yield Batch(inputs[rows], None if block.ids is None else block.ids[rows])
