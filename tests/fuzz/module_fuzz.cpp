// Plans of module files, beyond the checksum.
#include "core/runtime/plan_builder.h"
#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {

std::vector<std::string> seeds() {
  runtime::PlanBuilder builder;
  runtime::TensorType type{{2, 3}, kFloat32};
  int64_t x = builder.input("x", type);
  int64_t c = builder.constant(zeros({2, 3}, kFloat32));
  int64_t sum = builder.call({.kernel = "add", .args = {x, c}, .results = {type}, .workspace_bytes = 100})[0];
  int64_t twice = builder.call({.kernel = "twice", .args = {sum}, .results = {type}, .reuse = {0}})[0];
  builder.output("column", builder.view(twice, {6, 1}));
  builder.output("x", x);
  return {runtime::plan_text(builder.finish().plan)};
}

void run_one(std::string_view bytes) {
  runtime::Plan plan = runtime::parse_plan(bytes);
  CHECK(runtime::plan_text(runtime::parse_plan(runtime::plan_text(plan))) == runtime::plan_text(plan));
}

}  // namespace lathe::fuzz
