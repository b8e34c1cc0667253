#include "core/frontends/onnx_choices.h"

#include <algorithm>
#include <exception>

#include "core/support/error.h"

namespace lathe::onnx {
namespace {
// Each doubles the attempts in the worst case.
constexpr size_t kMostChoices = 8;
}  // namespace

bool Choices::next() {
  if (asked_ == made_.size()) {
    if (asked_ == kMostChoices)
      fail("more than {} branches give tensors of different ranks, by dimensions that are open",
           kMostChoices);
    made_.push_back(false);
  }
  return made_[asked_++];
}

bool Choices::leads_through(FunctionRef<void()> attempt) {
  asked_ = 0;
  try {
    attempt();
    return true;
  } catch (const Error&) {
    made_.resize(asked_);
    return false;
  }
}

/// The next combination, the last choice first; those before `fixed` stay.
bool Choices::advance(size_t fixed) {
  while (made_.size() > fixed && made_.back()) made_.pop_back();
  if (made_.size() <= fixed) return false;
  made_.back() = true;
  return true;
}

void Choices::lead_through(FunctionRef<void()> attempt) {
  std::exception_ptr first;
  for (;;) {
    asked_ = 0;
    try {
      attempt();
      break;
    } catch (const Error&) {
      if (!first) first = std::current_exception();
      made_.resize(asked_);
      if (!advance(0)) std::rethrow_exception(first);
    }
  }
  const std::vector<bool> found = made_;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) continue;  // the other side was tried before
    made_.assign(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(i));
    made_.push_back(true);
    do {
      if (leads_through(attempt))
        fail(
            "a branch gives tensors of different ranks, by a dimension that is open, and the model goes on "
            "with "
            "both; give the dimension's size");
    } while (advance(i + 1));
  }
  if (std::find(found.begin(), found.end(), false) == found.end()) return;
  made_ = found;
  asked_ = 0;
  attempt();
}

}  // namespace lathe::onnx
