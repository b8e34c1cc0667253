// Instruments for the pass managers of both languages: timing and printing.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lathe {

/// Looks on while passes run. `Pass` is a row with a name, `Program` what passes rewrite: a value that is
/// equal (==) when a pass had nothing to do.
template <typename Pass, typename Program>
class PassInstrument {
 public:
  virtual ~PassInstrument() = default;
  virtual void before(const Pass&, const Program&) {}
  virtual void after(const Pass&, const Program&) {}
};

/// How long each pass took, in order of running.
template <typename Pass, typename Program>
class PassTimes final : public PassInstrument<Pass, Program> {
 public:
  void before(const Pass&, const Program& program) override {
    program_ = program;
    start_ = std::chrono::steady_clock::now();
  }
  void after(const Pass& pass, const Program& program) override {
    std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start_;
    runs_.push_back({pass.name, elapsed.count(), !(program == program_)});
  }

  /// A line a pass, and the sum.
  std::string report() const {
    std::string text;
    double sum = 0;
    for (const Run& run : runs_) {
      text += fmt::format("{:10.3f} ms  {}{}\n", run.milliseconds, run.name,
                          run.changed ? "" : " (nothing to do)");
      sum += run.milliseconds;
    }
    return text + fmt::format("{:10.3f} ms  in all\n", sum);
  }

 private:
  struct Run {
    const char* name;
    double milliseconds;
    bool changed;
  };
  std::vector<Run> runs_;
  Program program_;
  std::chrono::steady_clock::time_point start_;
};

/// Writes the program to stderr before or after passes; runs that change nothing are only named.
template <typename Pass, typename Program>
class PassPrinter final : public PassInstrument<Pass, Program> {
 public:
  enum class When : uint8_t { kBefore, kAfter };
  /// `comment` begins a line that the language does not read.
  PassPrinter(When when, const char* comment, std::function<std::string(const Program&)> print)
      : when_(when), comment_(comment), print_(std::move(print)) {}

  void before(const Pass& pass, const Program& program) override {
    program_ = program;
    if (when_ == When::kBefore) fmt::print(stderr, "{} before {}\n{}", comment_, pass.name, print_(program));
  }
  void after(const Pass& pass, const Program& program) override {
    if (when_ != When::kAfter) return;
    if (program == program_)
      fmt::print(stderr, "{} after {}: the same\n", comment_, pass.name);
    else
      fmt::print(stderr, "{} after {}\n{}", comment_, pass.name, print_(program));
  }

 private:
  When when_;
  const char* comment_;
  std::function<std::string(const Program&)> print_;
  Program program_;
};

}  // namespace lathe
