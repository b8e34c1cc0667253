// Small programs of the shapes that operators make, and the oracle that schedules are tested against.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/tir/builder.h"
#include "core/tir/target.h"
#include "schedules/schedule.h"

namespace lathe::schedule {

/// A machine to schedule for: two cores with 32 vectors of 512 bits.
Target avx512_target();
/// Loops of a program that run in vectors, as their numbers of lanes.
std::vector<int64_t> vector_lanes(const tir::Func& func);
/// 16 registers of 256 bits; broadcasts are instructions of their own.
Target avx2_target();

/// A named program for tests. Integer programs have exact results whatever the order of sums.
struct Program {
  std::string name;
  tir::Func func;
};

struct ConvShape {
  int64_t out_blocks = 2, in_blocks = 2, height = 7, width = 7, kernel = 3, stride = 1, dilation = 1, pad = 1,
          lanes = 16, in_lanes = 16;
  bool epilogue = true, residual = false;
  int64_t batch = 1;
};
/// conv2d over NCHWc data and packed weights: padding block, convolution block, element-wise epilogue.
tir::Func conv2d(const ConvShape& shape, DataType dtype = kInt32);
/// conv2d of low precision: data NCHW{lanes}c, weights OIHW{lanes/group}i{lanes}o{group}i, groups of 4 8-bit
/// integers into int32 or of 2 bfloat16 into float32; padding before and an element-wise epilogue.
tir::Func dot_conv2d(DataType data, DataType weight, int64_t size, int64_t kernel = 3, int64_t lanes = 16);
/// x[m, k] times weights packed [n/16, k/4, 16, 4].
tir::Func dot_dense(int64_t m, int64_t n, int64_t k);
/// The same of signed bytes and unsigned weights of so many bits, packed [n/lanes, chunks, 4, lanes, 4]: each
/// chunk's sum is written out and multiplied by a scale. Values are whole.
tir::Func packed_blocks(int64_t m, int64_t n, int64_t chunks, int64_t bits, int64_t lanes = 16);
tir::Func depthwise(int64_t blocks, int64_t size, int64_t stride, DataType dtype = kInt32);
struct InvertedResidual {
  int64_t in_blocks = 1, middle_blocks = 2, out_blocks = 1, size = 9, stride = 1, kernel = 3, lanes = 16;
  bool padded = true, projects = true;
  int border = 0;     // what is padded with
  bool dear = false;  // what follows the expansion reads a result twice: not to be computed again
};
/// 1x1 convolution `expand`, depthwise convolution `depthwise` and, if it projects, 1x1 convolution
/// `project`, each with an element-wise block after it, on NCHW{lanes}c.
tir::Func inverted_residual(const InvertedResidual& shape, DataType dtype = kInt32);
/// x[m, k] times weights packed [n/lanes, k, lanes], plus a bias; then `function` of it.
tir::Func dense(int64_t m, int64_t n, int64_t k, DataType dtype = kInt32,
                std::optional<Intrinsic> function = {});
tir::Func matmul(int64_t m, int64_t n, int64_t k, DataType dtype = kInt32);
/// b products x[m, k] or its transpose, times y[k, n] or its transpose; y is one for all when `shared`.
struct Product {
  int64_t batch = 3, m = 5, n = 11, k = 7;
  bool transpose_x = false, transpose_y = false, shared = false, bias = false;
};
tir::Func product(const Product& shape, DataType dtype = kInt32);
/// The same of operands of these types, widened to `sum`.
tir::Func narrow_product(const Product& shape, DataType x, DataType y, DataType sum);
tir::Func max_pool(int64_t blocks, int64_t size, DataType dtype = kInt32);
tir::Func global_average(int64_t blocks, int64_t size);
tir::Func softmax(int64_t rows, int64_t columns);
/// Three element-wise blocks one after the other, with a broadcast.
tir::Func elementwise(int64_t rows, int64_t columns, DataType dtype = kInt32);
/// x plus a row, three times as much where that is negative.
tir::Func leaky_relu(int64_t rows, int64_t columns, DataType dtype = kInt32);
/// out[1, rows / 4, columns * 4] = twice x[rows, columns], in its order.
tir::Func doubled_reshape(int64_t rows, int64_t columns, DataType dtype = kInt32);
/// A row filtered by `taps` weights: a convolution of one channel in and out, in three nested sums, two of
/// them of one term.
tir::Func filter(int64_t length, int64_t taps, DataType dtype = kInt32);
/// NCHW to NCHWc.
tir::Func pack_layout(int64_t blocks, int64_t size, DataType dtype = kInt32);

/// One reduction over the last `reduced` of the dimensions.
tir::Func reduction(const std::vector<int64_t>& shape, size_t reduced, tir::Combiner combiner,
                    DataType dtype = kInt32);

std::vector<Program> small_programs();

/// What `apply` says when it refuses `func`, which then is as it was; "accepted" when it does not.
std::string refusal_of(const tir::Func& func, const std::function<void(Schedule&)>& apply);

/// Both programs give the same results on the same random inputs (floats within `most` of the largest), and
/// `scheduled` has no fault.
void expect_same_results(const tir::Func& func, const tir::Func& scheduled, double most = 1e-5);

/// The same results, the same schedule again from its trace as JSON, and a lowered program without fault.
void expect_sound(const tir::Func& func, const Schedule& schedule);

/// for i, j, k: c[i, j] += x[i, k] * x[j, k]
tir::Func gram(int64_t rows, int64_t depth, DataType type = kFloat32);

/// The loops that run in vectors around the block of that name.
size_t vectors_around(const tir::Func& func, const std::string& name);

}  // namespace lathe::schedule
