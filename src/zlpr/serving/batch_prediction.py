"""Predictions of whole files as Parquet: a part for each file, with the file's own columns.

A part is written whole or not at all and says what it was made of, so that a second run predicts
only what is not there yet. `zlpr.integrations.ray` does the same on many machines.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zlpr import __version__
from zlpr._atomic import locked, remove_leftovers, replacing
from zlpr._digest import file_digest
from zlpr._errors import UserError
from zlpr.data import Columns, iterate
from zlpr.data.files import check_file
from zlpr.data.formats import find_format
from zlpr.data.rows import ReadOptions
from zlpr.decoding import by_hand
from zlpr.models import FittedModel, load
from zlpr.models.answers import answer
from zlpr.models.folder import CONFIG, read_config

__all__ = [
    "PartPredictor",
    "Request",
    "claimed",
    "find_files",
    "predict_parts",
    "to_do",
    "write_predictions",
]

PREDICTED = ("predicted_labels", "predicted_scores", "predicted_probabilities")
"""The columns that are added."""
MADE_OF = b"zlpr"
"""Where a part says what it was made of, among its metadata."""
ROWS_AT_ONCE = 2000


@dataclass(frozen=True)
class Request:
    """What is to be predicted, the same for all parts; plain values, which travel to workers.

    Attributes:
        model: the folder.
        all_labels: figures of every label that is scored, not only of the predicted ones.
        decision: arguments of `zlpr.decoding.by_hand`, in place of the model's rule.
        reading: arguments of `zlpr.data.iterate`, for what a file's name and columns leave open.
    """

    model: str
    all_labels: bool = False
    decision: Mapping[str, float | int | None] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)

    def model_digest(self) -> str:
        """Of the model that is in the folder now."""
        config = Path(self.model) / CONFIG
        if not config.is_file():
            read_config(Path(self.model))  # which says what is wrong
        return file_digest(config)  # which has the digests of all else

    def made_of(self, source: Path, model_digest: str) -> str:
        """What a part depends on, as one digest: model, file, decision, reading and version."""
        held = [
            __version__,
            model_digest,
            file_digest(source),
            self.all_labels,
            sorted((name, value) for name, value in self.decision.items() if value is not None),
            sorted((name, str(value)) for name, value in self.reading.items()),
        ]
        return hashlib.sha256(json.dumps(held).encode()).hexdigest()


@dataclass(frozen=True)
class Rows:
    """Some samples: what the model reads, and columns that go with them into the output.

    Attributes:
        inputs: texts, or a matrix of features.
        columns: Arrow arrays by name.
        read_as: what was read as what.
    """

    inputs: Any
    columns: Mapping[str, Any]
    read_as: Columns | None = None


class PartPredictor:
    """Predicts files with a model that is loaded once.

    Args:
        request: what is to be predicted.
        model: the request's, where it is loaded already; decides as it is.
        model_digest: of the model that is meant; None takes the one that is there.

    Raises:
        UserError: there is another model than the one that is meant.
    """

    def __init__(
        self,
        request: Request,
        model: FittedModel | None = None,
        model_digest: str | None = None,
    ) -> None:
        self.request = request
        self._model_digest = model_digest or request.model_digest()
        self.model = model or _load(request)
        if request.model_digest() != self._model_digest:
            raise UserError(
                f"{request.model}: another model was written there meanwhile; run this again"
            )
        held = self.model.record.data.get("columns")
        self._like = None if held is None else Columns.from_json(held)

    def predict(self, source: Path, target: Path) -> Columns | None:
        """Write the predictions of one file, whole or not at all; give what was read as what."""
        read_as: list[Columns | None] = []

        def noted() -> Iterator[Rows]:
            for rows in self.rows(source):
                read_as.append(rows.read_as)
                yield rows

        remove_leftovers(target)
        check_file(source)
        # Of the model that was loaded, whatever may be in its folder by now.
        made_of = self.request.made_of(source, self._model_digest)
        schema = _schema_of(source) if self._is_parquet(source) else None
        with _naming(source), replacing(target) as beside:
            write_predictions(
                self.model,
                noted(),
                beside,
                all_labels=self.request.all_labels,
                made_of=made_of,
                schema=schema,
            )
        return read_as[0] if read_as else None

    def rows(self, source: Path) -> Iterator[Rows]:
        """A file's samples, with all columns of a Parquet file and the ids and texts of others."""
        blocks = iterate(source, labelled=False, like=self._like, **self.request.reading)
        if self._is_parquet(source):
            yield from _with_own_columns(source, blocks)
            return
        import pyarrow

        for block in blocks:
            inputs = block.inputs(str(source))
            columns = {"id": block.ids, "text": block.texts}
            held = {
                name: pyarrow.array(values, pyarrow.string())
                for name, values in columns.items()
                if values is not None
            }
            yield Rows(inputs, held, block.columns)

    def _is_parquet(self, source: Path) -> bool:
        reading = self.request.reading
        named = reading.get("format")
        if named is None:
            options = ReadOptions(labelled=False, encoding=reading.get("encoding", "utf-8"))
            named = find_format(source, options).name
        return str(named) == "parquet"


@contextlib.contextmanager
def _naming(source: Path) -> Iterator[None]:
    """Name the file in what is said of it: there may be many."""
    try:
        yield
    except UserError as fault:
        if str(source) in str(fault):
            raise
        raise UserError(f"{source}: {fault}") from fault


def _load(request: Request) -> FittedModel:
    model = load(request.model)
    given: dict[str, Any] = {**request.decision, "num_labels": model.num_scored}
    model.decoder = by_hand(model.decoder, model.calibrator, **given)
    return model


def _with_own_columns(source: Path, blocks: Iterable[Any]) -> Iterator[Rows]:
    """Blocks of a Parquet file beside its own columns; rows that were left out are in neither."""
    import pyarrow
    from pyarrow import parquet

    from zlpr.data.formats._arrow import BATCH_ROWS, open_file

    with open_file(source) as stream, parquet.ParquetFile(stream) as file:
        batches, first = file.iter_batches(batch_size=BATCH_ROWS), 1  # as the reader's blocks
        for block in blocks:
            batch = next(batches)
            places = [line - first for line in block.lines]
            kept = batch.take(pyarrow.array(places, pyarrow.int64()))  # of none left, too
            inputs = block.inputs(str(source))
            columns = dict(zip(batch.schema.names, kept.columns, strict=True))
            yield Rows(inputs, columns, block.columns)
            first += batch.num_rows


def _schema_of(source: Path) -> Any:
    """Names and types of a file's columns; that some hold no nulls is not kept."""
    import pyarrow
    from pyarrow import parquet

    from zlpr.data.formats._arrow import arrow_faults, open_file

    with arrow_faults(str(source), "Parquet"), open_file(source) as stream:
        held = parquet.read_schema(stream)
    return pyarrow.schema([(column.name, column.type) for column in held])


def write_predictions(
    model: FittedModel,
    parts: Iterable[Rows],
    path: Path,
    *,
    all_labels: bool = False,
    made_of: str = "",
    schema: Any = None,
) -> None:
    """Write samples with what a model predicts for them as a Parquet file.

    The added columns are `predicted_labels`, a list of names, and `predicted_scores` and
    `predicted_probabilities`, numbers by label.

    Args:
        model: predicts.
        parts: samples, of which no more than some are held at a time.
        path: the file.
        all_labels: figures of every label that is scored, not only of the predicted ones.
        made_of: a digest that the file keeps.
        schema: of the columns that the samples come with, where it is known without them.

    Raises:
        UserError: a column of the samples has the name of one that is added, or columns change
            from one part to the next.
    """
    import pyarrow
    from pyarrow import parquet

    text, numbers = pyarrow.string(), pyarrow.map_(pyarrow.string(), pyarrow.float32())
    added = pyarrow.schema(
        list(zip(PREDICTED, (pyarrow.list_(text), numbers, numbers), strict=True)),
        metadata={MADE_OF: made_of},
    )
    whole = None if schema is None else _joined(schema, added)
    with contextlib.ExitStack() as stack:
        writer = None
        for part in parts:
            for rows in _few(part):
                batch = _predicted(model, rows, added, all_labels)
                whole = whole or batch.schema
                if batch.schema != whole:
                    raise UserError(
                        "the files have different columns, which one Parquet file cannot hold; "
                        "give --out a folder, for a part of each"
                    )
                writer = writer or stack.enter_context(parquet.ParquetWriter(path, whole))
                writer.write_batch(batch)
        if writer is None:
            stack.enter_context(parquet.ParquetWriter(path, whole or added))


def _few(rows: Rows) -> Iterator[Rows]:
    """Some rows at a time, at least once."""
    size = rows.inputs.shape[0] if hasattr(rows.inputs, "shape") else len(rows.inputs)
    for start in range(0, size, ROWS_AT_ONCE):
        end = min(size, start + ROWS_AT_ONCE)
        held = {name: array[start:end] for name, array in rows.columns.items()}
        yield Rows(rows.inputs[start:end], held, rows.read_as)


def _joined(schema: Any, added: Any) -> Any:
    """The columns of the input, then ours."""
    import pyarrow

    if taken := sorted(set(schema.names) & set(added.names)):
        raise UserError(
            f"there is a column {taken[0]!r} already, the name of one that is added; rename it"
        )
    return pyarrow.schema([*schema, *added], metadata=added.metadata)


def _predicted(model: FittedModel, rows: Rows, added: Any, all_labels: bool) -> Any:
    """A record batch of the samples' columns and the predicted ones."""
    import pyarrow

    said = [
        one.to_json(model.label_names, all_labels=all_labels) for one in answer(model, rows.inputs)
    ]
    ours = [
        pyarrow.array([one["labels"] for one in said], added.field(0).type),
        *(
            pyarrow.array([list(one[name].items()) for one in said], added.field(1).type)
            for name in ("scores", "probabilities")
        ),
    ]
    own = pyarrow.schema([(name, array.type) for name, array in rows.columns.items()])
    return pyarrow.record_batch([*rows.columns.values(), *ours], schema=_joined(own, added))


def find_files(patterns: Sequence[str]) -> list[Path]:
    """The files that names and patterns (`part-*.parquet`) stand for, each once.

    Raises:
        UserError: nothing matches a pattern.
    """
    found: list[Path] = []
    for pattern in patterns:
        if Path(pattern).exists() or not is_pattern(pattern):
            found.append(Path(pattern))
            continue
        root = Path(pattern).anchor
        matching = sorted(Path(root or ".").glob(pattern.removeprefix(root)))
        files = [path for path in matching if path.is_file()]
        if not files:
            raise UserError(f"{pattern}: no file has a name like that")
        found.extend(files)
    return list(dict.fromkeys(found))


def is_pattern(name: str) -> bool:
    """Whether a name stands for several."""
    return any(mark in name for mark in "*?[")


def to_do(
    request: Request,
    sources: Sequence[Path],
    folder: Path,
    *,
    overwrite: bool = False,
    model_digest: str | None = None,
) -> list[tuple[Path, Path]]:
    """The files that have no part in the folder yet, each with the part that it gets.

    Args:
        request: what is to be predicted.
        sources: the files.
        folder: of the parts.
        overwrite: all of them, whatever is there.
        model_digest: of the model that is meant; None takes the one that is there.

    Raises:
        UserError: two files would have the same part, or a part is there that was made of
            something else and is not to be overwritten.
    """
    targets: dict[Path, Path] = {}
    taken: set[Path] = set()
    for source in sources:
        target = folder / f"{source.name.removesuffix('.parquet')}.parquet"
        if target in taken:
            raise UserError(
                f"{source}: another file of that name goes into {target}; predict them into "
                "folders of their own"
            )
        if target.exists() and source.exists() and target.samefile(source):
            raise UserError(f"{target}: is read from; give --out another folder")
        targets[source] = target
        taken.add(target)
    model_digest = model_digest or request.model_digest()
    return [
        (source, target)
        for source, target in targets.items()
        if overwrite or not _is_done(request, source, target, model_digest)
    ]


def _is_done(request: Request, source: Path, target: Path, model_digest: str) -> bool:
    if not target.exists():
        return False
    if _made_of(target) == request.made_of(source, model_digest):
        return True
    raise UserError(
        f"{target}: is there already, and was not made of this model and {source} in this way; "
        "choose another folder, or --overwrite"
    )


def _made_of(path: Path) -> str:
    """What a part says it was made of; empty for a file that is none."""
    from pyarrow import ArrowException, parquet

    from zlpr.data.formats._arrow import open_file

    try:
        with open_file(path) as stream:
            held = parquet.read_schema(stream).metadata or {}
    except (ArrowException, OSError):
        return ""
    return bytes(held.get(MADE_OF, b"")).decode(errors="replace")


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep a folder for one run; one that the run made and left empty is removed.

    Raises:
        UserError: another run writes into it.
    """
    was_there = folder.exists()
    with locked(folder):
        try:
            yield
        finally:
            if not was_there:
                with contextlib.suppress(OSError):  # parts are in it, or it was never made
                    folder.rmdir()


def predict_parts(
    request: Request,
    sources: Sequence[Path],
    folder: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    done: Callable[[Path, Columns | None], None] = lambda source, columns: None,
) -> int:
    """Predict files into a folder, a part each, in this process; give how many were predicted.

    Args:
        request: what is to be predicted.
        sources: the files.
        folder: made if need be; what is finished there is left as it is.
        overwrite: predict all anew, and replace what was made of something else.
        done: called with each file whose part was written, and what was read as what.
    """
    target = Path(folder)
    with claimed(target):
        meant = request.model_digest()
        todo = to_do(request, sources, target, overwrite=overwrite, model_digest=meant)
        predictor = PartPredictor(request, model_digest=meant) if todo else None
        for source, part in todo:
            if predictor is not None:
                done(source, predictor.predict(source, part))
    return len(todo)
