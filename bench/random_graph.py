"""A random ONNX graph in the making (random_models.py), and the pieces that several kinds of blocks share."""
import math

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


class RandomGraph:
    """Draws sizes and weights, collects nodes. Every draw comes from one generator, so the order of calls matters:
    another order gives other models for the same seed."""

    def __init__(self, rng, round_sizes=False):
        self.rng, self.round_sizes = rng, round_sizes
        self.inputs, self.nodes, self.initializers = [], [], []
        self.opset = 13
        self.names_given = 0

    def pick(self, *choices):
        """One of the choices, each as likely; one that is repeated is likelier."""
        return choices[self.rng.integers(len(choices))]

    def size(self, low, high):
        """An integer from low to high: the larger of two that are uniform in the logarithm, and half of the time
        rounded down to a multiple of 8, as the sizes of other people's models are. With `round_sizes` a power of two or three
        times one, where there is one."""
        if self.round_sizes:
            rounds = [n for k in range(20) for n in (2 ** k, 3 * 2 ** k) if low <= n <= high]
            if rounds:
                return int(max(self.pick(*rounds), self.pick(*rounds)))
        n = round(math.exp(max(self.rng.uniform(math.log(low), math.log(high + 1)) for _ in range(2))))
        if self.rng.random() >= .5 and n >= 8:
            n = n // 8 * 8
        return max(low, min(high, n))

    def odd(self, low, high):
        """An odd number from low to high; low must be odd."""
        n = self.size(low, high)
        return n if n % 2 else n - 1

    def name(self, letter):
        self.names_given += 1
        return f'{letter}{self.names_given}'

    def input(self, *shape, dtype=TensorProto.FLOAT):
        """The next input of the model: x0, x1, ..."""
        name = f'x{len(self.inputs)}'
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def weight(self, *shape):
        """N(0, 1) over the square root of the number of inputs that an output sums: activations stay near 1."""
        name = self.name('w')
        values = self.rng.standard_normal(shape) * (1 / numpy.sqrt(max(1, numpy.prod(shape[1:]))))
        self.initializers.append(numpy_helper.from_array(values.astype('f4'), name))
        return name

    def constant(self, value):
        name = self.name('c')
        self.initializers.append(numpy_helper.from_array(numpy.asarray(value), name))
        return name

    def scalar(self, value):
        return self.constant(numpy.float32(value))

    def ints(self, *values):
        """A constant vector of int64: shapes, axes, repeats."""
        return self.constant(numpy.array(values, 'i8'))

    def op(self, op_type, *inputs, outputs=1, **attributes):
        """The output of a new node; a list of them when it has several."""
        stem = self.name('t')
        names = [f'{stem}_{i}' for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def model(self, name, output, dtype):
        """The finished model, `output` its only result."""
        self.nodes.append(helper.make_node('Identity', [output], ['y']))
        result = helper.make_tensor_value_info('y', dtype, None)
        graph = helper.make_graph(self.nodes, name, self.inputs, [result], self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def dims_text(*dims):
    return 'x'.join(map(str, dims))


def gelu(g, x):
    """By the error function, in the nodes that exporters write for opset 13."""
    half_erf = g.op('Add', g.op('Erf', g.op('Div', x, g.scalar(2 ** .5))), g.scalar(1))
    return g.op('Mul', g.op('Mul', x, half_erf), g.scalar(.5))


def silu(g, x):
    return g.op('Mul', x, g.op('Sigmoid', x))


def activation(g, x):
    """One of the common activations, or none."""
    choice = g.pick('Relu', 'Sigmoid', 'Tanh', 'gelu', None)
    if choice is None:
        return x
    return gelu(g, x) if choice == 'gelu' else g.op(choice, x)


def layer_norm(g, x, width):
    """Over the last axis, in the nodes that exporters write before opset 17."""
    centred = g.op('Sub', x, g.op('ReduceMean', x, axes=[-1]))
    variance = g.op('ReduceMean', g.op('Mul', centred, centred), axes=[-1])
    normal = g.op('Div', centred, g.op('Sqrt', g.op('Add', variance, g.scalar(1e-5))))
    return g.op('Add', g.op('Mul', normal, g.weight(width)), g.weight(width))


def group_norm(g, x, shape, groups):
    """InstanceNormalization over the groups, then the scale and offset of each channel: as PyTorch exports it."""
    ones, zeros = numpy.ones(groups, 'f4'), numpy.zeros(groups, 'f4')
    rows = g.op('Reshape', x, g.ints(0, groups, -1))
    normal = g.op('InstanceNormalization', rows, g.constant(ones), g.constant(zeros))
    y = g.op('Reshape', normal, g.ints(*shape))
    per_channel = (shape[1],) + (1,) * (len(shape) - 2)
    return g.op('Add', g.op('Mul', y, g.weight(*per_channel)), g.weight(*per_channel))


def dense(g, x, rows, columns):
    """x times a weight of rows x columns, plus a bias."""
    return g.op('Add', g.op('MatMul', x, g.weight(rows, columns)), g.weight(columns))


def conv(g, x, in_channels, out_channels, kernel, group=1, dilation=1, stride=1, op_type='Conv', spatial=2, pads=None, **more):
    """A convolution with a bias; `kernel`, `dilation` and `stride` are of each spatial dimension, or one for all.
    Padded to keep the size (less one where the kernel is even) unless pads are given."""
    every = lambda value: list(value) if isinstance(value, (tuple, list)) else [value] * spatial
    kernel, dilation, stride = every(kernel), every(dilation), every(stride)
    if pads is None:
        pads = 2 * [(k - 1) * d // 2 for k, d in zip(kernel, dilation)]
    if op_type == 'Conv':
        weight = g.weight(out_channels, in_channels // group, *kernel)
    else:
        weight = g.weight(in_channels, out_channels // group, *kernel)
    return g.op(op_type, x, weight, g.weight(out_channels), group=group, dilations=dilation, strides=stride, pads=pads, **more)
