#include <gtest/gtest.h>

#include "core/tir/builder.h"
#include "core/tir/lower.h"
#include "core/tir/verify.h"
#include "schedules/program.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

using tir::Buffer;
using tir::Combiner;
using tir::Func;
using tir::FuncBuilder;
using tir::Vars;

struct Attention {
  int64_t heads = 2, rows = 29, columns = 37, depth = 12, values = 20;
  bool scaled = false, masked = false;    // between the first product and the softmax
  bool transposed = false, relu = false;  // keys as rows of `depth`; what follows the last product
};

/// softmax(q k * scale + mask) v
Func attention(const Attention& a) {
  FuncBuilder f;
  Buffer q = f.input("q", {a.heads, a.rows, a.depth}, kFloat32),
         k = a.transposed ? f.input("k", {a.heads, a.columns, a.depth}, kFloat32)
                          : f.input("k", {a.heads, a.depth, a.columns}, kFloat32),
         v = f.input("v", {a.heads, a.columns, a.values}, kFloat32);
  Buffer scores =
      f.reduce("scores", {a.heads, a.rows, a.columns}, {Expr(a.depth)}, Combiner::kSum, [&](Vars i, Vars r) {
        return load(q, {i[0], i[1], r[0]}) *
               (a.transposed ? load(k, {i[0], i[2], r[0]}) : load(k, {i[0], r[0], i[2]}));
      });
  if (a.scaled)
    scores = f.compute("scale", scores->shape, [&](Vars i) {
      return load(scores, {i[0], i[1], i[2]}) * constant(kFloat32, 0.25);
    });
  if (a.masked) {
    Buffer mask = f.input("mask", {a.rows, a.columns}, kFloat32);
    scores = f.compute("add", scores->shape, [&](Vars i) {
      return load(scores, {i[0], i[1], i[2]}) + load(mask, {i[1], i[2]});
    });
  }
  Buffer top = f.reduce("top", {a.heads, a.rows}, {Expr(a.columns)}, Combiner::kMax, [&](Vars i, Vars r) {
    return load(scores, {i[0], i[1], r[0]});
  });
  Buffer e = f.compute("e", scores->shape, [&](Vars i) {
    return intrinsic(Intrinsic::kExp, load(scores, {i[0], i[1], i[2]}) - load(top, {i[0], i[1]}));
  });
  Buffer sum = f.reduce("sum", {a.heads, a.rows}, {Expr(a.columns)}, Combiner::kSum, [&](Vars i, Vars r) {
    return load(e, {i[0], i[1], r[0]});
  });
  Buffer part = f.compute("part", scores->shape, [&](Vars i) {
    return div(load(e, {i[0], i[1], i[2]}), load(sum, {i[0], i[1]}));
  });
  Buffer out =
      f.reduce("out", {a.heads, a.rows, a.values}, {Expr(a.columns)}, Combiner::kSum, [&](Vars i, Vars r) {
        return load(part, {i[0], i[1], r[0]}) * load(v, {i[0], r[0], i[2]});
      });
  if (a.relu)
    out = f.compute("relu", out->shape, [&](Vars i) {
      return max(load(out, {i[0], i[1], i[2]}), constant(kFloat32, 0));
    });
  return f.finish("attention", {out});
}

const DesignSpace* attention_space(const Func& func) {
  const DesignSpace* first = spaces_for(func, avx512_target())[0];
  return first->name == std::string("attention") ? first : nullptr;
}

/// Of what is between the products, what does not stay on the stack of the thread that computes it.
std::vector<std::string> kept_beyond_tasks(const Func& func, const Func& scheduled) {
  std::vector<std::string> kept;
  post_order(scheduled->body, [&](const NodeRef& node) {
    const tir::Block* block = node.as<tir::Block>();
    if (!block) return;
    for (const Buffer& buffer : block->allocs)
      if (buffer->scope == tir::Scope::kGlobal) kept.push_back(buffer->name);
  });
  return kept;
}

/// Whole vectors and odd rows; rows that parts of equal size take, that none take but themselves, and few.
const Attention kShapes[] = {
    {},
    {.rows = 64, .columns = 32, .values = 16, .scaled = true},
    {.rows = 61, .columns = 40, .masked = true, .relu = true},
    {.heads = 1, .rows = 50, .columns = 19, .depth = 5, .values = 33, .scaled = true, .masked = true},
    {.rows = 13, .columns = 48, .transposed = true},
    {.heads = 3, .rows = 5, .columns = 32},
};

TEST(Attention, IsItsSpaceAlone) {
  EXPECT_TRUE(attention_space(attention({})));
  EXPECT_FALSE(attention_space(softmax(8, 64)));
  EXPECT_FALSE(attention_space(matmul(8, 32, 16)));
  EXPECT_FALSE(attention_space(inverted_residual({}, kFloat32)));
}

TEST(Attention, KeepsScoresWithTheTask) {
  for (const Attention& shape : kShapes) {
    const Func func = attention(shape);
    for (const Target& target : {avx512_target(), avx2_target()}) {
      const Trace trace = default_trace(func, target);
      SCOPED_TRACE(to_text(trace));
      const Func scheduled = replay(trace, func);
      expect_same_results(func, scheduled);
      if (auto fault = tir::find_fault(tir::lower(scheduled, target), tir::Level::kVectors))
        ADD_FAILURE() << *fault;
      for (const std::string& name : kept_beyond_tasks(func, scheduled))
        EXPECT_TRUE(name.starts_with("k") || name.starts_with("v")) << name << " is no operand";
    }
  }
}

TEST(Attention, EverySampleKeepsMeaning) {
  for (const Attention& shape : kShapes) {
    const Func func = attention(shape);
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const Schedule s = sample(*attention_space(func), func, avx512_target(), seed);
      SCOPED_TRACE(to_text(s.trace()));
      expect_sound(func, s);
    }
  }
}

}  // namespace
}  // namespace lathe::schedule
