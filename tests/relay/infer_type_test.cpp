#include "core/relay/passes/infer_type.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/text.h"
#include "core/support/file.h"
#include "core/support/text.h"
#include "tests/thrown_by.h"

namespace lathe::relay {
namespace {

/// The type of the body of @main.
std::string type_of_main(std::string_view text) {
  Module module = infer_type(parse_module(text, "t.relay"));
  class AllTyped : public ExprVisitor {
    void visit_default(const Expr& e) override {
      EXPECT_TRUE(e->checked_type || e.as<OpNode>() || e.as<ExternFunc>()) << e->type().name;
      ExprVisitor::visit_default(e);
    }
  } check;
  for (const auto& each : module->functions) check.visit(each.second);
  Module again = infer_type(module);
  EXPECT_TRUE(again == module) << "a second inference changes something";
  return print(module->functions.at("main")->body->checked_type);
}

std::string message_of(std::string_view text) {
  return thrown_by([&] { infer_type(parse_module(text, "t.relay")); });
}

constexpr std::string_view kList = "type List[A] { Cons(A, List[A]), Nil }\n";
std::string with_list(std::string_view text) { return std::string(kList) + std::string(text); }

TEST(InferType, Language) {
  const std::pair<std::string, std::string> kCases[] = {
      {"def @main() { (1, 2f, [True]) }", "(int32, float32, Tensor[(1), bool])"},
      {"def @main(%x: (int32, float32)) { %x.1 }", "float32"},
      {"def @main(%x) { let %y = %x; if (%x) { (%y,) } else { (True,) } }", "(bool,)"},
      {"def @id[A](%x: A) -> A { %x }\ndef @main() { (@id(1), @id(2f)) }", "(int32, float32)"},
      {"def @main() { let %id = fn [A](%x: A) -> A { %x }; (%id(1), %id(2f)) }", "(int32, float32)"},
      {"def @main() { let %f = fn (%x) { if (%x) { %f(False) } else { %x } }; %f }", "fn (bool) -> bool"},
      {"def @main() { fn (%f, %x: int32) { %f(%x, True).0 }(fn (%a, %b) { (%b, %a) }, 1) }", "bool"},
      {"def @main(%r: ref(int32)) { ref_write(%r, ref_read(%r)) }", "()"},
      {"def @main() { ref(1f) }", "ref(float32)"},
      {"def @main(%f: fn (int32, float32) -> float32) { grad(%f) }",
       "fn (int32, float32) -> (float32, (int32, float32))"},
      {"def @main(%x: Tensor[(?), float32]) { match_cast(%x, Tensor[(n), float32]) }",
       "Tensor[(n), float32]"},
      {"def @main() { call_dps_library(\"f\", (1,), Tensor[(3), int8]) }", "Tensor[(3), int8]"},
      // Symbolic dimensions of a global function are the caller's to choose.
      {"def @f(%x: Tensor[(n, 2 * m), int8]) -> Tensor[(m, n + 1), int8] { call_dps_library(\"f\", (%x,), "
       "Tensor[(m, n + 1), "
       "int8]) }\ndef @main(%x: Tensor[(3, 8), int8]) { @f(%x) }",
       "Tensor[(4, 4), int8]"},
      {"def @f() -> Tensor[(n), int8] { call_dps_library(\"f\", (), Tensor[(n), int8]) }\ndef @main() { @f() "
       "}",
       "Tensor[(?), int8]"},
      {with_list("def @main() { Cons(1, Cons(2, Nil)) }"), "List[int32]"},
      {with_list("def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] { match (%l) { Cons(%h, %t) => "
                 "Cons(%f(%h), @map(%f, "
                 "%t)), Nil => Nil } }\ndef @main(%l: List[int32]) { @map(fn (%x) { (%x, 1f) }, %l) }"),
       "List[(int32, float32)]"},
      {with_list("def @main(%p: (List[bool], int8)) { match? (%p) { (Cons(%h, _), %n) => (%n, %h) } }"),
       "(int8, bool)"},
  };
  for (const auto& [text, type] : kCases) EXPECT_EQ(type_of_main(text), type) << text;
}

TEST(InferType, Operators) {
  const std::pair<std::string, std::string> kCases[] = {
      {"def @main(%x: Tensor[(1, 3, 8, 8), float32], %w) { nn.conv2d(%x, %w, channels=4, kernel_size=[3, 3], "
       "padding=[1, 1, 1, "
       "1]) }",
       "Tensor[(1, 4, 8, 8), float32]"},
      {"def @main(%x: Tensor[(n, 3), float32], %y: Tensor[(1, 3), float32]) { add(%x, %y) }",
       "Tensor[(n, 3), float32]"},
      {"def @main(%x: Tensor[(?, 3), float32]) { nn.relu(%x) }", "Tensor[(?, 3), float32]"},
      // The relation of relu waits for the hole of %f's parameter, which the later call fills.
      {"def @main(%x: Tensor[(2), float32]) { let %f = fn (%a) { nn.relu(%a) }; %f(%x) }",
       "Tensor[(2), float32]"},
      {"def @main(%x: Tensor[(n, 3), float32], %y: Tensor[(n, 5), float32]) { concatenate((%x, %y), axis=1) "
       "}",
       "Tensor[(n, 8), float32]"},
      {"def @f(%x: Tensor[(n, 3), float32]) { nn.relu(%x) }\ndef @main(%y: Tensor[(7, 3), float32]) { @f(%y) "
       "}",
       "Tensor[(7, 3), float32]"},
  };
  for (const auto& [text, type] : kCases) EXPECT_EQ(type_of_main(text), type) << text;
}

TEST(InferType, Errors) {
  const std::pair<std::string, std::string> kCases[] = {
      {"def @main(%x: int32) {\n  if (%x) { 1 } else { 2 }\n}",
       "t.relay:2:3: error: the condition has type int32, bool is expected"},
      {"def @main(%c: bool) {\n  if (%c) { 1 } else { 2f }\n}",
       "t.relay:2:24: error: the else branch has type float32, int32 is expected"},
      {"def @main(%x: int32) -> float32 {\n  (%x,)\n}",
       "t.relay:2:3: error: the body of the function has type (int32,), float32 is expected"},
      {with_list("def @main(%p: (List[bool], bool)) { match (%p) { (Nil, _) => 1, (Cons(_, Cons(_, _)), _) "
                 "=> 2 } }"),
       "t.relay:2:37: error: no clause matches (Cons(_, Nil), _); add one, or write match?"},
      {"def @main(%x) { %x }",
       "t.relay:1:11: error: the type of `%x` is not determined, only _; annotate it"},
      {"def @main(%x) { nn.relu(%x) }",
       "t.relay:1:17: error: nn.relu: the type of argument 1 is not known, only _; annotate it"},
      {"def @main(%x: int32) { %x.0 }",
       "t.relay:1:24: error: item 0 of a value of type int32, which is not a tuple"},
      {"def @main(%x: (int32,)) { %x.1 }", "t.relay:1:27: error: item 1 of a tuple of 1"},
      {"def @main(%f) { %f(%f) }", "t.relay:1:17: error: what is called has type _, fn (_) -> _ is expected"},
      {"def @f(%x: int32) { %x }\ndef @main() { @f(1, 2) }",
       "t.relay:2:15: error: a function of type fn (int32) -> int32 gets 2 arguments"},
      {"def @main(%x: Tensor[(2), float32]) { nn.relu(%x, %x) }",
       "t.relay:1:39: error: nn.relu takes 1 argument, got 2"},
      {"def @f(%x: Tensor[(n, n), int8]) { %x }\ndef @main(%x: Tensor[(2, 3), int8]) { @f(%x) }",
       "t.relay:2:39: error: argument 1 has type Tensor[(2, 3), int8], Tensor[(2, 2), int8] is expected"},
  };
  for (const auto& [text, message] : kCases) EXPECT_EQ(message_of(text), message) << text;
  std::string shapes =
      message_of("def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(2, 4), float32]) {\n  add(%x, %y)\n}");
  EXPECT_TRUE(shapes.starts_with("t.relay:2:3: error: add: ")) << shapes;
  EXPECT_NE(shapes.find("(2, 3)"), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("(2, 4)"), std::string::npos) << shapes;
}

TEST(InferType, DeepChains) {
  constexpr int kDepth = 100'000;
  Var x = make_var("x", tensor_type(std::vector<int64_t>{2}, kFloat32));
  Expr calls = x, lets;
  for (int i = 0; i < kDepth; ++i) calls = call("nn.relu", {calls});
  std::vector<Var> vars{x};
  for (int i = 0; i < kDepth; ++i) vars.push_back(make_var("y"));
  lets = vars.back();
  for (int i = kDepth; i > 0; --i) lets = make<Let>(vars[i], call("nn.relu", {vars[i - 1]}), lets);
  for (const Expr& body : {calls, lets}) {
    auto function = make<Function>(std::vector<TypeVar>{}, std::vector{x}, Type(), body);
    EXPECT_EQ(print(infer_type(function)->body->checked_type), "Tensor[(2), float32]");
  }
}

/// Files printed by Apache TVM: every call has the type that TVM gave it in the comment on its line.
TEST(InferType, AgreesWithTvm) {
  for (const char* file : {"resnet18.relay", "squeezenet1_1.relay"}) {
    std::string text = read_file(std::string(LATHE_TEST_DATA) + "/" + file);
    std::vector<std::string> lines = split_text(text, '\n');
    Module module = infer_type(parse_module(text, file));
    class Compare : public ExprVisitor {
     public:
      explicit Compare(const std::vector<std::string>& lines) : lines_(lines) {}
      int compared = 0;
      void visit_call(const Ref<Call>& e) override {
        ExprVisitor::visit_default(e);
        const std::string& line = lines_.at(static_cast<size_t>(e->span.line - 1));
        size_t begin = line.find("/* ty=");
        ASSERT_NE(begin, std::string::npos) << line;
        EXPECT_EQ(print(e->checked_type), line.substr(begin + 6, line.find(" span=") - begin - 6)) << line;
        ++compared;
      }

     private:
      const std::vector<std::string>& lines_;
    } compare(lines);
    compare.visit(module->functions.at("main"));
    EXPECT_GT(compare.compared, 60);
    std::string printed = print(module);
    EXPECT_TRUE(structural_equal(parse_module(printed), module));
    EXPECT_EQ(print(parse_module(printed)), printed);
  }
}

/// As deep as there are functions, and no deeper than the stack.
TEST(InferType, AChainOfCallsMayBeLong) {
  constexpr int kFunctions = 60000;
  std::string text;
  for (int i = 0; i < kFunctions; ++i)
    text += fmt::format("def @f{}(%x: int32) -> int32 {{ @f{}(%x) }}\n", i, i + 1);
  text += fmt::format("def @f{}(%x: int32) -> int32 {{ %x }}\n", kFunctions);
  EXPECT_EQ(infer_type(parse_module(text))->functions.size(), static_cast<size_t>(kFunctions) + 1);
}

TEST(CallType, MessagesCountArgumentsFromOne) {
  auto message = [](const Expr& argument) -> std::string {
    return thrown_by([&] { typed_call("nn.relu", {argument}); });
  };
  EXPECT_EQ(message(typed_tuple({})), "nn.relu: argument 1 is not a tensor");
  EXPECT_EQ(message(Expr()), "nn.relu: argument 1 is missing");
}

}  // namespace
}  // namespace lathe::relay
