#include "core/frontends/onnx_choices.h"

#include <algorithm>

#include "core/support/error.h"

namespace lathe::onnx {
namespace {
// Each doubles the attempts in the worst case.
constexpr size_t kMostChoices = 8;
}  // namespace

bool Choices::next(std::string unclear) {
  if (asked_ == made_.size()) {
    if (asked_ == kMostChoices)
      fail("more than {} branches give tensors of different ranks, by dimensions that are open",
           kMostChoices);
    made_.push_back(false);
  }
  unclear_.resize(std::max(unclear_.size(), made_.size()));
  unclear_[asked_] = std::move(unclear);
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

/// The first choices that lead through; else what was wrong with the first of all.
std::exception_ptr Choices::find_way(FunctionRef<void()> attempt) {
  std::exception_ptr first;
  made_.clear();
  for (;;) {
    asked_ = 0;
    try {
      attempt();
      return nullptr;
    } catch (const Error&) {
      if (!first) first = std::current_exception();
      made_.resize(asked_);
      if (!advance(0)) return first;
    }
  }
}

void Choices::lead_through(FunctionRef<void()> attempt) {
  if (std::exception_ptr wrong = find_way(attempt)) {
    leaves_out_ = true;
    if (find_way(attempt)) std::rethrow_exception(wrong);
  }
  const std::vector<bool> found = made_;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) continue;  // the other side was tried before
    made_.assign(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(i));
    made_.push_back(true);
    do {
      if (leads_through(attempt)) fail("{}", unclear_[i]);
    } while (advance(i + 1));
  }
  if (std::find(found.begin(), found.end(), false) == found.end()) return;
  made_ = found;
  asked_ = 0;
  attempt();
}

}  // namespace lathe::onnx
