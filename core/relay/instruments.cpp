#include "core/relay/instruments.h"

#include <cstdio>

namespace lathe::relay {

void PassTimes::before(const Pass&, const Module& module) {
  module_ = module;
  start_ = std::chrono::steady_clock::now();
}

void PassTimes::after(const Pass& pass, const Module& module) {
  std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start_;
  runs_.push_back({pass.name, elapsed.count(), !(module == module_)});
}

std::string PassTimes::report() const {
  std::string text;
  double sum = 0;
  for (const Run& run : runs_) {
    text +=
        fmt::format("{:10.3f} ms  {}{}\n", run.milliseconds, run.name, run.changed ? "" : " (nothing to do)");
    sum += run.milliseconds;
  }
  return text + fmt::format("{:10.3f} ms  in all\n", sum);
}

void PassPrinter::before(const Pass& pass, const Module& module) {
  module_ = module;
  if (when_ == When::kBefore) fmt::print(stderr, "// before {}\n{}", pass.name, print(module, options_));
}

void PassPrinter::after(const Pass& pass, const Module& module) {
  if (when_ != When::kAfter) return;
  if (module == module_)
    fmt::print(stderr, "// after {}: the same\n", pass.name);
  else
    fmt::print(stderr, "// after {}\n{}", pass.name, print(module, options_));
}

}  // namespace lathe::relay
