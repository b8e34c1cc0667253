#include "schedules/schedule.h"

#include "core/support/error.h"
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

Path Application::block(size_t i) const {
  auto path = path_to_block(func, inputs_[i].binding.block);
  if (!path) fail("block `{}` is no longer in the program", inputs_[i].binding.block);
  return *path;
}

Path Application::loop(size_t i) const {
  const Var& var = inputs_[i].binding.loop;
  if (!var) fail("a loop is needed, not the place outside all loops");
  auto path = path_to_loop(func, var);
  if (!path) fail("loop {} is no longer in the program; it was split, fused or removed", var->name);
  return *path;
}

Schedule::Schedule(Func func, uint64_t seed) : func_(std::move(func)), random_(seed) {}
Schedule::Schedule(const Schedule&) = default;
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule::~Schedule() = default;

namespace {
InputKind kind_of(const Input& input) {
  if (std::holds_alternative<BlockHandle>(input)) return InputKind::kBlock;
  if (std::holds_alternative<LoopHandle>(input)) return InputKind::kLoop;
  return std::holds_alternative<std::string>(input) ? InputKind::kText : InputKind::kInt;
}

const char* describe(InputKind kind) {
  static constexpr const char* kNames[] = {"nothing", "a block", "a loop", "a number", "a name"};
  return kNames[static_cast<int>(kind)];
}

/// The kinds of the inputs are those the primitive's row declares.
void check_kinds(const Primitive& primitive, const std::vector<Input>& inputs) {
  for (size_t i = 0; i < std::max(inputs.size(), primitive.inputs.fixed.size()); ++i) {
    InputKind wanted = i < primitive.inputs.fixed.size() ? primitive.inputs.fixed[i] : InputKind::kNone;
    if (i >= inputs.size()) {
      if (wanted != InputKind::kNone)
        fail("{}: input {} is missing, must be {}", primitive.name, i, describe(wanted));
      continue;
    }
    InputKind given = kind_of(inputs[i]);
    // Beyond the fixed inputs; where a primitive takes no more, `rest` is none and any input is one too many.
    if (wanted == InputKind::kNone) wanted = primitive.inputs.rest;
    if (given != wanted)
      fail("{}: input {} is {}, must be {}", primitive.name, i, describe(given), describe(wanted));
  }
}

/// -1 for what is no handle.
int handle_id(const Input& input) {
  return std::visit(
      [](const auto& value) {
        if constexpr (requires { value.id; }) return value.id;
        return -1;
      },
      input);
}

/// Block, loop and number handles are the first alternatives of the variant.
bool is_handle(const Input& input) { return input.index() < 3; }
}  // namespace

/// The one place where programs change. Inputs are looked up, the primitive checks and rewrites a copy, and
/// only when it returned are program, trace and handles committed: an Error leaves the schedule as it was.
std::vector<Output> Schedule::run(const Primitive& primitive, std::vector<Input> inputs, Decision decision) {
  check_kinds(primitive, inputs);
  std::vector<Application::Resolved> resolved;
  for (const Input& input : inputs) {
    Application::Resolved value{kind_of(input), {}, {}};
    if (is_handle(input)) {
      int id = handle_id(input);
      if (id < 0 || static_cast<size_t>(id) >= bindings_.size())
        fail("{}: there is no handle {}", primitive.name, id);
      value.binding = bindings_[static_cast<size_t>(id)];
    } else if (const int64_t* number = std::get_if<int64_t>(&input)) {
      value.binding.number = *number;
    } else {
      value.text = std::get<std::string>(input);
    }
    resolved.push_back(std::move(value));
  }
  Application application(primitive, func_, std::move(resolved));
  application.decision = std::move(decision);
  application.random = &random_;
  primitive.run(application);

  func_ = application.func;
  Step step{&primitive, std::move(inputs), std::move(application.decision), {}};
  for (size_t i = 0; i < application.outputs.size(); ++i) {
    int id = static_cast<int>(bindings_.size());
    bindings_.push_back(std::move(application.outputs[i]));
    if (application.kinds[i] == InputKind::kBlock) step.outputs.push_back(BlockHandle{id});
    if (application.kinds[i] == InputKind::kLoop) step.outputs.push_back(LoopHandle{id});
    if (application.kinds[i] == InputKind::kInt) step.outputs.push_back(IntHandle{id});
  }
  trace_.steps.push_back(step);
  return step.outputs;
}

Ref<Block> Schedule::operator[](BlockHandle block) const {
  const std::string& name = bindings_.at(static_cast<size_t>(block.id)).block;
  auto path = path_to_block(func_, name);
  if (!path) fail("block `{}` is no longer in the program", name);
  return path->back().cast<Block>();
}

Ref<For> Schedule::operator[](LoopHandle loop) const {
  const Var& var = bindings_.at(static_cast<size_t>(loop.id)).loop;
  auto path = var ? path_to_loop(func_, var) : std::nullopt;
  if (!path) fail("loop {} is no longer in the program", var ? var->name : "outside");
  return path->back().cast<For>();
}

int64_t Schedule::operator[](IntHandle number) const {
  return bindings_.at(static_cast<size_t>(number.id)).number;
}

namespace {
/// The results as handles of one kind. Throws std::bad_variant_access for another, which would be a mistake
/// in a primitive's row.
template <typename H>
std::vector<H> all_of(const std::vector<Output>& outputs) {
  std::vector<H> handles;
  for (const Output& output : outputs) handles.push_back(std::get<H>(output));
  return handles;
}

template <typename H>
std::vector<Input> inputs_of(const std::vector<H>& handles) {
  return {handles.begin(), handles.end()};
}
}  // namespace

std::vector<LoopHandle> Schedule::run_loops(const char* name, std::vector<Input> inputs) {
  return all_of<LoopHandle>(run(primitive(name), std::move(inputs)));
}
std::vector<BlockHandle> Schedule::run_blocks(const char* name, std::vector<Input> inputs) {
  return all_of<BlockHandle>(run(primitive(name), std::move(inputs)));
}

BlockHandle Schedule::get_block(const std::string& name) { return run_blocks("get_block", {name})[0]; }
std::vector<LoopHandle> Schedule::get_loops(BlockHandle block) { return run_loops("get_loops", {block}); }
IntHandle Schedule::sample_categorical(const std::vector<int64_t>& candidates, Decision decision) {
  return std::get<IntHandle>(
      run(primitive("sample_categorical"), inputs_of(candidates), std::move(decision))[0]);
}
std::vector<IntHandle> Schedule::sample_tuple(int64_t width, const std::vector<int64_t>& values,
                                              Decision decision) {
  std::vector<Input> inputs = inputs_of(values);
  inputs.insert(inputs.begin(), width);
  return all_of<IntHandle>(run(primitive("sample_tuple"), std::move(inputs), std::move(decision)));
}
LoopHandle Schedule::sample_compute_location(BlockHandle block, const std::vector<LoopHandle>& loops,
                                             Decision decision) {
  std::vector<Input> inputs = inputs_of(loops);
  inputs.insert(inputs.begin(), block);
  return std::get<LoopHandle>(
      run(primitive("sample_compute_location"), std::move(inputs), std::move(decision))[0]);
}

std::vector<LoopHandle> Schedule::split(LoopHandle loop, const std::vector<Factor>& factors) {
  std::vector<Input> inputs{loop};
  for (const Factor& factor : factors) std::visit([&](const auto& f) { inputs.emplace_back(f); }, factor);
  return run_loops("split", std::move(inputs));
}
LoopHandle Schedule::fuse(const std::vector<LoopHandle>& loops) {
  return run_loops("fuse", inputs_of(loops))[0];
}
LoopHandle Schedule::tasks(const std::vector<LoopHandle>& loops) {
  if (loops.size() == 1) return loops[0];
  if (!apart_) return fuse(loops);
  tasks_[loops.back()] = loops;
  return loops.back();
}
void Schedule::run_tasks(LoopHandle tasks) {
  auto found = tasks_.find(tasks);
  if (found == tasks_.end()) return parallel(tasks);
  for (LoopHandle loop : found->second) parallel(loop);
}
void Schedule::reorder(const std::vector<LoopHandle>& loops) { run(primitive("reorder"), inputs_of(loops)); }
void Schedule::parallel(LoopHandle loop) { run(primitive("parallel"), {loop}); }
void Schedule::vectorize(LoopHandle loop) { run(primitive("vectorize"), {loop}); }
void Schedule::unroll(LoopHandle loop) { run(primitive("unroll"), {loop}); }
void Schedule::dot_product(LoopHandle loop) { run(primitive("dot_product"), {loop}); }
void Schedule::annotate(LoopHandle loop, const std::string& key, const Factor& value) {
  std::vector<Input> inputs{loop, key};
  std::visit([&](const auto& v) { inputs.emplace_back(v); }, value);
  run(primitive("annotate_loop"), std::move(inputs));
}

BlockHandle Schedule::cache_read(BlockHandle block, int64_t read, Scope scope) {
  return run_blocks("cache_read", {block, read, std::string(spelling(scope))})[0];
}
BlockHandle Schedule::cache_write(BlockHandle block, int64_t write, Scope scope) {
  return run_blocks("cache_write", {block, write, std::string(spelling(scope))})[0];
}
void Schedule::set_scope(BlockHandle block, int64_t write, Scope scope) {
  run(primitive("set_scope"), {block, write, std::string(spelling(scope))});
}
void Schedule::compute_at(BlockHandle block, LoopHandle loop) { run(primitive("compute_at"), {block, loop}); }
void Schedule::compute_rows_at(BlockHandle block, LoopHandle loop) {
  run(primitive("compute_rows_at"), {block, loop});
}
void Schedule::reverse_compute_at(BlockHandle block, LoopHandle loop) {
  run(primitive("reverse_compute_at"), {block, loop});
}
void Schedule::compute_inline(BlockHandle block) { run(primitive("compute_inline"), {block}); }
void Schedule::reverse_compute_inline(BlockHandle block) {
  run(primitive("reverse_compute_inline"), {block});
}
BlockHandle Schedule::decompose_reduction(BlockHandle block, LoopHandle loop) {
  return run_blocks("decompose_reduction", {block, loop})[0];
}

BlockHandle Schedule::rfactor(BlockHandle block, LoopHandle loop) {
  return run_blocks("rfactor", {block, loop})[0];
}
void Schedule::reduce_in_lanes(BlockHandle block, const Factor& vectors, const Factor& width) {
  std::vector<Input> inputs{block};
  for (const Factor& factor : {vectors, width})
    std::visit([&](const auto& v) { inputs.emplace_back(v); }, factor);
  run(primitive("reduce_in_lanes"), std::move(inputs));
}
std::vector<BlockHandle> Schedule::decompose_padding(BlockHandle block) {
  return run_blocks("decompose_padding", {block});
}
BlockHandle Schedule::separate_padding(BlockHandle block) {
  return run_blocks("separate_padding", {block})[0];
}
void Schedule::skip_padding(BlockHandle block) { run(primitive("skip_padding"), {block}); }
BlockHandle Schedule::blockize(LoopHandle loop) { return run_blocks("blockize", {loop})[0]; }
WinogradBlocks Schedule::winograd(BlockHandle block, const std::vector<IntHandle>& sizes) {
  std::vector<Input> inputs{block};
  inputs.insert(inputs.end(), sizes.begin(), sizes.end());
  std::vector<BlockHandle> b = run_blocks("winograd", std::move(inputs));
  return {b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]};
}
StrassenBlocks Schedule::strassen(BlockHandle block, IntHandle half) {
  std::vector<BlockHandle> b = run_blocks("strassen", {block, half});
  return {b[0], b[1], b[2], b[3]};
}
Im2colBlocks Schedule::im2col(BlockHandle block) {
  std::vector<BlockHandle> b = run_blocks("im2col", {block});
  return {b[0], b[1], b[2]};
}
BlockHandle Schedule::pad_einsum(BlockHandle block, const std::vector<int64_t>& multiples) {
  std::vector<Input> inputs{block};
  inputs.insert(inputs.end(), multiples.begin(), multiples.end());
  return run_blocks("pad_einsum", std::move(inputs))[0];
}
BlockHandle Schedule::reindex(BlockHandle block, int64_t read) {
  return run_blocks("reindex", {block, read})[0];
}
BlockHandle Schedule::separate_read(BlockHandle block, int64_t read, int64_t place) {
  return run_blocks("separate_read", {block, read, place})[0];
}
void Schedule::split_variable(BlockHandle block, int64_t variable, int64_t factor) {
  run(primitive("split_variable"), {block, variable, factor});
}
void Schedule::transform_layout(BlockHandle block, int64_t write, const std::vector<int64_t>& axes) {
  std::vector<Input> inputs{block, write};
  inputs.insert(inputs.end(), axes.begin(), axes.end());
  run(primitive("transform_layout"), std::move(inputs));
}
void Schedule::store_as(BlockHandle block, int64_t write, const Factor& bits) {
  std::vector<Input> inputs{block, write};
  std::visit([&](const auto& v) { inputs.emplace_back(v); }, bits);
  run(primitive("store_as"), std::move(inputs));
}

namespace {
/// Runs a recorded step; with `flexible`, a decision that does not fit is drawn anew.
std::vector<Output> rerun(Schedule& schedule, const Step& step, bool flexible) {
  try {
    return schedule.run(*step.primitive, step.inputs, step.decision);
  } catch (const Error&) {
    if (!flexible || !step.primitive->samples) throw;
    return schedule.run(*step.primitive, step.inputs);
  }
}

/// The steps of `trace` anew on `func`. Step `renewed` decides by chance; later steps may have to, as their
/// choices may no longer be among the candidates. Earlier ones are the same, so they have to fit.
Schedule replayed(const Trace& trace, const Func& func, std::optional<size_t> renewed, uint64_t seed) {
  Schedule schedule(func, seed);
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    Step step = trace.steps[i];
    if (renewed == i) step.decision.clear();
    std::vector<Output> outputs;
    try {
      outputs = rerun(schedule, step, renewed && i > *renewed);
    } catch (const Error& e) {
      fail("trace step {}: {}: {}", i, to_text(step), e.what());
    }
    // Handles are numbered in the order of their making, so another number of results shifts all that follow:
    // the steps after it would mean other loops.
    if (outputs != step.outputs)
      fail("trace step {}: {}: gives {} results, recorded are {}; the trace is of another program", i,
           to_text(step), outputs.size(), step.outputs.size());
  }
  return schedule;
}
}  // namespace

Func replay(const Trace& trace, const Func& func) { return replay_schedule(trace, func).func(); }

Schedule replay_schedule(const Trace& trace, const Func& func) {
  return replayed(trace, func, std::nullopt, 0);
}

Schedule replay_renewing(const Trace& trace, const Func& func, size_t step, uint64_t seed) {
  return replayed(trace, func, step, seed);
}

}  // namespace lathe::schedule
