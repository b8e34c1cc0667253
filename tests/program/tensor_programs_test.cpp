// Tensor programs of any sizes, called from programs: interpreter, native code and virtual machine give the
// same values, and what cannot be right is refused before any of them runs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/relay/interpret/interpreter.h"
#include "core/relay/text.h"
#include "core/tir/text.h"
#include "tests/program/compiled.h"
#include "tests/thrown_by.h"

namespace lathe::program {
namespace {

/// What a tensor program computes, element by element of a row.
std::string row(const std::string& signature, const std::string& extent, const std::string& reads,
                const std::string& result, const std::string& value) {
  return fmt::format(
      "func {} {{ block root {{ for i in 0..{} {{ block b(spatial v in 0..{} = i) {{\n{}\n writes {}\n {} = "
      "{}\n"
      "}} }} }} }}\n",
      signature, extent, extent, reads.empty() ? "" : " reads " + reads, result, result, value);
}

std::string twice() {
  return row("twice[n](a: float32[n]) -> (b: float32[n])", "n", "a[v]", "b[v]", "a[v] * 2.0");
}
std::string grown() {
  return row("grown[n](a: float32[n]) -> (b: float32[n * 2 + 1])", "n * 2 + 1", "a[0:n]", "b[v]",
             "select(v < n, a[v], -1.0)");
}
std::string diagonal() {
  return row("diagonal[n](a: float32[n, n]) -> (b: float32[n])", "n", "a[v, v]", "b[v]", "a[v, v]");
}
std::string filled() {
  return row("filled[n, m](a: float32[n]) -> (b: float32[m])", "m", "a[0:n]", "b[v]",
             "select(v < n, a[v], -1.0)");
}
std::string cut() {
  return row("cut[n](a: float32[n]) -> (b: float32[n - 3])", "n - 3", "a[v + 3]", "b[v]", "a[v + 3]");
}
std::string ones() { return row("ones[n]() -> (b: float32[n])", "n", "", "b[v]", "1.0"); }
std::string sum_of_two() {
  return row("both[n](a: float32[n], b: float32[n]) -> (c: float32[n])", "n", "a[v], b[v]", "c[v]",
             "a[v] + b[v]");
}

/// `text` calls the tensor programs of `funcs` by $0, $1, ...
relay::Module program_of(const std::string& funcs, std::string text) {
  nlohmann::json json;
  for (const tir::Func& func : tir::parse_funcs(funcs)) json["tir.Func"].push_back(save_json(func));
  for (size_t at; (at = text.find('$')) != std::string::npos;)
    text.replace(at, 2, fmt::format("meta[tir.Func][{}]", text[at + 1]));
  return relay::parse_module(text + "\n#[metadata] " + json.dump() + "\n", "t");
}

/// The value of main, which all three agree on, or what is said in place of it.
std::string value(const std::string& funcs, const std::string& text) {
  const relay::Module module = program_of(funcs, text);
  std::string interpreted;
  const std::string refused =
      thrown_by([&] { interpreted = print(relay::Interpreter(module).call("main")); });
  std::unique_ptr<Compiled> compiled;
  const std::string compiling = thrown_by([&] { compiled = std::make_unique<Compiled>(module); });
  if (!compiled) {
    EXPECT_EQ(compiling, refused);
    return compiling;
  }
  for (runtime::Machine* machine : {&compiled->machine(), &compiled->virtual_machine()}) {
    std::string result;
    const std::string said = thrown_by([&] { result = compiled->value(*machine); });
    EXPECT_EQ(said == "no error", refused == "no error") << said;
    EXPECT_EQ(result, interpreted);
  }
  return refused == "no error" ? interpreted : refused;
}

TEST(TensorPrograms, AreOfAnySizes) {
  EXPECT_EQ(value(twice(), R"(
    def @f(%x: Tensor[(n), float32]) { call_tir($0, (%x), Tensor[(n), float32]) }
    def @main() { (@f([1f, 2f]), @f([3f]), @f(zeros(shape=[0], dtype="float32"))) })"),
            "([2f, 4f], [6f], <float32 (0)>)");
  EXPECT_EQ(value(grown(), R"(
    def @f(%x: Tensor[(n), float32]) { call_tir($0, (%x), Tensor[(2 * n + 1), float32]) }
    def @main() { (@f([5f, 6f]), @f(zeros(shape=[0], dtype="float32"))) })"),
            "([5f, 6f, -1f, -1f, -1f], [-1f])");
  EXPECT_EQ(value(cut(), R"(
    def @f(%x: Tensor[(n), float32]) { call_tir($0, (%x), Tensor[(n - 3), float32]) }
    def @main() { (@f([1f, 2f, 3f, 4f]), @f([1f, 2f, 3f])) })"),
            "([4f], <float32 (0)>)");
  EXPECT_EQ(value(filled(), R"(
    def @f(%x: Tensor[(n), float32], %y: Tensor[(m), float32]) { call_tir($0, (%x), Tensor[(m), float32]) + %y }
    def @main() { @f([5f, 6f], [1f, 2f, 3f]) })"),
            "[6f, 8f, 2f]");
  EXPECT_EQ(value(grown(), R"(
    def @loop(%x: Tensor[(n), float32], %k: int32) -> float32 {
      if (%k == 0) { sum(%x) } else { @loop(call_tir($0, (%x), Tensor[(2 * n + 1), float32]), %k - 1) } }
    def @main() { @loop([1f], 3) })"),
            "-13f");
}

/// The planner asked for dimensions of a graph that has none.
TEST(TensorPrograms, AreCalledWithNumbers) {
  EXPECT_EQ(value(twice(), "def @main() { call_tir($0, ([1f, 2f]), Tensor[(2), float32]) }"), "[2f, 4f]");
  EXPECT_EQ(
      value(twice(),
            R"(def @main() { call_tir($0, (zeros(shape=[0], dtype="float32")), Tensor[(0), float32]) })"),
      "<float32 (0)>");
  EXPECT_EQ(value(diagonal(), "def @main() { call_tir($0, ([[1f, 2f], [3f, 4f]]), Tensor[(2), float32]) }"),
            "[1f, 4f]");
  EXPECT_EQ(value(filled(), "def @main() { call_tir($0, ([5f, 6f]), Tensor[(3), float32]) }"),
            "[5f, 6f, -1f]");
  EXPECT_EQ(value(ones(), "def @main() { call_tir($0, (), Tensor[(3), float32]) }"), "[1f, 1f, 1f]");
  EXPECT_EQ(value(twice() + grown(), R"(
    def @main() { let %r = ref([1f, 2f]);
      %r := call_tir($0, (!%r), Tensor[(2), float32]);
      (!%r, call_tir($1, (!%r), Tensor[(5), float32])) })"),
            "([2f, 4f], [2f, 4f, -1f, -1f, -1f])");
}

/// Each of these wrote beyond what it had been given, or beside it.
TEST(TensorPrograms, ResultsAreWhatTheyWrite) {
  const std::string said = "error: result 1 has type ";
  auto refusal = [&](const std::string& funcs, const std::string& text) {
    const std::string all = value(funcs, text);
    return all.substr(std::min(all.find("error: "), all.size()));
  };
  const auto of_any = [](const char* call) {
    return fmt::format("def @f(%x: Tensor[(n), float32]) {{ {} }}\ndef @main() {{ @f([1f, 2f]) }}", call);
  };
  EXPECT_EQ(refusal(grown(), of_any("call_tir($0, (%x), Tensor[(2 * n), float32])")).substr(0, said.size()),
            said);
  EXPECT_EQ(refusal(grown(), "def @main() { call_tir($0, ([5f, 6f]), Tensor[(4), float32]) }"),
            said + "Tensor[(4), float32], Tensor[(5), float32] is expected");
  EXPECT_EQ(
      refusal(cut(), "def @main() { call_tir($0, ([5f, 6f]), Tensor[(0), float32]) }").substr(0, said.size()),
      said);
  for (const char* type :
       {"Tensor[(2), int32]", "Tensor[(2), float64]", "Tensor[(2, 1), float32]", "float32"})
    EXPECT_EQ(refusal(twice(), fmt::format("def @main() {{ call_tir($0, ([1f, 2f]), {}) }}", type))
                  .substr(0, said.size()),
              said)
        << type;
  for (const auto& [args, type, has] : {std::tuple("[1f], [2f]", "Tensor[(1), float32]", "2 and 1"),
                                        std::tuple("[1f]", "(Tensor[(1), float32], float32)", "1 and 2"),
                                        std::tuple("[1f]", "()", "1 and 0")})
    EXPECT_EQ(refusal(twice(), fmt::format("def @main() {{ call_tir($0, ({}), {}) }}", args, type)),
              fmt::format("error: the tensor program takes 1 and gives 1 tensors, not {}", has));
  EXPECT_EQ(refusal(twice(), of_any("call_tir($0, (%x), Tensor[(?), float32])")),
            "error: the result has type Tensor[(?), float32], whose sizes must be known");
}

TEST(TensorPrograms, ArgumentsAreOfOneSize) {
  auto of_two = [](const char* more) {
    return fmt::format(
        "def @f(%x: Tensor[(n), float32], %y: Tensor[(m), float32]) {{ call_tir($0, (%x, %y), "
        "Tensor[(n), float32]) }}\ndef @main() {{ @f([1f, 2f], [1f, 2f{}]) }}",
        more);
  };
  for (const char* more : {"", ", 3f"})
    EXPECT_EQ(value(sum_of_two(), of_two(more)),
              "t:1:62: error: argument 2 has type Tensor[(m), float32], Tensor[(n), float32] is expected");
  // `?` may be any size, and the result's is 2.
  for (const char* more : {"", ", 3f"})
    EXPECT_EQ(
        value(twice(),
              fmt::format("def @f(%x: Tensor[(?), float32]) {{ call_tir($0, (%x), Tensor[(2), float32]) "
                          "}}\ndef @main() {{ @f([1f, 2f{}]) }}",
                          more)),
        "t:1:36: error: argument 1 has type Tensor[(?), float32], whose sizes must be known: match_cast "
        "gives "
        "them names");
}

}  // namespace
}  // namespace lathe::program
