// The main job, here or by a tracker, and `tune resume` of either.
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/remote_job.h"
#include "cli/search_flags.h"
#include "cli/tune_job.h"
#include "core/support/error.h"

namespace lathe::cli {

namespace {

void add_farm_flags(Flags& flags, TuneJob& job) {
  flags.add("--listen ENDPOINT", job.listen,
            "also take workers from here: tcp://HOST:PORT (see `tune worker`)");
  flags.add("--key FILE", job.key, "file with this tracker's keys, from `tune keygen`");
  flags.add("--allow FILE", job.allow, "file with the public keys of workers, one a line");
}

/// What a resumed job is asked anew.
void add_ending_flags(Flags& flags, TuneJob& job) {
  flags.add("--db FILE", job.database, "the tuning database");
  flags.add("--out DIR", job.folder, "folder for the module file (lathe-out/MODEL)");
  flags.add("--decide", job.decide,
            "race the tuned against the untuned build for up to 5 minutes instead of half a one; exit code 3 "
            "when that leaves it open which is faster");
  flags.add("--json", job.json, "the last line of stdout is one JSON object");
}

}  // namespace

int tune_command(Flags& flags) {
  TuneJob job;
  SearchFlags search(flags, job);
  flags.add_duration(
      "--whole-model", job.choice_seconds,
      "choose among the best schedules by timing the whole model for this long (a fifth of the "
      "search's time, at most 60s)");
  ServicePlace place;
  add_ending_flags(flags, job);
  add_farm_flags(flags, job);
  place.add_to(flags, Flags::Need::kOptional);
  DeviceFlags devices(flags, job);
  // A tracker builds where nothing is measured: a whole model has no machine there to be timed on.
  for (const char* here : {"--db", "--listen", "--key", "--allow", "--decide", "--whole-model"})
    flags.exclude(here, "--tracker");
  if (!flags.parse()) return kSuccess;
  search.settle(flags);
  devices.settle();
  if (place.url.empty() && !(job.device.empty() && job.needs.empty()))
    fail("--device and --needs choose among a tracker's devices; name it with --tracker");
  return place.url.empty() ? run_tune_job_here(std::move(job), std::nullopt) : run_tune_job_there(job, place);
}

int resume_command(Flags& flags) {
  TuneJob job;
  std::string uuid;
  flags.add("JOB", uuid, "the job's id, or its beginning, as `tune query jobs` shows it",
            Flags::Need::kRequired);
  ServicePlace place;
  add_ending_flags(flags, job);
  add_farm_flags(flags, job);
  place.add_to(flags, Flags::Need::kOptional);
  for (const char* here : {"--db", "--listen", "--key", "--allow", "--decide"})
    flags.exclude(here, "--tracker");
  if (!flags.parse()) return kSuccess;
  return place.url.empty() ? run_tune_job_here(std::move(job), uuid)
                           : resume_tune_job_there(uuid, job, place);
}

}  // namespace lathe::cli
