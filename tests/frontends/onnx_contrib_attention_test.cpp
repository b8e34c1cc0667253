// com.microsoft's attention and its caches, against the standard's attention on the same numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/frontends/onnx_contrib.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

using bytes::real;
using testing::HasSubstr;

/// Places [begin, end) along axis 1 of a tensor of rank 3.
Tensor places(const Tensor& x, int64_t begin, int64_t end) {
  Tensor part({x.shape()[0], end - begin, x.shape()[2]}, x.dtype());
  for (int64_t i = 0; i < part.size(); ++i) {
    const int64_t width = x.shape()[2], b = i / width / (end - begin), t = i / width % (end - begin) + begin;
    part.set(i, x.value((b * x.shape()[1] + t) * width + i % width));
  }
  return part;
}

/// The standard's attention of these, heads joined.
Tensor standard_attention(const std::vector<Tensor>& inputs, int64_t heads,
                          const std::string& attributes = "") {
  return run("Attention", inputs,
             integer("q_num_heads", heads) + integer("kv_num_heads", heads) + attributes)[0];
}

struct Projected {
  Tensor x = random({2, 3, 4}, 1), w = random({4, 12}, 2), b = random({12}, 3);
  Tensor part(int64_t i) const {
    const Tensor all = run("Add", {run("MatMul", {x, w})[0], b})[0];
    return run("Slice", {all, longs({4 * i}), longs({4 * i + 4}), longs({2})})[0];
  }
};

TEST(OnnxContrib, AttentionOfProjections) {
  const Projected p;
  const std::string heads = integer("num_heads", 2);
  expect_equal(contrib("Attention", {p.x, p.w, p.b}, heads),
               {standard_attention({p.part(0), p.part(1), p.part(2)}, 2)});
  expect_equal(
      contrib("Attention", {p.x, p.w, p.b}, heads + integer("unidirectional", 1) + real("scale", 0.3F)),
      {standard_attention({p.part(0), p.part(1), p.part(2)}, 2,
                          integer("is_causal", 1) + real("scale", 0.3F))});
  // Masks of all forms hide the same key of the second sequence.
  Tensor hides({2, 1, 1, 3}, kBool);
  for (int64_t i = 0; i < 6; ++i) hides.set(i, i != 5);
  const Tensor expected = standard_attention({p.part(0), p.part(1), p.part(2), hides}, 2);
  const Tensor rows = tensor_of(std::vector<int32_t>{1, 1, 1, 1, 1, 0}, {2, 3}, kInt32);
  Tensor squares({2, 3, 3}, kInt32);
  for (int64_t i = 0; i < 18; ++i) squares.set(i, i < 9 || i % 3 < 2);
  // One for all places there may be.
  Tensor all_places({2, 1, 5, 5}, kInt32);
  for (int64_t i = 0; i < 50; ++i) all_places.set(i, i < 25 || i % 5 < 2);
  for (const Tensor& mask : {ints32({3, 2}), ints32({3, 2, 0, 0}), rows, squares, all_places}) {
    SCOPED_TRACE(shape_text(mask.shape()));
    expect_equal(contrib("Attention", {p.x, p.w, p.b, mask}, heads), {expected});
  }
  // A number takes the place of minus infinity: a sequence that sees nothing sees everything alike.
  const Tensor none = contrib("Attention", {p.x, p.w, p.b, ints32({0, 3})}, heads)[0];
  const Tensor all = standard_attention({p.part(0), p.part(1), p.part(2)}, 2);
  EXPECT_NEAR(none.value(0), all.value(0), 1e-3);
  EXPECT_THAT(thrown_by([&] {
                contrib("Attention", {p.x, p.w, p.b, random({1, 1, 1, 3}, 1)}, heads);
              }),
              HasSubstr("a mask of type"));
  EXPECT_THAT(thrown_by([&] { contrib("Attention", {p.x, p.w, p.b}); }), HasSubstr("num_heads is 0"));
}

TEST(OnnxContrib, AttentionTurnsQueriesAndKeysByTheirPlaces) {
  // 2 heads of 4 numbers, or 2 pairs.
  const Tensor x = random({2, 3, 5}, 1), w = random({5, 24}, 2), b = random({24}, 3);
  const std::string heads = integer("num_heads", 2) + integer("unidirectional", 1);
  const Tensor product = run("Add", {run("MatMul", {x, w})[0], b})[0];
  const auto part = [&](int64_t i) {
    return run("Slice", {product, longs({8 * i}), longs({8 * i + 8}), longs({2})})[0];
  };
  Tensor cosines({3, 2}, kFloat32), sines({3, 2}, kFloat32);
  for (int64_t i = 0; i < 6; ++i) {
    const double angle = static_cast<double>(i / 2) * (i % 2 ? 0.01 : 1);
    cosines.set(i, std::cos(angle)), sines.set(i, std::sin(angle));
  }
  const auto turned = [&](const Tensor& heads_of) {
    return contrib("RotaryEmbedding", {heads_of, longs({0}), cosines, sines}, integer("num_heads", 2))[0];
  };
  const Tensor expected =
      standard_attention({turned(part(0)), turned(part(1)), part(2)}, 2, integer("is_causal", 1));
  const std::string rotary = heads + integer("do_rotary", 1);
  expect_equal(contrib("Attention", {x, w, b}, rotary), {expected});
  const std::vector<Tensor> first = contrib("Attention", {places(x, 0, 2), w, b}, rotary, 2);
  expect_equal({contrib("Attention", {places(x, 2, 3), w, b, Tensor(), first[1]}, rotary, 2)[0]},
               {places(expected, 2, 3)});
  EXPECT_THAT(thrown_by([&] {
                contrib("Attention", {x, w, b}, rotary + integer("rotary_embedding_dim", 6));
              }),
              HasSubstr("6 numbers to turn of heads of 4"));
}

TEST(OnnxContrib, AttentionKeepsKeysAndValues) {
  const Projected p;
  const std::string heads = integer("num_heads", 2) + integer("unidirectional", 1);
  const std::vector<Tensor> all = contrib("Attention",
                                          {p.x, p.w, p.b, Tensor(), zeros({2, 2, 2, 0, 2}, kFloat32)}, heads,
                                          2),
                            first = contrib("Attention", {places(p.x, 0, 2), p.w, p.b}, heads, 2),
                            last = contrib("Attention", {places(p.x, 2, 3), p.w, p.b, Tensor(), first[1]},
                                           heads, 2);
  expect_equal({last[1]}, {all[1]});
  expect_equal({last[0]}, {places(all[0], 2, 3)});
  // The row of a mask is that of the query's place among all.
  Tensor seen({2, 1, 4, 4}, kInt32);
  for (int64_t i = 0; i < 32; ++i) seen.set(i, i % 4 <= i / 4 % 4);
  const std::string both_ways = integer("num_heads", 2);
  expect_equal({contrib("Attention", {places(p.x, 2, 3), p.w, p.b, seen, first[1]}, both_ways, 2)[0],
                contrib("Attention", {p.x, p.w, p.b, seen}, both_ways)[0]},
               {places(all[0], 2, 3), all[0]});
}

TEST(OnnxContrib, MultiHeadAttention) {
  const Tensor q = random({2, 3, 4}, 1), k = random({2, 5, 4}, 2), v = random({2, 5, 4}, 3),
               bias = random({12}, 4);
  const std::string heads = integer("num_heads", 2);
  expect_equal(contrib("MultiHeadAttention", {q, k, v}, heads), {standard_attention({q, k, v}, 2)});
  const auto biased = [&](const Tensor& x, int64_t i) {
    return run("Add", {x, run("Slice", {bias, longs({4 * i}), longs({4 * i + 4})})[0]})[0];
  };
  const Tensor expected = standard_attention({biased(q, 0), biased(k, 1), biased(v, 2)}, 2);
  expect_equal(contrib("MultiHeadAttention", {q, k, v, bias}, heads), {expected});
  // Keys and values in one: (batch, length, heads, 2, size).
  const auto apart = [](const Tensor& x) { return run("Reshape", {x, longs({2, -1, 2, 1, 2})})[0]; };
  const Tensor both = run("Concat", {apart(k), apart(v)}, integer("axis", 3))[0];
  expect_equal(contrib("MultiHeadAttention", {q, both}, heads), {standard_attention({q, k, v}, 2)});
  const Tensor three = run("Concat", {apart(k), apart(k), apart(v)}, integer("axis", 3))[0];
  expect_equal(contrib("MultiHeadAttention", {three}, heads), {standard_attention({k, k, v}, 2)});
  // A past: the first three keys.
  const auto heads_apart = [](const Tensor& x) {
    return run("Transpose", {run("Reshape", {x, longs({2, -1, 2, 2})})[0]},
               integers("perm", {0, 2, 1, 3}))[0];
  };
  const std::vector<Tensor> present =
      contrib("MultiHeadAttention",
              {q, places(k, 3, 5), places(v, 3, 5), Tensor(), Tensor(), Tensor(),
               heads_apart(places(k, 0, 3)), heads_apart(places(v, 0, 3))},
              heads, 3);
  expect_equal({present[0]}, {standard_attention({q, k, v}, 2)});
  expect_equal({present[1]}, {heads_apart(k)});
}

TEST(OnnxContrib, RotaryEmbeddingTakesPositionsFirst) {
  const Tensor x = random({2, 3, 8}, 1), cosines = random({10, 2}, 2), sines = random({10, 2}, 3);
  const Tensor positions = tensor_of(std::vector<int64_t>{4, 5, 6, 4, 5, 6}, {2, 3}, kInt64);
  const std::vector<Tensor> expected =
      run("RotaryEmbedding", {x, cosines, sines, positions}, integer("num_heads", 2));
  expect_equal(contrib("RotaryEmbedding", {x, positions, cosines, sines}), expected);
  expect_equal(contrib("RotaryEmbedding", {x, longs({4}), cosines, sines}), expected);
  EXPECT_THAT(thrown_by([&] {
                contrib("RotaryEmbedding", {random({2, 3, 6}, 1), longs({4}), cosines, sines},
                        integer("num_heads", 2));
              }),
              HasSubstr("for heads of 3"));
}

/// Tokens that come one after another see what all of them see at once.
struct Grouped {
  static constexpr int64_t kBatch = 2, kLength = 5, kSize = 4;
  Tensor q = random({kBatch, kLength, 4 * kSize}, 1), k = random({kBatch, kLength, 2 * kSize}, 2),
         v = random({kBatch, kLength, 2 * kSize}, 3), cosines = random({16, 2}, 4),
         sines = random({16, 2}, 5);
  std::string attributes = integer("num_heads", 4) + integer("kv_num_heads", 2) + integer("do_rotary", 1);

  std::vector<Tensor> at(int64_t begin, int64_t end, const Tensor& keys, const Tensor& values) const {
    const auto valid = static_cast<int32_t>(end - 1);
    return contrib("GroupQueryAttention",
                   {places(q, begin, end), places(k, begin, end), places(v, begin, end), keys, values,
                    ints32({valid, valid}), int32_scalar(valid + 1), cosines, sines},
                   attributes, 3);
  }
};

TEST(OnnxContrib, GroupedQueriesOfOneTokenAfterAnother) {
  for (const std::string& more :
       {std::string(), integer("rotary_interleaved", 1), real("softcap", 0.5F) + real("scale", 0.7F),
        integer("local_window_size", 2), integer("smooth_softmax", 1)}) {
    SCOPED_TRACE(more);
    Grouped g;
    g.attributes += more;
    const std::vector<Tensor> all = g.at(0, 5, Tensor(), Tensor());
    std::vector<Tensor> now = g.at(0, 2, Tensor(), Tensor());
    for (int64_t t = 2; t < 5; ++t) {
      now = g.at(t, t + 1, now[1], now[2]);
      expect_equal({now[0]}, {places(all[0], t, t + 1)});
    }
    expect_equal({now[1], now[2]}, {all[1], all[2]});
  }
}

TEST(OnnxContrib, GroupedQueriesAreThoseOfTheStandard) {
  Grouped g;
  const Tensor positions = tensor_of(std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}, {2, 5}, kInt64);
  const auto turned = [&](const Tensor& x, int64_t heads) {
    return run("RotaryEmbedding", {x, g.cosines, g.sines, positions}, integer("num_heads", heads))[0];
  };
  expect_equal({g.at(0, 5, Tensor(), Tensor())[0]},
               run("Attention", {turned(g.q, 4), turned(g.k, 2), g.v},
                   integer("q_num_heads", 4) + integer("kv_num_heads", 2) + integer("is_causal", 1)));
}

TEST(OnnxContrib, GroupedQueriesOfPackedInputs) {
  Grouped g;
  const Tensor packed = run("Concat", {g.q, g.k, g.v}, integer("axis", 2))[0];
  expect_equal(contrib("GroupQueryAttention",
                       {packed, Tensor(), Tensor(), Tensor(), Tensor(), ints32({4, 4}), int32_scalar(5),
                        g.cosines, g.sines},
                       g.attributes, 3),
               g.at(0, 5, Tensor(), Tensor()));
}

/// A sequence's keys lie behind those that it has, wherever another's do; in a buffer that is longer, too.
TEST(OnnxContrib, GroupedQueriesOfSequencesOfOtherLengths) {
  Grouped g;
  const std::vector<Tensor> three = g.at(0, 3, Tensor(), Tensor());
  const auto in_buffer = [](const Tensor& x, int64_t length) {
    return run("Pad", {x, longs({0, 0, 0, 0, 0, 0, length - x.shape()[2], 0}), one(9)})[0];
  };
  // The first sequence has three keys, the second only one: its other two are overwritten, or not seen.
  const std::vector<Tensor> next =
      contrib("GroupQueryAttention",
              {places(g.q, 3, 4), places(g.k, 3, 4), places(g.v, 3, 4), in_buffer(three[1], 6),
               in_buffer(three[2], 6), ints32({3, 1}), int32_scalar(4), g.cosines, g.sines},
              g.attributes, 3);
  ASSERT_EQ(next[1].shape(), (Shape{2, 2, 6, 4}));
  const std::vector<Tensor> all = g.at(0, 4, Tensor(), Tensor());
  for (int64_t i = 0; i < 16; ++i) EXPECT_NEAR(next[0].value(i), all[0].value(3 * 16 + i), 1e-5) << i;
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(next[1].value(3 * 4 + i), all[1].value(3 * 4 + i), 1e-5) << "behind three";
    EXPECT_NEAR(next[2].value(2 * 24 + 4 + i), places(g.v, 3, 4).value(8 + i), 1e-5) << "behind one";
    EXPECT_EQ(next[2].value(2 * 24 + 2 * 4 + i), 0) << "behind all";
  }
}

/// A decoder's step, of which batch, length and past are open.
TEST(OnnxContrib, OpenSizesOfCaches) {
  const auto model_of = [](const Strings& q, const Strings& kv, const Strings& cache, const Strings& batch) {
    Model model;
    model.nodes = {
        ints("axis", {0}),
        node("Shape", {"q"}, {"of_q"}),
        node("Shape", {"past_k"}, {"of_past"}),
        ints("one", {1}),
        ints("two", {2}),
        node("Gather", {"of_q", "one"}, {"length"}),
        node("Gather", {"of_past", "two"}, {"past"}),
        node("Add", {"length", "past"}, {"sum"}),
        node("Cast", {"sum"}, {"total"}, integer("to", 6)),
        node("GroupQueryAttention", {"q", "k", "v", "past_k", "past_v", "valid", "total"},
             {"y", "keys", "values"}, integer("num_heads", 4) + integer("kv_num_heads", 2) + kContrib)};
    model.inputs = input_of("q", q) + input_of("k", kv) + input_of("v", kv) + input_of("past_k", cache) +
                   input_of("past_v", cache) + input_of("valid", batch, 6);
    model.outputs = {"y", "keys", "values"};
    return model.file();
  };
  const ImportedModel open =
      import_bytes(model_of({"b", "s", "32"}, {"b", "s", "16"}, {"b", "2", "p", "8"}, {"b"}), "m.onnx",
                   {.keeps_open = [](const std::string&) { return true; }});
  for (const auto& [batch, length, past] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 3}, {2, 1, 5}, {1, 4, 3}, {3, 1, 0}, {1, 5, 0}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", batch, length, past));
    const auto s = [](int64_t n) { return std::to_string(n); };
    const ImportedModel settled =
        import_bytes(model_of({s(batch), s(length), "32"}, {s(batch), s(length), "16"},
                              {s(batch), "2", s(past), "8"}, {s(batch)}),
                     "m.onnx");
    std::vector<Tensor> inputs;
    const std::vector<Shape> shapes{{batch, length, 32},
                                    {batch, length, 16},
                                    {batch, length, 16},
                                    {batch, 2, past, 8},
                                    {batch, 2, past, 8}};
    for (size_t i = 0; i < shapes.size(); ++i) inputs.push_back(random(shapes[i], i + 1));
    inputs.push_back(
        ints32(std::vector<int32_t>(static_cast<size_t>(batch), static_cast<int32_t>(past + length - 1))));
    expect_equal(run(open, inputs), run(settled, inputs));
  }
}

/// Each size gives what the model gives that is imported for it alone.
void expect_as_settled(const Model& model, const std::vector<Shapes>& sizes) {
  const ImportedModel open =
      import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }});
  for (const Shapes& shapes : sizes) {
    SCOPED_TRACE(shape_text(shapes.begin()->second));
    expect_equal(run_at(open, shapes),
                 run_at(import_bytes(model.file(), "m.onnx", {.shapes = shapes}), shapes));
  }
}

/// Heads of any size, whose number is known; or of a known size in any number.
TEST(OnnxContrib, OpenWidths) {
  const std::string two_heads = integer("num_heads", 2) + kContrib;
  expect_as_settled({{node("MultiHeadAttention", {"q", "k", "v", "bias"}, {"y"}, two_heads)},
                     input_of("bias", {"a"}) + input_of("q", {"b", "s", "w"}) +
                         input_of("k", {"b", "t", "w"}) + input_of("v", {"b", "t", "u"})},
                    {{{"bias", {12}}, {"q", {1, 3, 4}}, {"k", {1, 5, 4}}, {"v", {1, 5, 4}}},
                     {{"bias", {26}}, {"q", {2, 1, 8}}, {"k", {2, 2, 8}}, {"v", {2, 2, 10}}}});
  const std::string angles = input_of("cosines", {"10", "c"}) + input_of("sines", {"10", "c"});
  expect_as_settled({{node("RotaryEmbedding", {"x", "at", "cosines", "sines"}, {"y"}, two_heads)},
                     input_of("at", {"1"}, kInt) + input_of("x", {"b", "s", "w"}) + angles},
                    {{{"at", {1}}, {"x", {1, 3, 8}}, {"cosines", {10, 2}}, {"sines", {10, 2}}},
                     {{"at", {1}}, {"x", {2, 1, 12}}, {"cosines", {10, 3}}, {"sines", {10, 3}}}});
  expect_as_settled({{node("RotaryEmbedding", {"x", "at", "cosines", "sines"}, {"y"}, kContrib)},
                     input_of("at", {"1"}, kInt) + input_of("x", {"b", "s", "w"}) +
                         input_of("cosines", {"10", "2"}) + input_of("sines", {"10", "2"})},
                    {{{"at", {1}}, {"x", {1, 3, 8}}, {"cosines", {10, 2}}, {"sines", {10, 2}}},
                     {{"at", {1}}, {"x", {2, 1, 4}}, {"cosines", {10, 2}}, {"sines", {10, 2}}}});
  expect_as_settled({{node("RotaryEmbedding", {"x", "at", "cosines", "sines"}, {"y"},
                           integer("interleaved", 1) + kContrib)},
                     input_of("at", {"1"}, kInt) + input_of("x", {"b", "2", "s", "w"}) + angles},
                    {{{"at", {1}}, {"x", {1, 2, 3, 4}}, {"cosines", {10, 2}}, {"sines", {10, 2}}},
                     {{"at", {1}}, {"x", {2, 2, 1, 6}}, {"cosines", {10, 3}}, {"sines", {10, 3}}}});
}

}  // namespace
}  // namespace lathe::onnx
