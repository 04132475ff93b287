"""A model folder in MLflow, and back: as data alone, without pickle and without code.

    info = log_model("model")  # what `zlpr train --out model` wrote, into the active run
    mlflow.pyfunc.load_model(info.model_uri).predict(pd.DataFrame({"text": ["A short text."]}))

What MLflow stores is the folder itself and the name of this module, which loads it; zlpr has to be
installed where the model is used. Like every pyfunc it is served by `mlflow models serve` and
becomes a Spark function by `mlflow.pyfunc.spark_udf`.
"""

import os
from typing import Any

import mlflow
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
from mlflow.types.schema import Array

import zlpr
from zlpr._errors import UserError
from zlpr.models import FittedModel, load
from zlpr.models.base import numbers_of
from zlpr.models.inputs import list_texts

__all__ = ["load_model", "log_model", "save_model"]

TEXT, LABELS, OUTPUTS = "text", "labels", ("labels", "scores", "probabilities")


class TextModel:
    """A fitted model as MLflow calls it.

    Args:
        model: what `zlpr.load` gave.
    """

    def __init__(self, model: FittedModel) -> None:
        self.model = model

    def get_raw_model(self) -> FittedModel:
        """The model itself, by the name that MLflow calls."""
        return self.model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Predictions for texts.

        Args:
            model_input: a table with a column "text"; the answer's rows have its rows' index.
            params: {"output": ...}: "labels" (unless told), a column with a list of names;
                "scores" or "probabilities", a column per label; of a model that scores candidates
                alone, other labels have the score -inf and the probability 0.

        Raises:
            UserError: there is no such column or output, or a cell that is no text.
        """
        output = (params or {}).get("output", LABELS)
        if output not in OUTPUTS:
            raise UserError(f"output {output!r}: expected one of {', '.join(OUTPUTS)}")
        texts = _texts(model_input)
        index = model_input.index if isinstance(model_input, pd.DataFrame) else None
        if output == LABELS:
            sets = [list(names) for names in self.model.predict(texts)]
            return pd.DataFrame({LABELS: pd.Series(sets, index, dtype=object)})
        of_all = numbers_of(self.model, texts, output)
        return pd.DataFrame(of_all, index, list(self.model.label_names))


def _texts(model_input: Any) -> list[str]:
    if TEXT not in model_input:
        names = ", ".join(map(str, model_input))
        raise UserError(f"there is no column {TEXT!r}; there are: {names}")
    return list_texts(model_input[TEXT])


def save_model(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write a model folder as an MLflow model.

    Args:
        folder: as `zlpr train` or `FittedModel.save` wrote it; of a model that reads texts.
        path: the new folder, which MLflow reads with `mlflow.pyfunc.load_model`.
    """
    mlflow.pyfunc.save_model(path=os.fspath(path), **_described(folder))


def log_model(folder: str | os.PathLike[str], name: str = "model", **settings: Any) -> Any:
    """Log a model folder to the active MLflow run.

    Args:
        folder: as `zlpr train` or `FittedModel.save` wrote it; of a model that reads texts.
        name: of the model in the run.
        **settings: of `mlflow.pyfunc.log_model`, such as `registered_model_name`.

    Returns:
        MLflow's `ModelInfo`.
    """
    return mlflow.pyfunc.log_model(name=name, **_described(folder), **settings)


def load_model(model_uri: str) -> FittedModel:
    """The fitted model itself, of an MLflow model that this module wrote.

    Args:
        model_uri: "runs:/…", "models:/…" or a path.
    """
    model = mlflow.pyfunc.load_model(model_uri).get_raw_model()
    if not isinstance(model, FittedModel):
        raise UserError(f"{model_uri} is no model of zlpr: it holds a {type(model).__name__}")
    return model


def _described(folder: str | os.PathLike[str]) -> dict[str, Any]:
    model = load(folder)  # refuses what is no model folder, before anything is written
    try:
        model.read([""])
    except UserError as fault:
        raise UserError(f"{os.fspath(folder)}: {fault}; what is logged reads texts") from fault
    return {
        "loader_module": __name__,
        "data_path": os.fspath(folder),
        "pip_requirements": [f"zlpr[text]=={zlpr.__version__}"],
        "signature": ModelSignature(
            inputs=Schema([ColSpec(DataType.string, TEXT)]),
            outputs=Schema([ColSpec(Array(DataType.string), LABELS)]),
            params=ParamSchema([ParamSpec("output", DataType.string, LABELS)]),
        ),
    }


def _load_pyfunc(path: str) -> TextModel:
    """What MLflow calls with the stored folder."""
    return TextModel(load(path))
