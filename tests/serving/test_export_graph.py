"""Graphs compute what numpy computes."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="exported files run in onnxruntime")

from tests.serving.graphs import run
from zlpr.serving.export_graph import Graph, concat, take, where

VALUES = np.random.default_rng(0).standard_normal((3, 5))
EXPECTED = {
    "arithmetic": (lambda x: (2.0 - x * 3.0 + 1.0) / 4.0, lambda x: (2 - x * 3 + 1) / 4),
    "products": (lambda x: x @ VALUES.T, lambda x: x @ VALUES.T),
    "comparisons": (
        lambda x: ((x > 0.0) | (x <= -1.0)) & ~(x >= 0.5),
        lambda x: ((x > 0) | (x <= -1)) & ~(x >= 0.5),
    ),
    "columns": (lambda x: x[1:3], lambda x: x[:, 1:3]),
    "sums": (
        lambda x: x.sum(1, keep=True) + x.cumsum(1),
        lambda x: x.sum(1)[:, None] + x.cumsum(1),
    ),
    "extremes": (lambda x: x.max(1) - x.min(1), lambda x: x.max(1) - x.min(1)),
    "products of rows": (lambda x: x.product(1), lambda x: x.prod(axis=1)),
    "bounds": (lambda x: x.clip(-1.0, 1.0).at_least(0.0), lambda x: x.clip(0, 1)),
    "the best": (lambda x: x.argmax(1), lambda x: x.argmax(1)[:, None]),
    "any": (lambda x: (x > 1.0).any(1), lambda x: (x > 1).any(1)),
    "choice": (lambda x: where(x > 0.0, x, -np.inf), lambda x: np.where(x > 0, x, -np.inf)),
    "side by side": (lambda x: concat([x, -x], 1), lambda x: np.concatenate([x, -x], 1)),
    "softmax": (
        lambda x: x.softmax(1),
        lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True),
    ),
    "types": (lambda x: x.cast(np.float32).cast(np.float64), lambda x: x.astype("f4").astype("f8")),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_operators_are_those_of_numpy(name):
    ours, numpys = EXPECTED[name]
    graph = Graph("a_")
    value = ours(graph.input("x", np.float64, ("batch", 5)))
    graph.output("y", value, (None,) * np.ndim(numpys(VALUES)))
    found = run(graph, x=VALUES)["y"]
    assert found.dtype == numpys(VALUES).dtype
    np.testing.assert_allclose(found, numpys(VALUES), rtol=1e-12)


def test_the_first_of_equal_values_comes_first_and_places_can_be_written_to():
    graph = Graph()
    given = graph.input("x", np.float32, ("batch", 4))
    values, places = given.top(2)
    graph.output("values", values, ("batch", 2))
    graph.output("places", places, ("batch", 2))
    graph.output("back", (given * 0.0).put_along(places, values), ("batch", 4))
    graph.output("read", given.take_along(places, 1), ("batch", 2))
    table = graph.constant(np.arange(8.0).reshape(4, 2), np.float64)
    graph.output("rows", take(table, places), ("batch", 2, 2))
    found = run(graph, x=np.array([[1, 3, 3, 0]], dtype=np.float32))
    assert found["places"].tolist() == [[1, 2]]
    assert found["back"].tolist() == [[0, 3, 3, 0]]
    assert found["read"].tolist() == found["values"].tolist() == [[3, 3]]
    assert found["rows"].tolist() == [[[2, 3], [4, 5]]]
