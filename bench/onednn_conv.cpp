#include "bench/onednn_conv.h"

#include <omp.h>

#include <chrono>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

namespace lathe::bench {
namespace {

constexpr auto kF32 = dnnl::memory::data_type::f32;
using Described = dnnl::convolution_forward::primitive_desc;
using Shape = std::vector<int64_t>;

dnnl::memory::desc plain_desc(const Shape& shape) {
  using Tag = dnnl::memory::format_tag;
  return {shape, kF32, shape.size() == 1 ? Tag::a : Tag::abcd};
}

/// Each implementation says which layout it wants.
dnnl::memory::desc any_layout(const Shape& shape) { return {shape, kF32, dnnl::memory::format_tag::any}; }

/// All but the reference implementations, which take seconds.
std::vector<Described> implementations(const ConvProblem& p, const dnnl::engine& engine) {
  dnnl::post_ops after;
  // The sum adds to what the output holds: the residual is put there before.
  if (p.residual) after.append_sum(1.0f);
  if (p.relu) after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  std::vector<Described> found;
  using enum dnnl::algorithm;
  for (auto algorithm : {convolution_direct, convolution_winograd, convolution_auto}) {
    try {
      const dnnl::convolution_forward::desc desc(
          dnnl::prop_kind::forward_inference, algorithm, any_layout(p.data), any_layout(p.weights),
          any_layout({p.weights[0]}), any_layout(p.out), p.strides, p.dilation, p.pad_begin, p.pad_end);
      Described described(desc, attributes, engine);
      do {
        if (!std::string(described.impl_info_str()).starts_with("ref")) found.push_back(described);
      } while (described.next_impl());
    } catch (const dnnl::error&) {
      // It has no such algorithm for this problem.
    }
  }
  return found;
}

}  // namespace

struct OneDnnConv::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  ConvProblem problem;
  ConvValues values;
  Tensor before;  // what the output holds before a run: the residual
  dnnl::convolution_forward primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::string implementation;

  /// A copy of `plain` in that layout. Made before anything is timed.
  dnnl::memory in_layout(const Tensor& plain, const dnnl::memory::desc& wanted) {
    dnnl::memory from(plain_desc(plain.shape()), engine, plain.data()), to(wanted, engine);
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    return to;
  }

  void choose(const Described& described) {
    primitive = dnnl::convolution_forward(described);
    implementation = described.impl_info_str();
    arguments = {{DNNL_ARG_SRC, in_layout(values.data, described.src_desc())},
                 {DNNL_ARG_WEIGHTS, in_layout(values.weights, described.weights_desc())},
                 {DNNL_ARG_BIAS, in_layout(values.bias, described.bias_desc())},
                 {DNNL_ARG_DST, in_layout(before, described.dst_desc())}};
  }

  void run() {
    primitive.execute(stream, arguments);
    stream.wait();
  }
};

OneDnnConv::OneDnnConv(const ConvProblem& problem, const ConvValues& values, FunctionRef<void()> evict)
    : impl_(std::make_unique<Impl>()) {
  // oneDNN runs on OpenMP's threads; ours is one too.
  omp_set_num_threads(1);
  Impl& s = *impl_;
  s.problem = problem;
  s.values = values;
  if (!s.values.bias.defined()) s.values.bias = zeros({problem.weights[0]}, kFloat32);
  s.before = values.residual.defined() ? values.residual : zeros(problem.out, kFloat32);
  auto best = std::chrono::steady_clock::duration::max();
  std::optional<Described> fastest;
  for (const Described& described : implementations(problem, s.engine)) {
    s.choose(described);
    for (int i = 0; i < 5; ++i) {
      evict();
      const auto start = std::chrono::steady_clock::now();
      s.run();
      const auto spent = std::chrono::steady_clock::now() - start;
      // The first run pays for what an implementation prepares once.
      if (i > 0 && spent < best) best = spent, fastest = described;
    }
  }
  if (!fastest) fail("oneDNN has no implementation of the convolution {}", problem.text());
  s.choose(*fastest);
}

OneDnnConv::~OneDnnConv() = default;

void OneDnnConv::run() { impl_->run(); }

const std::string& OneDnnConv::implementation() const { return impl_->implementation; }

Tensor OneDnnConv::output() {
  Impl& s = *impl_;
  dnnl::memory& dst = s.arguments.at(DNNL_ARG_DST);
  // The runs so far have added to the output again and again: it gets the residual anew.
  dst = s.in_layout(s.before, dst.get_desc());
  s.run();
  Tensor plain(s.problem.out, kFloat32);
  dnnl::memory to(plain_desc(plain.shape()), s.engine, plain.data());
  dnnl::reorder(dst, to).execute(s.stream, dst, to);
  s.stream.wait();
  return plain;
}

}  // namespace lathe::bench
