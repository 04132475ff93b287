"""The Open Inference Protocol's tensors: what `/v2/models/NAME/infer` reads and writes.

A request names tensors, as JSON or, by the binary extension that Triton's clients use, as bytes
behind the JSON. Texts come as BYTES `text` of shape (n,) or (n, 1), features as FP32 or FP64
`features` of shape (n, columns). The answer has four tensors, or those that were asked for:

- `labels`, BYTES (n,): the predicted labels of each sample, a JSON list of names;
- `scores`, FP32 (n, labels): the lowest number that FP32 has for a label that was not scored;
- `probabilities`, FP32 (n, labels);
- `decisions`, BOOL (n, labels).

The names of the labels, in the order of the columns, are among the model's metadata.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr import __version__
from zlpr._errors import UserError
from zlpr._names import unknown
from zlpr.models.answers import Answer, Figures
from zlpr.serving.service import ServedModel

VERSION = "1"
"""Of every model: a folder holds one."""
MOST_CELLS = 10_000_000
"""Of a tensor that is sent."""
LOWEST = float(np.finfo(np.float32).min)
_NUMBERS = {"FP32": "<f4", "FP64": "<f8"}


def server_metadata() -> dict[str, Any]:
    """What the server says of itself."""
    return {"name": "zlpr", "version": __version__, "extensions": ["binary_tensor_data"]}


def model_metadata(served: ServedModel) -> dict[str, Any]:
    """What a model reads and answers."""
    names = list(served.model.label_names)
    reads = {"name": "text", "datatype": "BYTES", "shape": [-1]}
    if served.num_features is not None:
        reads = {"name": "features", "datatype": "FP32", "shape": [-1, served.num_features]}
    return {
        "name": served.name,
        "versions": [VERSION],
        "platform": "zlpr",
        "inputs": [reads],
        "outputs": [
            {
                "name": name,
                "datatype": output.datatype,
                "shape": [-1] if name == "labels" else [-1, len(names)],
            }
            for name, output in OUTPUTS.items()
        ],
        "parameters": {"label_names": names},
    }


@dataclass(frozen=True)
class Inference:
    """A request, read.

    Attributes:
        id: that the client gave.
        inputs: texts, or features of shape (n, columns).
        outputs: the names of the tensors to send, and whether as bytes.
    """

    id: str | None
    inputs: list[str] | NDArray[np.float64]
    outputs: Mapping[str, bool]


def read_inference(body: bytes, header_length: str | None, served: ServedModel) -> Inference:
    """Read a request's body.

    Args:
        body: all of it.
        header_length: of the JSON before the bytes, as the header says; None where all is JSON.
        served: the model that is asked.

    Raises:
        UserError: it is no request of the protocol, or not one for this model.
    """
    head, tail = _cut(body, header_length)
    try:
        request = json.loads(head)
    except (ValueError, RecursionError):
        raise UserError("the body is not JSON") from None
    if not isinstance(request, dict):
        raise UserError("the body is not a JSON object")
    name = "text" if served.num_features is None else "features"
    inputs = request.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise UserError(f"inputs: expected a list of one tensor, {name!r}")
    tensor = inputs[0]
    if tensor.get("name") != name:
        raise UserError(f"inputs: expected {name!r}, got {str(tensor.get('name'))[:100]!r}")
    given = request.get("id")
    return Inference(
        given if isinstance(given, str) else None,
        _texts(tensor, tail) if name == "text" else _features(tensor, tail),
        _requested(request),
    )


def _cut(body: bytes, header_length: str | None) -> tuple[bytes, bytes]:
    if header_length is None:
        return body, b""
    if not (header_length.isdecimal() and len(header_length) < 12):
        raise UserError("Inference-Header-Content-Length: expected a number")
    length = int(header_length)
    if length > len(body):
        raise UserError("Inference-Header-Content-Length: longer than the body")
    return body[:length], body[length:]


def _shape(tensor: Mapping[str, Any], dimensions: tuple[int, ...]) -> tuple[int, ...]:
    shape = tensor.get("shape")
    fits = isinstance(shape, list) and all(
        type(size) is int and 0 <= size <= MOST_CELLS for size in shape
    )
    if not fits or len(shape) not in dimensions or math.prod(shape) > MOST_CELLS:  # type: ignore[arg-type]
        raise UserError(f"shape {str(shape)[:100]}: expected a list of {dimensions[0]} numbers")
    return tuple(shape)  # type: ignore[arg-type]


def _values(tensor: Mapping[str, Any], tail: bytes, shape: Sequence[int]) -> list[Any] | bytes:
    """A tensor's data: a flat list, also of one nested as the shape is; or the bytes behind."""
    parameters = tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is not None:
        if size != len(tail):
            raise UserError(f"binary_data_size: {len(tail):,} bytes follow the JSON")
        return tail
    if tail:
        raise UserError(f"binary_data_size: not given, and {len(tail):,} bytes follow the JSON")
    data = tensor.get("data")
    if not isinstance(data, list):
        raise UserError("data: expected a list")
    if len(shape) == 2 and data and all(isinstance(row, list) for row in data):
        if len(data) != shape[0] or any(len(row) != shape[1] for row in data):
            raise UserError(f"data: nested otherwise than the shape {list(shape)}")
        return [value for row in data for value in row]
    return data


def _texts(tensor: Mapping[str, Any], tail: bytes) -> list[str]:
    if tensor.get("datatype") != "BYTES":
        raise UserError("text: expected the datatype BYTES")
    shape = _shape(tensor, (1, 2))
    values = _values(tensor, tail, shape)
    texts = _split(values) if isinstance(values, bytes) else values
    if len(texts) != math.prod(shape) or (len(shape) == 2 and shape[1] != 1):
        raise UserError(f"text: {len(texts):,} values for the shape {list(shape)}")
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"text: value {place} is no string")
    return texts


def _split(data: bytes) -> list[str]:
    """Strings, each behind its length in four bytes."""
    texts, place = [], 0
    while place < len(data):
        end = place + 4 + int.from_bytes(data[place : place + 4], "little")
        if end > len(data) or place + 4 > len(data):
            raise UserError("text: the bytes end within a value")
        try:
            texts.append(data[place + 4 : end].decode())
        except UnicodeDecodeError:
            raise UserError(f"text: value {len(texts)} is not UTF-8") from None
        place = end
    return texts


def _features(tensor: Mapping[str, Any], tail: bytes) -> NDArray[np.float64]:
    datatype = tensor.get("datatype")
    if datatype not in _NUMBERS:
        raise UserError("features: expected the datatype FP32 or FP64")
    shape = _shape(tensor, (2,))
    values = _values(tensor, tail, shape)
    if not isinstance(values, bytes) and not all(type(value) in (int, float) for value in values):
        raise UserError("features: expected finite numbers, and nothing else")
    try:
        if isinstance(values, bytes):
            numbers = np.frombuffer(values, dtype=_NUMBERS[datatype]).astype(np.float64)
        else:
            numbers = np.array(values, dtype=np.float64)
        return numbers.reshape(shape)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"features: expected numbers of shape {list(shape)}") from None


def _requested(request: Mapping[str, Any]) -> dict[str, bool]:
    """The outputs that are asked for, and whether as bytes; all where none is named."""
    parameters = request.get("parameters")
    binary = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    outputs = request.get("outputs")
    if outputs is None or outputs == []:
        return dict.fromkeys(OUTPUTS, binary)
    if not isinstance(outputs, list) or not all(isinstance(one, dict) for one in outputs):
        raise UserError("outputs: expected a list of objects with a name")
    asked = {}
    for output in outputs:
        name, own = str(output.get("name"))[:100], output.get("parameters")
        if name not in OUTPUTS:
            raise unknown("output", name, OUTPUTS)
        asked[name] = own.get("binary_data", binary) is True if isinstance(own, dict) else binary
    return asked


def inference_response(
    served: ServedModel, inference: Inference, answers: Sequence[Answer]
) -> tuple[dict[str, Any], list[bytes]]:
    """The response's JSON, and the bytes that follow it for tensors that were asked for so.

    Raises:
        UserError: a tensor would be too large to send.
    """
    names = served.model.label_names
    dense = [name for name in inference.outputs if name != "labels"]
    if dense and len(answers) * len(names) > MOST_CELLS:
        raise UserError(
            f"{dense[0]}: {len(answers):,} samples by {len(names):,} labels are too many numbers; "
            "ask for the output 'labels', or for fewer samples at a time"
        )
    outputs, tails = [], []
    for name, binary in inference.outputs.items():
        output = OUTPUTS[name]
        array = output.make(answers, names)
        sent: dict[str, Any] = {
            "name": name,
            "datatype": output.datatype,
            "shape": list(array.shape),
        }
        if binary:
            tails.append(_as_bytes(array))
            sent["parameters"] = {"binary_data_size": len(tails[-1])}
        else:
            sent["data"] = array.ravel().tolist()
        outputs.append(sent)
    head: dict[str, Any] = {"model_name": served.name, "model_version": VERSION}
    if inference.id is not None:
        head["id"] = inference.id
    return {**head, "outputs": outputs}, tails


def _as_bytes(array: NDArray[Any]) -> bytes:
    if array.dtype != object:
        return array.tobytes()
    encoded = [text.encode("utf-8", "backslashreplace") for text in array.tolist()]
    return b"".join(len(text).to_bytes(4, "little") + text for text in encoded)


@dataclass(frozen=True)
class _Output:
    datatype: str
    make: Callable[[Sequence[Answer], Sequence[str]], NDArray[Any]]


def _label_lists(answers: Sequence[Answer], names: Sequence[str]) -> NDArray[Any]:
    lists = [json.dumps([names[i] for i in one.chosen], ensure_ascii=False) for one in answers]
    return np.array(lists, dtype=object)


def _scores(answers: Sequence[Answer], names: Sequence[str]) -> NDArray[Any]:
    return _matrix([one.scores for one in answers], len(names), LOWEST)


def _probabilities(answers: Sequence[Answer], names: Sequence[str]) -> NDArray[Any]:
    return _matrix([one.probabilities for one in answers], len(names), 0.0)


def _matrix(rows: Sequence[Mapping[int, float]], width: int, missing: float) -> NDArray[np.float32]:
    matrix = np.full((len(rows), width), missing, dtype="<f4")
    for place, row in enumerate(rows):
        if isinstance(row, Figures):
            matrix[place] = row.array
        else:
            matrix[place, list(row)] = list(row.values())
    np.clip(matrix, LOWEST, -LOWEST, out=matrix)  # an impossible label's score is -inf, not JSON
    return matrix


def _decisions(answers: Sequence[Answer], names: Sequence[str]) -> NDArray[Any]:
    matrix = np.zeros((len(answers), len(names)), dtype=bool)
    for place, one in enumerate(answers):
        matrix[place, one.chosen] = True
    return matrix


OUTPUTS = {
    "labels": _Output("BYTES", _label_lists),
    "scores": _Output("FP32", _scores),
    "probabilities": _Output("FP32", _probabilities),
    "decisions": _Output("BOOL", _decisions),
}
