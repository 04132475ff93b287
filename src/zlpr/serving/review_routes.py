"""The routes behind the page: what it shows of data, and the one thing it may write."""

import asyncio
import csv
import functools
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from zlpr._errors import UserError
from zlpr._escape import for_spreadsheet
from zlpr.data import Dataset, Hierarchy
from zlpr.serving.json_response import JsonResponse
from zlpr.serving.review import Review, describe
from zlpr.serving.rules import copy_with_rule, save_copy
from zlpr.serving.service import ServedModel, Service

PAGE_HEADER = "x-zlpr-page"
"""What the page sends where it writes: a form or a link of another site cannot."""
MOST_SAMPLES = 200
LONGEST_TEXT = 5_000
KINDS = ("missed", "spurious")


class SamplesRequest(BaseModel):
    """Samples to show."""

    model_config = ConfigDict(extra="forbid", strict=True)
    samples: list[int] = Field(max_length=MOST_SAMPLES)


class RuleRequest(BaseModel):
    """Thresholds to save in a copy of the model's folder."""

    model_config = ConfigDict(extra="forbid", strict=True)
    thresholds: float | list[float]
    name: str = Field(max_length=100)


def add_review(
    app: FastAPI, service: Service, reviews: Mapping[str, Review], *, may_save: bool
) -> None:
    """Add the routes.

    Args:
        app: what to add them to.
        service: the models.
        reviews: of models on data, by the models' names.
        may_save: whether rules may be saved.
    """

    def reviewed(name: str | None) -> tuple[ServedModel, Review]:
        served = service.find(name)
        if served.name not in reviews:
            raise UserError("no data: start zlpr serve with a model and DATA")
        return served, reviews[served.name]

    @app.get("/models", include_in_schema=False)
    async def models() -> Response:
        listed = [
            describe(
                served.model,
                served.name,
                reads_texts=served.num_features is None,
                reviewed=served.name in reviews,
                may_save=may_save and served.folder is not None,
            )
            for served in service.models.values()
        ]
        return JsonResponse({"models": listed})

    @app.get("/review", include_in_schema=False)
    async def review(model: str | None = None) -> Response:
        return JsonResponse(await asyncio.to_thread(reviewed(model)[1].to_json))

    @app.get("/review/cells", include_in_schema=False)
    async def cells(model: str | None = None) -> Response:
        body = reviewed(model)[1].cells_to_bytes()
        return Response(body, media_type="application/octet-stream")

    @app.get("/review/errors", include_in_schema=False)
    async def errors(model: str | None = None) -> Response:
        found = reviewed(model)[1]
        body = found.surprise.astype("<f4").tobytes() + found.errors.to_bytes()
        return Response(body, media_type="application/octet-stream")

    @app.post("/review/samples", include_in_schema=False)
    async def samples(
        asked: SamplesRequest, model: str | None = None, other: str | None = None
    ) -> Response:
        parts = [reviewed(name) for name in ([model] if other is None else [model, other])]
        return JsonResponse({"samples": [_sample(parts, number) for number in asked.samples]})

    @app.get("/review/errors.csv", include_in_schema=False)
    async def errors_csv(
        model: str | None = None, label: str = "", kind: str = "", least: float = 0.0
    ) -> Response:
        served, found = reviewed(model)
        body = await asyncio.to_thread(_errors_csv, served, found, label, kind, least)
        return Response(body, media_type="text/csv; charset=utf-8")

    @app.get("/review/compare", include_in_schema=False)
    async def compare(other: str, model: str | None = None) -> Response:
        pair = reviewed(model), reviewed(other)
        return JsonResponse(await asyncio.to_thread(_compare, *pair))

    @app.post("/rule", include_in_schema=False)
    async def rule(asked: RuleRequest, request: Request, model: str | None = None) -> Response:
        if PAGE_HEADER not in request.headers:
            raise HTTPException(403, "only the page may save")
        served, found = reviewed(model)
        if not may_save or served.folder is None:
            raise HTTPException(403, "this server does not save rules")
        folder = served.folder

        def save() -> Path:  # which scores all of the data
            made = copy_with_rule(served.model, asked.thresholds, found)
            return save_copy(made, folder, asked.name)

        return JsonResponse({"saved": str(await asyncio.to_thread(save))})


def _sample(parts: Sequence[tuple[ServedModel, Review]], number: int) -> dict[str, Any]:
    """A sample's text, its labels, and what each model predicts."""
    data = parts[0][1].data
    if not 0 <= number < len(data):
        raise UserError(f"sample {number}: there are {len(data):,}")
    text = "" if data.texts is None else data.texts[number]
    return {
        "sample": number,
        "id": None if data.ids is None else data.ids[number],
        "text": text[:LONGEST_TEXT],
        "cut": len(text) > LONGEST_TEXT,
        "true": _true_labels([found.data for _, found in parts], number),
        "predicted": [
            [served.model.label_names[i] for i in _row(found.decided, number)]
            for served, found in parts
        ],
    }


def _true_labels(sides: Sequence[Dataset], number: int) -> list[str]:
    """A sample's labels, those that any of the models knows."""
    rows = ((data.label_names, _row(data.labels, number)) for data in sides)
    return list(dict.fromkeys(names[i] for names, row in rows for i in row))


def _row(matrix: Any, number: int) -> list[int]:
    labels: list[int] = matrix.indices[matrix.indptr[number] : matrix.indptr[number + 1]].tolist()
    return sorted(labels)


def _errors_csv(served: ServedModel, found: Review, label: str, kind: str, least: float) -> str:
    """The errors that are shown, as a table; no cell is a formula."""
    names, errors, data = served.model.label_names, found.errors, found.data
    if label and label not in names:
        raise UserError(f"no label {label[:100]!r}")
    if kind and kind not in KINDS:
        raise UserError(f"no kind {kind[:100]!r}; there are: {', '.join(KINDS)}")
    against = np.where(errors.spurious, errors.probabilities, 1 - errors.probabilities)
    shown = against >= least
    if label:
        shown &= errors.labels == names.index(label)
    if kind:
        shown &= errors.spurious == (kind == "spurious")
    stream = io.StringIO()
    table = csv.writer(stream)
    table.writerow(["sample", "id", "kind", "label", "probability", "score", "true", "text"])
    for place in np.flatnonzero(shown).tolist():
        number = int(errors.samples[place])
        true = "|".join(data.label_names[i] for i in _row(data.labels, number))
        table.writerow(
            [
                number,
                for_spreadsheet("" if data.ids is None else data.ids[number]),
                KINDS[int(errors.spurious[place])],
                for_spreadsheet(names[int(errors.labels[place])]),
                f"{errors.probabilities[place]:.4f}",
                f"{errors.scores[place]:.4f}",
                for_spreadsheet(true),
                for_spreadsheet("" if data.texts is None else data.texts[number]),
            ]
        )
    return stream.getvalue()


def _compare(
    first: tuple[ServedModel, Review], second: tuple[ServedModel, Review]
) -> dict[str, Any]:
    """Figures of two models on the same samples, and where their label sets differ.

    Right is who predicts all labels that either knows, so that none is wrong for what the other
    lacks. Where one of them predicts labels with their ancestors, all sets are compared with these.
    """
    links = [served.model.hierarchy for served, _ in (first, second)]
    above = functools.reduce(Hierarchy.joined, filter(None, links), Hierarchy({}))
    sides = [found.data for _, found in (first, second)]
    numbers = range(len(sides[0]))

    def sets_of(names: Sequence[str], matrix: Any) -> list[frozenset[str]]:
        rows = (_row(matrix, number) for number in numbers)
        return [frozenset(above.with_ancestors(names[i] for i in row)) for row in rows]

    sets = [sets_of(served.model.label_names, found.decided) for served, found in (first, second)]
    true = [frozenset(above.with_ancestors(_true_labels(sides, number))) for number in numbers]
    differ = [number for number, (a, b) in enumerate(zip(*sets, strict=True)) if a != b]
    right = [sum(one[number] == true[number] for number in differ) for one in sets]
    return {
        "samples": len(numbers),
        "differ": differ,
        "right": right,
        "figures": [found.own for _, found in (first, second)],
        "test": [found.test for _, found in (first, second)],
    }
