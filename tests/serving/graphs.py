"""Run a graph in onnxruntime."""

import onnx
import onnxruntime
from onnx import helper

from zlpr.serving.export_graph import IR_VERSION, OPSET, Graph


def run(graph: Graph, **inputs):
    """The graph's outputs by name; the file must be one that ONNX's own checker accepts."""
    made = helper.make_graph(graph.nodes, "test", graph.inputs, graph.outputs, graph.constants)
    proto = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in graph.outputs]
    return dict(zip(names, session.run(names, inputs), strict=True))
