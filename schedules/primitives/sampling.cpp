// Random decisions. A recorded decision is checked and used; else one is drawn.
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
std::vector<int64_t> divisors_up_to(int64_t n, int64_t limit) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= n && d <= limit; ++d)
    if (n % d == 0) divisors.push_back(d);
  return divisors;
}

void sample_perfect_tile(Application& a) {
  const For& loop = *a.loop(0).back().as<For>();
  int64_t parts = a.number(1), max_innermost = a.number(2);
  const int64_t* extent = as_int(loop.extent);
  if (!extent) a.fail("loop {} has no constant extent", loop.var->name);
  if (parts < 1 || max_innermost < 1)
    a.fail("{} parts with the innermost up to {}, must be at least 1", parts, max_innermost);
  if (a.decision.empty()) {
    a.decision.assign(static_cast<size_t>(parts), 1);
    int64_t rest = *extent;
    for (size_t i = a.decision.size(); --i > 0;) {
      auto choices = divisors_up_to(rest, i + 1 == a.decision.size() ? max_innermost : rest);
      a.decision[i] = choices[static_cast<size_t>(a.random->below(static_cast<int64_t>(choices.size())))];
      rest /= a.decision[i];
    }
    a.decision[0] = rest;
  }
  int64_t product = 1;
  for (int64_t factor : a.decision) product *= std::max<int64_t>(factor, 0);
  if (a.decision.size() != static_cast<size_t>(parts) || product != *extent)
    a.fail("{} recorded factors with product {} do not tile loop {} of extent {} in {} parts",
           a.decision.size(), product, loop.var->name, *extent, parts);
  for (int64_t factor : a.decision) a.give_number(factor);
}

void sample_categorical(Application& a) {
  auto count = static_cast<int64_t>(a.size());
  if (count == 0) a.fail("there are no candidates");
  if (a.decision.empty()) a.decision = {a.random->below(count)};
  if (a.decision.size() != 1 || a.decision[0] < 0 || a.decision[0] >= count)
    a.fail("recorded choice {} is not among {} candidates", a.decision[0], count);
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
    {"sample_perfect_tile",
     "factors whose product is the loop's extent, the innermost at most the given bound",
     {{kLoop, kInt, kInt}},
     sample_perfect_tile,
     true},
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
