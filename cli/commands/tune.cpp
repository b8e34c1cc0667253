#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/shapes.h"
#include "cli/tune_job.h"
#include "core/runtime/thread_pool.h"

namespace lathe::cli {

namespace {

void add_farm_flags(Flags& flags, TuneJob& job) {
  flags.add("--listen", job.listen, "also take workers from here: tcp://HOST:PORT (see `tune worker`)");
  flags.add("--key", job.key, "file with this tracker's keys, from `tune keygen`");
  flags.add("--allow", job.allow, "file with the public keys of workers, one a line");
}

/// What a resumed job is asked anew.
void add_ending_flags(Flags& flags, TuneJob& job) {
  flags.add("--db", job.database, "the tuning database");
  flags.add("--out", job.folder, "folder for the module file (lathe-out/MODEL)");
  flags.add("--decide", job.decide,
            "race the tuned against the untuned build for up to 5 minutes instead of half a one; exit code 3 "
            "when that leaves it open which is faster");
  flags.add("--json", job.json, "the last line of stdout is one JSON object");
}

}  // namespace

int tune_command(Flags& flags) {
  TuneJob job;
  std::vector<std::string> shapes;
  flags.add("--model", job.model, "a zoo name, or an .onnx or .relay file", Flags::Need::kRequired);
  add_shape_flag(flags, shapes);
  flags.add("--target", job.target, "cpu, or cpu:mcpu=NAME,vector=BITS,...");
  flags.add("--precision", job.precision,
            "given, bf16, int8 (calibrated on random inputs), or float64 (slow: for comparisons)");
  flags.add("--trials", job.trials, 0, int64_t{1} << 40,
            "candidates to measure; 0: no limit (give --time then), as where --time alone is given");
  flags.add_duration("--time", job.seconds, "stop searching after this long");
  flags.add_positive("--target-latency", job.target_ms,
                     "stop searching once the model's kernels together take no more milliseconds than this");
  flags.add_duration(
      "--whole-model", job.choice_seconds,
      "choose among the best schedules by timing the whole model for this long (a fifth of the "
      "search's time, at most 60s)");
  flags.add("--threads", job.threads, 0, 1024, "threads a kernel runs on; 0: all cores");
  flags.add("--seed", job.seed, 0, INT64_MAX, "the same seed searches the same way");
  flags.add_share("--max-relative-error", job.max_relative_error,
                  "a schedule whose outputs are off by more, of the largest value, is wrong; from 0.0005 on "
                  "large weights may be kept in half precision");
  add_ending_flags(flags, job);
  add_farm_flags(flags, job);
  if (!flags.parse()) return kSuccess;
  job.shapes = parse_shapes(shapes);
  if (flags.given("--time") && !flags.given("--trials")) job.trials = 0;
  return run_tune_job_here(std::move(job), std::nullopt);
}

int resume_command(Flags& flags) {
  TuneJob job;
  std::string uuid;
  flags.add("JOB", uuid, "the job's id, or its beginning, as `tune query jobs` shows it",
            Flags::Need::kRequired);
  add_ending_flags(flags, job);
  add_farm_flags(flags, job);
  if (!flags.parse()) return kSuccess;
  return run_tune_job_here(std::move(job), uuid);
}

}  // namespace lathe::cli
