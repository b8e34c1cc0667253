// What a sandbox costs a measurement: a fresh confined process for each, and whatever confinement does to the
// code in it.
//
//   ./run bench sandbox [--pairs 30] [--json]
//
//   process  from the request to the reply of a confined child that does nothing.
//   kernel   a loop of about 100 ms that reads and writes 8 MiB, in a confined child and in one that is
//   trusted, in turn.
//
// Exit code 1 when a goal is missed: 15 ms, 1%.
#include "workers/sandbox.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/flags.h"
#include "core/support/clock.h"
#include "core/support/error.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kProcessMs = 15, kKernelShare = 0.01;
constexpr int kRounds = 100;  // of the loop, some 100 ms

/// "loop": its seconds, as the child's own clock has them.
std::string body(std::string_view request, worker::Child&) {
  if (request != "loop") return "";
  std::vector<float> data(2 << 20, 1.0f);
  const auto begin = Clock::now();
  for (int round = 0; round < kRounds; ++round)
    for (float& value : data) value = value * 1.0001f + 0.5f;
  // The sum is told, so that the loop is not left out.
  return fmt::format("{} {}", seconds_since(begin), data[data.size() / 2]);
}

constexpr worker::Role kRoles[] = {
    {"confined", worker::Confinement::kRun, nullptr, body},
    {"trusted", worker::Confinement::kTrusted, nullptr, body},
};

class Place {
 public:
  explicit Place(const char* role) : sandbox_({"/proc/self/exe", "internal-sandbox", role}) { run(""); }
  std::string run(const std::string& request) {
    const worker::Report report =
        sandbox_.run({.request = request, .limits = {.wall_seconds = 60, .memory_bytes = uint64_t{1} << 30}});
    if (report.end != worker::Report::End::kReplied) fail("a child ended: {}", worker::describe(report));
    return report.reply;
  }

 private:
  worker::Sandbox sandbox_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

int run(int argc, char** argv) {
  int pairs = 30;
  bool json = false;
  Flags flags("What a sandbox costs a measurement");
  flags.add("--pairs", pairs, 3, 10000, "of loops, and ten times as many processes");
  flags.add("--json", json, "print a JSON object");
  flags.parse(argc, argv);

  Place confined("confined"), trusted("trusted");
  std::vector<double> starts, ratios, loops;
  for (int i = 0; i < 10 * pairs; ++i) {
    const auto begin = Clock::now();
    confined.run("");
    starts.push_back(1e3 * seconds_since(begin));
  }
  for (int i = 0; i < pairs; ++i) {
    // Neither is always the second, for the first may find a colder machine.
    const bool first = i % 2 == 0;
    const double one = std::stod((first ? confined : trusted).run("loop"));
    const double other = std::stod((first ? trusted : confined).run("loop"));
    ratios.push_back(first ? one / other : other / one);
    loops.push_back(1e3 * (first ? one : other));
  }
  const double process = median(starts), kernel = median(ratios) - 1;
  if (json)
    fmt::print(
        "{}\n",
        nlohmann::json{{"process_ms", process}, {"kernel_share", kernel}, {"loop_ms", median(loops)}}.dump(
            1));
  else
    fmt::print(
        "process  {:.2f} ms, median of {} (goal {})\nkernel   {:+.2f}% of {:.0f} ms, median of {} pairs "
        "(goal {}%)\n",
        process, starts.size(), kProcessMs, 100 * kernel, median(loops), ratios.size(), 100 * kKernelShare);
  return process <= kProcessMs && kernel <= kKernelShare ? 0 : 1;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  using namespace lathe;
  if (argc > 1 && strcmp(argv[1], "internal-sandbox") == 0)
    return worker::supervise(bench::kRoles, {argv, static_cast<size_t>(argc)});
  return bench::guarded_main(bench::run, argc, argv);
}
