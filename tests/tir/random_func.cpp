#include "tests/tir/random_func.h"

#include <algorithm>
#include <cmath>

#include "core/tir/interpret.h"

namespace lathe::tir {
namespace {

class Generator {
 public:
  Generator(uint32_t seed, const RandomFuncOptions& options) : random_(seed), options_(options) {}

  Func generate() {
    dtype_ = options_.integers && pick(0, 4) == 0 ? kInt32 : kFloat32;
    int64_t inputs = pick(1, 2);
    for (int64_t i = 0; i < inputs; ++i)
      values_.push_back(builder_.input(fmt::format("in{}", i), dims(shape(pick(1, 4))), dtype_));
    int64_t stages = pick(1, options_.stages);
    for (int64_t s = 0; s < stages; ++s) {
      // Mostly a chain, so that there are producers to move and inline.
      Buffer source = pick(0, 3)
                          ? values_.back()
                          : values_[static_cast<size_t>(pick(0, static_cast<int64_t>(values_.size()) - 1))];
      values_.push_back(stage(source));
      uses_.push_back(source);
    }
    std::vector<Buffer> outputs{values_.back()};
    // What nothing reads is an output too.
    for (size_t v = static_cast<size_t>(inputs); v + 1 < values_.size(); ++v)
      if (std::find(uses_.begin(), uses_.end(), values_[v]) == uses_.end()) outputs.push_back(values_[v]);
    return builder_.finish("random", outputs);
  }

 private:
  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  std::vector<int64_t> shape(int64_t rank) {
    std::vector<int64_t> result;
    for (int64_t d = 0; d < rank; ++d) {
      int64_t room = options_.max_elements / std::max<int64_t>(shape_size(result), 1);
      result.push_back(std::min(pick(1, options_.max_extent), std::max<int64_t>(room, 1)));
    }
    return result;
  }

  static std::vector<Expr> dims(const std::vector<int64_t>& shape) {
    std::vector<Expr> result;
    for (int64_t d : shape) result.push_back(Expr(d));
    return result;
  }

  Expr number(double value) const { return constant(dtype_, value); }
  static std::vector<Expr> exprs(Vars vars) { return {vars.begin(), vars.end()}; }

  Expr pointwise(const Expr& x) {
    switch (pick(0, dtype_.is_float() ? 5 : 3)) {
      case 0:
        return max(x, number(0));
      case 1:
        return x * number(3) + number(1);
      case 2:
        return x - number(2);
      case 3:
        return min(x, number(4));
      case 4:
        return intrinsic(Intrinsic::kTanh, x);
      default:
        return div(x, number(2));
    }
  }

  Buffer stage(const Buffer& source) {
    size_t rank = source->shape.size();
    switch (pick(0, 9)) {
      case 0:
      case 1:
        return elementwise(source);
      case 2:
        return rank >= 2 ? transpose(source) : elementwise(source);
      case 3:
        return pad(source);
      case 4:
      case 5:
        return window(source);
      case 6:
        return reduction(source);
      case 7:
        return product(source);
      case 8:
        return reshape(source);
      default:
        return broadcast_add(source);
    }
  }

  Buffer elementwise(const Buffer& a) {
    return builder_.compute("map", a->shape, [&](Vars i) { return pointwise(load(a, exprs(i))); });
  }

  Buffer transpose(const Buffer& a) {
    std::vector<size_t> order(a->shape.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<Expr> shape(order.size());
    for (size_t d = 0; d < order.size(); ++d) shape[d] = a->shape[order[d]];
    return builder_.compute("transpose", shape, [&](Vars i) {
      std::vector<Expr> at(order.size());
      for (size_t d = 0; d < order.size(); ++d) at[order[d]] = i[d];
      return load(a, at);
    });
  }

  Buffer pad(const Buffer& a) {
    std::vector<int64_t> before;
    std::vector<Expr> shape;
    for (const Expr& dim : a->shape) {
      before.push_back(pick(0, 2));
      shape.push_back(dim + before.back() + pick(0, 2));
    }
    return builder_.compute("pad", shape, [&](Vars i) {
      Expr inside = imm(kBool, 1);
      std::vector<Expr> at;
      for (size_t d = 0; d < before.size(); ++d) {
        at.push_back(Expr(i[d]) - before[d]);
        if (before[d]) inside = logical_and(inside, less_equal(Expr(before[d]), i[d]));
        if (!is_int(shape[d], before[d] + int_value(a->shape[d])))
          inside = logical_and(inside, less(i[d], a->shape[d] + before[d]));
      }
      return select(inside, load(a, at), number(0));
    });
  }

  /// out[c, y, ...] = combine over k of in[c, y * stride + k, ...] (* weight[k]), over the last one or two
  /// dimensions.
  Buffer window(const Buffer& a) {
    size_t rank = a->shape.size(), first = rank - std::min<size_t>(rank, static_cast<size_t>(pick(1, 2)));
    std::vector<Expr> shape(a->shape.begin(), a->shape.begin() + static_cast<long>(first)), kernel;
    std::vector<int64_t> strides;
    for (size_t d = first; d < rank; ++d) {
      int64_t extent = int_value(a->shape[d]), k = pick(1, std::min<int64_t>(extent, 3)), stride = pick(1, 2);
      kernel.push_back(Expr(k));
      strides.push_back(stride);
      shape.push_back(Expr((extent - k) / stride + 1));
    }
    bool weighted = pick(0, 1);
    Buffer weight = weighted ? builder_.input("weight", kernel, dtype_) : Buffer();
    Combiner combiner = weighted ? Combiner::kSum : pick(0, 1) ? Combiner::kMax : Combiner::kSum;
    return builder_.reduce(weighted ? "conv" : "pool", shape, kernel, combiner, [&](Vars i, Vars r) {
      std::vector<Expr> at;
      for (size_t d = 0; d < rank; ++d)
        at.push_back(d < first ? Expr(i[d]) : Expr(i[d]) * strides[d - first] + r[d - first]);
      Expr value = load(a, at);
      return weighted ? value * load(weight, exprs(r)) : value;
    });
  }

  Buffer reduction(const Buffer& a) {
    size_t rank = a->shape.size(), axis = static_cast<size_t>(pick(0, static_cast<int64_t>(rank) - 1));
    std::vector<Expr> shape = a->shape;
    shape[axis] = 1;
    return builder_.reduce("sum", shape, {a->shape[axis]}, pick(0, 1) ? Combiner::kSum : Combiner::kMin,
                           [&](Vars i, Vars r) {
                             std::vector<Expr> at = exprs(i);
                             at[axis] = r[0];
                             return load(a, at);
                           });
  }

  /// The last dimension multiplied by a matrix.
  Buffer product(const Buffer& a) {
    std::vector<Expr> shape = a->shape;
    int64_t columns = pick(1, options_.max_extent);
    shape.back() = columns;
    Buffer matrix = builder_.input("matrix", {columns, a->shape.back()}, dtype_);
    return builder_.reduce("dense", shape, {a->shape.back()}, Combiner::kSum, [&](Vars i, Vars r) {
      std::vector<Expr> at = exprs(i);
      at.back() = r[0];
      return load(a, at) * load(matrix, {i.back(), r[0]});
    });
  }

  /// All dimensions in one, or the last one split in two.
  Buffer reshape(const Buffer& a) {
    int64_t last = int_value(a->shape.back()), factor = 1;
    for (int64_t f : {2, 3, 4})
      if (last % f == 0) factor = f;
    if (factor > 1 && pick(0, 1)) {
      std::vector<Expr> shape = a->shape;
      shape.back() = last / factor;
      shape.push_back(factor);
      return builder_.compute("split", shape, [&](Vars i) {
        std::vector<Expr> at = exprs(i.first(i.size() - 1));
        at.back() = at.back() * factor + i.back();
        return load(a, at);
      });
    }
    Expr total = 1;
    for (const Expr& dim : a->shape) total = total * dim;
    return builder_.compute("flatten", {total}, [&](Vars i) {
      std::vector<Expr> at(a->shape.size());
      Expr rest = i[0];
      for (size_t d = at.size(); d-- > 0;) {
        at[d] = d == 0 ? rest : floormod(rest, a->shape[d]);
        rest = floordiv(rest, a->shape[d]);
      }
      return load(a, at);
    });
  }

  Buffer broadcast_add(const Buffer& a) {
    Buffer bias = builder_.input("bias", {a->shape[0]}, dtype_);
    return builder_.compute("add", a->shape, [&](Vars i) { return load(a, exprs(i)) + load(bias, {i[0]}); });
  }

  std::mt19937 random_;
  RandomFuncOptions options_;
  DataType dtype_ = kFloat32;
  FuncBuilder builder_;
  std::vector<Buffer> values_, uses_;
};
}  // namespace

Func random_func(uint32_t seed, const RandomFuncOptions& options) {
  return Generator(seed, options).generate();
}

std::vector<Tensor> random_params(const Func& func, uint64_t seed) {
  std::vector<Tensor> params;
  size_t inputs = func->params.size() - static_cast<size_t>(func->outputs);
  for (size_t p = 0; p < func->params.size(); ++p) {
    std::vector<int64_t> shape = constant_shape(func->params[p]);
    DataType dtype = func->params[p]->dtype;
    params.push_back(p < inputs ? random_tensor(shape, dtype, seed + p) : zeros(shape, dtype));
  }
  return params;
}

std::vector<Tensor> interpreted_outputs(const Func& func, uint64_t seed) {
  std::vector<Tensor> params = random_params(func, seed);
  interpret(func, params);
  params.erase(params.begin(), params.end() - func->outputs);
  return params;
}

std::vector<Tensor> interpreted_outputs(const SplitProgram& split, const Func& func, uint64_t seed) {
  std::vector<Tensor> whole = random_params(func, seed), made;
  auto run = [&](const Func& part, const std::vector<PartParam>& sources) {
    std::vector<Tensor> params;
    for (size_t i = 0; i < sources.size(); ++i) {
      auto [from_prologue, number] = sources[i];
      if (from_prologue && number == made.size())
        made.push_back(zeros(constant_shape(part->params[i]), part->params[i]->dtype));
      params.push_back(from_prologue ? made[number] : whole[number]);
    }
    interpret(part, params);
  };
  if (split.prologue) run(split.prologue, split.prologue_params);
  run(split.main, split.main_params);
  whole.erase(whole.begin(), whole.end() - func->outputs);
  return whole;
}

double output_difference(const Func& func, const Func& reference, uint64_t seed) {
  std::vector<Tensor> a = interpreted_outputs(func, seed), b = interpreted_outputs(reference, seed);
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, max_relative_error(a[i], b[i]));
  return largest;
}

}  // namespace lathe::tir
