"""The page without a server: a folder of files, with the model scored in the browser.

The files are those of `zlpr serve`, and beside them the model and its review as one script
(`model.js`: a script loads from a folder that is opened as a file, other data does not),
`browser.js`, which answers in the server's place, and `dependence.js`, a toy of the theory.
"""

import base64
import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from zlpr._errors import UserError
from zlpr.decoding import Calibrator
from zlpr.models import FittedModel
from zlpr.models.linear import LinearModel
from zlpr.serving.onnx import WORDS
from zlpr.serving.review import Review, describe

COPIED = ("app.css", "app.js", "browser.js", "dependence.js")
REPLACED = {
    '<script src="app.js" defer></script>': "\n".join(
        f'<script src="{name}" defer></script>'
        for name in ("model.js", "browser.js", "dependence.js", "app.js")
    ),
    ' · <a href="docs">Routes for programs</a>': "",
    '; programs can ask the routes that <a href="/docs">/docs</a> lists.': ".",
}
"""Of the served page, what is otherwise in the static one."""


def write_static_page(
    model: FittedModel,
    found: Review,
    folder: str | os.PathLike[str],
    *,
    name: str = "model",
    example: str = "",
) -> None:
    """Write the page of a model, with *Try*, *Threshold* and the toy, into a folder.

    What the browser computes is what the package does, from the same float32 weights: n-grams,
    TF-IDF, scores, probabilities, the rule and what each word adds.

    Args:
        model: linear, over n-grams of words, with a rule of thresholds.
        found: the model on data, for *Threshold*.
        folder: where the files go; made where it is not there, and files of these names replaced.
        name: what the page calls the model.
        example: the text that stands in *Try* at first.

    Raises:
        UserError: the browser cannot compute what this model does.

    Examples:
        >>> from zlpr.serving.review import review
        >>> write_static_page(model, review(model, data), "page")  # doctest: +SKIP
    """
    content = json.dumps(to_json(model, found, name, example), ensure_ascii=False)
    target, source = Path(folder), files("zlpr.serving") / "static"
    target.mkdir(parents=True, exist_ok=True)
    for copied in COPIED:
        (target / copied).write_bytes((source / copied).read_bytes())
    script = f"globalThis.zlprModel = {content};\n"
    (target / "model.js").write_text(script, encoding="utf-8")
    page = _page((source / "index.html").read_text(encoding="utf-8"))
    (target / "index.html").write_text(page, encoding="utf-8")


def to_json(model: FittedModel, found: Review, name: str, example: str) -> dict[str, Any]:
    """All that the page is told; arrays as base64 of little-endian numbers."""
    if not isinstance(model, LinearModel) or model.text_features is None:
        raise UserError(
            f"a static page needs a linear model of texts (zlpr train --model linear), not one "
            f"of kind {model.kind}"
        )
    views = model.text_features.to_json()["views"]
    if len(views) != 1 or views[0]["symbols"] not in WORDS:
        used = "+".join(view["symbols"].removesuffix("+emoji") for view in views)
        raise UserError(
            f"a static page reads n-grams of words alone, and this model has {used}; train with "
            "--analyzer word"
        )
    described = describe(model, name, reads_texts=True, reviewed=True, may_save=False)
    if described["cuts"] is None:
        raise UserError(
            f"a static page decides by thresholds, and this model by {described['rule']!r}; train "
            "with --decode threshold"
        )
    if model.hierarchy is not None:
        raise UserError(
            "a static page decides label by label, and this model adds the ancestors of labels"
        )
    if not isinstance(model.calibrator, Calibrator):
        raise UserError(
            "a static page has each label's probability from its own score, and this model's come "
            "from whole label sets; set model.calibrator = zlpr.decoding.Calibrator().fit(...)"
        )
    return {
        "model": described,
        "example": example,
        "view": views[0],
        "weight": _packed(model.weight.astype("<f4").tobytes()),
        "bias": model.bias.tolist(),
        "calibrator": model.calibrator.to_config(),
        "review": found.to_json(),
        "cells": _packed(found.cells_to_bytes()),
    }


def _packed(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _page(served: str) -> str:
    """The served page with the scripts of the static one, and without the server's routes."""
    for text, other in REPLACED.items():
        if served.count(text) != 1:
            raise AssertionError(f"index.html has not one {text!r}")
        served = served.replace(text, other)
    return served
