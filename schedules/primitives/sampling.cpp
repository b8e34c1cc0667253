// Random decisions. A recorded decision is checked and used; else one is drawn.
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
void sample_categorical(Application& a) {
  auto count = static_cast<int64_t>(a.size());
  if (count == 0) a.fail("there are no candidates");
  if (a.decision.empty()) a.decision = {a.random->below(count)};
  if (a.decision.size() != 1 || a.decision[0] < 0 || a.decision[0] >= count)
    a.fail("recorded choice {} is not among {} candidates", a.decision[0], count);
  // Decisions are places and not values, so that a mutation may draw any of them without knowing what they
  // are.
  a.give_number(a.number(static_cast<size_t>(a.decision[0])));
}

void sample_tuple(Application& a) {
  int64_t width = a.number(0);
  auto values = static_cast<int64_t>(a.size()) - 1;
  if (width < 1 || values == 0 || values % width != 0)
    a.fail("{} numbers do not make tuples of {}", values, width);
  int64_t count = values / width;
  if (a.decision.empty()) a.decision = {a.random->below(count)};
  if (a.decision.size() != 1 || a.decision[0] < 0 || a.decision[0] >= count)
    a.fail("recorded choice {} is not among {} tuples", a.decision[0], count);
  for (int64_t i = 0; i < width; ++i)
    a.give_number(a.number(static_cast<size_t>(1 + a.decision[0] * width + i)));
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"sample_categorical", "one of the given numbers", {{}, kInt}, sample_categorical, true},
    {"sample_tuple",
     "one of the tuples of the given width that the other numbers make",
     {{kInt}, kInt},
     sample_tuple,
     true},
};
}  // namespace

std::span<const Primitive> sampling_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
