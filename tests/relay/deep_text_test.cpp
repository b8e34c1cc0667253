// Each production of the grammar 100,000 deep, or as often: it works, or it is one clear error, on the stack
// that every program has; and half of it takes half the work, told by what is asked for of memory. What is
// read goes through inference, the printer and the passes; of what works and computes, 20,000 are enough for
// each day (LATHE_LONG=100000 runs as many). LATHE_DEEP=lets runs one case.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/relay/interpret/interpreter.h"
#include "core/relay/pass.h"
#include "core/relay/text.h"
#include "tests/allocations.h"
#include "tests/thrown_by.h"

namespace lathe::relay {
namespace {

constexpr int kDepth = 100'000;
int long_chain() {
  const char* given = std::getenv("LATHE_LONG");
  return given ? std::atoi(given) : 20'000;
}

/// Twice as much asks for so many times the memory, at most: in proportion, or by a logarithm more.
constexpr double kMostOfTwice = 2.5;
/// What is asked for whatever the text is.
constexpr Allocations kAlways{20'000, 4 << 20};

std::string repeated(const std::string& text, int count) {
  std::string all;
  all.reserve(text.size() * static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

/// f(0) f(1) ...
std::string numbered(FunctionRef<std::string(int)> f, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += f(i);
  return all;
}

std::string main_of(const std::string& body) { return "def @main() { " + body + " }\n"; }

struct Case {
  const char* what;
  std::string text;
  std::string error;  // that its message holds; empty: it has the value
  std::string value;
};

/// The texts of one size.
struct Texts {
  int depth;              // of what nests or is listed
  int many;               // of what computes
  int some = depth / 10;  // of definitions, and of cases in a chain

  std::string repeated(const std::string& text) const { return relay::repeated(text, depth); }
  std::string repeated(const std::string& text, int count) const { return relay::repeated(text, count); }
  std::string numbered(FunctionRef<std::string(int)> f) const { return relay::numbered(f, depth); }
  std::string numbered(FunctionRef<std::string(int)> f, int count) const { return relay::numbered(f, count); }
  std::string nested(const std::string& open, const std::string& inside, const std::string& close) const {
    return repeated(open) + inside + repeated(close);
  }
  std::vector<Case> cases() const;
};

std::vector<Case> Texts::cases() const {
  auto number = [](const char* before, int i) { return fmt::format("{}{}", before, i); };
  const std::string last = fmt::format("%{}", many), all = fmt::format("{}", many + 1);
  const char* kLevels = "nested more than 1000 levels deep";
  const char* kValueLevels = "nested more than 200 levels deep";
  return {
      {"parentheses", main_of(nested("(", "1", ")")), kLevels, ""},
      {"tuples", main_of(nested("(", "1", ",)")), kLevels, ""},
      {"blocks", main_of(nested("{", "1", "}")), kLevels, ""},
      {"minus", main_of(repeated("- ") + "(1)"), kLevels, ""},
      {"reads", main_of(repeated("!") + "1"), kLevels, ""},
      {"writes", main_of(repeated("1 := ") + "1"), kLevels, ""},
      {"sums", main_of("1" + repeated(" + 1", many)), "", all},
      {"sums to the right", main_of(nested("1 + (", "1", ")")), kLevels, ""},
      {"calls of calls", main_of(nested("negative(", "1", ")")), kLevels, ""},
      {"calls behind each other", main_of("let %f = fn () { 1 }; %f" + repeated("()")),
       "what is called has type int32", ""},
      {"items behind each other", main_of("let %f = (1,); (%f)" + repeated(".0")), "which is not a tuple",
       ""},
      {"lets", main_of("let %x = 1;" + repeated("let %x = %x + 1;", many) + "%x"), "", all},
      {"lets in lets", main_of(nested("let %x = {", "1", "}; %x")), kLevels, ""},
      {"sequence", main_of("let %r = ref(1);" + repeated("%r := 2;", many) + "!%r"), "", "2"},
      {"graph lets",
       main_of("%0 = 1;" + numbered([](int i) { return fmt::format("%{} = %{} + 1;", i + 1, i); }, many) +
               last),
       "", all},
      {"shared operands",
       main_of("%0 = 0;" +
               numbered([](int i) { return fmt::format("%{0} = %{1} + %{1};", i + 1, i); }, many) + last),
       "", "0"},
      {"tuples by graph lets",
       main_of("%0 = 1;" + numbered([](int i) { return fmt::format("%{} = (%{},);", i + 1, i); }, many) +
               "let %t = " + last + "; 1"),
       "", "1"},
      {"functions", main_of(nested("fn () {", "1", "}")), kLevels, ""},
      {"functions by lets",
       main_of("let %f0 = fn () { 1 };" +
               numbered([](int i) { return fmt::format("let %f{} = fn () {{ %f{}() }};", i + 1, i); }, many) +
               fmt::format("%f{}()", many)),
       "", "1"},
      {"if in if", main_of(nested("if (True) {", "1", "} else { 1 }")), kLevels, ""},
      {"conditions in conditions", main_of(nested("if (", "True", ") { True } else { True }")), kLevels, ""},
      {"else if", main_of(repeated("if (True) { 1 } else ") + "{ 1 }"), "a chain of more than 10000 cases",
       ""},
      {"else if, as many as there may be", main_of(repeated("if (False) { 1 } else ", some - 1) + "{ 2 }"),
       "", "2"},
      {"match in match", main_of(nested("match (1) { _ => ", "1", "}")), kLevels, ""},
      {"matched in matched", main_of(nested("match (", "1", ") { _ => 1 }")), kLevels, ""},
      {"clauses", main_of("match (1) {" + repeated("_ => 1,") + "}"), "", "1"},
      {"patterns", main_of("match (1) {" + nested("(", "_", ")") + " => 1 }"), kLevels, ""},
      {"a wide pattern",
       main_of("let %t = (" + repeated("1,") + "); match (%t) { (" + repeated("_,") + ") => 1 }"), "", "1"},
      {"a wide tuple", main_of("let %t = (" + repeated("1,") + "); " + fmt::format("%t.{}", depth - 1)), "",
       "1"},
      {"parameters",
       "def @f(" + numbered([&](int i) { return number("%x", i) + ": int32,"; }) + ") { 1 }\n" +
           main_of("@f(" + repeated("1,") + ")"),
       "", "1"},
      {"types: references", "def @f(%x: " + nested("ref(", "int32", ")") + ") { 1 }\n" + main_of("1"),
       kLevels, ""},
      {"types: tuples", "def @f(%x: " + nested("(", "int32", ",)") + ") { 1 }\n" + main_of("1"), kLevels, ""},
      {"types: results", "def @f(%x: " + repeated("fn () -> ") + "int32) { 1 }\n" + main_of("1"), kLevels,
       ""},
      {"types: parameters",
       "def @f(%x: " + nested("fn (", "int32", ") -> int32") + ") { 1 }\n" + main_of("1"), kLevels, ""},
      {"types: data",
       "import \"list\"\ndef @f(%x: " + nested("List[", "int32", "]") + ") { 1 }\n" + main_of("1"), kLevels,
       ""},
      {"type parameters",
       "def @f[" + numbered([&](int i) { return number("A", i) + ","; }) + "]() { 1 }\n" + main_of("@f()"),
       "", "1"},
      {"dimensions: sums", "def @f(%x: Tensor[(n" + repeated(" + n") + "), int32]) { 1 }\n" + main_of("1"),
       "a dimension of more than 100 terms", ""},
      {"dimensions: parentheses",
       "def @f(%x: Tensor[(" + nested("(", "n", ")") + "), int32]) { 1 }\n" + main_of("1"), kValueLevels, ""},
      {"dimensions: functions",
       "def @f(%x: Tensor[(" + nested("min(", "n", ", n)") + "), int32]) { 1 }\n" + main_of("1"),
       kValueLevels, ""},
      {"rank", "def @f(%x: Tensor[(" + repeated("1,") + "), int32]) { 1 }\n" + main_of("1"), "", "1"},
      {"literals", main_of(nested("[", "1", "]")), kValueLevels, ""},
      {"attributes", main_of("zeros(shape=" + nested("[", "1", "]") + ")"), kValueLevels, ""},
      {"attributes of functions",
       main_of("let %f = fn (" + numbered([&](int i) { return number("K", i) + "=1,"; }) + ") { 1 }; %f()"),
       "", "1"},
      {"comments", main_of(nested("/*", "", "*/") + "1"), "", "1"},
      {"comments without end", repeated("/*"), "comment without end", ""},
      {"open parentheses", main_of(repeated("(")), kLevels, ""},
      {"open brackets", main_of(repeated("[")), kLevels, ""},
      {"dataflow in dataflow", main_of(nested("dataflow { output(", "1", ") }")), kLevels, ""},
      {"a long dataflow block",
       main_of("dataflow { let %x = 1;" + repeated("let %x = %x + 1;", many) + "output(%x) }"), "", all},
      {"definitions",
       numbered(
           [](int i) {
             return fmt::format("def @f{}() {{ {} }}\n", i, i ? fmt::format("@f{}()", i - 1) : "1");
           },
           some) +
           main_of(fmt::format("@f{}()", some - 1)),
       "", "1"},
      {"data types",
       numbered([&](int i) { return "type " + number("T", i) + " { " + number("C", i) + " }\n"; }, some) +
           main_of("match (C5) { C5 => 1 }"),
       "", "1"},
      {"constructors",
       "type T { " + numbered([&](int i) { return number("C", i) + ","; }, some) + " }\n" +
           main_of("match? (C5) { C5 => 1 }"),
       "", "1"},
  };
}

/// The value of @main, or the message of what goes wrong on the way.
std::string outcome(const std::string& text) {
  std::string value;
  const std::string message = thrown_by([&] {
    const Module module = parse_module(text, "t");
    const std::string printed = print(module);
    parse_module(printed, "printed");
    Interpreter interpreter(module);
    value = print(interpreter.call("main"));
    using enum PassId;
    constexpr PassId kPasses[] = {kInlineDataflow,         kSimplifyExpr, kFoldConstant,
                                  kEliminateCommonSubexpr, kDeadCode,     kToANormalForm,
                                  kToGraphNormalForm,      kFuseOps};
    for (PassId id : kPasses) run_passes(interpreter.module(), std::vector{id});
  });
  return value.empty() || message != "no error" ? message : value;
}

void expect(const Case& each, const std::string& found) {
  if (each.error.empty())
    EXPECT_EQ(found.substr(0, 200), each.value) << each.what;
  else
    EXPECT_NE(found.substr(0, 300).find(each.error), std::string::npos)
        << each.what << ": " << found.substr(0, 300);
}

/// Work that grows with the square asks four times as often, or for four times as much.
void expect_in_proportion(const char* what, Allocations half, Allocations whole) {
  EXPECT_LT(static_cast<double>(whole.calls),
            kMostOfTwice * static_cast<double>(half.calls) + static_cast<double>(kAlways.calls))
      << what;
  EXPECT_LT(static_cast<double>(whole.bytes),
            kMostOfTwice * static_cast<double>(half.bytes) + static_cast<double>(kAlways.bytes))
      << what;
}

TEST(DeepText, EachProduction) {
  const char* one = std::getenv("LATHE_DEEP");
  const std::vector<Case> halves = Texts{kDepth / 2, long_chain() / 2}.cases(),
                          wholes = Texts{kDepth, long_chain()}.cases();
  for (size_t i = 0; i < wholes.size(); ++i) {
    if (one && std::string(wholes[i].what) != one) continue;
    std::printf("%s\n", wholes[i].what), std::fflush(stdout);
    std::string found;
    const auto measure = [&](const Case& each) {
      const Allocations work = allocations_of([&] { found = outcome(each.text); });
      expect(each, found);
      return work;
    };
    const Allocations half = measure(halves[i]), whole = measure(wholes[i]);
    expect_in_proportion(wholes[i].what, half, whole);
  }
}

TEST(DeepText, QuadraticWorkIsFound) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer has malloc";
  const auto appended = [](int size) {
    return allocations_of([&] {
      std::string text;
      for (int i = 0; i < size; ++i) text = text + std::string(64, 'x');
    });
  };
  EXPECT_NONFATAL_FAILURE(expect_in_proportion("copies", appended(2000), appended(4000)), "copies");
}

}  // namespace
}  // namespace lathe::relay
