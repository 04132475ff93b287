"""A saved model over a Ray Data set: batch prediction on as many machines as there are.

    dataset.map_batches(Predictor, fn_constructor_args=["model"], compute=ActorPoolStrategy(size=4))

Each worker loads the model folder once; the folder must be where every worker can read it.
`predict_parts` is `zlpr predict --ray`: whole files, a part each, resumable. `RayBlockWorkers` are
those of `zlpr train --ray`: `zlpr.training.fit(..., workers=)` divides a training among them.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zlpr import __version__
from zlpr._errors import UserError
from zlpr._ray_cluster import connect, told
from zlpr._typed_json import from_plain, to_plain
from zlpr.data import Columns
from zlpr.models import load
from zlpr.models.base import numbers_of
from zlpr.models.folder import read_config
from zlpr.models.registry import saved_as
from zlpr.serving.batch_prediction import PartPredictor, Request, claimed, to_do
from zlpr.training.ray_block_workers import RayBlockWorkers

__all__ = ["Predictor", "RayBlockWorkers", "predict_parts"]


class Predictor:
    """Adds predictions to batches; the class that `ray.data.Dataset.map_batches` takes.

    Args:
        folder: a model folder, as `zlpr train` writes it.
        column: the column with the texts, or with a row of features per sample.
        output: what is added: "labels", a list of names per sample under `labels`; "scores" or
            "probabilities", a row of numbers per sample under that name, in the labels' order.
            A column that is called so already is refused: it may hold the truth.

    Examples:
        >>> dataset.map_batches(Predictor, fn_constructor_args=["model"])  # doctest: +SKIP
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        column: str = "text",
        output: Literal["labels", "scores", "probabilities"] = "labels",
    ) -> None:
        if output not in ("labels", "scores", "probabilities"):
            raise UserError(f"output {output!r}: expected labels, scores or probabilities")
        self.model = load(folder)
        self.column, self.output = column, output

    def __call__(self, batch: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """The batch with one column more."""
        if self.column not in batch:
            raise UserError(f"there is no column {self.column!r}; there are: {', '.join(batch)}")
        if self.output in batch:
            raise UserError(
                f"there is a column {self.output!r} already, which would be lost; rename it before "
                "with Dataset.rename_columns"
            )
        values = np.asarray(batch[self.column])
        inputs = list(values) if values.dtype.kind in "OUST" else values
        return {**batch, self.output: self._predictions(inputs)}

    def _predictions(self, inputs: Any) -> Any:
        if self.output != "labels":
            return numbers_of(self.model, inputs, self.output)
        column = np.empty(len(inputs), dtype=object)
        column[:] = [list(names) for names in self.model.predict(inputs)] or []
        return column


class _Worker:
    """Predicts whole files: the class that `map_batches` gives each actor."""

    def __init__(self, request: Request, version: str, model_digest: str | None = None) -> None:
        if version != __version__:
            raise UserError(f"the cluster has zlpr {__version__}, this is {version}")
        self._predictor = PartPredictor(request, model_digest=model_digest)

    def __call__(self, batch: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Some files, once their parts are written, and what was read of them as what."""
        columns = [
            self._predictor.predict(Path(str(source)), Path(str(target)))
            for source, target in zip(batch["source"], batch["target"], strict=True)
        ]
        said = ["" if one is None else json.dumps(to_plain(one)) for one in columns]
        return {"source": batch["source"], "columns": np.array(said, dtype=object)}


def predict_parts(
    request: Request,
    sources: Sequence[Path],
    folder: str | os.PathLike[str],
    *,
    address: str,
    workers: int | None = None,
    overwrite: bool = False,
    done: Callable[[Path, Columns | None], None] = lambda source, columns: None,
) -> int:
    """Predict files into a folder on a Ray cluster, a part each; give how many were predicted.

    The parts are those that `zlpr.serving.batch_prediction.predict_parts` writes. Model, files and
    folder must be where every machine of the cluster finds them.

    Args:
        request: what is to be predicted.
        sources: the files.
        folder: made if need be; what is finished there is left as it is.
        address: of the cluster: "auto", "HOST:PORT", "ray://HOST:PORT", or "local" to start one.
        workers: models that are loaded at a time; None takes one for every core, or for every
            graphics card where an encoder can use one, and no more than there are files.
        overwrite: predict all anew, and replace what was made of something else.
        done: called with each file whose part was written, and what was read as what.

    Raises:
        UserError: there is no such cluster, or a file cannot be predicted; finished parts stay.
    """
    target = Path(folder).absolute()
    request = _everywhere(request)
    with claimed(target):
        meant = request.model_digest()
        todo = to_do(request, sources, target, overwrite=overwrite, model_digest=meant)
        if todo:
            _run(request, meant, todo, address, workers, done)
    return len(todo)


def _everywhere(request: Request) -> Request:
    """The same request for a process that runs in another folder."""
    return Request(
        str(Path(request.model).absolute()), request.all_labels, request.decision, request.reading
    )


def _run(
    request: Request,
    model_digest: str,
    todo: Sequence[tuple[Path, Path]],
    address: str,
    workers: int | None,
    done: Callable[[Path, Columns | None], None],
) -> None:
    ray = connect(address, workers)
    try:
        import ray.data as ray_data

        ray_data.DataContext.get_current().enable_progress_bars = False
        has = ray.cluster_resources()
        encoder = bool(saved_as(read_config(Path(request.model))["zlpr_model"]).argument)
        cards = int(has.get("GPU", 0)) if encoder else 0
        size = min(len(todo), workers or cards or int(has.get("CPU", 1)))
        paths = [{"source": str(s.absolute()), "target": str(t)} for s, t in todo]
        # A block for each file, so that each is a task of its own.
        parts = ray_data.from_items(paths, override_num_blocks=len(paths)).map_batches(
            _Worker,
            fn_constructor_args=[request, __version__, model_digest],
            compute=ray_data.ActorPoolStrategy(size=size),
            batch_size=1,
            num_cpus=1,
            num_gpus=1 if cards else 0,
        )
        named = {str(source.absolute()): source for source, _ in todo}
        for row in parts.iter_rows():
            held = json.loads(row["columns"] or "null")
            read_as = None if held is None else from_plain(Columns, held, "columns")
            done(named[row["source"]], read_as)
    except ray.exceptions.RayError as fault:
        raise UserError(told(fault)) from fault
    finally:
        ray.shutdown()
