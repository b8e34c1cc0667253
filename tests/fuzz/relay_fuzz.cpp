// Relay text: whatever parses also prints, reads back equal, and goes through type inference and the graph
// passes.
#include "core/relay/pass.h"
#include "core/relay/text.h"
#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {

using namespace relay;

std::vector<std::string> seeds() {
  return {
      "#[version = \"0.0.5\"]\ntype List[A] { Cons(A, List[A]), Nil }\n"
      "def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] {\n"
      "  match (%l) { Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)), Nil => Nil, }\n}\n"
      "def @main(%l: List[int32]) { @map(fn (%x) { (%x, [1f, 2f]) }, %l) }\n",
      "def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32] /* c */) {\n"
      "  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);\n"
      "  %1 = nn.bias_add(%0, [1f, 2f, 3f, 4f]);\n  %2 = nn.batch_norm(%1, [1f, 1f, 1f, 1f], [0f, 0f, 0f, "
      "0f], [0f, 0f, 0f, "
      "0f], [1f, 1f, 1f, 1f], epsilon=0.001f);\n  nn.batch_flatten(nn.relu(%2.0))\n}\n",
      "def @main(%c: bool, %r: ref(int32), %x: Tensor[(n, 2 * (n + 1), ?), int8], K=\"v\") {\n"
      "  let %f = fn (%n: int32) -> int32 { if (%c) { %f(%n) } else { 2 } };\n  %0 = ref_read(%r);\n"
      "  ref_write(%r, %0);\n  (%0, %f(-1), match_cast(%x, Tensor[(n), int8]), grad(%f), "
      "call_dps_library(\"g\", (1,), "
      "(int8, ())))\n}\n",
      "def @main(%x: Tensor[(2, 3), float32]) {\n  %0 = reshape(transpose(%x, axes=[1, 0]), newshape=[-1]);\n"
      "  %1 = concatenate((%0, %0), axis=0);\n  split(cast(%1 * 2f + 1f, dtype=\"float16\"), "
      "indices_or_sections=[2])\n}\n",
      "def @main(%x: Tensor[(1, 4, 5, 5), uint8], %w: Tensor[(2, 4, 3, 3), int8]) {\n"
      "  %0 = qnn.dequantize(%x, 0.5f, 3u8);\n  %1 = qnn.dequantize(%w, [0.5f, 1f], [0i8, 0i8], axis=0);\n"
      "  %2 = nn.relu(nn.conv2d(%0, %1, padding=[1, 1]) + [[[1f]], [[2f]]]);\n"
      "  qnn.quantize(nn.max_pool2d(%2, pool_size=[2, 2]), 0.25f, 0u8, out_dtype=\"uint8\")\n}\n",
      "def @main(%x: Tensor[(1, 4, 5, 5), float32], %w: Tensor[(4, 2, 3, 3), float32]) {\n"
      "  nn.conv2d_transpose(%x, %w, strides=[2, 3], padding=[1, 1], output_padding=[1, 0], dilation=[1, 2], "
      "groups=2)\n}\n",
      "def @main(%x: Tensor[(2, 4, 5, 5, 5), float32], %w: Tensor[(4, 2, 3, 3, 3), float32]) {\n"
      "  nn.relu(nn.conv3d(%x, %w, strides=[2, 1, 1], padding=[1, 1, 1], dilation=[1, 2, 1], groups=2) + "
      "1f)\n}\n",
      "def @main() { meta[relay.Constant][0] }\n#[metadata]\n{\"relay.Constant\": [{\"dtype\": \"int8\", "
      "\"shape\": [2, 1], "
      "\"data\": \"01ff\"}]}\n",
  };
}

void run_one(std::string_view bytes) {
  Module module = parse_module(bytes);
  std::string text = print(module);
  Module again = parse_module(text);
  CHECK(structural_equal(module, again, /*map_free=*/true), "reads back different:\n{}", text);
  CHECK(print(again) == text, "prints different:\n{}", text);
  using enum PassId;
  // Folding is left out: what it evaluates may be as large as shapes say.
  PassId sequence[] = {kInferType,
                       kFakeQuantizationToInteger,
                       kCanonicalizeQnn,
                       kSimplifyInference,
                       kToMixedPrecision,
                       kSimplifyExpr,
                       kConvTransposeToConv,
                       kCanonicalizeOps,
                       kConv3dToConv2d,
                       kEliminateCommonSubexpr,
                       kDeadCode,
                       kToANormalForm,
                       kToGraphNormalForm,
                       kFuseOps,
                       kDefuse};
  parse_module(print(run_passes(module, sequence)));
}

}  // namespace lathe::fuzz
