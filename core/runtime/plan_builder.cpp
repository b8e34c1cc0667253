#include "core/runtime/plan_builder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace lathe::runtime {

int64_t PlanBuilder::add_value(TensorType type, Place place, int64_t at, int64_t inside) {
  inside_.push_back(inside);
  image_.plan.values.push_back({std::move(type.shape), type.dtype, place, at});
  return static_cast<int64_t>(image_.plan.values.size()) - 1;
}

int64_t PlanBuilder::input(std::string name, TensorType type) {
  int64_t value = add_value(std::move(type), Place::kInput, static_cast<int64_t>(image_.plan.inputs.size()));
  image_.plan.inputs.push_back({std::move(name), value});
  return value;
}

int64_t PlanBuilder::constant(Tensor data) {
  TensorType type{data.shape(), data.dtype()};
  // Equal constants are stored once, whatever their types: a place holds bytes.
  auto [begin, end] = constants_of_size_.equal_range(data.bytes());
  for (auto known = begin; known != end; ++known) {
    const ModuleImage::Constant& other = image_.constants[known->second];
    if (other.data.data() == data.data() ||
        std::memcmp(other.data.data(), data.data(), static_cast<size_t>(data.bytes())) == 0)
      return add_value(std::move(type), Place::kConstant, other.at);
  }
  constants_of_size_.emplace(data.bytes(), image_.constants.size());
  int64_t at = image_.plan.constant_bytes;
  image_.plan.constant_bytes += align_up(data.bytes());
  image_.constants.push_back({at, std::move(data)});
  return add_value(std::move(type), Place::kConstant, at);
}

int64_t PlanBuilder::view(int64_t value, std::vector<int64_t> shape, int64_t offset) {
  const Value viewed = image_.plan.values.at(value);
  const int64_t bytes = shape_size(shape) * viewed.dtype.bytes();
  CHECK(bytes == viewed.bytes() || (viewed.place == Place::kArena && offset % kAlignment == 0),
        "a view of a part of {}", shape_text(viewed.shape));
  CHECK(offset >= 0 && offset + bytes <= viewed.bytes(), "{} from byte {} as {}", shape_text(viewed.shape),
        offset, shape_text(shape));
  // A view has a shape of its own and the same place.
  const int64_t inside = inside_[static_cast<size_t>(value)] + offset;
  return add_value({std::move(shape), viewed.dtype}, viewed.place, viewed.at, inside);
}

std::vector<int64_t> PlanBuilder::call(Call call) {
  Step step{.kernel = std::move(call.kernel),
            .args = std::move(call.args),
            .results = static_cast<int64_t>(call.results.size()),
            .workspace_bytes = call.workspace_bytes,
            .flops = call.flops};
  std::vector<int64_t> results;
  for (TensorType& type : call.results) {
    // Until finish() `at` is the number of a block, then its offset.
    results.push_back(add_value(std::move(type), Place::kArena, static_cast<int64_t>(block_bytes_.size())));
    block_bytes_.push_back(image_.plan.values.back().bytes());
  }
  step.args.insert(step.args.end(), results.begin(), results.end());
  image_.plan.steps.push_back(std::move(step));
  reuse_.push_back(std::move(call.reuse));
  return results;
}

void PlanBuilder::output(std::string name, int64_t value) {
  image_.plan.outputs.push_back({std::move(name), value});
}

/// One block for each result, live from its call to its last reader (outputs: to the end), then one for each
/// step's workspace.
std::vector<Block> PlanBuilder::live_blocks() const {
  const Plan& plan = image_.plan;
  std::vector<Block> blocks;
  for (int64_t bytes : block_bytes_) blocks.push_back({bytes, -1, -1});
  auto touch = [&](int64_t value, int64_t step) {
    const Value& touched = plan.values[value];
    if (touched.place != Place::kArena) return;
    Block& block = blocks[touched.at];
    if (block.first < 0) block.first = step;
    block.last = step;
  };
  int64_t end = static_cast<int64_t>(plan.steps.size());
  for (int64_t step = 0; step < end; ++step)
    for (int64_t arg : plan.steps[step].args) touch(arg, step);
  // One step after the last, so that nothing takes the place of an output.
  for (const Port& output : plan.outputs) touch(output.value, end);
  for (int64_t step = 0; step < end; ++step) blocks.push_back({plan.steps[step].workspace_bytes, step, step});
  return blocks;
}

/// Lets results take over the blocks they may: gives, for each block, the one whose memory it uses. A block
/// taken over by another keeps no bytes of its own, and the other lives for both.
std::vector<size_t> PlanBuilder::merge_reused(std::vector<Block>& blocks) const {
  const Plan& plan = image_.plan;
  std::vector<size_t> home(blocks.size());
  std::iota(home.begin(), home.end(), 0);
  auto in_arena = [&](int64_t value) { return plan.values[value].place == Place::kArena; };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    size_t inputs = step.args.size() - static_cast<size_t>(step.results);
    for (int64_t reused : reuse_[s]) {
      int64_t source_value = step.args.at(reused);
      if (!in_arena(source_value)) continue;
      size_t source = home[plan.values[source_value].at];
      size_t result = static_cast<size_t>(plan.values[step.args[inputs]].at);
      // Only when nobody else reads the block, in this step or later, and the sizes are equal, can the kernel
      // write where it reads.
      auto readers =
          std::count_if(step.args.begin(), step.args.begin() + static_cast<int64_t>(inputs),
                        [&](int64_t arg) { return in_arena(arg) && home[plan.values[arg].at] == source; });
      bool last_reader = blocks[source].last == static_cast<int64_t>(s);
      bool whole = plan.values[source_value].bytes() == blocks[source].bytes;
      if (readers != 1 || !last_reader || !whole || blocks[source].bytes != blocks[result].bytes) continue;
      // `source` is nobody's guest, and as an older block does not become one: one look at `home` finds the
      // memory.
      home[result] = source;
      blocks[source].last = blocks[result].last;
      blocks[result].bytes = 0;
      break;
    }
  }
  return home;
}

ModuleImage PlanBuilder::finish() {
  Plan& plan = image_.plan;
  std::vector<Block> blocks = live_blocks();
  std::vector<size_t> home = merge_reused(blocks);
  MemoryPlan memory = plan_memory(blocks);
  for (size_t i = 0; i < plan.values.size(); ++i)
    if (Value& value = plan.values[i]; value.place == Place::kArena)
      value.at = memory.offsets[home[value.at]] + inside_[i];
  for (size_t step = 0; step < plan.steps.size(); ++step)
    plan.steps[step].workspace_at = memory.offsets[block_bytes_.size() + step];
  plan.arena_bytes = memory.bytes;
  plan.arena_lower_bound = memory.lower_bound;
  check_plan(plan);
  inside_.clear();
  block_bytes_.clear();
  reuse_.clear();
  return std::exchange(image_, {});
}

}  // namespace lathe::runtime
