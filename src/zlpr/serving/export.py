"""A fitted model as one ONNX file: scores, probabilities, decision and label names inside.

Which kinds of models can be exported, and how, stands in `_KINDS`; which decoding rules in
`zlpr.serving.export_rules`. `zlpr.serving.onnx` predicts with the file, without torch.
"""

import json
import os
from pathlib import Path
from typing import Any

from zlpr import __version__
from zlpr._atomic import is_special, replacing
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._lazy import load_object
from zlpr.decoding import Calibrator
from zlpr.models import FittedModel
from zlpr.models.registry import saved_as
from zlpr.serving.export_graph import IR_VERSION, OPSET, Graph
from zlpr.serving.export_rules import add_decision, add_probabilities

__all__ = ["describe", "export", "exportable_kinds"]

LARGEST = (1 << 31) - 1
"""Bytes that a file in this format can have."""

_KINDS = {
    "linear": "zlpr.serving.export_kinds:linear",
    "mmp": "zlpr.serving.export_kinds:linear",
    "powerset": "zlpr.serving.export_kinds:powerset",
    "hf": "zlpr.serving.export_encoder:encoder",
}


def exportable_kinds() -> tuple[str, ...]:
    """Names of the kinds of models that can be exported.

    Examples:
        >>> exportable_kinds()
        ('linear', 'mmp', 'powerset', 'hf')
    """
    return tuple(_KINDS)


def export(
    model: FittedModel,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    sparse: bool | None = None,
) -> None:
    """Write a model as an ONNX file, whole or not at all.

    The graph's outputs are `scores` and `probabilities`, float32 of shape (batch, labels), and
    `decision`, which labels the model's rule predicts, bool of the same shape. The label names, how
    inputs are made and where the model comes from are JSON in the file's metadata.

    Args:
        model: of one of `exportable_kinds()`.
        path: the file.
        overwrite: replace a file that is there.
        sparse: whether features come in by their columns (`indices` and `values`, each of shape
            (batch, entries)) or as a number for each (`features`); None takes columns for texts and
            numbers for features. An encoder reads tokens, whatever this says.

    Raises:
        UserError: its kind or its rule cannot be exported, or the file is there already.

    Examples:
        >>> export(zlpr.load("reviews-model"), "reviews.onnx")  # doctest: +SKIP
    """
    target = Path(path)
    if target.exists() and not overwrite and not is_special(target):
        raise UserError(f"{target}: is there already; choose another name, or --overwrite")
    content = to_onnx(model, sparse=sparse).SerializeToString()
    with replacing(target) as beside:
        beside.write_bytes(content)


def to_onnx(model: FittedModel, *, sparse: bool | None = None) -> Any:
    """The file's content, an `onnx.ModelProto`; the arguments are those of `export`."""
    kind = saved_as(model.kind).name
    if kind not in _KINDS:
        raise UserError(f"a model of kind {kind!r} cannot be exported, only {', '.join(_KINDS)}")
    graph = Graph(prefix="zlpr_")
    scored = load_object(_KINDS[kind])(graph, model, sparse=sparse)
    sample = scored.sample
    shape = ("batch", sample.num_labels)
    probabilities = add_probabilities(sample, model.calibrator)
    decision = add_decision(sample, model.decoder)
    graph.output("scores", sample.scores, shape)
    graph.output("probabilities", probabilities, shape)
    graph.output("decision", decision, shape)
    return _proto(graph, _metadata(kind, model, scored.reading) | scored.attachments)


def describe(model: FittedModel) -> str:
    """What a file of this model holds, for people."""
    outputs = "scores, probabilities and decision"
    return f"{outputs} of {counted(len(model.label_names), 'label')}, ONNX opset {OPSET}"


def _metadata(kind: str, model: FittedModel, reading: dict[str, Any]) -> dict[str, str]:
    """What the file says of itself, JSON by name."""
    by = "calibrator" if isinstance(model.calibrator, Calibrator) else "label_sets"
    said = {
        "version": __version__,
        "kind": kind,
        "loss": model.record.loss,
        "rule": model.decoder.name,
        "probabilities": by,
    }
    parts = {"zlpr": said, "labels": list(model.label_names), "reading": reading}
    return {name: json.dumps(part, ensure_ascii=False) for name, part in parts.items()}


def _proto(graph: Graph, metadata: dict[str, str]) -> Any:
    """The graph with its metadata, of a size that the format can hold."""
    from onnx import helper

    size = sum(len(constant.raw_data) for constant in graph.constants)
    size += sum(len(text.encode()) for text in metadata.values())
    if size > LARGEST - (1 << 20):
        raise UserError(
            f"the model takes {size / 1e9:.1f} GB, and an ONNX file holds 2; train a smaller one "
            "(--max-features)"
        )
    proto = helper.make_model(
        helper.make_graph(graph.nodes, "zlpr", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="zlpr",
        producer_version=__version__,
    )
    helper.set_model_props(proto, metadata)
    return proto
