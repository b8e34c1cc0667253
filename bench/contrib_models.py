"""Models of one operator of com.microsoft each, in the forms that ONNX Runtime's kernels for CPUs take, as ONNX files.

usage: contrib_models.py FOLDER [--open AXES] [NAME ...]    needs python3-onnx python3-numpy

As operator_models.py: all of them without names; a name stands for all that begin with it.
"""
import numpy as np
from onnx import TensorProto as T

import operator_models
from operator_models import RANDOM, ints, weights


def model(name, op, operands, outputs=1, types=None, domain='com.microsoft', version=18, **attributes):
    """Operands: a shape is an input of float32, (type, shape) one of another type, an array a constant, None left out."""
    operands = [(T.FLOAT, each) if isinstance(each, list) else each for each in operands]
    operator_models.add_model(name, op, operands, types or [T.FLOAT] * outputs, version, domain, attributes)


def number(value, dtype=np.float32):
    return np.array(value, dtype)


def numbers(*values, dtype=np.int32):
    return np.array(values, dtype)


def bytes_of(dtype, *shape):
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def positive(*shape):
    return (0.005 + RANDOM.random(shape) * 0.02).astype(np.float32)


def products():
    model('fused_matmul', 'FusedMatMul', [[4, 65, 96], [4, 65, 96]], transB=1, alpha=0.125)
    model('fused_matmul_weight', 'FusedMatMul', [[65, 96], weights(96, 200)], alpha=0.5)
    model('fused_matmul_turned', 'FusedMatMul', [[4, 96, 65], [4, 96, 33]], transA=1)
    model('fused_matmul_batch', 'FusedMatMul', [[65, 4, 96], [33, 4, 96]], transBatchA=1, transBatchB=1, transB=1)
    model('transpose_matmul', 'TransposeMatMul', [[12, 50, 64], [12, 50, 64]], transB=1)
    model('fused_gemm', 'FusedGemm', [[17, 128], weights(100, 128), weights(100)], transB=1, activation='LeakyRelu', activation_alpha=0.2)
    image = [1, 32, 28, 28]
    model('fused_conv', 'FusedConv', [image, weights(48, 32, 3, 3), weights(48)], pads=[1] * 4, activation='Relu')
    model('fused_conv_sum', 'FusedConv', [image, weights(48, 32, 3, 3), weights(48), [1, 48, 28, 28]], pads=[1] * 4, activation='Relu')
    model('fused_conv_clip', 'FusedConv', [image, weights(48, 32, 1, 1)], activation='Clip', activation_params=[0.0, 0.5])
    model('fused_conv_sigmoid', 'FusedConv', [image, weights(48, 32, 1, 1)], activation='HardSigmoid', activation_params=[0.3, 0.4])


def activations():
    shape = [2, 197, 384]
    model('gelu', 'Gelu', [shape])
    model('fast_gelu', 'FastGelu', [shape])
    model('fast_gelu_bias', 'FastGelu', [shape, weights(384)])
    model('bias_gelu', 'BiasGelu', [shape, weights(384)])
    model('quick_gelu', 'QuickGelu', [shape])
    model('quick_gelu_1', 'QuickGelu', [shape], alpha=1.0)


def norms():
    shape = [2, 50, 384]
    model('skip_norm', 'SkipLayerNormalization', [shape, shape, weights(384), weights(384)], epsilon=1e-5)
    model('skip_norm_bias', 'SkipLayerNormalization', [shape, [1, 50, 384], weights(384), weights(384), weights(384)], epsilon=1e-5)
    half = (T.FLOAT16, shape)
    model('skip_norm_float16', 'SkipLayerNormalization', [half, half] + [weights(384).astype(np.float16)] * 2, types=[T.FLOAT16], epsilon=1e-5)
    operator_models.add_model(
        'skip_norm_sum', 'SkipLayerNormalization', [(T.FLOAT, shape)] * 2 + [weights(384)] * 2, [T.FLOAT, None, None, T.FLOAT], 18,
        'com.microsoft', {})
    model('rms_norm', 'SimplifiedLayerNormalization', [shape, weights(384)], domain='', version=17, axis=-1, epsilon=1e-6, stash_type=1)
    model('skip_rms_norm', 'SkipSimplifiedLayerNormalization', [shape, shape, weights(384)], epsilon=1e-6)
    operator_models.add_model(
        'skip_rms_norm_sum', 'SkipSimplifiedLayerNormalization', [(T.FLOAT, shape)] * 2 + [weights(384)] * 2,
        [T.FLOAT, None, None, T.FLOAT], 18, 'com.microsoft', {})
    words = RANDOM.integers(0, 100, (2, 17)).astype(np.int32)
    tables = [weights(100, 64), weights(40, 64), weights(2, 64), weights(64), weights(64)]
    mask = (np.arange(17) < np.array([[17], [9]])).astype(np.int32)
    model('embed_norm', 'EmbedLayerNormalization', [(T.INT32, [2, 17]), words % 2] + tables + [mask], types=[T.FLOAT, T.INT32])
    model('embed_norm_sum', 'EmbedLayerNormalization', [(T.INT32, [2, 17]), None] + tables[:2] + [None] + tables[3:],
          types=[T.FLOAT, T.INT32, T.FLOAT])
    model('embed_norm_positions', 'EmbedLayerNormalization',
          [(T.INT32, [2, 17]), None] + tables[:2] + [None] + tables[3:] + [None, words % 40], types=[T.FLOAT, T.INT32])


def attentions():
    batch, length, heads, size = 2, 24, 4, 32
    width = heads * size
    data, weight, bias = [batch, length, width], weights(width, 3 * width), weights(3 * width)
    raw = np.ones((batch, length), np.int32)
    raw[1, 15:] = 0
    past = [2, batch, heads, 9, size]
    for name, rest, outputs, attributes in (
        ('', [], 1, {}),
        ('_causal', [], 1, {'unidirectional': 1}),
        ('_scaled', [], 1, {'scale': 0.3}),
        ('_ends', [numbers(24, 15)], 1, {}),
        ('_ends_and_starts', [numbers(24, 15, 0, 3)], 1, {}),
        ('_mask', [raw], 1, {}),
        ('_mask_3d', [np.repeat(raw[:, None], length, 1)], 1, {'mask_filter_value': -1e4}),
        ('_past', [None, past], 2, {'unidirectional': 1}),
        ('_past_mask', [np.concatenate([np.ones((batch, 9), np.int32), raw], 1), past], 2, {'unidirectional': 1}),
        ('_added', [None, None, [1, heads, length, length]], 1, {}),
    ):
        model(f'attention{name}', 'Attention', [data, weight, bias] + rest, outputs, num_heads=heads, **attributes)
    split = weights(width, width + width + 64)
    model('attention_sizes', 'Attention', [data, split, weights(width * 2 + 64)], num_heads=heads, qkv_hidden_sizes=[width, width, 64])
    kv = [batch, 30, width]
    model('multi_head', 'MultiHeadAttention', [data, kv, kv], num_heads=heads)
    model('multi_head_bias', 'MultiHeadAttention', [data, data, data, bias], num_heads=heads)
    model('multi_head_causal', 'MultiHeadAttention', [data, data, data], num_heads=heads, unidirectional=1)
    model('multi_head_mask', 'MultiHeadAttention', [data, data, data, None, raw], num_heads=heads)
    model('multi_head_lengths', 'MultiHeadAttention', [data, data, data, None, numbers(24, 11)], num_heads=heads)
    model('multi_head_added', 'MultiHeadAttention', [data, kv, kv, None, None, [batch, 1, length, 30]], num_heads=heads)
    kept = [batch, heads, 9, size]
    model('multi_head_past', 'MultiHeadAttention', [data, data, data, None, None, None, kept, kept], 3, num_heads=heads)
    model('multi_head_cross', 'MultiHeadAttention', [data, [batch, heads, 30, size], [batch, heads, 30, size]], num_heads=heads)
    for name, x, places, extra in (
        ('', data, np.arange(batch * length, dtype=np.int64).reshape(batch, length) % 50, {}),
        ('_from', data, ints(7), {}),
        ('_interleaved', data, ints(0), {'interleaved': 1}),
        ('_apart', [batch, heads, length, size], ints(3), {}),
        ('_part', data, ints(3), {'rotary_embedding_dim': 16, 'num_heads': heads}),
    ):
        columns = extra.get('rotary_embedding_dim', size) // 2
        model(f'rotary{name}', 'RotaryEmbedding', [x, places, weights(64, columns), weights(64, columns)], **extra)


def grouped_attentions():
    heads, kv_heads, size = 8, 2, 32
    cosines, sines = weights(128, size // 2), weights(128, size // 2)

    def grouped(name, batch, queries, past, valid, total=None, packed=False, extra=(), **attributes):
        q, kv = [batch, queries, heads * size], [batch, queries, kv_heads * size]
        data = [[batch, queries, (heads + 2 * kv_heads) * size], None, None] if packed else [q, kv, kv]
        cache = [[batch, kv_heads, past, size]] * 2 if past is not None else [None, None]
        places = [numbers(*[n - 1 for n in valid]), number(total or max(valid), np.int32)]
        rotary = [cosines, sines] if attributes.get('do_rotary') else [None, None]
        operands = data + cache + places + rotary + list(extra)
        while operands[-1] is None:
            operands.pop()
        model(f'grouped_{name}', 'GroupQueryAttention', operands, 3, num_heads=heads, kv_num_heads=kv_heads, **attributes)

    grouped('prompt', 1, 24, None, [24])
    grouped('prompts', 3, 24, None, [24, 24, 24], do_rotary=1)
    grouped('token', 1, 1, 40, [41], do_rotary=1)
    grouped('tokens', 3, 1, 40, [41, 41, 41], do_rotary=1)
    grouped('tokens_of_lengths', 3, 1, 40, [41, 12, 30], do_rotary=1)
    grouped('token_in_buffer', 1, 1, 64, [41], do_rotary=1)
    grouped('more', 1, 5, 40, [45], do_rotary=1)
    grouped('interleaved', 1, 1, 40, [41], do_rotary=1, rotary_interleaved=1)
    grouped('packed', 1, 24, None, [24], packed=True, do_rotary=1)
    grouped('packed_token', 2, 1, 40, [41, 41], packed=True, do_rotary=1)
    grouped('window', 1, 24, None, [24], local_window_size=7)
    grouped('window_token', 1, 1, 40, [41], local_window_size=7, do_rotary=1)
    grouped('capped', 1, 24, None, [24], softcap=1.5, scale=0.7)
    grouped('smooth', 1, 24, None, [24], smooth_softmax=1)
    grouped('positions', 1, 5, 40, [45], do_rotary=1, extra=[np.arange(3, 8, dtype=np.int64).reshape(1, 5)])
    grouped('added', 1, 5, 40, [45], extra=[None, [1, heads, 5, 45]])
    grouped('sink', 1, 5, 40, [45], extra=[None, None, weights(heads)])


def packed_weights(n, k, block, bits, zeros=True, unpacked_zeros=False):
    blocks = -(-k // block)
    operands = [bytes_of(np.uint8, n, blocks, block * bits // 8), positive(n * blocks)]
    if unpacked_zeros:
        operands.append((RANDOM.random(n * blocks) * (1 << bits)).astype(np.float32))
    elif zeros:
        operands.append(bytes_of(np.uint8, n * -(-blocks * bits // 8)))
    return operands


def few_bits():
    for name, rows, n, k, block, bits, options in (
        ('4', [1, 16, 256], 192, 256, 32, 4, {'zeros': False}),
        ('4_zeros', [1, 16, 256], 192, 256, 32, 4, {}),
        ('4_one_row', [1, 1, 1024], 1024, 1024, 32, 4, {'zeros': False}),
        ('4_one_row_zeros', [1, 1, 1024], 1024, 1024, 64, 4, {}),
        ('4_odd', [7, 100], 33, 100, 16, 4, {}),
        ('4_block_128', [3, 256], 65, 256, 128, 4, {}),
        ('4_real_zeros', [3, 256], 64, 256, 32, 4, {'unpacked_zeros': True}),
        ('8', [1, 16, 256], 192, 256, 32, 8, {'zeros': False}),
        ('8_zeros', [1, 16, 256], 192, 256, 32, 8, {}),
        ('8_one_row', [1, 1, 1024], 1024, 1024, 32, 8, {'zeros': False}),
    ):
        model(f'n_bits_{name}', 'MatMulNBits', [rows] + packed_weights(n, k, block, bits, **options), K=k, N=n, block_size=block, bits=bits)
    model('n_bits_bias', 'MatMulNBits', [[3, 256]] + packed_weights(64, 256, 32, 4, zeros=False) + [None, None, weights(64)],
          K=256, N=64, block_size=32, bits=4)
    for name, extent in (('_1024', 1024), ('_2048', 2048), ('_4096', 4096)):
        # Activations of 8 bits, which the file allows and only ONNX Runtime makes.
        operands = [[1, 1, extent]] + packed_weights(extent, extent, 32, 4, zeros=False)
        for level in (0, 4):
            model(f'n_bits_row{name}_level_{level}', 'MatMulNBits', operands, K=extent, N=extent, block_size=32, bits=4, accuracy_level=level)
    half = [(T.FLOAT16, [3, 256])] + packed_weights(64, 256, 32, 4, zeros=False)
    half[2] = half[2].astype(np.float16)
    model('n_bits_4_float16', 'MatMulNBits', half, types=[T.FLOAT16], K=256, N=64, block_size=32, bits=4)
    for kind in (0, 1):
        model(f'bnb4_{kind}', 'MatMulBnb4', [[3, 256], bytes_of(np.uint8, 64 * 256 // 2), positive(64 * 256 // 64)],
              K=256, N=64, block_size=64, quant_type=kind)
    for bits, columns in ((4, 128), (8, 256)):
        for zeros in (False, True):
            operands = [bytes_of(np.uint8, 500, columns), (T.INT64, [2, 9]), positive(500, 8)]
            if zeros:
                operands.append(bytes_of(np.uint8, 500, 8 * bits // 8))
            model(f'gather_blocks_{bits}' + ('_zeros' if zeros else ''), 'GatherBlockQuantized', operands, bits=bits, block_size=32)


def quantized():
    scale, zero = number(0.05), number(113, np.uint8)
    x = (T.UINT8, [1, 24, 30, 30])
    one = [x, number(0.2), number(5, np.uint8)]
    kept = [number(0.1), number(7, np.uint8)]
    for name, op, attributes in (
        ('sigmoid', 'QLinearSigmoid', {}),
        ('leaky', 'QLinearLeakyRelu', {'alpha': 0.1}),
        ('average', 'QLinearAveragePool', {'kernel_shape': [3, 3], 'strides': [2, 2], 'pads': [1] * 4}),
        ('average_included', 'QLinearAveragePool', {'kernel_shape': [2, 2], 'count_include_pad': 1}),
        ('average_all', 'QLinearGlobalAveragePool', {}),
        ('average_last', 'QLinearGlobalAveragePool', {'channels_last': 1}),
    ):
        model(f'q_{name}', op, one + kept, types=[T.UINT8], **attributes)
    row = [(T.UINT8, [32, 200]), number(0.3), number(5, np.uint8), number(1 / 256), number(0, np.uint8)]
    model('q_softmax', 'QLinearSoftmax', row, types=[T.UINT8], axis=-1, opset=13)
    for op in ('Add', 'Mul'):
        model(f'q_{op.lower()}', f'QLinear{op}', one + one + kept, types=[T.UINT8])
        row = [(T.UINT8, [24, 1, 1]), number(0.1), number(3, np.uint8)]
        model(f'q_{op.lower()}_channels', f'QLinear{op}', one + row + kept, types=[T.UINT8])
    model('q_add_int8', 'QLinearAdd', [(T.INT8, [300, 401]), number(0.2), number(-3, np.int8)] * 2 + [number(0.1), number(7, np.int8)],
          types=[T.INT8])
    model('q_concat', 'QLinearConcat', kept + one + [x, number(0.1), number(7, np.uint8)], types=[T.UINT8], axis=1)
    model('q_where', 'QLinearWhere', [(T.BOOL, [1, 1, 30, 30])] + one + one + kept, types=[T.UINT8])
    ids = (T.INT32, [2, 17])
    tables = [bytes_of(np.uint8, *shape) for shape in ((100, 64), (40, 64), (2, 64), (64,), (64,))]
    mask = (np.arange(17) < np.array([[17], [9]])).astype(np.int32)
    model('q_embed_norm', 'QEmbedLayerNormalization', [ids, mask] + tables + [mask] + [number(0.01)] * 5 + [number(120, np.uint8)] * 5,
          types=[T.FLOAT, T.INT32])
    columns = positive(200)
    for name, weight, zeros in (
        ('', bytes_of(np.int8, 256, 200), None),
        ('_uint8', bytes_of(np.uint8, 256, 200), number(120, np.uint8)),
    ):
        model(f'dynamic_matmul{name}', 'DynamicQuantizeMatMul', [[2, 33, 256], weight, number(0.01), zeros, weights(200)])
        model(f'integer_to_float{name}', 'MatMulIntegerToFloat', [(T.UINT8, [2, 33, 256]), weight, scale, number(0.01), zero, zeros])
        model(f'q_gemm{name}', 'QGemm', [(T.UINT8, [33, 256]), scale, zero, weight, number(0.01), zeros if zeros is not None else number(0, np.int8),
                                        RANDOM.integers(-999, 999, 200).astype(np.int32), number(1.5), number(128, np.uint8)], types=[T.UINT8])
    model('dynamic_matmul_columns', 'DynamicQuantizeMatMul', [[2, 33, 256], bytes_of(np.int8, 256, 200), columns, np.zeros(200, np.int8)])
    model('integer_to_float_columns', 'MatMulIntegerToFloat',
          [(T.UINT8, [2, 33, 256]), bytes_of(np.int8, 256, 200), scale, columns, zero, np.zeros(200, np.int8), weights(200)])
    model('q_gemm_real', 'QGemm', [(T.UINT8, [33, 256]), scale, zero, bytes_of(np.int8, 200, 256), number(0.01), number(0, np.int8)], transB=1)
    model('q_attention', 'QAttention',
          [(T.UINT8, [2, 24, 128]), bytes_of(np.int8, 128, 384), weights(384), number(0.02), number(0.005), numbers(24, 15), zero, number(0, np.int8)],
          num_heads=4)
    model('q_attention_causal', 'QAttention',
          [(T.UINT8, [2, 24, 128]), bytes_of(np.int8, 128, 384), weights(384), number(0.02), number(0.005), None, zero, number(0, np.int8)],
          num_heads=4, unidirectional=1)
    model('q_conv_last', 'QLinearConv', [(T.UINT8, [1, 30, 30, 24]), scale, zero, bytes_of(np.int8, 32, 24, 3, 3), number(0.01), number(0, np.int8),
                                         number(1.0), number(128, np.uint8)], types=[T.UINT8], channels_last=1, pads=[1] * 4)
    model('max_pool_last', 'NhwcMaxPool', [(T.UINT8, [1, 30, 30, 24])], types=[T.UINT8], kernel_shape=[3, 3], strides=[2, 2])
    for dtype, of in ((np.uint8, T.UINT8), (np.int16, T.INT16), (np.uint16, T.UINT16)):
        name = np.dtype(dtype).name
        model(f'quantize_{name}', 'QuantizeLinear', [[300, 401], number(0.01), number(100, dtype)], types=[of])
        model(f'dequantize_{name}', 'DequantizeLinear', [(of, [300, 401]), number(0.01), number(100, dtype)])


def others():
    model('expand_dims', 'ExpandDims', [[3, 4], numbers(1)[0]])
    model('gather_nd', 'GatherND', [[10, 20, 7], (T.INT64, [30, 2])])
    model('pad', 'Pad', [[3, 4], ints(0, 1, 2, 3), number(0.5)])
    model('range', 'Range', [number(1.0), number(9.0), number(0.5)])
    model('trilu', 'Trilu', [[8, 30, 31]], upper=0)
    model('c_dist', 'CDist', [[40, 33], [50, 33]], metric='euclidean')
    model('c_dist_squares', 'CDist', [[40, 33], [50, 33]], metric='sqeuclidean')


if __name__ == '__main__':
    families = (products, activations, norms, attentions, grouped_attentions, few_bits, quantized, others)
    operator_models.main(families, __doc__)
