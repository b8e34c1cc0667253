#include "tuner/record_meaning.h"

#include <memory>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/tir/roofline.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "tuner/search.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

db::Workload workload_row(const std::string& text) {
  const tir::Func func = tir::parse_func(text, "workload");
  // Digests are of the text: one that prints otherwise would be a second record of the same program.
  if (tir::print(tir::canonical(func)) != text) fail("the workload's text is not canonical");
  return {sha256(text), text, count_flops(func), parameter_bytes(func)};
}

/// Replays traces on workloads; those of one workload come one after another.
class Replayer {
 public:
  std::optional<std::string> operator()(const db::Workload& workload, const std::string& trace) {
    // What is no trace throws; a trace that does not apply to the workload is an answer: no program.
    const schedule::Trace parsed = schedule::parse_trace(trace);
    if (workload.digest != digest_) {
      func_ = tir::parse_func(workload.text, "workload");
      digest_ = workload.digest;
    }
    try {
      return fingerprint(schedule::replay(parsed, func_));
    } catch (const Error&) {
      return std::nullopt;
    }
  }

 private:
  std::string digest_;
  tir::Func func_;
};

}  // namespace

db::Target target_row(const std::string& text) {
  const Target target = parse_target_text(text);
  // Texts are keys: another spelling would be another target, with records of its own.
  if (to_text(target) != text) fail("the target `{}` is not canonical", text);
  return {.name = text,
          .architecture = fmt::format("{} {} {}", target.triple, target.cpu, target.features),
          .features = ""};
}

db::Meaning record_meaning() {
  return {.target = target_row,
          .workload = workload_row,
          .model_digest = [](const db::TaskList& tasks) { return tasks_digest(tasks); },
          // A shared one: std::function copies what it holds.
          .program = [replayer = std::make_shared<Replayer>()](
                         const db::Workload& workload,
                         const std::string& trace) { return (*replayer)(workload, trace); },
          .fastest_seconds =
              [](double flops, const std::string& target, int threads) {
                return fastest_believable(flops, parse_target_text(target), threads);
              }};
}

}  // namespace lathe::tuner
