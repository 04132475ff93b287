"""A fine-tuned encoder as a graph, by torch's own exporter."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from zlpr._errors import UserError
from zlpr.models import FittedModel
from zlpr.models.tokens import CHARACTERS_PER_TOKEN, Padding, tokenize
from zlpr.models.transformer import TransformerModel, quiet
from zlpr.serving.export_graph import OPSET, Graph, Value
from zlpr.serving.export_kinds import Scored
from zlpr.serving.export_rules import Sample


class _Scores(torch.nn.Module):
    """An encoder that gives nothing but scores, in the order of inputs that a graph has."""

    def __init__(self, network: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Scores of shape (batch, labels)."""
        named = dict(zip(self.names, inputs, strict=True))
        scores: torch.Tensor = self.network(**named).logits.float()
        return scores


def encoder(graph: Graph, model: FittedModel, *, sparse: bool | None) -> Scored:
    """The scores of tokens: any number of texts, of any length that the encoder reads."""
    if not isinstance(model, TransformerModel):
        raise AssertionError("the registry names this for encoders")
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UserError(
            f"the tokenizer {type(model.tokenizer).__name__} is written in Python and cannot be "
            "exported; use an encoder with a tokenizer.json"
        )
    padding = Padding.of(model.tokenizer)
    probe = tokenize(model.tokenizer, ["one text", "and another, a longer one"], model.max_length)
    inputs = padding.batch(probe, np.arange(2))
    scores = _append(graph, model.network, inputs)
    reading = {
        "inputs": "tokens",
        "max_length": model.max_length,
        "characters_per_token": CHARACTERS_PER_TOKEN,
        "truncation_side": model.tokenizer.truncation_side,
        "pad_token": padding.token,
        "pad_type": padding.segment,
        "pad_left": padding.left,
        "token_types": "token_type_ids" in inputs,
    }
    sample = Sample(scores, len(model.label_names))
    return Scored(sample, reading, {"tokenizer": backend.to_str()})


def _append(graph: Graph, network: Any, inputs: dict[str, torch.Tensor]) -> Value:
    """Put what torch exports into a graph, and give its scores."""
    names = tuple(inputs)
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    wrapped = _Scores(network.cpu().eval(), names).eval()
    with _silent(), torch.no_grad():
        try:
            program = torch.onnx.export(
                wrapped,
                tuple(inputs.values()),
                dynamo=True,
                opset_version=OPSET,
                input_names=list(names),
                output_names=["encoder_scores"],
                dynamic_shapes=((axes,) * len(names),),
                external_data=False,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as fault:
            reason = (str(fault).strip().splitlines() or [type(fault).__name__])[0]
            kind = network.config.model_type
            raise UserError(f"torch cannot export an encoder of type {kind!r}: {reason}") from fault
    if program is None:
        raise AssertionError("without a file torch gives a program")
    made = program.model_proto
    (opset,) = [entry.version for entry in made.opset_import if entry.domain in ("", "ai.onnx")]
    if opset != OPSET:
        raise AssertionError(f"torch exported opset {opset}, asked for {OPSET}")
    graph.nodes.extend(made.graph.node)
    graph.constants.extend(made.graph.initializer)
    for given in made.graph.input:  # torch names its axes s21 and s35
        for axis, name in zip(given.type.tensor_type.shape.dim, ("batch", "tokens"), strict=True):
            axis.dim_param = name
    graph.inputs.extend(made.graph.input)
    return Value(graph, made.graph.output[0].name, np.dtype(np.float32))


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without what the exporter prints, warns and logs along the way."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with quiet(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
