#include "core/runtime/plan_builder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "core/runtime/kernel.h"

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

Size PlanBuilder::dimension(Dimension dim, int64_t typical) {
  image_.plan.dims.push_back(std::move(dim));
  typical_.push_back(typical);
  return sizes_.add(SizeOp::kDim, static_cast<Size>(typical_.size()) - 1);
}

void PlanBuilder::require(Size holds, std::string text) {
  if (holds == 1) return;
  std::vector<Requirement>& known = image_.plan.requirements;
  if (std::none_of(known.begin(), known.end(), [&](const Requirement& each) { return each.holds == holds; }))
    known.push_back({holds, std::move(text)});
}

/// Equal products are one size, however their factors were put together.
Size PlanBuilder::bytes_of(const Value& value) {
  Size bytes = value.dtype.bytes();
  std::vector<Size> factors = value.shape, open;
  while (!factors.empty()) {
    const Size factor = factors.back();
    factors.pop_back();
    if (!is_open(factor)) {
      bytes *= factor;
      continue;
    }
    const SizeEntry& entry = sizes_.entries()[entry_of(factor)];
    if (entry.op == SizeOp::kMul)
      factors.insert(factors.end(), {entry.a, entry.b});
    else
      open.push_back(factor);
  }
  std::sort(open.begin(), open.end());
  for (Size dim : open) bytes = sizes_.add(SizeOp::kMul, bytes, dim);
  return bytes;
}

int64_t PlanBuilder::view(int64_t value, std::vector<Size> shape, int64_t offset) {
  const Value viewed = image_.plan.values.at(value);
  const auto is_closed = [](const std::vector<Size>& sizes) {
    return std::none_of(sizes.begin(), sizes.end(), is_open);
  };
  if (is_closed(shape) && is_closed(viewed.shape)) {
    const int64_t bytes = shape_size(shape) * viewed.dtype.bytes();
    CHECK(bytes == viewed.bytes() || (viewed.place == Place::kArena && offset % kAlignment == 0),
          "a view of a part of {}", shape_text(viewed.shape));
    CHECK(offset >= 0 && offset + bytes <= viewed.bytes(), "{} from byte {} as {}", shape_text(viewed.shape),
          offset, shape_text(shape));
  } else {
    // Of open sizes it is for whoever builds to know that they agree.
    CHECK(offset == 0, "a view of a part of {}, which is open", shape_text(viewed.shape));
  }
  // A view has a shape of its own and the same place.
  const int64_t inside = inside_[static_cast<size_t>(value)] + offset;
  return add_value({std::move(shape), viewed.dtype}, viewed.place, viewed.at, inside);
}

std::vector<int64_t> PlanBuilder::call(Call call) { return call_one_of({std::move(call)}); }

int64_t PlanBuilder::result(TensorType type) {
  // Until finish() `at` is the number of a block, then its offset.
  const int64_t value = add_value(std::move(type), Place::kArena, static_cast<int64_t>(block_bytes_.size()));
  block_bytes_.push_back(bytes_of(image_.plan.values.back()));
  return value;
}

std::vector<int64_t> PlanBuilder::call_one_of(std::vector<Call> ways) {
  std::vector<int64_t> results;
  for (TensorType& type : ways.at(0).results) results.push_back(result(std::move(type)));
  const auto time = static_cast<int64_t>(image_.plan.steps.size());
  for (Call& call : ways) {
    Step step{.kernel = std::move(call.kernel),
              .args = std::move(call.args),
              .results = static_cast<int64_t>(results.size()),
              .workspace_bytes = call.workspace_bytes,
              .flops = call.flops,
              .dims = std::move(call.dims),
              .when = call.when};
    // Only what runs needs memory.
    if (call.when != 1) step.workspace_bytes = sizes_.add(SizeOp::kMul, call.when, call.workspace_bytes);
    step.args.insert(step.args.end(), results.begin(), results.end());
    image_.plan.steps.push_back(std::move(step));
    reuse_.push_back(std::move(call.reuse));
    time_.push_back(time);
  }
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
    for (int64_t arg : plan.steps[step].args) touch(arg, time_[step]);
  // One step after the last, so that nothing takes the place of an output.
  for (const Port& output : plan.outputs) touch(output.value, end);
  for (int64_t step = 0; step < end; ++step)
    blocks.push_back({plan.steps[step].workspace_bytes, time_[step], time_[step]});
  return blocks;
}

/// All that may run in this place of the plan read the value once, and may write where they read it.
bool PlanBuilder::may_reuse(size_t step, int64_t source_value, const std::vector<size_t>& home) const {
  const Plan& plan = image_.plan;
  auto home_of = [&](int64_t value) {
    const Value& at = plan.values[value];
    return std::pair(at.place, at.place == Place::kArena ? static_cast<int64_t>(home[at.at]) : at.at);
  };
  for (size_t s = step; s < plan.steps.size() && time_[s] == time_[step]; ++s) {
    const std::vector<int64_t>& args = plan.steps[s].args;
    const auto inputs = static_cast<int64_t>(args.size()) - plan.steps[s].results;
    auto readers = std::count_if(args.begin(), args.begin() + inputs,
                                 [&](int64_t arg) { return home_of(arg) == home_of(source_value); });
    bool listed = std::any_of(reuse_[s].begin(), reuse_[s].end(),
                              [&](int64_t reused) { return args.at(reused) == source_value; });
    if (readers != 1 || !listed) return false;
  }
  return true;
}

/// The first of the steps of which one writes the output's memory as it is at the end.
std::optional<size_t> PlanBuilder::last_writer(int64_t output, const std::vector<size_t>& home) const {
  const Plan& plan = image_.plan;
  const Value& value = plan.values[static_cast<size_t>(output)];
  if (value.place != Place::kArena) return std::nullopt;
  for (size_t s = plan.steps.size(); s-- > 0;) {
    const std::vector<int64_t>& args = plan.steps[s].args;
    const bool writes = std::any_of(args.end() - plan.steps[s].results, args.end(), [&](int64_t arg) {
      return home[plan.values[static_cast<size_t>(arg)].at] == home[value.at];
    });
    if (writes) return static_cast<size_t>(time_[s]);
  }
  return std::nullopt;
}

/// The input that the output, whole, may be written over: by its last step, behind all that read it; or -1.
int64_t PlanBuilder::input_under(int64_t output, const std::vector<size_t>& home) const {
  const Plan& plan = image_.plan;
  const std::optional<size_t> step = last_writer(output, home);
  if (!step || plan.steps[*step].results != 1) return -1;
  auto is_input = [&](int64_t value, int64_t number) {
    const Value& at = plan.values[static_cast<size_t>(value)];
    return at.place == Place::kInput && at.at == number;
  };
  for (int64_t reused : reuse_[*step]) {
    const int64_t source = plan.steps[*step].args.at(static_cast<size_t>(reused));
    const Value& input = plan.values[static_cast<size_t>(source)];
    if (input.place != Place::kInput || !may_reuse(*step, source, home)) continue;
    bool needed = std::any_of(plan.outputs.begin(), plan.outputs.end(),
                              [&](const Port& port) { return is_input(port.value, input.at); });
    for (size_t s = *step; s < plan.steps.size(); ++s)
      needed = needed || (time_[s] != time_[*step] &&
                          std::any_of(plan.steps[s].args.begin(), plan.steps[s].args.end(),
                                      [&](int64_t arg) { return is_input(arg, input.at); }));
    if (!needed) return input.at;
  }
  return -1;
}

/// An input goes to one output: what several outputs are is there once.
void PlanBuilder::let_outputs_take_over(const std::vector<size_t>& home) {
  Plan& plan = image_.plan;
  std::vector<int64_t> over;
  for (const Port& output : plan.outputs) {
    const int64_t input = input_under(output.value, home);
    over.push_back(std::count(over.begin(), over.end(), input) == 0 ? input : -1);
  }
  if (std::any_of(over.begin(), over.end(), [](int64_t input) { return input >= 0; }))
    plan.over = std::move(over);
}

/// Lets results take over the blocks they may: gives, for each block, the one whose memory it uses. A block
/// taken over by another keeps no bytes of its own, and the other lives for both.
std::vector<size_t> PlanBuilder::merge_reused(std::vector<Block>& blocks) {
  const Plan& plan = image_.plan;
  std::vector<size_t> home(blocks.size());
  std::iota(home.begin(), home.end(), 0);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    if (time_[s] != static_cast<int64_t>(s)) continue;
    size_t inputs = step.args.size() - static_cast<size_t>(step.results);
    for (int64_t reused : reuse_[s]) {
      int64_t source_value = step.args.at(reused);
      if (plan.values[source_value].place != Place::kArena) continue;
      size_t source = home[plan.values[source_value].at];
      size_t result = static_cast<size_t>(plan.values[step.args[inputs]].at);
      // Only when nobody else reads the block, in this step or later, and the sizes are equal, can the kernel
      // write where it reads.
      bool last_reader = blocks[source].last == time_[s];
      bool whole = bytes_of(plan.values[source_value]) == blocks[source].bytes;
      if (!last_reader || !whole || blocks[source].bytes != blocks[result].bytes ||
          !may_reuse(s, source_value, home))
        continue;
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

/// The value of each size where the dimensions are typical.
std::vector<int64_t> PlanBuilder::typical_sizes() const {
  std::vector<int64_t> values(sizes_.entries().size());
  evaluate_sizes(sizes_.entries(), typical_, values);
  return values;
}

/// Blocks of open sizes lie above each other in the order that is best for typical ones: the end of the last
/// one below is where a block begins, for any sizes.
void PlanBuilder::place(const std::vector<Block>& blocks, std::vector<Size>& offsets) {
  const std::vector<int64_t> values = typical_sizes();
  auto number = [&](Size size) { return is_open(size) ? values[entry_of(size)] : size; };
  std::vector<Block> typical = blocks;
  // One that is empty at typical sizes need not be at others.
  for (Block& block : typical)
    if (block.bytes != 0) block.bytes = std::max<int64_t>(number(block.bytes), 1);
  const Stack stack = stack_of(typical, plan_memory(typical));
  std::vector<Size> ends(blocks.size());
  Size whole = 0;
  for (size_t block : stack.order) {
    for (size_t other : stack.below[block])
      offsets[block] = offsets[block] == 0 ? ends[other] : size(SizeOp::kMax, offsets[block], ends[other]);
    ends[block] = size(SizeOp::kAdd, offsets[block], size(SizeOp::kAlign, blocks[block].bytes, kAlignment));
  }
  // Only what nothing lies above reaches the end.
  std::vector<bool> covered(blocks.size());
  for (const std::vector<size_t>& below : stack.below)
    for (size_t block : below) covered[block] = true;
  for (size_t block : stack.order)
    if (!covered[block]) whole = whole == 0 ? ends[block] : size(SizeOp::kMax, whole, ends[block]);
  image_.plan.arena_bytes = whole;
}

ModuleImage PlanBuilder::finish() {
  Plan& plan = image_.plan;
  std::vector<Block> blocks = live_blocks();
  std::vector<size_t> home = merge_reused(blocks);
  let_outputs_take_over(home);
  std::vector<Size> offsets(blocks.size());
  if (plan.dims.empty()) {
    MemoryPlan memory = plan_memory(blocks);
    plan.arena_bytes = memory.bytes;
    plan.arena_lower_bound = memory.lower_bound;
    offsets = std::move(memory.offsets);
  } else {
    place(blocks, offsets);
  }
  for (size_t i = 0; i < plan.values.size(); ++i)
    if (Value& value = plan.values[i]; value.place == Place::kArena) {
      const Size block = offsets[home[value.at]];
      if (is_open(block))
        value.at = inside_[i] == 0 ? block : size(SizeOp::kAdd, block, inside_[i]);
      else
        value.at = block + inside_[i];
    }
  for (size_t step = 0; step < plan.steps.size(); ++step)
    plan.steps[step].workspace_at = offsets[block_bytes_.size() + step];
  plan.sizes = sizes_.entries();
  check_plan(plan);
  inside_.clear();
  block_bytes_.clear();
  reuse_.clear();
  time_.clear();
  sizes_ = {};
  typical_.clear();
  return std::exchange(image_, {});
}

}  // namespace lathe::runtime
