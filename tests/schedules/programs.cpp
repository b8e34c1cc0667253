#include "tests/schedules/programs.h"

#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/support/tensor.h"
#include "core/tir/builder.h"
#include "core/tir/interpret.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/program.h"

namespace lathe::schedule {

using namespace tir;

Target avx512_target() {
  Target target;
  target.vector_bits = 512;
  target.vector_registers = 32;
  target.cores = 2;
  return target;
}

Target avx2_target() {
  Target target = avx512_target();
  target.triple = "x86_64-pc-linux-gnu";
  target.vector_bits = 256;
  target.vector_registers = 16;
  return target;
}

Func conv2d(const ConvShape& c, DataType dtype) {
  FuncBuilder f;
  int64_t padded_h = c.height + 2 * c.pad, padded_w = c.width + 2 * c.pad;
  int64_t span = c.dilation * (c.kernel - 1) + 1;
  int64_t out_h = (padded_h - span) / c.stride + 1, out_w = (padded_w - span) / c.stride + 1;
  Buffer data = f.input("data", {c.batch, c.in_blocks, c.height, c.width, c.in_lanes}, dtype);
  Buffer weight =
      f.input("weight", {c.out_blocks, c.in_blocks, c.kernel, c.kernel, c.in_lanes, c.lanes}, dtype);
  Buffer bias = f.input("bias", {c.out_blocks, c.lanes}, dtype);
  Buffer residual =
      c.residual ? f.input("residual", {c.batch, c.out_blocks, out_h, out_w, c.lanes}, dtype) : Buffer();
  Buffer padded = data;
  if (c.pad > 0)
    padded = f.compute("pad", {c.batch, c.in_blocks, padded_h, padded_w, c.in_lanes}, [&](Vars i) {
      Expr h = i[2] - c.pad, w = i[3] - c.pad;
      Expr inside = logical_and(logical_and(less_equal(0, h), less(h, c.height)),
                                logical_and(less_equal(0, w), less(w, c.width)));
      return select(inside, load(data, {i[0], i[1], h, w, i[4]}), constant(dtype, 0));
    });
  Buffer out = f.reduce(
      "conv", {c.batch, c.out_blocks, out_h, out_w, c.lanes}, {c.in_blocks, c.kernel, c.kernel, c.in_lanes},
      Combiner::kSum, [&](Vars i, Vars r) {
        Expr h = i[2] * c.stride + r[1] * c.dilation, w = i[3] * c.stride + r[2] * c.dilation;
        return load(padded, {i[0], r[0], h, w, r[3]}) * load(weight, {i[1], r[0], r[1], r[2], r[3], i[4]});
      });
  if (c.epilogue)
    out = f.compute("bias_add", out->shape, [&, out](Vars i) {
      const Expr image = c.batch == 1 ? Expr(0) : i[0];  // as broadcasting lowers it
      return load(out, {image, i[1], i[2], i[3], i[4]}) + load(bias, {i[1], i[4]});
    });
  if (c.residual)
    out = f.compute("add", out->shape, [&, out](Vars i) {
      return load(out, {i[0], i[1], i[2], i[3], i[4]}) + load(residual, {i[0], i[1], i[2], i[3], i[4]});
    });
  if (c.epilogue)
    out = f.compute("relu", out->shape, [&, out](Vars i) {
      return max(load(out, {i[0], i[1], i[2], i[3], i[4]}), constant(dtype, 0));
    });
  return f.finish("conv2d", {out});
}

std::vector<int64_t> vector_lanes(const tir::Func& func) {
  std::vector<int64_t> lanes;
  post_order(func->body, [&](const NodeRef& node) {
    const auto* loop = node.as<tir::For>();
    if (loop && loop->iteration == tir::Iteration::kVectorized) lanes.push_back(int_value(loop->extent));
  });
  return lanes;
}

Func dot_conv2d(DataType data_type, DataType weight_type, int64_t size, int64_t kernel, int64_t lanes) {
  FuncBuilder f;
  const DataType sum = data_type.is_int() ? kInt32 : kFloat32;
  const int64_t group = dot_length(data_type, sum), pad = kernel / 2;
  Buffer data = f.input("data", {1, 2, size, size, lanes}, data_type);
  Buffer weight = f.input("weight", {2, 2, kernel, kernel, lanes / group, lanes, group}, weight_type);
  Buffer bias = f.input("bias", {2, lanes}, sum);
  Buffer padded = f.compute("pad", {1, 2, size + 2 * pad, size + 2 * pad, lanes}, [&](Vars i) {
    Expr h = i[2] - pad, w = i[3] - pad;
    Expr inside = logical_and(logical_and(less_equal(0, h), less(h, size)),
                              logical_and(less_equal(0, w), less(w, size)));
    return select(inside, load(data, {i[0], i[1], h, w, i[4]}), constant(data_type, 0));
  });
  Buffer conv =
      f.reduce("conv", {1, 2, size, size, lanes}, {2, kernel, kernel, lanes / group, group}, Combiner::kSum,
               [&](Vars i, Vars r) {
                 Expr x = load(padded, {i[0], r[0], i[2] + r[1], i[3] + r[2], r[3] * group + r[4]});
                 return cast(sum, x) * cast(sum, load(weight, {i[1], r[0], r[1], r[2], r[3], i[4], r[4]}));
               });
  Buffer out = f.compute("relu", conv->shape, [&](Vars i) {
    return max(load(conv, {i[0], i[1], i[2], i[3], i[4]}) + load(bias, {i[1], i[4]}), constant(sum, 0));
  });
  return f.finish("dot_conv2d", {out});
}

Func dot_dense(int64_t m, int64_t n, int64_t k) {
  FuncBuilder f;
  Buffer x = f.input("x", {m, k}, kUInt8), weight = f.input("weight", {n / 16, k / 4, 16, 4}, kInt8);
  Buffer out = f.reduce("dense", {m, n}, {k / 4, 4}, Combiner::kSum, [&](Vars i, Vars r) {
    Expr each = load(weight, {floordiv(i[1], 16), r[0], floormod(i[1], 16), r[1]});
    return cast(kInt32, load(x, {i[0], r[0] * 4 + r[1]})) * cast(kInt32, each);
  });
  return f.finish("dot_dense", {out});
}

Func packed_blocks(int64_t m, int64_t n, int64_t chunks, int64_t bits, int64_t lanes) {
  FuncBuilder f;
  const int64_t digits = 8 / bits, chunk = 16 * digits;
  Buffer x = f.input("x", {m, chunks * chunk}, kInt8),
         weight = f.input("weight", {n / lanes, chunks, 4, lanes, 4}, kUInt8),
         scale = f.input("scale", {n / lanes, chunks, lanes}, kInt32);
  Buffer out = f.reduce("blocks", {m, n}, {chunks}, Combiner::kSum, [&](Vars i, Vars r) {
    const Expr outer = floordiv(i[1], Expr(lanes)), lane = floormod(i[1], Expr(lanes));
    Expr sum = imm(kInt32, 0);
    for (int64_t g = 0; g < 4 * digits; ++g) {
      Expr group;
      for (int64_t k = 0; k < 4; ++k) {
        Expr each = load(weight, {outer, r[0], Expr(g % 4), lane, Expr(k)});
        if (g >= 4) each = binary(BinaryOp::kShiftRight, each, imm(kUInt8, g / 4 * bits));
        if (g / 4 + 1 < digits) each = binary(BinaryOp::kBitAnd, each, imm(kUInt8, (1 << bits) - 1));
        const Expr term = cast(kInt32, load(x, {i[0], r[0] * chunk + (4 * g + k)})) * cast(kInt32, each);
        group = group ? group + term : term;
      }
      sum = sum + group;
    }
    return load(scale, {outer, r[0], lane}) * sum;
  });
  return f.finish("packed_blocks", {out});
}

Func depthwise(int64_t blocks, int64_t size, int64_t stride, DataType dtype) {
  FuncBuilder f;
  int64_t out_size = (size - 1) / stride + 1;
  Buffer data = f.input("data", {1, blocks, size, size, 16}, dtype);
  Buffer weight = f.input("weight", {blocks, 3, 3, 16}, dtype);
  Buffer padded = f.compute("pad", {1, blocks, size + 2, size + 2, 16}, [&](Vars i) {
    Expr h = i[2] - 1, w = i[3] - 1;
    Expr inside = logical_and(logical_and(less_equal(0, h), less(h, size)),
                              logical_and(less_equal(0, w), less(w, size)));
    return select(inside, load(data, {i[0], i[1], h, w, i[4]}), constant(dtype, 0));
  });
  Buffer conv =
      f.reduce("depthwise", {1, blocks, out_size, out_size, 16}, {3, 3}, Combiner::kSum, [&](Vars i, Vars r) {
        return load(padded, {i[0], i[1], i[2] * stride + r[0], i[3] * stride + r[1], i[4]}) *
               load(weight, {i[1], r[0], r[1], i[4]});
      });
  Buffer out = f.compute("relu", conv->shape, [&](Vars i) {
    return max(load(conv, {i[0], i[1], i[2], i[3], i[4]}), constant(dtype, 0));
  });
  return f.finish("depthwise", {out});
}

namespace {
/// A 1x1 convolution of `x` with a weight and a bias of its own.
Buffer pointwise(FuncBuilder& f, const Buffer& x, const std::string& name, int64_t out_blocks) {
  const std::vector<Expr>& shape = x->shape;
  Buffer weight = f.input(name + "_weight", {out_blocks, shape[1], 1, 1, shape[4], shape[4]}, x->dtype);
  Buffer bias = f.input(name + "_bias", {out_blocks, 1, 1, shape[4]}, x->dtype);
  Buffer sum = f.reduce(name, {1, out_blocks, shape[2], shape[3], shape[4]}, {shape[1], 1, 1, shape[4]},
                        Combiner::kSum, [&](Vars i, Vars r) {
                          return load(x, {i[0], r[0], i[2] + r[1], i[3] + r[2], r[3]}) *
                                 load(weight, {i[1], r[0], r[1], r[2], r[3], i[4]});
                        });
  return f.compute(name + "_add", sum->shape, [&](Vars i) {
    return load(sum, {i[0], i[1], i[2], i[3], i[4]}) + load(bias, {i[1], 0, 0, i[4]});
  });
}

Buffer relu_of(FuncBuilder& f, const Buffer& x) {
  return f.compute("relu", x->shape, [&](Vars i) {
    return max(load(x, {i[0], i[1], i[2], i[3], i[4]}), constant(x->dtype, 0));
  });
}
}  // namespace

Func inverted_residual(const InvertedResidual& c, DataType dtype) {
  FuncBuilder f;
  int64_t pad = c.padded ? c.kernel / 2 : 0, padded = c.size + 2 * pad;
  int64_t out_size = (padded - c.kernel) / c.stride + 1;
  Buffer data = f.input("data", {1, c.in_blocks, c.size, c.size, c.lanes}, dtype);
  Buffer image = relu_of(f, pointwise(f, data, "expand", c.middle_blocks));
  if (c.dear)
    image = f.compute("square", image->shape, [&, image](Vars i) {
      const Expr x = load(image, {i[0], i[1], i[2], i[3], i[4]});
      return x * (x + constant(dtype, 1));
    });
  if (pad > 0)
    image = f.compute("pad", {1, c.middle_blocks, padded, padded, c.lanes}, [&, image](Vars i) {
      Expr h = i[2] - pad, w = i[3] - pad;
      Expr inside = logical_and(logical_and(less_equal(0, h), less(h, c.size)),
                                logical_and(less_equal(0, w), less(w, c.size)));
      return select(inside, load(image, {i[0], i[1], h, w, i[4]}), constant(dtype, c.border));
    });
  Buffer filter = f.input("filter", {c.middle_blocks, 1, c.kernel, c.kernel, 1, c.lanes}, dtype);
  Buffer sum =
      f.reduce("depthwise", {1, c.middle_blocks, out_size, out_size, c.lanes}, {c.kernel, c.kernel},
               Combiner::kSum, [&](Vars i, Vars r) {
                 Expr h = i[2] * c.stride + r[0], w = i[3] * c.stride + r[1];
                 return load(image, {i[0], i[1], h, w, i[4]}) * load(filter, {i[1], 0, r[0], r[1], 0, i[4]});
               });
  Buffer out = relu_of(f, sum);
  if (c.projects) out = pointwise(f, out, "project", c.out_blocks);
  return f.finish("inverted_residual", {out});
}

Func dense(int64_t m, int64_t n, int64_t k, DataType dtype, std::optional<Intrinsic> function) {
  FuncBuilder f;
  Buffer x = f.input("x", {m, k}, dtype);
  Buffer weight = f.input("weight", {n / 16, k, 16}, dtype);
  Buffer bias = f.input("bias", {n}, dtype);
  Buffer product = f.reduce("dense", {m, n}, {k}, Combiner::kSum, [&](Vars i, Vars r) {
    return load(x, {i[0], r[0]}) * load(weight, {floordiv(i[1], 16), r[0], floormod(i[1], 16)});
  });
  Buffer out = f.compute("bias_add", {m, n}, [&](Vars i) {
    const Expr sum = load(product, {i[0], i[1]}) + load(bias, {i[1]});
    return function ? intrinsic(*function, sum) : sum;
  });
  return f.finish("dense", {out});
}

Func matmul(int64_t m, int64_t n, int64_t k, DataType dtype) {
  FuncBuilder f;
  Buffer a = f.input("a", {m, k}, dtype), b = f.input("b", {k, n}, dtype);
  Buffer c = f.reduce("matmul", {m, n}, {k}, Combiner::kSum, [&](Vars i, Vars r) {
    return load(a, {i[0], r[0]}) * load(b, {r[0], i[1]});
  });
  return f.finish("matmul", {c});
}

Func product(const Product& p, DataType dtype) { return narrow_product(p, dtype, dtype, dtype); }

Func narrow_product(const Product& p, DataType left, DataType right, DataType dtype) {
  FuncBuilder f;
  auto matrix = [&](const char* name, int64_t rows, int64_t columns, bool transposed, bool shared,
                    DataType dtype) {
    std::vector<Expr> shape{rows, columns};
    if (transposed) std::swap(shape[0], shape[1]);
    if (!shared) shape.insert(shape.begin(), Expr(p.batch));
    return f.input(name, shape, dtype);
  };
  auto at = [](const Buffer& b, const Expr& batch, Expr row, Expr column, bool transposed) {
    if (transposed) std::swap(row, column);
    return b->shape.size() == 3 ? load(b, {batch, row, column}) : load(b, {row, column});
  };
  Buffer x = matrix("x", p.m, p.k, p.transpose_x, false, left),
         y = matrix("y", p.k, p.n, p.transpose_y, p.shared, right);
  Buffer c = f.reduce("product", {p.batch, p.m, p.n}, {p.k}, Combiner::kSum, [&](Vars i, Vars r) {
    return cast(dtype, at(x, i[0], i[1], r[0], p.transpose_x)) *
           cast(dtype, at(y, i[0], r[0], i[2], p.transpose_y));
  });
  if (!p.bias) return f.finish("product", {c});
  Buffer bias = f.input("bias", {p.n}, dtype);
  return f.finish("product", {f.compute("biased", c->shape, [&](Vars i) {
                    return load(c, {i[0], i[1], i[2]}) + load(bias, {i[2]});
                  })});
}

Func max_pool(int64_t blocks, int64_t size, DataType dtype) {
  FuncBuilder f;
  Buffer data = f.input("data", {1, blocks, size, size, 16}, dtype);
  Buffer out = f.reduce("pool", {1, blocks, (size - 3) / 2 + 1, (size - 3) / 2 + 1, 16}, {3, 3},
                        Combiner::kMax, [&](Vars i, Vars r) {
                          return load(data, {i[0], i[1], i[2] * 2 + r[0], i[3] * 2 + r[1], i[4]});
                        });
  return f.finish("max_pool", {out});
}

Func global_average(int64_t blocks, int64_t size) {
  FuncBuilder f;
  Buffer data = f.input("data", {1, blocks, size, size, 16}, kFloat32);
  Buffer sum = f.reduce("sum", {1, blocks, 1, 1, 16}, {size, size}, Combiner::kSum, [&](Vars i, Vars r) {
    return load(data, {i[0], i[1], r[0], r[1], i[4]});
  });
  Buffer out = f.compute("mean", {1, blocks, 1, 1, 16}, [&](Vars i) {
    return load(sum, {i[0], i[1], i[2], i[3], i[4]}) * fimm(kFloat32, 1.0 / static_cast<double>(size * size));
  });
  return f.finish("global_average", {out});
}

Func softmax(int64_t rows, int64_t columns) {
  FuncBuilder f;
  Buffer x = f.input("x", {rows, columns}, kFloat32);
  Buffer top = f.reduce("top", {rows}, {columns}, Combiner::kMax, [&](Vars i, Vars r) {
    return load(x, {i[0], r[0]});
  });
  Buffer e = f.compute("e", {rows, columns}, [&](Vars i) {
    return intrinsic(Intrinsic::kExp, load(x, {i[0], i[1]}) - load(top, {i[0]}));
  });
  Buffer sum = f.reduce("sum", {rows}, {columns}, Combiner::kSum, [&](Vars i, Vars r) {
    return load(e, {i[0], r[0]});
  });
  Buffer out = f.compute("out", {rows, columns}, [&](Vars i) {
    return div(load(e, {i[0], i[1]}), load(sum, {i[0]}));
  });
  return f.finish("softmax", {out});
}

namespace {
/// A matrix plus a row, both inputs.
Buffer sum_with_row(FuncBuilder& f, int64_t rows, int64_t columns, DataType dtype) {
  Buffer x = f.input("x", {rows, columns}, dtype), y = f.input("y", {columns}, dtype);
  return f.compute("sum", {rows, columns}, [&](Vars i) { return load(x, {i[0], i[1]}) + load(y, {i[1]}); });
}
}  // namespace

Func elementwise(int64_t rows, int64_t columns, DataType dtype) {
  FuncBuilder f;
  Buffer sum = sum_with_row(f, rows, columns, dtype);
  Buffer twice = f.compute("twice", {rows, columns}, [&](Vars i) {
    return load(sum, {i[0], i[1]}) * constant(dtype, 2);
  });
  Buffer out = f.compute("out", {columns, rows}, [&](Vars i) {
    return max(load(twice, {i[1], i[0]}), constant(dtype, 0));
  });
  return f.finish("elementwise", {out});
}

Func leaky_relu(int64_t rows, int64_t columns, DataType dtype) {
  FuncBuilder f;
  Buffer sum = sum_with_row(f, rows, columns, dtype);
  Buffer out = f.compute("out", {rows, columns}, [&](Vars i) {
    Expr v = load(sum, {i[0], i[1]});
    return select(less(constant(dtype, 0), v), v, v * constant(dtype, 3));
  });
  return f.finish("leaky_relu", {out});
}

Func doubled_reshape(int64_t rows, int64_t columns, DataType dtype) {
  FuncBuilder f;
  Buffer x = f.input("x", {rows, columns}, dtype);
  Buffer out = f.compute("out", {1, rows / 4, columns * 4}, [&](Vars i) {
    Expr flat = i[1] * (columns * 4) + i[2];
    return load(x, {floordiv(flat, columns), floormod(flat, columns)}) * constant(dtype, 2);
  });
  return f.finish("doubled_reshape", {out});
}

Func filter(int64_t length, int64_t taps, DataType dtype) {
  FuncBuilder f;
  Buffer x = f.input("x", {1, 1, length}, dtype), w = f.input("w", {1, 1, taps}, dtype);
  int64_t out_length = (length - taps) / 2 + 1;
  Buffer sum = f.reduce("sum", {1, 1, out_length}, {1, 1, taps}, Combiner::kSum, [&](Vars i, Vars r) {
    return load(x, {i[0], r[0], i[2] * 2 + r[2]}) * load(w, {r[0], r[1], r[2]});
  });
  return f.finish("filter", {sum});
}

Func pack_layout(int64_t blocks, int64_t size, DataType dtype) {
  FuncBuilder f;
  Buffer x = f.input("x", {1, blocks * 16, size, size}, dtype);
  Buffer out = f.compute("packed", {1, blocks, size, size, 16}, [&](Vars i) {
    return load(x, {i[0], i[1] * 16 + i[4], i[2], i[3]});
  });
  return f.finish("pack_layout", {out});
}

Func reduction(const std::vector<int64_t>& shape, size_t reduced, Combiner combiner, DataType dtype) {
  FuncBuilder f;
  Buffer x = f.input("x", {shape.begin(), shape.end()}, dtype);
  std::vector<Expr> kept(shape.begin(), shape.end() - static_cast<int64_t>(reduced)),
      terms(shape.end() - static_cast<int64_t>(reduced), shape.end());
  Buffer out = f.reduce("reduce", kept, terms, combiner, [&](Vars i, Vars r) {
    std::vector<Expr> at(i.begin(), i.end());
    at.insert(at.end(), r.begin(), r.end());
    return load(x, at);
  });
  return f.finish("reduction", {out});
}

std::string refusal_of(const Func& func, const std::function<void(Schedule&)>& apply) {
  Schedule s(func);
  try {
    apply(s);
  } catch (const Error& e) {
    EXPECT_EQ(s.func(), func);
    return e.what();
  }
  return "accepted";
}

std::vector<Program> small_programs() {
  return {
      {"conv2d 3x3", conv2d({})},
      {"inverted residual", inverted_residual({.size = 6, .lanes = 8})},
      {"conv2d 3x3, residual",
       conv2d({.out_blocks = 4, .in_blocks = 1, .height = 8, .width = 6, .residual = true})},
      {"conv2d 3x3 stride 2, prime size", conv2d({.height = 13, .width = 13, .stride = 2})},
      {"conv2d 1x1 without epilogue", conv2d({.in_blocks = 3, .kernel = 1, .pad = 0, .epilogue = false})},
      {"conv2d 5x5 first layer",
       conv2d({.out_blocks = 1, .in_blocks = 1, .kernel = 5, .stride = 2, .pad = 2, .in_lanes = 3})},
      {"8-bit conv2d", dot_conv2d(kUInt8, kInt8, 7)},
      {"8-bit conv2d 1x1, signed", dot_conv2d(kInt8, kInt8, 6, 1)},
      {"bfloat16 conv2d", dot_conv2d(kBFloat16, kBFloat16, 5)},
      {"int16 conv2d", dot_conv2d(kInt16, kInt16, 5)},
      {"8-bit dense", dot_dense(3, 64, 24)},
      {"blocks of 4 bits", packed_blocks(3, 64, 3, 4)},
      {"blocks of 2 bits, one row, one vector", packed_blocks(1, 16, 2, 2)},
      {"depthwise", depthwise(2, 7, 1)},
      {"depthwise stride 2", depthwise(1, 14, 2)},
      {"dense", dense(4, 64, 24)},
      {"dense, one row", dense(1, 96, 30)},
      {"matmul", matmul(5, 48, 12)},
      {"matmul, odd sizes", matmul(7, 11, 13)},
      {"products", product({})},
      {"products, both transposed", product({.n = 37, .transpose_x = true, .transpose_y = true})},
      {"products with one matrix, bias",
       product({.n = 21, .transpose_y = true, .shared = true, .bias = true})},
      {"product of a row", product({.batch = 1, .m = 1, .n = 50, .k = 33, .transpose_y = true})},
      {"8-bit products, odd sizes",
       narrow_product({.m = 17, .n = 21, .k = 11, .transpose_y = true, .bias = true}, kUInt8, kInt8, kInt32)},
      {"8-bit products of whole groups, the left one transposed",
       narrow_product({.m = 20, .n = 5, .k = 8, .transpose_x = true, .shared = true}, kInt8, kInt8, kInt32)},
      {"product with a constant of long rows",
       tir::with_constant_params(
           product({.batch = 1, .m = 3, .n = 40, .k = 100, .transpose_y = true, .shared = true}), 0b10)},
      {"bfloat16 products, odd sizes",
       narrow_product({.m = 19, .n = 35, .k = 7}, kBFloat16, kBFloat16, kFloat32)},
      {"max pool", max_pool(2, 9)},
      {"global average", global_average(3, 7)},
      {"softmax", softmax(3, 20)},
      {"element-wise", elementwise(6, 10)},
      {"element-wise, rows no vector divides", elementwise(2, 37)},
      {"leaky relu", leaky_relu(3, 48)},
      {"reshape", doubled_reshape(8, 32)},
      {"reshape, odd rows", doubled_reshape(4, 11)},
      {"filter", filter(150, 64)},
      {"softmax, rows of four times a prime", softmax(3, 44)},
      {"layout", pack_layout(2, 5)},
  };
}

namespace {
std::vector<Tensor> random_params(const Func& func) {
  std::vector<Tensor> params;
  for (const Buffer& param : func->params)
    params.push_back(random_tensor(constant_shape(param), param->dtype, params.size() + 1));
  return params;
}
}  // namespace

void expect_same_results(const Func& func, const Func& scheduled, double most) {
  if (auto fault = find_fault(scheduled)) ADD_FAILURE() << *fault;
  std::vector<Tensor> expected = random_params(func), actual = random_params(func);
  interpret(func, expected);
  try {
    interpret(scheduled, actual);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
    return;
  }
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(max_relative_error(actual[i], expected[i]), expected[i].dtype().is_float() ? most : 0)
        << func->params[i]->name;
}

void expect_sound(const Func& func, const Schedule& s) {
  expect_same_results(func, s.func());
  EXPECT_TRUE(structural_equal(replay(parse_trace(to_json(s.trace())), func), s.func()));
  if (auto fault = find_fault(lower(s.func(), avx512_target()), Level::kVectors)) ADD_FAILURE() << *fault;
}

tir::Func gram(int64_t rows, int64_t depth, DataType type) {
  return tir::parse_func(fmt::format(R"(
func main(x: {2}[{0}, {1}]) -> (c: float32[{0}, {0}]) {{
  block root {{
    for i in 0..{0} {{ for j in 0..{0} {{ for k in 0..{1} {{
      block product(spatial vi in 0..{0} = i, spatial vj in 0..{0} = j, reduce vk in 0..{1} = k) {{
        reads x[0:{0}, vk]
        writes c[vi, vj]
        init {{ c[vi, vj] = 0.0 }}
        c[vi, vj] = c[vi, vj] + {3}x[vi, vk]{4} * {3}x[vj, vk]{4}
    }} }} }} }}
}} }})",
                                     rows, depth, to_string(type), type == kFloat32 ? "" : "cast(float32, ",
                                     type == kFloat32 ? "" : ")"));
}

size_t vectors_around(const tir::Func& func, const std::string& name) {
  size_t count = 0;
  for (const Ref<tir::For>& loop : loops_around(*path_to_block(func, name)))
    count += loop->iteration == tir::Iteration::kVectorized ? 1 : 0;
  return count;
}

}  // namespace lathe::schedule
