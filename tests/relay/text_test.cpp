#include "core/relay/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "core/relay/functor.h"
#include "core/tir/builder.h"
#include "tests/thrown_by.h"

namespace lathe::relay {
namespace {

using testing::HasSubstr;

/// parse(print(x)) equals x and prints the same; gives the text.
std::string round_trip(const Module& module) {
  std::string text = print(module);
  Module again = parse_module(text);
  EXPECT_TRUE(structural_equal(module, again, /*map_free=*/true)) << text << "\n--- reads back as\n"
                                                                  << print(again);
  EXPECT_EQ(print(again), text);
  Module loaded = load_json(save_json(module), relay_node_types()).cast<ModuleNode>();
  EXPECT_TRUE(structural_equal(module, loaded, true)) << text;
  EXPECT_EQ(structural_hash(module), structural_hash(again)) << text;
  return text;
}

std::string reprint(std::string_view text) { return round_trip(parse_module(text)); }

std::string message_of(std::string_view text) {
  return thrown_by([&] { parse_module(text, "t.relay"); });
}

constexpr std::string_view kHeader = "#[version = \"0.0.5\"]\n";
std::string with_header(std::string_view body) { return std::string(kHeader) + std::string(body); }

TEST(RelayText, PrintsWhatItReads) {
  // Each is in the printed form already.
  constexpr std::string_view kModules[] = {
      "def @main(%x: Tensor[(1, 3), float32], %y: float32) -> Tensor[(1, 3), float32] {\n  %x\n}\n",
      "def @id[A](%x: A) -> A {\n  %x\n}\ndef @main(%x: int32) {\n  @id(%x)\n}\n",
      "def @main() {\n  let %f: fn (int32) -> int32 = fn (%n: int32) -> int32 {\n    %f(%n)\n  };\n  "
      "%f(1)\n}\n",
      "def @main(%c: bool) {\n  if (%c) {\n    1\n  } else {\n    2\n  }\n}\n",
      "def @main(%n: Tensor[(n, 4 * (n + 1), ?, floordiv(n, 2)), int8]) {\n  %n\n}\n",
      "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}\ndef @len[A](%l: List[A]) -> int32 {\n  match (%l) {\n "
      "   Cons(_, %t) "
      "=> {\n      @len(%t)\n    },\n    Nil => {\n      0\n    },\n  }\n}\n",
      "def @main(%x: (int32, (int32,), ())) {\n  %0 = %x.1;\n  %0.0\n}\n",
      "def @main(%x: ref(int32)) {\n  %0 = ref_read(%x);\n  %1 = ref(%0);\n  ref_write(%1, 2)\n}\n",
      "def @main(%f: fn [A](A) -> A) {\n  %f[int32](1)\n}\n",
      "def @main(%x: Tensor[(?), float32]) {\n  match_cast(%x, Tensor[(n), float32])\n}\n",
      "def @main(%x: float32) {\n  call_dps_library(\"blas.\\\"gemm\\\"\", (%x, 2f), Tensor[(2), "
      "float32])\n}\n",
      "def @f(%x: float32) {\n  %x\n}\ndef @main() {\n  grad(@f)\n}\n",
      "def @main() {\n  (inff, -inff64, nanf16, -nanbf16, [-inff, 1f, nanf])\n}\n",
      "def @main() {\n  ([1, -2], [[1f, 2.5f], [-0f, 1e-20f]], 2i64, -1i8, 255u8, 1.5f64, 0.5f16, 2bf16, "
      "True, [False])\n}\n",
      "def @main(%x: int32, Target=\"cpu\", hash=\"a\\\"b\") {\n  %0 = fn (%p: int32, Primitive=1) {\n    "
      "%p\n  };\n  %0(%x)\n}\n",
      "def @main(%a: int32, %a.0: int32, %onnx::Conv_1: int32, %/x/y.0/W: int32) {\n  (%a, %a.0, "
      "%onnx::Conv_1, %/x/y.0/W)\n}\n",
      "def @main(%a: (int32,), %a.0: int32) {\n  (%a).0\n}\n",
  };
  for (std::string_view text : kModules) EXPECT_EQ(reprint(with_header(text)), with_header(text));
}

TEST(RelayText, ReadsTheOtherWaysToWriteIt) {
  EXPECT_EQ(
      reprint("def @main(%x: Tensor[(), float32],) { // comment\n ((%x /* ty=float32 span=a/b:0:0 */)) }"),
      with_header("def @main(%x: float32) {\n  %x\n}\n"));
  EXPECT_EQ(
      reprint("def @main(%x: int32) { let %y = { let %z = %x; %z }; %x; %y }"),
      with_header(
          "def @main(%x: int32) {\n  let %y = {\n    let %z = %x;\n    %z\n  };\n  let %_ = %x;\n  %y\n}\n"));
  EXPECT_EQ(
      reprint("def @main(%x: int32) { if (True) {1} else if (False) {2} else {3} }"),
      with_header("def @main(%x: int32) {\n  if (True) {\n    1\n  } else if (False) {\n    2\n  } else {\n"
                  "    3\n  }\n}\n"));
}

TEST(RelayText, SharingIsKept) {
  Var x = make_var("x", tensor_type(std::vector<int64_t>{}, kInt32));
  Expr shared = tuple({x, x});
  auto module_of = [&](const Expr& body) {
    return make_module(make<Function>(std::vector<TypeVar>{}, std::vector{x}, Type(), body));
  };
  Module once = module_of(tuple({shared, shared})), twice = module_of(tuple({shared, tuple({x, x})}));
  EXPECT_EQ(round_trip(once), with_header("def @main(%x: int32) {\n  %0 = (%x, %x);\n  (%0, %0)\n}\n"));
  EXPECT_EQ(round_trip(twice),
            with_header("def @main(%x: int32) {\n  %0 = (%x, %x);\n  %1 = (%x, %x);\n  (%0, %1)\n}\n"));
  EXPECT_FALSE(structural_equal(once, twice));
  // Used in both branches: bound before the `if`, so that both see it. Used in one: bound there.
  Expr only_then = tuple({shared});
  Expr branch = make<If>(constant(full({}, kBool, 1)), tuple({shared, only_then}), shared);
  EXPECT_EQ(round_trip(module_of(branch)),
            with_header("def @main(%x: int32) {\n  %0 = (%x, %x);\n  if (True) {\n    %1 = (%0,);\n    (%0, "
                        "%1)\n  } else {\n    %0\n"
                        "  }\n}\n"));
}

TEST(RelayText, NamesAreMadeUniqueAndLegal) {
  Var a = make_var("x"), b = make_var("x"), c = make_var("0 a-b"), d = make_var("x_1");
  Module module = make_module(
      make<Function>(std::vector<TypeVar>{}, std::vector{a, b, c, d}, Type(), tuple({a, b, c, d})));
  EXPECT_EQ(round_trip(module),
            with_header("def @main(%x, %x_1, %v0_a_b, %x_1_1) {\n  (%x, %x_1, %v0_a_b, %x_1_1)\n}\n"));
}

TEST(RelayText, LargeConstantsAndTensorProgramsGoIntoTheMetadata) {
  tir::FuncBuilder f;
  tir::Buffer in = f.input("a", {4}, kFloat32);
  tir::Buffer out =
      f.compute("b", {4}, [&](tir::Vars i) { return tir::load(in, {i[0]}) + lathe::Expr(1.0); });
  Expr prim = make<PrimFunc>(f.finish("inc", {out}));
  // A NaN whose bits `nanf` does not have.
  Expr weight = constant(random_tensor({4, 5}, kFloat32, 1)),
       other_nan = constant(tensor_of<float>({std::nanf("1")}, {}, kFloat32));
  Expr call = make<Call>(prim, std::vector<Expr>{weight}, Attrs(), std::vector<Type>{},
                         tensor_type(std::vector<int64_t>{4}, kFloat32));
  std::string text = round_trip(make_module(
      make<Function>(std::vector<TypeVar>{}, std::vector<Var>{}, Type(), tuple({call, weight, other_nan}))));
  EXPECT_TRUE(text.starts_with(
      with_header("def @main() {\n  %0 = call_tir(meta[tir.Func][0], (meta[relay.Constant][0]), "
                  "Tensor[(4), float32]);\n  (%0, meta[relay.Constant][0], "
                  "meta[relay.Constant][1])\n}\n#[metadata]\n")))
      << text;
}

TEST(RelayText, TensorProgramsOfTheMetadataAreVerified) {
  tir::FuncBuilder f;
  tir::Buffer in = f.input("a", {4}, kFloat32);
  tir::Buffer out =
      f.compute("b", {4}, [&](tir::Vars i) { return tir::load(in, {i[0]}) * lathe::Expr(2.0); });
  Var x = make_var("x", tensor_type(std::vector<int64_t>{4}, kFloat32));
  Expr call = make<Call>(make<PrimFunc>(f.finish("twice", {out})), std::vector<Expr>{x}, Attrs(),
                         std::vector<Type>{}, tensor_type(std::vector<int64_t>{4}, kFloat32));
  const std::string text =
      print(make_module(make<Function>(std::vector<TypeVar>{}, std::vector{x}, Type(), call)));
  auto error_with = [&](const char* field, const char* value) -> std::string {
    const std::regex pattern(fmt::format(R"((\\"{}\\":)[^,}}]+)", field));
    const std::string changed = std::regex_replace(text, pattern, std::string("$01") + value);
    EXPECT_NE(changed, text) << field;
    return thrown_by([&] { parse_module(changed); });
  };
  EXPECT_THAT(error_with("b", "null"),
              HasSubstr("invalid tensor program twice: a Binary without an operand\n"));
  EXPECT_THAT(error_with("body", "null"),
              HasSubstr("invalid tensor program twice: a Func without an operand\n"));
  EXPECT_THAT(error_with("outputs", "7"),
              HasSubstr("twice: function twice has 2 parameters and 7 outputs\n"));
}

TEST(RelayText, DeepChains) {
  constexpr int kDepth = 100'000;
  Var x = make_var("x");
  Expr calls = x, lets;
  for (int i = 0; i < kDepth; ++i) calls = tuple({calls});
  std::vector<Var> vars{x};
  for (int i = 0; i < kDepth; ++i) vars.push_back(make_var("y"));
  lets = vars.back();
  for (int i = kDepth; i > 0; --i) lets = make<Let>(vars[i], tuple({vars[i - 1]}), lets);
  for (const Expr& body : {calls, lets}) {
    Module module = make_module(make<Function>(std::vector<TypeVar>{}, std::vector{x}, Type(), body));
    std::string text = print(module);
    Module again = parse_module(text);
    EXPECT_TRUE(structural_equal(module, again));
    class Renamer : public ExprMutator {
      Expr visit_var(const Var& e) override { return make_var(e->name + "_"); }
    };
    EXPECT_TRUE(structural_equal(Renamer().visit(body), body, true));
    class Count : public ExprVisitor {
     public:
      int vars = 0;
      void visit_var(const Var&) override { ++vars; }
    } count;
    count.visit(body);
    EXPECT_EQ(count.vars, body == calls ? 1 : kDepth + 1);
  }
}

std::string choices(int cases) {
  std::string text = with_header("def @main(%c: bool, %x: float32) {\n  ");
  for (int i = 0; i < cases; ++i) text += "if (%c) {\n    %x\n  } else ";
  return text + "{\n    %x\n  }\n}\n";
}

TEST(RelayText, ChainsOfChoicesDoNotNest) {
  EXPECT_EQ(reprint(choices(400)), choices(400));
  EXPECT_NE(message_of(choices(100'000)).find("a chain of more than 10000 cases"), std::string::npos);
  // A condition that is computed belongs into the scope of its choice.
  std::string computed = with_header(
      "def @main(%c: bool, %x: float32) {\n  if (%c) {\n    %x\n  } else {\n"
      "    %0 = less(%x, 1f);\n    if (%0) {\n      %x\n    } else {\n      %x\n    }\n  }\n}\n");
  EXPECT_EQ(reprint(computed), computed);
}

TEST(RelayText, Errors) {
  EXPECT_EQ(message_of("def @main(%x: Tensor[(1), flot32]) { %x }"),
            "t.relay:1:27: error: `flot32` is not an element type; did you mean `float32`?\n"
            "  def @main(%x: Tensor[(1), flot32]) { %x }\n"
            "                            ^^^^^^");
  EXPECT_EQ(message_of("def @main(%value: int32) {\n  %valeu\n}"),
            "t.relay:2:3: error: unknown variable `%valeu`; did you mean `%value`?\n    %valeu\n    ^^^^^^");
  EXPECT_EQ(message_of("def @main(%x: int32) {\n  nn.con2d(%x)\n}").substr(0, 53),
            "t.relay:2:3: error: unknown operator `nn.con2d`" +
                message_of("def @main(%x: int32) {\n  nn.con2d(%x)\n}").substr(47, 6));
  EXPECT_EQ(message_of("def @main() {\n  (1, 2"),
            "t.relay:2:8: error: expected `,`, the text ends\n    (1, 2\n         ^");
  EXPECT_EQ(message_of("#[version = \"0.0.9\"]\n").substr(0, 82),
            "t.relay:1:1: error: unsupported version of the text format; this reads \"0.0.5\"\n  #");
  EXPECT_EQ(message_of("def @main() { [[1, 2], [3]] }"),
            "t.relay:1:24: error: a literal whose rows differ in length\n  def @main() { [[1, 2], [3]] }\n   "
            "                      "
            "^");
  EXPECT_EQ(message_of("def @main() { meta[relay.Constant][3] }"),
            "t.relay:1:36: error: meta[relay.Constant] has 0 entries; is #[metadata] missing?\n"
            "  def @main() { meta[relay.Constant][3] }\n                                     ^");
  EXPECT_EQ(message_of("def @main() { @man() }"),
            "t.relay:1:15: error: unknown function `@man`; did you mean `main`?\n  def @main() { @man() }\n  "
            "              ^^^^");
  EXPECT_EQ(message_of("def @main() { 300u8 }"),
            "t.relay:1:15: error: 300 does not fit uint8\n  def @main() { 300u8 }\n                ^^^^^");
  for (const auto& [literal, type] : {std::pair{"18446744073709551615", "int32"},
                                      {"18446744073709551615i8", "int8"},
                                      {"9223372036854775808i64", "int64"},
                                      {"-1u64", "uint64"},
                                      {"-1u8", "uint8"},
                                      {"100000000000000000000", "int64"}}) {
    const std::string_view all = literal, digits = all.substr(0, all.find_first_of("iu"));
    EXPECT_THAT(message_of(fmt::format("def @main() {{ {} }}", literal)),
                HasSubstr(fmt::format("error: {} does not fit {}\n", digits, type)));
  }
  EXPECT_THAT(message_of("def @main() { sum([1], axis=18446744073709551615) }"),
              HasSubstr("`18446744073709551615` does not fit int64"));
  EXPECT_EQ(message_of("def @main(%x: Tensor[(3, 1 - 2), int8]) { %x }").substr(0, 48),
            "t.relay:1:26: error: dimension -1 is negative\n  ");
  EXPECT_EQ(message_of("/* "), "t.relay:1:1: error: comment without end\n  /* \n  ^^");
}

/// Not a chain: each branch holds a binding beside the next choice.
TEST(RelayText, NestedChoicesReadBack) {
  std::string text = "def @main(%c: bool) {\n", end;
  for (int i = 0; i < 900; ++i) text += "if (%c) { 1 } else { let %x = 2; ", end += "}";
  Module module = parse_module(text + "3" + end + "}");
  EXPECT_TRUE(structural_equal(parse_module(print(module)), module));
}

TEST(RelayText, HostileNestingIsAnError) {
  for (std::string_view open : {"(", "{", "[", "fn () {", "if (", "match (", "ref(", "- "}) {
    std::string text = "def @main() { ";
    for (int i = 0; i < 100'000; ++i) text += open;
    const char* limit = open == "[" ? "nested more than 200 levels" : "nested more than 1000 levels";
    EXPECT_NE(message_of(text).find(limit), std::string::npos) << open;
  }
  std::string type = "def @main(%x: ";
  for (int i = 0; i < 100'000; ++i) type += "ref(";
  EXPECT_NE(message_of(type).find("nested more than 1000 levels deep"), std::string::npos);
  std::string dim = "def @main(%x: Tensor[(n";
  for (int i = 0; i < 100'000; ++i) dim += " + n";
  EXPECT_NE(message_of(dim).find("a dimension of more than 100 terms"), std::string::npos);
}

}  // namespace
}  // namespace lathe::relay
