"""Models of one operator each, over element types, axes, windows and ranks, as ONNX files.

usage: operator_models.py FOLDER [--open AXES] [NAME ...]    needs python3-onnx python3-numpy

All of them without names; a name stands for all that begin with it. AXES are those of the first input that stay open, as in 0
or 2,3: `./run bench open-shapes` races such a build against those for one size. Weights are random, of seed 0. The paths are
printed. Exit code 2: bad usage.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

RANDOM = np.random.default_rng(0)
MODELS = {}


def weights(*shape):
    return (RANDOM.standard_normal(shape) * 0.1).astype('f4')


def ints(*values):
    return np.array(values, np.int64)


def model(name, op, inputs, constants=(), outputs=None, dtype=T.FLOAT, opset=18, **attributes):
    """`inputs`: shapes, or (type, shape), of a, b, ...; `outputs`: their types, of the input's type unless said."""
    operands = [each if isinstance(each, tuple) else (dtype, each) for each in inputs]
    add_model(name, op, operands + list(constants), outputs or [operands[0][0]], opset, '', attributes)


def add_model(name, op, operands, outputs, opset, domain, attributes):
    """Operands in the operator's order: (type, shape) of an input, an array that is a constant, None for one left out."""
    MODELS[name] = (op, operands, outputs, opset, domain, attributes)


def convolutions():
    def conv(name, x, w, op='Conv', **attributes):
        model(name, op, [x], [weights(*w)], **attributes)

    conv('conv_first', [1, 3, 224, 224], [32, 3, 3, 3], strides=[2, 2], pads=[1] * 4)
    conv('conv_7x7', [1, 3, 224, 224], [64, 3, 7, 7], strides=[2, 2], pads=[3] * 4)
    conv('conv_patches', [1, 3, 224, 224], [192, 3, 16, 16], strides=[16, 16])
    conv('conv_11x11', [1, 8, 64, 64], [8, 8, 11, 11], pads=[5] * 4)
    conv('conv_1x7', [1, 33, 30, 90], [40, 33, 1, 7], pads=[0, 3, 0, 3])
    conv('conv_to_10', [1, 64, 38, 27], [10, 64, 3, 3], pads=[1] * 4)
    conv('conv_1x1_stride', [1, 96, 41, 41], [64, 96, 1, 1], strides=[2, 2])
    conv('conv_batch', [8, 32, 28, 28], [64, 32, 3, 3], pads=[1] * 4)
    conv('conv_groups', [1, 64, 28, 28], [64, 2, 3, 3], pads=[1] * 4, group=32)
    conv('conv_odd_groups', [1, 45, 30, 30], [75, 15, 3, 3], pads=[1] * 4, group=3)
    conv('conv_1d', [1, 80, 3000], [384, 80, 3], pads=[1, 1])
    conv('conv_1d_stride', [1, 384, 3000], [384, 384, 3], pads=[1, 1], strides=[2])
    conv('conv_3d', [1, 16, 8, 28, 28], [32, 16, 3, 3, 3], pads=[1] * 6)
    conv('depthwise_1d', [1, 48, 500], [48, 1, 7], group=48, pads=[3, 3])
    conv('depthwise_3d', [1, 24, 8, 20, 20], [24, 1, 3, 3, 3], group=24, pads=[1] * 6)
    conv('depthwise_dilated', [1, 60, 40, 40], [60, 1, 3, 3], group=60, pads=[4] * 4, dilations=[4, 4])
    conv('depthwise_stride', [1, 96, 57, 57], [96, 1, 5, 5], pads=[2] * 4, strides=[2, 2], group=96)
    conv('depthwise_twice', [1, 32, 28, 28], [64, 1, 3, 3], pads=[1] * 4, group=32)
    conv('transposed_1d', [1, 64, 200], [64, 32, 8], 'ConvTranspose', strides=[4], pads=[2, 2])
    conv('transposed_3d', [1, 16, 6, 10, 10], [16, 12, 2, 2, 2], 'ConvTranspose', strides=[2, 2, 2])
    conv('transposed_groups', [1, 32, 20, 20], [32, 8, 3, 3], 'ConvTranspose', strides=[2, 2], group=4)
    conv('transposed_stride_3', [1, 20, 17, 17], [20, 15, 5, 5], 'ConvTranspose', strides=[3, 3], pads=[1] * 4)
    for channels in (1, 3, 8, 12, 32, 64):
        model(f'grid_sample_{channels}', 'GridSample', [[1, channels, 60, 60], [1, 50, 50, 2]], opset=17)
    for mode in ('nearest', 'bicubic'):
        model(f'grid_sample_{mode}', 'GridSample', [[1, 32, 60, 60], [1, 50, 50, 2]], opset=17, mode=mode)
    deformed = [[1, 32, 40, 40], [32, 32, 3, 3], [1, 18, 40, 40]]
    model('deform_conv', 'DeformConv', deformed, opset=19, kernel_shape=[3, 3], pads=[1] * 4)


def windows():
    def pool(name, op, x, kernel, **attributes):
        model(name, op, [x], kernel_shape=kernel, **attributes)

    pool('max_pool', 'MaxPool', [1, 31, 75, 75], [3, 3], strides=[2, 2], pads=[1] * 4)
    pool('max_pool_1d', 'MaxPool', [4, 40, 501], [3], strides=[2])
    pool('max_pool_3d', 'MaxPool', [1, 8, 10, 20, 20], [3, 3, 3], pads=[1] * 6)
    pool('max_pool_indices', 'MaxPool', [1, 8, 75, 75], [3, 3], outputs=[T.FLOAT, T.INT64], strides=[2, 2], pads=[1] * 4)
    pool('max_pool_13', 'MaxPool', [1, 64, 20, 20], [13, 13], pads=[6] * 4)
    pool('average_pool_7', 'AveragePool', [1, 40, 30, 30], [7, 7], pads=[3] * 4)
    pool('average_pool_3d', 'AveragePool', [1, 16, 10, 20, 20], [2, 2, 2], strides=[2, 2, 2])
    pool('lp_pool', 'LpPool', [1, 31, 75, 75], [3, 3], strides=[2, 2])
    model('global_max_pool', 'GlobalMaxPool', [[4, 100, 13, 13]])
    model('global_max_pool_wide_1', 'GlobalMaxPool', [[32, 100, 48, 1]])
    pool('average_pool_all', 'AveragePool', [1, 2048, 7, 7], [7, 7])
    model('lrn', 'LRN', [[1, 64, 27, 27]], size=5)
    sizes, scales = np.array([], np.float32), np.array([1, 1, 2, 2], np.float32)
    model('resize_nearest', 'Resize', [[1, 30, 31, 31]], [sizes, scales], mode='nearest')
    model('resize_linear', 'Resize', [[1, 30, 31, 31]], [sizes, sizes, ints(1, 30, 77, 50)], mode='linear')
    model('resize_cubic', 'Resize', [[1, 3, 200, 200]], [sizes, sizes, ints(1, 3, 90, 77)], mode='cubic')
    model('resize_antialias', 'Resize', [[1, 3, 200, 200]], [sizes, sizes, ints(1, 3, 90, 77)], mode='linear', antialias=1)


def rows():
    model('softmax', 'Softmax', [[32, 128, 1024]])
    model('softmax_channels', 'Softmax', [[2, 21, 60, 60]], axis=1)
    model('softmax_short', 'Softmax', [[1000, 7]])
    model('softmax_words', 'Softmax', [[4, 50257]])
    model('softmax_one_row', 'Softmax', [[1, 1000000]])
    model('arg_max_one_row', 'ArgMax', [[1, 1000000]], outputs=[T.INT64], axis=1)
    model('layer_norm_all', 'LayerNormalization', [[1, 512, 3000]], [weights(512, 3000), weights(512, 3000)], axis=1)
    model('softmax_middle', 'Softmax', [[2, 1000, 3]], axis=1)
    model('log_softmax_0', 'LogSoftmax', [[40, 1001]], axis=0)
    model('layer_norm', 'LayerNormalization', [[197, 333]], [weights(333), weights(333)])
    model('layer_norm_2', 'LayerNormalization', [[8, 50, 77]], [weights(50, 77), weights(50, 77)], axis=1)
    model('instance_norm_1d', 'InstanceNormalization', [[4, 40, 501]], [weights(40), weights(40)])
    model('instance_norm_3d', 'InstanceNormalization', [[1, 20, 10, 21, 21]], [weights(20), weights(20)])
    for name, op, x, axes in (
        ('sum_all', 'ReduceSum', [1, 64, 112, 112], None),
        ('mean_pixels', 'ReduceMean', [1, 256, 56, 56], (2, 3)),
        ('mean_channels', 'ReduceMean', [1, 256, 56, 56], (1,)),
        ('mean_middle', 'ReduceMean', [20, 77, 55], (1,)),
        ('l2_0', 'ReduceL2', [200, 333], (0,)),
        ('l1_0_2', 'ReduceL1', [20, 30, 111], (0, 2)),
        ('max_0_1', 'ReduceMax', [40, 37, 65], (0, 1)),
        ('log_sum_exp', 'ReduceLogSumExp', [300, 500], (0,)),
    ):
        model(f'reduce_{name}', op, [x], [ints(*axes)] if axes else [])
    model('arg_max_0', 'ArgMax', [[300, 500]], outputs=[T.INT64], axis=0)
    model('arg_min_last', 'ArgMin', [[300, 201]], outputs=[T.INT64], axis=1, select_last_index=1)
    for name, x, count, axis in (
        ('10', [300, 500], 10, -1),
        ('all', [30, 5000], 5000, -1),
        ('axis_0', [500, 60], 7, 0),
        ('boxes', [20, 8400], 100, -1),
        ('words', [4, 50257], 50, -1),
    ):
        model(f'top_k_{name}', 'TopK', [x], [ints(count)], [T.FLOAT, T.INT64], axis=axis)
    model('cumulative_sum', 'CumSum', [[300, 500]], [np.array(1)])
    model('cumulative_sum_of_ones', 'CumSum', [[300, 500, 1]], [np.array(1)])
    model('cumulative_sum_of_threes', 'CumSum', [[300, 500, 3]], [np.array(1)])
    model('cumulative_sum_0', 'CumSum', [[300, 200]], [np.array(0)], exclusive=1, reverse=1)


def products():
    for name, x, w in (
        ('large', [128, 1024], (1024, 4096)),
        ('one_row', [1, 1024], (1024, 4096)),
        ('odd', [7, 1000], (1000, 1001)),
        ('vector', [501], (501, 333)),
    ):
        model(f'matmul_{name}', 'MatMul', [x], [weights(*w)])
    for name, a, b in (
        ('batched', [96, 17, 64], [96, 64, 17]),
        ('attention', [12, 197, 64], [12, 64, 197]),
        ('broadcast', [5, 1, 33, 65], [7, 65, 41]),
    ):
        model(f'matmul_{name}', 'MatMul', [a, b])
    for name, dtype in (('float16', T.FLOAT16), ('float64', T.DOUBLE), ('int32', T.INT32)):
        model(f'matmul_{name}', 'MatMul', [[67, 129], [129, 211]], dtype=dtype)
    for name, k, n in (('int8_odd', 200, 100), ('int8', 256, 128)):
        signed = RANDOM.integers(-100, 100, (k, n)).astype(np.int8)
        model(f'matmul_{name}', 'MatMulInteger', [[65, k]], [signed], [T.INT32], dtype=T.UINT8)
    model('einsum_attention', 'Einsum', [[2, 7, 65, 31], [2, 7, 65, 31]], equation='bhid,bhjd->bhij')
    model('einsum_turned', 'Einsum', [[20, 30, 40], [40, 25]], equation='ijk,kl->lij')
    model('einsum_rows', 'Einsum', [[20, 30, 40], [20, 30, 40]], equation='ijk,ijk->ij')
    model('dft_400', 'DFT', [[4, 400, 1]], axis=1)
    model('dft_512', 'DFT', [[16, 512, 1]], axis=1)


def moves():
    for name, x, order in (
        ('matrix', [1000, 1003], (1, 0)),
        ('heads', [8, 196, 12, 64], (0, 2, 1, 3)),
        ('to_channels_first', [1, 56, 56, 3], (0, 3, 1, 2)),
        ('to_channels_last', [1, 3, 224, 224], (0, 2, 3, 1)),
        ('five_axes', [5, 6, 7, 30, 17], (3, 1, 4, 0, 2)),
    ):
        model(f'transpose_{name}', 'Transpose', [x], perm=order)
    model('transpose_uint8', 'Transpose', [[3, 333, 501]], dtype=T.UINT8, perm=(0, 2, 1))
    model('tile', 'Tile', [[64, 37]], [ints(1, 20)])
    model('tile_rows', 'Tile', [[64, 16, 100]], [ints(1, 1, 4)])
    model('tile_twice', 'Tile', [[64, 16, 100]], [ints(2, 1, 2)])
    model('expand', 'Expand', [[64, 1, 37]], [ints(64, 20, 37)])
    for mode in ('constant', 'edge', 'reflect'):
        model(f'pad_{mode}', 'Pad', [[1, 20, 50, 50]], [ints(0, 0, 3, 3, 0, 0, 4, 3)], mode=mode)
    model('depth_to_space', 'DepthToSpace', [[1, 48, 40, 40]], blocksize=2, mode='CRD')
    model('space_to_depth', 'SpaceToDepth', [[1, 12, 80, 80]], blocksize=2)
    model('concat_short', 'Concat', [[500, 3], [500, 5], [500, 1]], axis=1)
    model('stack_last_2', 'Concat', [[1000, 64, 1]] * 2, axis=2)
    model('stack_last_3', 'Concat', [[1000, 64, 1]] * 3, axis=2)
    model('split_short', 'Split', [[500, 9]], [ints(3, 5, 1)], [T.FLOAT] * 3, axis=1)
    model('slice_backwards', 'Slice', [[200, 301]], [ints(300), ints(-400), ints(1), ints(-2)])
    model('slice_every_third', 'Slice', [[200, 301]], [ints(0), ints(301), ints(1), ints(3)])
    model('trilu', 'Trilu', [[8, 300, 301]], upper=0)
    index = (T.INT64, [60])
    model('gather_rows', 'Gather', [[500, 64], index])
    model('gather_middle', 'Gather', [[50, 100, 33], index], axis=1)
    model('gather_last', 'Gather', [[500, 100], index], axis=1)
    model('gather_elements', 'GatherElements', [[300, 100], (T.INT64, [200, 100])])
    model('gather_nd', 'GatherND', [[100, 100, 7], (T.INT64, [3000, 2])])
    model('scatter_nd', 'ScatterND', [[100, 100, 7], (T.INT64, [3000, 2]), [3000, 7]])
    model('scatter_rows', 'ScatterElements', [[300, 1000], (T.INT64, [300, 500]), [300, 500]], axis=1)
    model('scatter_add', 'ScatterElements', [[100, 70], (T.INT64, [400, 70]), [400, 70]], axis=0, reduction='add')
    model('one_hot', 'OneHot', [(T.INT64, [1000])], [np.array(200), np.array([0, 1], np.float32)], [T.FLOAT])
    model('reverse_sequence', 'ReverseSequence', [[100, 16, 64], (T.INT64, [16])], batch_axis=1, time_axis=0)
    model('non_zero', 'NonZero', [[512, 300]], outputs=[T.INT64])
    model('unique', 'Unique', [[5000]])
    model('compress', 'Compress', [[512, 300], (T.BOOL, [512])], axis=0)


def elements():
    shape = [300, 401]
    for op in 'Atan Asinh Sinh Tan Erf Sin Log Round Sign Selu Celu HardSwish Mish IsNaN'.split():
        model(op.lower(), op, [shape], outputs=[T.BOOL] if op == 'IsNaN' else None)
    for op in 'Exp Tanh Sigmoid Log Sqrt Sin Cos Tan Atan Erf Sinh Cosh Asin Acos Asinh Atanh Relu Softmax'.split():
        model(op.lower() + '_float64', op, [shape], dtype=T.DOUBLE)
    for op in 'Relu Sigmoid Softmax'.split():
        model(op.lower() + '_float16', op, [shape], dtype=T.FLOAT16)
    model('gelu', 'Gelu', [shape], opset=20)
    model('pow', 'Pow', [shape, shape])
    model('pow_3.1', 'Pow', [shape], [np.array(3.1, np.float32)])
    model('pow_float64', 'Pow', [shape, shape], dtype=T.DOUBLE)
    model('fmod_float64', 'Mod', [shape, shape], dtype=T.DOUBLE, fmod=1)
    model('sum_three', 'Sum', [shape, [401], [300, 1]])
    model('where', 'Where', [(T.BOOL, [300, 1]), shape, [1, 401]], outputs=[T.FLOAT])
    model('prelu', 'PRelu', [[1, 30, 40, 40]], [weights(30, 1, 1)])
    for name, dtype in (('int16', T.INT16), ('uint32', T.UINT32), ('uint64', T.UINT64)):
        model(f'div_{name}', 'Div', [shape, shape], dtype=dtype)
        model(f'mod_{name}', 'Mod', [shape, shape], dtype=dtype)
        model(f'cast_from_{name}', 'Cast', [shape], outputs=[T.FLOAT], dtype=dtype, to=T.FLOAT)
        model(f'cast_to_{name}', 'Cast', [shape], outputs=[dtype], to=dtype)
    for name, dtype in (('int32', T.INT32), ('int64', T.INT64), ('uint8', T.UINT8), ('int8', T.INT8)):
        model(f'div_{name}', 'Div', [shape, shape], dtype=dtype)
        model(f'mod_{name}', 'Mod', [shape, shape], dtype=dtype)
        model(f'add_{name}', 'Add', [shape, shape], dtype=dtype)
        model(f'mul_{name}', 'Mul', [shape, [401]], dtype=dtype)
        model(f'max_{name}', 'ReduceMax', [shape], [ints(0)], dtype=dtype)
        model(f'arg_max_{name}', 'ArgMax', [shape], outputs=[T.INT64], dtype=dtype, axis=1)
        model(f'top_k_{name}', 'TopK', [[100, 300]], [ints(5)], [dtype, T.INT64], dtype=dtype)
        model(f'cast_from_{name}', 'Cast', [shape], outputs=[T.FLOAT], dtype=dtype, to=T.FLOAT)
        model(f'cast_to_{name}', 'Cast', [shape], outputs=[dtype], to=dtype)
    scale, zero = np.full(300, 0.1, np.float32), np.zeros(300, np.int8)
    model('quantize', 'QuantizeLinear', [shape], [scale, zero], [T.INT8], axis=0)
    model('dequantize', 'DequantizeLinear', [shape], [scale, zero], [T.FLOAT], dtype=T.INT8, axis=0)


def forms():
    """Whose shapes are of a form that schedules made for others do not fit."""
    model('transposed_one_place', 'ConvTranspose', [[1, 100, 1, 1]], [weights(100, 256, 4, 4)])
    model('transposed_one_place_7x7', 'ConvTranspose', [[1, 64, 1, 1]], [weights(64, 128, 7, 7)])
    model('transposed_one_place_3d', 'ConvTranspose', [[1, 64, 1, 1, 1]], [weights(64, 64, 4, 4, 4)])
    for name, x, w, zero in (
        ('1d', [1, 64, 300], (64, 64, 3), 0),
        ('3d', [1, 32, 7, 15, 16], (32, 32, 3, 3, 3), 0),
        ('weight_zero', [1, 64, 30, 30], (64, 64, 3, 3), 120),
        ('weight_zero_1x1', [1, 64, 30, 30], (64, 64, 1, 1), 120),
    ):
        weight = RANDOM.integers(0, 256, w).astype(np.uint8 if zero else np.int8)
        constants = [weight, np.array(3, np.uint8), np.array(zero, weight.dtype)]
        model(f'conv_integer_{name}', 'ConvInteger', [(T.UINT8, x)], constants, [T.INT32])
    weight = RANDOM.integers(0, 256, (64, 64, 3, 3)).astype(np.uint8)
    for name, zero, scale in (
        ('unsigned', np.array(0, np.uint8), np.array(0.02, np.float32)),
        ('zero_a_channel', (np.arange(64) * 37 % 256).astype(np.uint8), np.full(64, 0.02, np.float32)),
    ):
        constants = [np.array(0.03, np.float32), np.array(120, np.uint8), weight, scale, zero]
        constants += [np.array(2.5, np.float32), np.array(128, np.uint8)]
        model(f'qlinear_conv_{name}', 'QLinearConv', [(T.UINT8, [1, 64, 28, 28])], constants, pads=[1, 1, 1, 1])
    model('cumulative_sum_of_fives', 'CumSum', [[20, 1000, 5]], [np.array(1)])
    model('max_of_rows_wide_1', 'ReduceMax', [[32, 100, 48, 1]], [ints(2, 3)])
    model('mean_of_rows_wide_1', 'ReduceMean', [[32, 100, 48, 1]], [ints(2, 3)])
    model('arg_max_wide_1', 'ArgMax', [[64, 300, 1]], outputs=[T.INT64], axis=1)
    model('instance_norm_wide_1', 'InstanceNormalization', [[8, 64, 300, 1]], [weights(64), weights(64)])
    model('layer_norm_wide_1', 'LayerNormalization', [[64, 300, 1, 1]], [weights(300, 1, 1)], axis=1)
    model('average_pool_wide_1', 'AveragePool', [[4, 64, 300, 1]], kernel_shape=[3, 1], strides=[2, 1])


def powers_of_two():
    """Sizes whose rows share sets of a cache, and sizes beside them."""
    for kind, side, matrix in (('powers', 128, (1024, 1024)), ('beside', 120, (1000, 1040))):
        image = [1, 64, side, side]
        model(f'{kind}_transpose', 'Transpose', [[*matrix]], perm=(1, 0))
        model(f'{kind}_planes', 'Transpose', [[1, side, side, 64]], perm=(0, 3, 1, 2))
        model(f'{kind}_small_planes', 'Transpose', [[1, side // 4, side // 4, 512]], perm=(0, 3, 1, 2))
        model(f'{kind}_conv_3x3', 'Conv', [image], [weights(64, 64, 3, 3)], pads=[1] * 4)
        model(f'{kind}_conv_1x1', 'Conv', [image], [weights(64, 64, 1, 1)])
        model(f'{kind}_conv_1d', 'Conv', [[1, 64, side * side // 4]], [weights(64, 64, 3)], pads=[1, 1])
        model(f'{kind}_depthwise', 'Conv', [image], [weights(64, 1, 3, 3)], pads=[1] * 4, group=64)
        model(f'{kind}_arg_max', 'ArgMax', [image], outputs=[T.INT64], axis=1)
        model(f'{kind}_product', 'MatMul', [[256, matrix[0]], [*matrix]])


def large():
    """More bytes than caches hold, or an image or vocabulary of full size."""

    def conv(name, x, w, op='Conv', **attributes):
        model(f'large_{name}', op, [x], [weights(*w)], **attributes)

    conv('conv_3x3', [1, 64, 512, 512], [64, 64, 3, 3], pads=[1] * 4)
    conv('conv_5x5', [1, 32, 300, 400], [32, 32, 5, 5], pads=[2] * 4)
    conv('conv_first', [1, 3, 1024, 1024], [32, 3, 3, 3], pads=[1] * 4)
    conv('conv_1x1_batch', [32, 256, 56, 56], [64, 256, 1, 1])
    conv('depthwise_batch', [16, 144, 56, 56], [144, 1, 3, 3], pads=[1] * 4, group=144)
    conv('conv_transpose', [1, 64, 256, 256], [64, 32, 4, 4], 'ConvTranspose', strides=[2, 2], pads=[1] * 4)
    model('large_max_pool', 'MaxPool', [[16, 64, 112, 112]], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for name, scale in (('up', 2), ('down', 0.25)):
        model(f'large_resize_{name}', 'Resize', [[1, 3, 540, 960]], [None, np.array([1, 1, scale, scale], 'f4')], mode='linear')
    model('large_product', 'MatMul', [[2048, 2048]], [weights(2048, 2048)])
    model('large_product_at_run_time', 'MatMul', [[1500, 1500], [1500, 1500]])
    model('large_add', 'Add', [[4096, 4096], [4096, 4096]])
    model('large_concat', 'Concat', [[8, 64, 128, 128], [8, 64, 128, 128]], axis=1)
    model('large_transpose', 'Transpose', [[4096, 4096]], perm=(1, 0))
    model('large_transpose_odd', 'Transpose', [[3000, 3700]], perm=(1, 0))
    model('large_softmax', 'Softmax', [[4096, 4096]], axis=-1)
    model('large_softmax_vocabulary', 'Softmax', [[64, 50257]], axis=-1)
    model('large_arg_max_vocabulary', 'ArgMax', [[128, 50257]], outputs=[T.INT64], axis=-1)
    model('large_top_k_vocabulary', 'TopK', [[8, 50257]], [ints(50)], [T.FLOAT, T.INT64], axis=-1)
    model('large_layer_norm', 'LayerNormalization', [[8192, 1024]], [weights(1024), weights(1024)])
    model('large_instance_norm', 'InstanceNormalization', [[2, 64, 512, 512]], [weights(64), weights(64)])
    model('large_sum_of_columns', 'ReduceSum', [[8192, 2048]], [ints(0)])
    model('large_mean', 'ReduceMean', [[4096, 4096]])
    model('large_cumulative_sum', 'CumSum', [[64, 100000]], [np.array(1)])


def written(folder, name, open_axes):
    op, operands, outputs, opset, domain, attributes = MODELS[name]
    given, held, names = [], [], []
    for operand in operands:
        if operand is None:
            names.append('')
        elif isinstance(operand, tuple):
            names.append('abcdefgh'[len(given)])
            dims = [f'd{d}' if not given and d in open_axes else extent for d, extent in enumerate(operand[1])]
            given.append(helper.make_tensor_value_info(names[-1], operand[0], dims))
        else:
            names.append(f'c{len(held)}')
            held.append(numpy_helper.from_array(operand, names[-1]))
    # An output without a type is left out.
    results = [helper.make_tensor_value_info(f'y{i}', dtype, None) if dtype else None for i, dtype in enumerate(outputs)]
    node = helper.make_node(op, names, [each.name if each else '' for each in results], domain=domain, **attributes)
    graph = helper.make_graph([node], name, given, [each for each in results if each], initializer=held)
    versions = [helper.make_opsetid('', opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    made = helper.make_model(graph, opset_imports=versions)
    made.ir_version = 8
    path = os.path.join(folder, name + '.onnx')
    onnx.save(made, path)
    return path


def main(families, usage):
    arguments, open_axes = sys.argv[1:], []
    for family in families:
        family()
    try:
        if '--open' in arguments:
            at = arguments.index('--open')
            open_axes = [int(axis) for axis in arguments[at + 1].split(',')]
            del arguments[at : at + 2]
    except (IndexError, ValueError):
        arguments = []
    if not arguments or arguments[0].startswith('-'):
        print(usage, file=sys.stderr)
        sys.exit(2)
    names = []
    for beginning in arguments[1:] or ['']:
        found = [name for name in MODELS if name.startswith(beginning)]
        if not found:
            print(f'error: no model begins with {beginning}', file=sys.stderr)
            sys.exit(2)
        names += found
    os.makedirs(arguments[0], exist_ok=True)
    for name in names:
        print(written(arguments[0], name, open_axes), flush=True)


if __name__ == '__main__':
    main((convolutions, windows, rows, products, moves, elements, forms, powers_of_two, large), __doc__)
