// Sequences of open lengths, in recurrences, attention, loops and scans: see onnx_open_models.h.
#include <gtest/gtest.h>

#include "tests/frontends/onnx_open_models.h"

namespace lathe::onnx {
namespace {

TEST(OnnxOpen, AttentionAtAnyLength) {
  const std::string inputs =
      input_of("q", {"b", "t", "8"}) + input_of("k", {"b", "u", "4"}) + input_of("v", {"b", "u", "4"});
  const std::string heads = integer("q_num_heads", 4) + integer("kv_num_heads", 2);
  const std::vector<Shapes> sizes = {{{"q", {1, 1, 8}}, {"k", {1, 3, 4}}, {"v", {1, 3, 4}}},
                                     {{"q", {2, 3, 8}}, {"k", {2, 5, 4}}, {"v", {2, 5, 4}}}};
  expect_same_at({{node("Attention", {"q", "k", "v"}, {"y"}, heads)}, inputs, {"y"}, 23}, sizes);
  expect_same_at(
      {{node("Attention", {"q", "k", "v"}, {"y"}, heads + integer("is_causal", 1))}, inputs, {"y"}, 23},
      sizes);
  const std::string past = input_of("pk", {"b", "2", "p", "2"}) + input_of("pv", {"b", "2", "p", "2"});
  std::vector<Shapes> longer = sizes;
  longer[0]["pk"] = longer[0]["pv"] = {1, 2, 4, 2}, longer[1]["pk"] = longer[1]["pv"] = {2, 2, 1, 2};
  expect_same_at({{node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "nk", "nv"},
                        heads + integer("is_causal", 1))},
                  inputs + past,
                  {"y", "nk", "nv"},
                  23},
                 longer);
  expect_same_at({{node("RotaryEmbedding", {"q", "c", "c"}, {"y"}, integer("num_heads", 2))},
                  input_of("q", {"b", "t", "8"}) + input_of("c", {"b", "t", "2"}),
                  {"y"},
                  23},
                 {{{"q", {1, 1, 8}}, {"c", {1, 1, 2}}}, {{"q", {2, 3, 8}}, {"c", {2, 3, 2}}}});
}

TEST(OnnxOpen, AttentionOfAnyHeads) {
  const auto attention = [](const Strings& q, const Strings& k, const Strings& v,
                            const std::string& more = "") {
    return Model{{node("Attention", {"q", "k", "v"}, {"y"}, more)},
                 input_of("q", q) + input_of("k", k) + input_of("v", v),
                 {"y"},
                 23};
  };
  const auto at = [](const Shape& q, const Shape& k, const Shape& v) {
    return Shapes{{"q", q}, {"k", k}, {"v", v}};
  };
  // As many of keys as of queries, in any number.
  const Model same = attention({"b", "h", "t", "4"}, {"b", "h", "u", "4"}, {"b", "h", "u", "4"});
  expect_same_at(
      same, {at({1, 1, 2, 4}, {1, 1, 3, 4}, {1, 1, 3, 4}), at({2, 3, 1, 4}, {2, 3, 5, 4}, {2, 3, 5, 4})});
  // Those of queries share those of keys.
  const Model shared =
      attention({"b", "h", "t", "4"}, {"b", "g", "u", "4"}, {"b", "g", "u", "4"}, integer("is_causal", 1));
  expect_same_at(
      shared, {at({1, 1, 2, 4}, {1, 1, 3, 4}, {1, 1, 3, 4}), at({2, 6, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4})});
  EXPECT_THROW(run_at(open_model(shared), at({1, 3, 2, 4}, {1, 2, 3, 4}, {1, 2, 3, 4})), Error);
  expect_same_at(
      attention({"b", "h", "t", "4"}, {"b", "2", "u", "4"}, {"b", "2", "u", "4"}),
      {at({1, 2, 2, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}), at({1, 4, 2, 4}, {1, 2, 3, 4}, {1, 2, 3, 4})});
  // Of any size, which the scale follows from, and values of another.
  const Model sized = attention({"b", "2", "t", "d"}, {"b", "2", "u", "d"}, {"b", "2", "u", "e"});
  expect_same_at(
      sized, {at({1, 2, 2, 1}, {1, 2, 3, 1}, {1, 2, 3, 2}), at({1, 2, 2, 5}, {1, 2, 3, 5}, {1, 2, 3, 1})});
  const Model joined = attention({"b", "t", "d"}, {"b", "u", "d"}, {"b", "u", "e"},
                                 integer("q_num_heads", 2) + integer("kv_num_heads", 2));
  expect_same_at(joined, {at({1, 2, 2}, {1, 3, 2}, {1, 3, 4}), at({2, 2, 6}, {2, 3, 6}, {2, 3, 2})});
  EXPECT_THROW(run_at(open_model(joined), at({1, 2, 3}, {1, 3, 3}, {1, 3, 4})), Error);
}

TEST(OnnxOpen, TurnsPairsOfHeadsOfAnySize) {
  for (int64_t interleaved : {0, 1}) {
    const std::string how = integer("interleaved", interleaved);
    const Model all{
        {node("RotaryEmbedding", {"x", "c", "s"}, {"y"}, how)},
        input_of("x", {"b", "2", "t", "d"}) + input_of("c", {"b", "t", "h"}) + input_of("s", {"b", "t", "h"}),
        {"y"},
        23};
    expect_same_at(all, {{{"x", {1, 2, 3, 4}}, {"c", {1, 3, 2}}, {"s", {1, 3, 2}}},
                         {{"x", {2, 2, 1, 10}}, {"c", {2, 1, 5}}, {"s", {2, 1, 5}}}});
    EXPECT_THROW(run_at(open_model(all), {{"x", {1, 2, 3, 5}}, {"c", {1, 3, 2}}, {"s", {1, 3, 2}}}), Error);
    const Model part{
        {node("RotaryEmbedding", {"x", "c", "s"}, {"y"}, how + integer("rotary_embedding_dim", 4))},
        input_of("x", {"b", "2", "t", "d"}) + input_of("c", {"b", "t", "2"}) + input_of("s", {"b", "t", "2"}),
        {"y"},
        23};
    expect_same_at(part, {{{"x", {1, 2, 3, 7}}, {"c", {1, 3, 2}}, {"s", {1, 3, 2}}}});
    EXPECT_THROW(run_at(open_model(part), {{"x", {1, 2, 3, 2}}, {"c", {1, 3, 2}}, {"s", {1, 3, 2}}}), Error);
  }
}

TEST(OnnxOpen, RecurrencesOfAnyLengthAndBatch) {
  for (const auto& [op, gates] :
       std::vector<std::pair<const char*, int>>{{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (int64_t layout : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} {} {}", op, direction, layout));
        const int64_t directions = direction == std::string("bidirectional") ? 2 : 1, hidden = 3;
        const std::string d = std::to_string(directions), g = std::to_string(gates * hidden);
        const Strings x = layout ? Strings{"b", "t", "4"} : Strings{"t", "b", "4"};
        const Strings h = layout ? Strings{"b", d, "3"} : Strings{d, "b", "3"};
        Strings outputs{"y", "yh"}, given{"x", "w", "r", "bias", "lengths", "h"};
        std::string inputs = input_of("x", x) + input_of("w", {d, g, "4"}) + input_of("r", {d, g, "3"}) +
                             input_of("bias", {d, std::to_string(2 * gates * hidden)}) +
                             input_of("lengths", {"b"}, 6) + input_of("h", h);
        if (gates == 4) {
          outputs.push_back("yc");
          given.insert(given.end(), {"c", "p"});
          inputs += input_of("c", h) + input_of("p", {d, "9"});
        }
        std::vector<Shapes> sizes;
        for (const auto& [batch, length] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 5}}) {
          Shapes shapes{{"x", layout ? Shape{batch, length, 4} : Shape{length, batch, 4}},
                        {"w", {directions, gates * hidden, 4}},
                        {"r", {directions, gates * hidden, hidden}},
                        {"bias", {directions, 2 * gates * hidden}},
                        {"lengths", {batch}},
                        {"h", layout ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden}}};
          shapes["c"] = shapes["h"], shapes["p"] = {directions, 9};
          sizes.push_back(shapes);
        }
        for (Shapes& shapes : sizes)
          if (gates != 4) shapes.erase("c"), shapes.erase("p");
        const std::string attributes =
            integer("hidden_size", hidden) + text("direction", direction) + integer("layout", layout);
        expect_same_at({{node(op, given, outputs, attributes)}, inputs, outputs}, sizes);
      }
}

TEST(OnnxOpen, StatesHaveTheBatchOfTheirInput) {
  const ImportedModel model =
      open_model({{node("RNN", {"x", "w", "r", "", "", "h"}, {"y"}, integer("hidden_size", 3))},
                  input_of("x", {"t", "b", "4"}) + input_of("w", {"1", "3", "4"}) +
                      input_of("r", {"1", "3", "3"}) + input_of("h", {"1", "c", "3"})});
  Shapes shapes{{"x", {2, 3, 4}}, {"w", {1, 3, 4}}, {"r", {1, 3, 3}}, {"h", {1, 3, 3}}};
  EXPECT_EQ(run_at(model, shapes)[0].shape(), (Shape{2, 1, 3, 3}));
  shapes["h"] = {1, 2, 3};
  EXPECT_THROW(run_at(model, shapes), Error);
}

TEST(OnnxOpen, LoopsAndScansOverAnOpenLength) {
  // y[i] = sum(x[0..i]), in as many steps as x has rows.
  const std::string body =
      bytes::graph({node("Gather", {"x", "i"}, {"row"}), node("Add", {"sum", "row"}, {"next"}),
                    node("Identity", {"next"}, {"out"}), node("Identity", {"go"}, {"more"})},
                   bytes::input("i") + bytes::input("go") + bytes::input("sum"), {"more", "next", "out"});
  const std::string inputs = input_of("x", {"t", "n"}) + input_of("h", {"n"});
  const std::vector<Shapes> sizes = {{{"x", {1, 3}}, {"h", {3}}}, {{"x", {6, 2}}, {"h", {2}}}};
  expect_same_at({{node("Shape", {"x"}, {"s"}), ints("i0", {0}), node("Gather", {"s", "i0"}, {"t"}),
                   node("Loop", {"t", "", "h"}, {"end", "y"}, bytes::subgraph("body", body))},
                  inputs,
                  {"end", "y"}},
                 sizes);
  const std::string step =
      bytes::graph({node("Add", {"sum", "row"}, {"next"}), node("Mul", {"next", "row"}, {"out"})},
                   bytes::input("sum") + bytes::input("row"), {"next", "out"});
  for (int64_t backward : {0, 1})
    expect_same_at(
        {{node("Scan", {"h", "x"}, {"end", "y"},
               integer("num_scan_inputs", 1) + bytes::subgraph("body", step) +
                   integers("scan_input_directions", {backward}) +
                   integers("scan_output_directions", {1 - backward}) + integers("scan_output_axes", {1}))},
         inputs,
         {"end", "y"}},
        sizes);
}

}  // namespace
}  // namespace lathe::onnx
