"""`zlpr predict`: label names, scores and probabilities for texts, or for files part by part."""

import argparse
import contextlib
import io
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from zlpr._counted import counted
from zlpr._csv_rows import CsvRows
from zlpr._errors import UserError
from zlpr._escape import for_spreadsheet, for_terminal
from zlpr.cli._console import data_stream, display_width, json_text, print_table, say
from zlpr.cli._decision import add_decision_arguments, decide_by_hand
from zlpr.cli._flags import as_flag, words
from zlpr.cli._progress import progress
from zlpr.cli._reading import (
    add_reading_arguments,
    announce,
    columns_of,
    given_reading,
    reading_options,
)

if TYPE_CHECKING:
    from zlpr.data import Block, Columns
    from zlpr.models import FittedModel
    from zlpr.models.answers import Answer

EXAMPLE = 'zlpr predict reviews-model "Arrived broken, and nobody answers."'
INTERMIXED = True  # texts may follow options, as in zlpr predict DIR --csv TEXT
BATCH = 1_000
_OF_LABELS = ("labels", "label_delimiter", "label_names", "hierarchy", "hierarchy_separator")
SHOWN_WIDTH = 40
"""Columns that a text takes in a table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the texts and the form of the answer."""
    parser.add_argument("model", metavar="DIR", help="a folder that 'zlpr train' wrote")
    parser.add_argument(
        "texts",
        metavar="TEXT",
        nargs="*",
        default=[],
        type=words,
        help="texts to label; without any, they are read from standard input, one per line",
    )
    parser.add_argument(
        "--file",
        metavar="FILE",
        action="append",
        default=[],
        help="a data file, a file with a text per line, or a pattern such as 'part-*.parquet'; "
        "may be "
        "repeated",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON lines on a terminal, too, instead of a table",
    )
    parser.add_argument("--csv", action="store_true", help="print CSV instead of JSON lines")
    parser.add_argument(
        "--raw-csv",
        action="store_true",
        help="as --csv, but leave cells that start with =, +, - or @ as they are; --csv puts an "
        "apostrophe before them, so that no spreadsheet takes them for formulas",
    )
    parser.add_argument(
        "--all-labels",
        action="store_true",
        help="print every label that the model scores, not only the predicted ones",
    )
    add_decision_arguments(parser)
    parser.add_argument(
        "--out",
        metavar="FILE|DIR",
        help="write here instead of to standard output: JSON lines, compressed where the name ends "
        "in .gz, .bz2 or .xz, Parquet where it ends in .parquet or .pq, or into a folder, a "
        "Parquet part for each --file; a second run goes on where the first one stopped",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="predict the parts on a Ray cluster; 'local' starts one. Model, files and --out must "
        "be where every machine finds them",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="how many models the cluster runs at a time (default: as many as it can)",
    )
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Read, predict and write in batches, so that a stream of any length passes through."""
    from zlpr import load
    from zlpr.serving.batch_prediction import find_files

    if args.texts and args.file:
        raise UserError("give texts or --file, not both")
    _doubt_flags(args)
    into_folder = _is_folder(args)
    args.file = [str(path) for path in find_files(args.file)]
    if into_folder:
        _predict_parts(args)
        return
    _check_out(args)
    _doubt_text(args.texts)
    model = load(args.model)
    if args.csv or args.raw_csv:
        _check_separable(model)
    decide_by_hand(model, args)
    with _alone(args):
        if args.out and _is_parquet(args.out):
            _write_parquet(model, args)
        else:
            _write_lines(model, args)


def _write_lines(model: "FittedModel", args: argparse.Namespace) -> None:
    """JSON lines, CSV or, at a terminal, tables, to a file or to standard output."""
    from zlpr._atomic import replacing

    # With answers on the screen they are progress enough.
    waiting = progress(f"predicting into {args.out}") if args.out else nullcontext()
    with waiting, replacing(args.out) if args.out else nullcontext() as beside:
        stream = _open_out(beside, Path(args.out)) if beside else data_stream()
        with stream if beside else nullcontext():
            like = columns_of(model)
            write = _writer(stream, model, args, like)
            for batch in _batches(args, like):
                write(_answered(model, batch))
                stream.flush()


def _open_out(beside: Path, target: Path) -> TextIO:
    """Open what `replacing` gave for a file, whose name says whether it is compressed."""
    from zlpr._atomic import open_text
    from zlpr.data.files import COMPRESSED_SUFFIXES

    compress = COMPRESSED_SUFFIXES.get(target.suffix.lower())
    if compress is None:
        return open_text(beside)
    stream: TextIO = compress(beside, "wt", encoding="utf-8", newline="")
    return stream


def _writer(
    stream: TextIO, model: "FittedModel", args: argparse.Namespace, like: "Columns | None"
) -> "Write":
    """What writes rows: CSV where asked for, a table at a terminal, else JSON lines."""
    if args.csv or args.raw_csv:
        return _csv_writer(
            stream,
            model,
            args.all_labels,
            with_ids=any(_has_ids(name, args, like) for name in args.file),
            cell=(lambda text: text) if args.raw_csv else for_spreadsheet,
        )
    if stream.isatty() and not args.json:
        if not args.texts and not args.file and sys.stdin.isatty():
            return _answer_writer(model, args.all_labels)
        return _table_writer(model, args.all_labels)
    return _json_writer(stream, model, args.all_labels)


def _is_folder(args: argparse.Namespace) -> bool:
    """Whether --out is a folder of parts; whatever that cannot go with is refused."""
    from zlpr.serving.batch_prediction import is_pattern

    out = args.out or ""
    several = any(is_pattern(name) and not Path(name).exists() for name in args.file)
    named = out.endswith("/") or (several and not Path(out).suffix) or Path(out).is_dir()
    folder = bool(out and args.file and (named or args.ray))
    if out.endswith("/") and not args.file:
        raise UserError(f"{out}: a folder, for the parts of files; give --file, or name a file")
    if args.ray and not folder:
        raise UserError("--ray predicts files into a folder: give --file and --out DIR")
    if args.workers is not None and (not args.ray or args.workers < 1):
        raise UserError("--workers is for --ray, and at least 1")
    forms = [form for form in ("csv", "raw_csv", "json") if getattr(args, form)]
    if out and (folder or _is_parquet(out)) and forms:
        raise UserError(f"{out}: is written as Parquet; leave {as_flag(forms[0])} out")
    if folder and Path(out).is_file():
        raise UserError(f"{out}: a file; --out takes a folder for the parts of several files")
    return folder


def _is_parquet(out: str) -> bool:
    """Whether a file is to be written as Parquet, by its name."""
    from zlpr.data import FORMATS

    return Path(out).suffix.lower() in FORMATS["parquet"].suffixes


def _predict_parts(args: argparse.Namespace) -> None:
    """A Parquet part for each file, here or on a cluster, without those that are finished."""
    from zlpr.serving.batch_prediction import Request, predict_parts

    request = Request(
        args.model,
        args.all_labels,
        {name: getattr(args, name) for name in ("threshold", "top", "min_probability")},
        _reading(args),
    )
    sources = [Path(name) for name in args.file]
    said: set[str] = set()

    def done(source: Path, read_as: "Columns | None") -> None:
        described = "" if read_as is None else read_as.describe()
        if described not in said:  # each way of reading once, by the first file that it is of
            announce(str(source), read_as, error=True)
        said.add(described)
        advance(1)

    with progress(f"predicting into {args.out}", steps=len(sources)) as advance:
        if args.ray:
            from zlpr.integrations import ray

            made = ray.predict_parts(
                request,
                sources,
                args.out,
                address=args.ray,
                workers=args.workers,
                overwrite=args.overwrite,
                done=done,
            )
        else:
            made = predict_parts(request, sources, args.out, overwrite=args.overwrite, done=done)
    there = len(sources) - made
    skipped = f"; {counted(there, 'part was', 'parts were')} there already" if there else ""
    say(f"wrote {counted(made, 'part')} into {for_terminal(args.out)}{skipped}", error=True)


def _write_parquet(model: "FittedModel", args: argparse.Namespace) -> None:
    """One Parquet file of texts, of files with their columns, or of standard input."""
    import pyarrow

    from zlpr._atomic import replacing
    from zlpr.serving.batch_prediction import PartPredictor, Request, Rows, write_predictions

    def rows() -> Iterator[Rows]:
        if args.file:
            reader = PartPredictor(Request(args.model, reading=_reading(args)), model)
            for name in args.file:
                for place, part in enumerate(reader.rows(Path(name))):
                    if not place:
                        announce(name, part.read_as, error=True)
                    yield part
            return
        for batch in _batches(args, None):
            yield Rows(batch.inputs, {"text": pyarrow.array(batch.inputs, pyarrow.string())})

    with progress(f"predicting into {args.out}"), replacing(args.out) as beside:
        write_predictions(model, rows(), beside, all_labels=args.all_labels)


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
    """The lines of standard input, as those of a file: a mark of the byte order is none of theirs.

    Bytes of another encoding are the user's mistake.
    """
    from zlpr.data.files import check_encoding, check_not_utf16

    check_encoding("standard input", encoding)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding=encoding, errors="strict", newline="\n")
    try:
        for place, line in enumerate(sys.stdin):
            text = line.removesuffix("\n").removesuffix("\r")
            if place == 0:
                check_not_utf16("standard input", text)
            yield text if place else text.removeprefix("\ufeff")
    except UnicodeError as fault:
        reason = fault.reason if isinstance(fault, UnicodeDecodeError) else fault
        raise UserError(
            f"standard input: not {encoding} ({reason}); name its encoding with --encoding"
        ) from None


def _check_out(args: argparse.Namespace) -> None:
    """Refuse to write over a file that is there, above all over what is to be read."""
    from zlpr._atomic import is_special
    from zlpr.models.folder import check_not_of_model

    if args.out is None:
        return
    target = Path(args.out)
    if is_special(target):
        return
    if target.is_dir():
        raise UserError(f"{target}: a folder; --out takes a file")
    if not target.exists():
        return
    check_not_of_model(target, Path(args.model))
    if any(Path(path).exists() and target.samefile(path) for path in args.file):
        raise UserError(f"{target}: is read from; give --out another name")
    if not args.overwrite:
        raise UserError(f"{target}: is there already; choose another name, or --overwrite")


@contextlib.contextmanager
def _alone(args: argparse.Namespace) -> Iterator[None]:
    """Keep others from writing --out meanwhile, and what they wrote before from being lost."""
    from zlpr._atomic import is_special, locked, remove_leftovers

    if args.out is None or is_special(args.out):
        yield
        return
    with locked(Path(args.out)):
        _check_out(args)  # once more, for it may have come since
        remove_leftovers(Path(args.out))
        yield


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


Write = Callable[[list[Row]], None]


def _answered(model: "FittedModel", batch: Batch) -> list[Row]:
    from zlpr.models.answers import answer

    if not len(batch):
        return []
    nothing = [None] * len(batch)
    texts = batch.inputs if isinstance(batch.inputs, list) else nothing
    names = zip(batch.ids or nothing, texts, strict=True)
    said = answer(model, batch.inputs)
    return [Row(name, text, one) for (name, text), one in zip(names, said, strict=True)]


def _json_writer(stream: TextIO, model: "FittedModel", all_labels: bool) -> Write:
    names = model.label_names

    def write(rows: list[Row]) -> None:
        for row in rows:
            line = {
                **({} if row.id is None else {"id": row.id}),
                **({} if row.text is None else {"text": row.text}),
                **row.answer.to_json(names, all_labels=all_labels),
            }
            stream.write(json_text(line, stream) + "\n")

    return write


def _table_writer(model: "FittedModel", all_labels: bool) -> Write:
    """A table of each batch: the beginning of a text, and its labels with their probabilities."""

    def write(rows: list[Row]) -> None:
        shown = [name for name in ("id", "text") if any(getattr(row, name) for row in rows)]
        cells = []
        for row in rows:
            said = ", ".join(f"{name} {share}" for name, share in _shares(row, model, all_labels))
            cells.append([*(_beginning(getattr(row, name) or "") for name in shown), said or "-"])
        if cells:
            print_table([*shown, "labels and their probabilities"], cells)

    return write


def _answer_writer(model: "FittedModel", all_labels: bool) -> Write:
    """The answer to a text that was just typed: a line per label."""

    def write(rows: list[Row]) -> None:
        for row in rows:
            shares = _shares(row, model, all_labels)
            if shares:
                print_table(["label", "probability"], shares)
            else:
                say("no label")
            say()

    return write


def _shares(row: Row, model: "FittedModel", all_labels: bool) -> list[list[str]]:
    """The names of a sample's labels with their probabilities, as people read them."""
    from zlpr.metrics.table import shown

    shares = row.answer.probabilities
    labels = sorted(shares, key=lambda i: -shares[i]) if all_labels else row.answer.chosen
    return [[model.label_names[i], shown(shares[i])] for i in labels]


def _beginning(text: str) -> str:
    """What fits beside labels of a text, in one line."""
    line = " ".join(text.split())
    if display_width(line) <= SHOWN_WIDTH:
        return line
    while display_width(line) >= SHOWN_WIDTH:
        line = line[: min(len(line) - 1, SHOWN_WIDTH)]
    return f"{line}…"


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
    table = CsvRows(stream)
    figures = ["scores", "probabilities"]
    if all_labels:
        figures = [cell(f"{name} {kind}") for kind in ("score", "probability") for name in names]
    table.writerow([*(["id"] if with_ids else []), "text", "labels", *figures])

    def write_row(row: Row) -> None:
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

    def write(rows: list[Row]) -> None:
        for row in rows:
            write_row(row)

    return write


def _batches(args: argparse.Namespace, like: "Columns | None") -> Iterator[Batch]:
    """What to predict: given texts, files, or the lines of standard input."""
    if args.texts:
        yield Batch(list(args.texts))
    elif args.file:
        for name in args.file:
            yield from _from_file(name, args, like)
    else:
        lines, size = _lines_of_input(args.encoding), BATCH
        if sys.stdin.isatty():
            say("waiting for texts: type one and press Enter; Ctrl-D ends", error=True)
            size = 1  # an answer to each
        while texts := list(itertools.islice(lines, size)):
            yield Batch(texts)


def _from_file(name: str, args: argparse.Namespace, like: "Columns | None") -> Iterator[Batch]:
    """The samples of a file, read as `zlpr evaluate` reads it, but for the labels."""
    said = False
    for block in _blocks(name, args, like):
        if not said:
            announce(name, block.columns, error=True)
            said = True
        yield from _parts(block, name)


def _has_ids(name: str, args: argparse.Namespace, like: "Columns | None") -> bool:
    """Whether the samples of a file have identifiers, by its first rows."""
    return any(block.ids is not None for block in itertools.islice(_blocks(name, args, like), 1))


def _blocks(name: str, args: argparse.Namespace, like: "Columns | None") -> "Iterator[Block]":
    from zlpr.data import iterate

    return iterate(Path(name), labelled=False, like=like, **_reading(args))


def _reading(args: argparse.Namespace) -> dict[str, Any]:
    """How files are read, but for their labels."""
    options = reading_options(args)
    for unused in _OF_LABELS:
        options.pop(unused)
    return options


def _doubt_flags(args: argparse.Namespace) -> None:
    """Refuse flags that cannot go together, and name those that say nothing here."""
    from zlpr.data.files import plain_suffix

    if args.json and (args.csv or args.raw_csv):
        raise UserError(f"--json and --{'csv' if args.csv else 'raw-csv'}: give one of them")
    if not args.file:
        _refuse_flags_of_files(args)
    of_labels = [as_flag(name) for name in _OF_LABELS if getattr(args, name) is not None]
    if of_labels:
        say(f"note: {', '.join(of_labels)}: for labels, and predict reads none", error=True)
    is_csv = args.out and plain_suffix(Path(args.out)) == ".csv"
    if is_csv and not (args.csv or args.raw_csv or args.json):
        say(f"note: {for_terminal(args.out)} gets JSON lines; --csv writes CSV", error=True)


def _refuse_flags_of_files(args: argparse.Namespace) -> None:
    """A table on standard input would be read line by line, whatever is said of its columns."""
    given = [name for name in given_reading(args) if name not in (*_OF_LABELS, "encoding")]
    if given:
        what = "a text is taken as it is" if args.texts else "standard input is a text per line"
        flags = ", ".join(map(as_flag, given))
        raise UserError(f"{flags}: for files, and {what}; give the file as --file FILE")


def _parts(block: "Block", name: str) -> Iterator[Batch]:
    inputs = block.inputs(name)
    for start in range(0, len(block.labels), BATCH):
        rows = slice(start, start + BATCH)
        yield Batch(inputs[rows], None if block.ids is None else block.ids[rows])
