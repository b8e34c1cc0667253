#include "cli/search_flags.h"

#include <fmt/core.h>

#include "cli/shapes.h"
#include "core/support/most_threads.h"
#include "tracker/needs.h"

namespace lathe::cli {

SearchFlags::SearchFlags(Flags& flags, TuneJob& job) : job_(job) {
  flags.add("--model MODEL", job.model, "a zoo name, or an .onnx or .relay file", Flags::Need::kRequired);
  add_shape_flag(flags, shapes_);
  add_open_flag(flags, job.open);
  flags.add("--target TARGET", job.target, "cpu, or cpu:mcpu=NAME,vector=BITS,...");
  flags.add("--precision given|bf16|int8|float64", job.precision,
            "bf16 and int8 where they are faster; int8 is calibrated on random inputs, float64 is slow");
  flags.add("--trials", job.trials, 0, int64_t{1} << 40,
            "candidates to measure; 0: no limit (give --time then), as where --time alone is given");
  flags.add_duration("--time", job.seconds, "stop searching after this long");
  flags.add_positive("--target-latency", job.target_ms,
                     "stop searching once the model's kernels together take no more milliseconds than this");
  flags.add("--threads", job.threads, 0, kMostThreads, "threads a kernel runs on; 0: all cores");
  flags.add("--seed", job.seed, 0, INT64_MAX, "the same seed searches the same way");
  flags.add_share("--max-relative-error", job.max_relative_error,
                  "a schedule whose outputs are off by more, of the largest value, is wrong; from 0.0005 on "
                  "large weights may be kept in half precision");
}

void SearchFlags::settle(const Flags& flags) {
  job_.shapes = parse_shapes(shapes_);
  if (flags.given("--time") && !flags.given("--trials")) job_.trials = 0;
}

DeviceFlags::DeviceFlags(Flags& flags, TuneJob& job) : job_(job) {
  flags.add("--device NAME", job.device,
            "measure on devices whose name contains this; `tune jobs --devices`");
  flags.add("--needs PROPERTY=AMOUNT", needs_,
            fmt::format("what they must have, at least: {}", tracker::needs_help()).c_str());
}

void DeviceFlags::settle() {
  job_.needs = tracker::split_needs(needs_);
  tracker::parse_needs(job_.needs);  // throws before a model is uploaded
}

}  // namespace lathe::cli
