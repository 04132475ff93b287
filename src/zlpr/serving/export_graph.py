"""A graph of ONNX operators, written as arithmetic.

>>> import numpy as np
>>> graph = Graph()
>>> scores = graph.input("scores", np.float32, ("batch", 2))
>>> graph.output("above", scores * 2.0 > np.array([1.0, 3.0]), ("batch", 2))
>>> [node.op_type for node in graph.nodes]
['Mul', 'Greater', 'Identity']
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

OPSET = 18
"""The version of ONNX's operators that files are written in: onnxruntime 1.14 and later."""
IR_VERSION = 8
"""Of the file itself: what came with this opset."""

Constant: TypeAlias = NDArray[Any] | float | int | bool | Sequence[int]


@dataclass
class Graph:
    """Operators in the order in which they run, with the constants that they read.

    Attributes:
        prefix: of all names, so that two graphs can become one.
    """

    prefix: str = ""
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    _names: int = 0

    def input(self, name: str, dtype: Any, shape: tuple[str | int, ...]) -> "Value":
        """What is given from outside; a name among the sizes stands for any number."""
        from onnx import helper

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return Value(self, name, np.dtype(dtype))

    def output(self, name: str, value: "Value", shape: tuple[str | int, ...]) -> None:
        """Give a value to the outside under a name."""
        from onnx import helper

        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.nodes.append(helper.make_node("Identity", [value.name], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def constant(self, content: Constant, dtype: Any) -> "Value":
        """Numbers that are part of the file."""
        from onnx import numpy_helper

        name = self._name("constant")
        array = np.ascontiguousarray(np.asarray(content, dtype=dtype))
        array = array.reshape(np.shape(content))  # numpy makes scalars contiguous as vectors
        self.constants.append(numpy_helper.from_array(array, name))
        return Value(self, name, array.dtype)

    def run(self, operator: str, *inputs: "Value", dtype: Any = None, **attributes: Any) -> "Value":
        """The result of an operator: of the type of its first input unless told otherwise."""
        return self.run_several(operator, inputs, [dtype or inputs[0].dtype], **attributes)[0]

    def run_several(
        self, operator: str, inputs: Sequence["Value"], dtypes: Sequence[Any], **attributes: Any
    ) -> list["Value"]:
        """The results of an operator that has several, each of its type."""
        from onnx import helper

        names = [self._name(operator) for _ in dtypes]
        given = [value.name for value in inputs]
        self.nodes.append(helper.make_node(operator, given, names, **attributes))
        return [Value(self, name, np.dtype(kind)) for name, kind in zip(names, dtypes, strict=True)]

    def _name(self, what: str) -> str:
        self._names += 1
        return f"{self.prefix}{what.lower()}_{self._names}"


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph; constants on the other side of an operator take its type."""

    graph: Graph
    name: str
    dtype: np.dtype[Any]

    def _with(self, operator: str, other: "Value | Constant", dtype: Any = None) -> "Value":
        right = other if isinstance(other, Value) else self.graph.constant(other, self.dtype)
        return self.graph.run(operator, self, right, dtype=dtype)

    def __add__(self, other: "Value | Constant") -> "Value":
        return self._with("Add", other)

    def __sub__(self, other: "Value | Constant") -> "Value":
        return self._with("Sub", other)

    def __rsub__(self, other: Constant) -> "Value":
        return self.graph.constant(other, self.dtype) - self

    def __mul__(self, other: "Value | Constant") -> "Value":
        return self._with("Mul", other)

    def __truediv__(self, other: "Value | Constant") -> "Value":
        return self._with("Div", other)

    def __matmul__(self, other: "Value | Constant") -> "Value":
        return self._with("MatMul", other)

    def __neg__(self) -> "Value":
        return self.graph.run("Neg", self)

    def __gt__(self, other: "Value | Constant") -> "Value":
        return self._with("Greater", other, np.bool_)

    def __ge__(self, other: "Value | Constant") -> "Value":
        return self._with("GreaterOrEqual", other, np.bool_)

    def __le__(self, other: "Value | Constant") -> "Value":
        return self._with("LessOrEqual", other, np.bool_)

    def equals(self, other: "Value | Constant") -> "Value":
        """Where both are the same."""
        return self._with("Equal", other, np.bool_)

    def __and__(self, other: "Value | Constant") -> "Value":
        return self._with("And", other)

    def __or__(self, other: "Value | Constant") -> "Value":
        return self._with("Or", other)

    def __invert__(self) -> "Value":
        return self.graph.run("Not", self)

    def __getitem__(self, columns: slice) -> "Value":
        """Some columns (axis 1), by a slice with both ends."""
        ends = [self.graph.constant([end], np.int64) for end in (columns.start, columns.stop, 1)]
        return self.graph.run("Slice", self, *ends)

    def cast(self, dtype: Any) -> "Value":
        """In another type."""
        from onnx import helper

        if self.dtype == np.dtype(dtype):
            return self
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.graph.run("Cast", self, dtype=dtype, to=kind)

    def apply(self, operator: str) -> "Value":
        """An operator of one input, such as "Exp"."""
        return self.graph.run(operator, self)

    def clip(self, low: float, high: float) -> "Value":
        """Held between two numbers."""
        ends = [self.graph.constant(end, self.dtype) for end in (low, high)]
        return self.graph.run("Clip", self, *ends)

    def at_least(self, low: float) -> "Value":
        """Held above a number."""
        return self._with("Max", low)

    def _reduced(self, operator: str, axis: int, keep: bool) -> "Value":
        axes = self.graph.constant([axis], np.int64)
        return self.graph.run(operator, self, axes, keepdims=int(keep))

    def sum(self, axis: int, *, keep: bool = False) -> "Value":
        """Over one axis."""
        return self._reduced("ReduceSum", axis, keep)

    def max(self, axis: int, *, keep: bool = False) -> "Value":
        """Over one axis."""
        return self._reduced("ReduceMax", axis, keep)

    def min(self, axis: int, *, keep: bool = False) -> "Value":
        """Over one axis."""
        return self._reduced("ReduceMin", axis, keep)

    def product(self, axis: int, *, keep: bool = False) -> "Value":
        """Over one axis."""
        return self._reduced("ReduceProd", axis, keep)

    def any(self, axis: int) -> "Value":
        """Whether one of an axis is true."""
        return self.cast(np.int32).max(axis).cast(np.bool_)

    def argmax(self, axis: int) -> "Value":
        """The first of the largest, with the axis kept."""
        return self.graph.run("ArgMax", self, dtype=np.int64, axis=axis, keepdims=1)

    def cumsum(self, axis: int) -> "Value":
        """Sums up to each place of an axis, this included."""
        return self.graph.run("CumSum", self, self.graph.constant(axis, np.int64))

    def softmax(self, axis: int) -> "Value":
        """Of one axis."""
        return self.graph.run("Softmax", self, axis=axis)

    def top(self, count: int, *, axis: int = 1, largest: bool = True) -> tuple["Value", "Value"]:
        """Values and places of the largest, best first; of equal ones the first."""
        size = self.graph.constant([count], np.int64)
        kinds = [self.dtype, np.int64]
        values, places = self.graph.run_several(
            "TopK", [self, size], kinds, axis=axis, largest=int(largest)
        )
        return values, places

    def expand_dims(self, axis: int) -> "Value":
        """With an axis of one."""
        return self.graph.run("Unsqueeze", self, self.graph.constant([axis], np.int64))

    def squeeze(self, axis: int) -> "Value":
        """Without an axis of one."""
        return self.graph.run("Squeeze", self, self.graph.constant([axis], np.int64))

    def transpose(self) -> "Value":
        """Of three axes, the last two exchanged."""
        return self.graph.run("Transpose", self, perm=[0, 2, 1])

    def broadcast(self, shape: Sequence[int]) -> "Value":
        """Repeated along axes of one."""
        return self.graph.run("Expand", self, self.graph.constant(shape, np.int64))

    def take_along(self, places: "Value", axis: int) -> "Value":
        """As `numpy.take_along_axis`."""
        return self.graph.run("GatherElements", self, places, axis=axis)

    def put_along(self, places: "Value", values: "Value", *, add: bool = False) -> "Value":
        """As `numpy.put_along_axis` on a copy, along axis 1; or added to what is there."""
        reduction = {"reduction": "add"} if add else {}
        return self.graph.run("ScatterElements", self, places, values, axis=1, **reduction)


def take(table: Value, rows: Value) -> Value:
    """Rows of a table by their numbers."""
    return table.graph.run("Gather", table, rows, axis=0)


def where(condition: Value, yes: Value, no: "Value | float") -> Value:
    """One value or the other."""
    other = no if isinstance(no, Value) else yes.graph.constant(no, yes.dtype)
    return yes.graph.run("Where", condition, yes, other, dtype=yes.dtype)


def concat(values: Sequence[Value], axis: int) -> Value:
    """Side by side along an axis."""
    return values[0].graph.run("Concat", *values, axis=axis)
