// Instruments for the pass manager: timing and printing.
#pragma once

#include <chrono>

#include "core/relay/pass.h"
#include "core/relay/text.h"

namespace lathe::relay {

/// How long each pass took, in order of running.
class PassTimes final : public PassInstrument {
 public:
  void before(const Pass& pass, const Module& module) override;
  void after(const Pass& pass, const Module& module) override;
  /// A line a pass, and the sum.
  std::string report() const;

 private:
  struct Run {
    const char* name;
    double milliseconds;
    bool changed;
  };
  std::vector<Run> runs_;
  Module module_;
  std::chrono::steady_clock::time_point start_;
};

/// Writes the module to stderr before or after passes; runs that change nothing are only named.
class PassPrinter final : public PassInstrument {
 public:
  enum class When : uint8_t { kBefore, kAfter };
  PassPrinter(When when, PrintOptions options) : when_(when), options_(options) {}
  void before(const Pass& pass, const Module& module) override;
  void after(const Pass& pass, const Module& module) override;

 private:
  When when_;
  PrintOptions options_;
  Module module_;
};

}  // namespace lathe::relay
