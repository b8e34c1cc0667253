#include "core/support/node.h"

#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/support/node_impl.h"
#include "tests/thrown_by.h"

namespace lathe {
namespace {

// A small language: names, additions, lets.
enum class TestKind : uint16_t { kName, kAdd, kLet };
struct TermNode : Node {
  using Node::Node;
};
using Term = Ref<TermNode>;

struct Name final : NodeOf<Name, TermNode, Identity::kName> {
  std::string name;
  static constexpr auto kName = "Name";
  static constexpr auto kKind = TestKind::kName;
  static constexpr auto fields = std::tuple{info("name", &Name::name)};
};
struct Add final : NodeOf<Add, TermNode> {
  std::vector<Term> terms;
  double scale = 1;
  static constexpr auto kName = "Add";
  static constexpr auto kKind = TestKind::kAdd;
  static constexpr auto fields = std::tuple{field("terms", &Add::terms), field("scale", &Add::scale)};
};
struct Let final : NodeOf<Let, TermNode> {
  Ref<Name> name;
  Term value, body;
  static constexpr auto kName = "Let";
  static constexpr auto kKind = TestKind::kLet;
  static constexpr auto fields =
      std::tuple{field("value", &Let::value), def("name", &Let::name), field("body", &Let::body)};
};
}  // namespace
template struct NodeOf<Name, TermNode, Identity::kName>;
template struct NodeOf<Add, TermNode>;
template struct NodeOf<Let, TermNode>;
namespace {

Term let_of(const std::string& name, const Term& free) {
  auto x = make<Name>(name);
  return make<Let>(free, x, make<Add>(std::vector<Term>{x, free}, 2.0));
}

TEST(Node, EqualityRenamesBoundNamesOnly) {
  Term f = make<Name>("f"), g = make<Name>("g");
  EXPECT_TRUE(structural_equal(let_of("a", f), let_of("b", f)));
  EXPECT_FALSE(structural_equal(let_of("a", f), let_of("a", g)));
  EXPECT_TRUE(structural_equal(let_of("a", f), let_of("a", g), /*map_free=*/true));
  EXPECT_EQ(structural_hash(let_of("a", f)), structural_hash(let_of("b", g)));
  EXPECT_NE(structural_hash(let_of("a", f)), structural_hash(f));
  // x + x is not x + y, even when free names may be mapped.
  EXPECT_FALSE(
      structural_equal(make<Add>(std::vector<Term>{f, f}), make<Add>(std::vector<Term>{f, g}), true));
}

TEST(Node, HashIsStable) {
  // A test vector: the database keys on such hashes, so they must never change.
  EXPECT_EQ(structural_hash(let_of("a", make<Name>("f"))), 8609895651279434485ull);
}

TEST(Node, RewriteKeepsUnchangedNodes) {
  Term f = make<Name>("f"), g = make<Name>("g"), term = let_of("a", f);
  EXPECT_EQ(rewrite(term, [](const NodeRef& n) { return n; }), term);
  NodeRef renamed = rewrite(term, [&](const NodeRef& n) { return n == f ? NodeRef(g) : n; });
  EXPECT_TRUE(structural_equal(renamed, let_of("a", g)));
}

TEST(Node, JsonRoundTrip) {
  Term term = let_of("a", make<Name>("f"));
  NodeTable types{&Name::kType, &Add::kType, &Let::kType};
  NodeRef again = load_json(save_json(term), types);
  EXPECT_TRUE(structural_equal(term, again, true));
  EXPECT_EQ(save_json(term), save_json(again));
  EXPECT_THROW(load_json("{\"root\": 3, \"nodes\": []}", types), Error);
  EXPECT_THROW(load_json("[", types), Error);
  EXPECT_THROW(load_json(R"({"root": 0, "nodes": [{"type": "Sub"}]})", types), Error);
}

std::string error_of(const std::string& json) {
  return thrown_by([&] { load_json(json, {&Name::kType, &Add::kType, &Let::kType}); });
}

TEST(Node, JsonOfACircleIsRefused) {
  constexpr const char* kCircle = "json: nodes refer to each other in a circle";
  EXPECT_EQ(error_of(R"({"root": 0, "nodes": [{"type": "Add", "terms": [0], "scale": 1}]})"), kCircle);
  EXPECT_EQ(error_of(R"({"root": 0, "nodes": [{"type": "Add", "terms": [1], "scale": 1},)"
                     R"({"type": "Add", "terms": [2, 2], "scale": 1},)"
                     R"({"type": "Add", "terms": [1], "scale": 1}]})"),
            kCircle);
  EXPECT_EQ(error_of(R"({"root": 0, "nodes": [{"type": "Add", "terms": [1, 1], "scale": 1},)"
                     R"({"type": "Add", "terms": [], "scale": 1}]})"),
            "no error");
}

TEST(Node, JsonTextThatIsNoNumberIsRefused) {
  const auto scale = [](const std::string& text) {
    return error_of(R"({"root": 0, "nodes": [{"type": "Add", "terms": [], "scale": )" + text + "}]}");
  };
  for (const char* text : {R"("inf")", R"("-inf")", R"("nan")", "1e-300"}) EXPECT_EQ(scale(text), "no error");
  for (const char* text : {"x", "", "1", "inf ", "1e999", "infinity", "0x1p3"})
    EXPECT_EQ(scale(fmt::format("\"{}\"", text)), fmt::format("json: `{}` is no number", text));
}

TEST(Node, DigitsOfATensorAreHexadecimal) {
  uint8_t bytes[2] = {};
  reflect::read_hex("0aFf", bytes);
  EXPECT_EQ(bytes[0], 10);
  EXPECT_EQ(bytes[1], 255);
  for (const char* digits : {"-1", " 1", "0x", "1", "xy"})
    EXPECT_EQ(thrown_by([&] { reflect::read_hex(std::string("00") + digits, bytes); }),
              fmt::format("json: `{}` is no byte of a tensor", digits));
}

TEST(Node, JsonOfADeepChainIsRefused) {
  Term chain = make<Name>("x");
  for (int depth = 1; depth < 3000; ++depth) chain = make<Add>(std::vector<Term>{chain}, 1.0);
  EXPECT_EQ(error_of(save_json(chain)), "no error");
  EXPECT_EQ(error_of(save_json(make<Add>(std::vector<Term>{chain}, 1.0))),
            "json: nodes nested more than 3000 deep");
}

TEST(Node, JsonOfExponentiallyManyWaysIsRefused) {
  Term sums = make<Name>("x");
  auto doubled = [](const Term& term) { return make<Add>(std::vector<Term>{term, term}, 1.0); };
  for (int level = 0; level < 20; ++level) sums = doubled(sums);
  EXPECT_EQ(error_of(save_json(sums)), "no error");
  for (int level = 0; level < 40; ++level) sums = doubled(sums);
  EXPECT_EQ(error_of(save_json(sums)), "json: nodes that occur more than 4194304 times");
}

TEST(Node, DeepChainsDoNotOverflowTheStack) {
  Term leaf = make<Name>("x"), a = leaf, b = leaf;
  for (int i = 0; i < 500000; ++i) {
    a = make<Add>(std::vector<Term>{a}, 1.0);
    b = make<Add>(std::vector<Term>{b}, 1.0);
  }
  EXPECT_TRUE(structural_equal(a, b));
  EXPECT_EQ(structural_hash(a), structural_hash(b));
  int count = 0;
  post_order(a, [&](const NodeRef&) { ++count; });
  EXPECT_EQ(count, 500001);
}

}  // namespace
}  // namespace lathe
