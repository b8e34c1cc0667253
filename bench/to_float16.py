"""The float16 form of an ONNX model: every real tensor of 32 bits, inputs and outputs too.

usage: to_float16.py MODEL.onnx OUT.onnx

What ONNX has in float32 alone stays so: scales and regions of Resize. Shapes keep their names. Scales of QuantizeLinear in
float16 are of opset 19, which models of less are said to be of.
"""
import sys

import numpy
import onnx
from onnx import TensorProto, numpy_helper


def kept_names(graph):
    """Of tensors that stay float32."""
    return {name for node in graph.node if node.op_type == 'Resize' for name in node.input[1:]}


def convert_tensor(tensor):
    if tensor.data_type != TensorProto.FLOAT:
        return
    with numpy.errstate(over='ignore'):  # what masks hold becomes infinite
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(numpy.float16), tensor.name))


def convert_attribute(node, attribute):
    if attribute.type == onnx.AttributeProto.TENSOR:
        convert_tensor(attribute.t)
    elif attribute.type == onnx.AttributeProto.GRAPH:
        convert_graph(attribute.g)
    elif node.op_type in ('Cast', 'RandomNormal', 'EyeLike') and attribute.name in ('to', 'dtype') and attribute.i == TensorProto.FLOAT:
        attribute.i = TensorProto.FLOAT16


def convert_graph(graph):
    kept = kept_names(graph)
    for tensor in graph.initializer:
        if tensor.name not in kept:
            convert_tensor(tensor)
    for node in graph.node:
        if not (node.op_type == 'Constant' and node.output[0] in kept):
            for attribute in node.attribute:
                convert_attribute(node, attribute)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16


def to_float16(model):
    convert_graph(model.graph)
    quantizes = any(node.op_type in ('QuantizeLinear', 'DequantizeLinear') for node in model.graph.node)
    for opset in model.opset_import:
        if quantizes and opset.domain in ('', 'ai.onnx') and opset.version < 19:
            opset.version, model.ir_version = 19, max(model.ir_version, 9)
    return model


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[2])
    onnx.save(to_float16(onnx.load(sys.argv[1])), sys.argv[2])


if __name__ == '__main__':
    main()
