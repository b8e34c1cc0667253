#include "core/relay/interpret/interpreter.h"

#include <gtest/gtest.h>

#include "core/relay/prelude/prelude.h"
#include "core/relay/text.h"

namespace lathe::relay {
namespace {

/// The value of an expression over the whole prelude.
std::string value_of(const std::string& expression) {
  std::string text;
  for (const std::string& name : prelude_names()) text += fmt::format("import \"{}\"\n", name);
  try {
    return print(Interpreter(parse_module(text + "def @main() { " + expression + " }", "t")).call("main"));
  } catch (const Error& error) {
    return error.what();
  }
}

constexpr const char* kThree = "let %l = Cons(1, Cons(2, Cons(3, Nil))); ";

TEST(Prelude, Lists) {
  const std::pair<const char*, const char*> kCases[] = {
      {"(@hd(%l), @tl(%l))", "(1, Cons(2, Cons(3, Nil)))"},
      {"(@nth(%l, 2), @nth(%l, 3))", "(Some(3), None)"},
      {"@update(%l, 1, 7)", "Cons(1, Cons(7, Cons(3, Nil)))"},
      {"(@foldl(subtract, 0, %l), @foldr(subtract, 0, %l))", "(-6, 2)"},
      {"(@length(%l), @rev(%l))", "(3, Cons(3, Cons(2, Cons(1, Nil))))"},
      {"@map(fn (%x: int32) { %x * %x }, %l)", "Cons(1, Cons(4, Cons(9, Nil)))"},
      {"@filter(fn (%x: int32) { %x != 2 }, %l)", "Cons(1, Cons(3, Nil))"},
      {"@zip(%l, Cons(True, Cons(False, Nil)))", "Cons((1, True), Cons((2, False), Nil))"},
      {"@concat(%l, %l)", "Cons(1, Cons(2, Cons(3, Cons(1, Cons(2, Cons(3, Nil))))))"},
      {"@flatten(Cons(%l, Cons(Nil, Cons(Cons(4, Nil), Nil))))", "Cons(1, Cons(2, Cons(3, Cons(4, Nil))))"},
      {"@scanl(add, 0, %l)", "Cons(0, Cons(1, Cons(3, Cons(6, Nil))))"},
      {"@map_accuml(fn (%s: int32, %x: int32) { (%s + %x, %s) }, 0, %l)",
       "(6, Cons(0, Cons(1, Cons(3, Nil))))"},
      {"@map_accumr(fn (%s: int32, %x: int32) { (%s + %x, %s) }, 0, %l)",
       "(6, Cons(5, Cons(3, Cons(0, Nil))))"},
      {"@unfoldr(fn (%n: int32) { if (%n > 2) { None } else { Some((%n + 1, %n)) } }, 0)",
       "Cons(0, Cons(1, Cons(2, Nil)))"},
  };
  for (const auto& [text, value] : kCases) EXPECT_EQ(value_of(kThree + std::string(text)), value) << text;
}

TEST(Prelude, TheRest) {
  const std::pair<const char*, const char*> kCases[] = {
      {"(@option_map(negative, Some(1f)), @option_get(None, 3))", "(Some(-1f), 3)"},
      {"(@compose(fn (%x: int32) { (%x, %x) }, fn (%x: int32) { %x + 1 })(1), @id(1))", "((2, 2), 1)"},
      {"@iterate(fn (%x: int32) { %x * 2 }, 10, 1)", "1024"},
      {"@nat_to_int(@nat_double(@nat_of_int(5)))", "10"},
      {"@nat_iterate(fn (%x: int32) { %x * 3 }, S(S(Z)), 1)", "9"},
      {"let %t = Rose(1, Cons(Rose(2, Nil), Cons(Rose(3, Nil), Nil))); (@tree_map(negative, %t), "
       "@tree_size(%t))",
       "(Rose(-1, Cons(Rose(-2, Nil), Cons(Rose(-3, Nil), Nil))), 3)"},
      {"@hd(Nil[int32]())", "list.relay:8:32: error: no clause matches Nil"},
  };
  for (const auto& [text, value] : kCases) EXPECT_EQ(value_of(text), value) << text;
}

/// Neither the machine's stack nor memory grows with the steps of a tail recursion, of one function or two.
TEST(Interpreter, TailCallsTakeNoSpace) {
  EXPECT_EQ(value_of("let %n = @nat_double(@nat_of_int(1000)); let %million = @nat_iterate(@nat_double, "
                     "S(S(S(S(S(S(S(S(S(Z))))))))), %n); "
                     "let %even = fn (%a: Nat, %b: Nat) -> bool { match (%a) { Z => True, S(%m) => match "
                     "(%m) { Z => False, S(%k) => %even(%k, %a) } } }; %even(%million, Z)"),
            "True");
}

TEST(Interpreter, LongListsAndDeepRecursion) {
  EXPECT_EQ(
      value_of("let %build = fn (%n: Nat, %l: List[bool]) -> List[bool] { match (%n) { Z => %l, S(%m) "
               "=> %build(%m, Cons(True, %l)) } }; "
               "let %l = %build(@nat_iterate(@nat_double, S(S(S(S(S(S(S(S(Z)))))))), @nat_of_int(1000)), "
               "Nil); match (@foldr(Cons, Nil, %l)) { Cons(_, _) => 1, Nil => 0 }"),
      "1");
}

TEST(Interpreter, RecursionWithoutEndIsAnError) {
  try {
    Interpreter(parse_module("def @f(%n: int32) -> int32 { 1 + @f(%n) }\ndef @main() { @f(0) }", "t"))
        .call("main");
    FAIL() << "it ended";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(), "t:1:34: error: calls nest more than 500000 deep");
  }
}

TEST(Interpreter, ArgumentsAreChecked) {
  Interpreter interpreter(
      parse_module("import \"list\"\ndef @main(%x: Tensor[(n), int32], %l: List[bool]) { (%x, %l) }\n", "t"));
  auto call = [&](const std::vector<Value>& args) -> std::string {
    try {
      return print(interpreter.call("main", args));
    } catch (const Error& error) {
      return error.what();
    }
  };
  Value x = tensor_value(tensor_of<int32_t>({1, 2}, {2}, kInt32));
  Value nil = make<DataValue>(interpreter.module()->types.at("List")->constructors.at(1));
  EXPECT_EQ(call({x, nil}), "([1, 2], Nil)");
  EXPECT_EQ(call({x}), "`@main` takes 2 arguments, got 1");
  EXPECT_EQ(call({nil, nil}), "argument 1 of `@main` is Nil, a value of type Tensor[(n), int32] is expected");
  EXPECT_EQ(call({x, x}), "argument 2 of `@main` is [1, 2], a value of type List[bool] is expected");
  EXPECT_THROW(interpreter.call("man"), Error);
}

/// Each step makes a cell that holds itself; what the caller was given stays.
TEST(Interpreter, TensorsHaveNoMoreElementsThanNumbersCount) {
  for (const char* expression : {"ones(shape=[9223372036854775807, 4])", "reshape_to([5], %n, %n)"})
    EXPECT_NE(
        value_of(std::string("let %n = 9223372036854775807i64; ") + expression).find("has too many elements"),
        std::string::npos)
        << expression;
}

TEST(Interpreter, CirclesThroughReferencesAreFreed) {
  Interpreter interpreter(parse_module(R"(
    import "function"
    type Knot { Tied(ref(Knot), int32), Loose }
    def @main() {
      @iterate(fn (%k: Knot) -> Knot { let %r = ref(Loose); %r := Tied(%r, 7); !%r }, 20000, Loose)
    })"));
  const Value first = interpreter.call("main"), second = interpreter.call("main");
  EXPECT_LT(interpreter.cells(), 3000u);
  for (const Value& each : {first, second}) {
    EXPECT_EQ(print(each), "Tied(<ref>, 7)");
    EXPECT_EQ(print(interpreter.read(*each.as<DataValue>()->fields_of[0].as<RefValue>())), "Tied(<ref>, 7)");
  }
}

TEST(Interpreter, LibraryFunctionsWriteTheirResults) {
  Interpreter interpreter(parse_module(R"(
    def @f(%x: Tensor[(n), float32]) {
      call_dps_library("minmax", (%x, 1f), (Tensor[(n), float32], float32))
    }
    def @main() { (@f([1f, 2f]), @f([3f])) })"));
  interpreter.add_library("minmax", [](const std::vector<Tensor>& inputs, std::vector<Tensor>& results) {
    ASSERT_EQ(inputs.size(), 2u);
    for (int64_t i = 0; i < inputs[0].size(); ++i) results[0].set(i, inputs[0].value(i) + inputs[1].value(0));
    results[1].set(0, static_cast<double>(inputs[0].size()));
  });
  EXPECT_EQ(print(interpreter.call("main")), "(([2f, 3f], 2f), ([4f], 1f))");
}

}  // namespace
}  // namespace lathe::relay
