"""`zlpr predict`: label names, scores and probabilities for texts."""

import argparse
import csv
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from zlpr._errors import UserError
from zlpr.cli._progress import progress
from zlpr.cli._reading import add_reading_arguments, reading_options

if TYPE_CHECKING:
    from zlpr.models import FittedModel

EXAMPLE = 'zlpr predict reviews-model "Arrived broken, and nobody answers."'
BATCH = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the texts and the form of the answer."""
    parser.add_argument("model", metavar="DIR", help="a folder that 'zlpr train' wrote")
    parser.add_argument(
        "texts", metavar="TEXT", nargs="*", help="texts; none reads standard input, a text per line"
    )
    parser.add_argument(
        "--file",
        metavar="FILE",
        action="append",
        default=[],
        help="a data file, or a .txt file with a text per line; may repeat",
    )
    parser.add_argument("--csv", action="store_true", help="CSV instead of JSON lines")
    parser.add_argument(
        "--all-labels",
        action="store_true",
        help="scores and probabilities of every label, not only of the predicted ones",
    )
    parser.add_argument("--out", metavar="FILE", help="write here instead of to standard output")
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Read, predict and write in batches, so that a stream of any length passes through."""
    from zlpr import load
    from zlpr._atomic import replacing

    if args.texts and args.file:
        raise UserError("give texts or --file, not both")
    model = load(args.model)
    # With answers on the screen they are progress enough.
    waiting = progress(f"predicting into {args.out}") if args.out else nullcontext()
    with waiting, replacing(args.out) if args.out else nullcontext() as beside:
        stream = beside.open("w", encoding="utf-8", newline="") if beside else sys.stdout
        with stream if beside else nullcontext():
            writer = _csv_writer if args.csv else _json_writer
            write = writer(stream, model, args.all_labels)
            for inputs in _inputs(args):
                _predict(model, inputs, write)
                stream.flush()


@dataclass(frozen=True)
class Row:
    """One answer: the text, the predicted labels' columns, and every label's figures."""

    text: str | None
    chosen: list[int]
    scores: list[float]
    probabilities: list[float]


Write = Callable[[Row], None]


def _predict(model: "FittedModel", inputs: Any, write: Write) -> None:
    import numpy as np

    scores = model.predict_scores(inputs)
    predicted, shares = np.asarray(model.decoder(scores)), np.asarray(model.calibrator(scores))
    texts = inputs if isinstance(inputs, list) else [None] * len(scores)
    figures = zip(scores.tolist(), shares.tolist(), strict=True)
    for text, row, (values, probabilities) in zip(texts, predicted, figures, strict=True):
        write(Row(text, np.flatnonzero(row).tolist(), values, probabilities))


def _json_writer(stream: TextIO, model: "FittedModel", all_labels: bool) -> Write:
    names = model.label_names

    def write(row: Row) -> None:
        shown = range(len(names)) if all_labels else row.chosen
        line = {
            **({} if row.text is None else {"text": row.text}),
            "labels": [names[i] for i in row.chosen],
            "scores": {names[i]: round(row.scores[i], 4) for i in shown},
            "probabilities": {names[i]: round(row.probabilities[i], 4) for i in shown},
        }
        print(json.dumps(line, ensure_ascii=False), file=stream)

    return write


def _csv_writer(stream: TextIO, model: "FittedModel", all_labels: bool) -> Write:
    """A row per text: the labels, and their scores and probabilities in the same order."""
    names = model.label_names
    table = csv.writer(stream, lineterminator="\n")
    if all_labels:
        kinds = ("score", "probability")
        table.writerow(["text", "labels", *(f"{name} {kind}" for kind in kinds for name in names)])
    else:
        table.writerow(["text", "labels", "scores", "probabilities"])

    def write(row: Row) -> None:
        if all_labels:
            values = [f"{value:.4f}" for value in (*row.scores, *row.probabilities)]
        else:
            values = [
                "|".join(f"{part[i]:.4f}" for i in row.chosen)
                for part in (row.scores, row.probabilities)
            ]
        table.writerow([row.text or "", "|".join(names[i] for i in row.chosen), *values])

    return write


def _inputs(args: argparse.Namespace) -> Iterator[Any]:
    """The inputs in batches: given texts, files, or the lines of standard input."""
    if args.texts:
        yield list(args.texts)
    elif args.file:
        for name in args.file:
            yield from _from_file(name, args)
    else:
        yield from _batches(line.rstrip("\r\n") for line in sys.stdin)


def _from_file(name: str, args: argparse.Namespace) -> Iterator[Any]:
    from zlpr.data import iterate
    from zlpr.data.files import read_lines

    path = Path(name)
    if args.format is None and ".txt" in path.suffixes:
        for lines in read_lines(path):
            yield from _batches(lines.texts)
        return
    options = reading_options(args)
    for unused in ("labels", "label_delimiter", "label_names"):
        options.pop(unused)
    for block in iterate(path, labelled=False, **options):
        if block.texts is not None:
            yield from _batches(block.texts)
        else:
            yield block.features


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while batch := list(itertools.islice(remaining, BATCH)):
        yield batch
