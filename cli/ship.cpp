#include "cli/ship.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "cli/best_build.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/model_flags.h"
#include "cli/progress.h"
#include "core/runtime/module_pair.h"
#include "tuner/final_build.h"

namespace lathe::cli {
namespace {
namespace fs = std::filesystem;

constexpr double kRaceSeconds = 30, kDecideSeconds = 300;

/// A file that is gone with it, unless it was moved away.
struct DiscardedFile {
  std::string path;
  ~DiscardedFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

/// Compared in pieces: modules are as large as their models' weights.
bool same_bytes(const std::string& a, const std::string& b) {
  if (fs::file_size(a) != fs::file_size(b)) return false;
  std::ifstream files[] = {std::ifstream(a, std::ios::binary), std::ifstream(b, std::ios::binary)};
  std::vector<char> chunks[] = {std::vector<char>(1 << 20), std::vector<char>(1 << 20)};
  // A last chunk that is not full sets the ends of both, and is compared all the same.
  while (files[0] && files[1]) {
    for (int i : {0, 1}) files[i].read(chunks[i].data(), static_cast<std::streamsize>(chunks[i].size()));
    if (files[0].gcount() != files[1].gcount()) return false;
    if (!std::equal(chunks[0].begin(), chunks[0].begin() + files[0].gcount(), chunks[1].begin()))
      return false;
  }
  return true;
}

/// Of the files in the job's folder, which is made.
std::string stem_of(const TuneJob& job) {
  fs::create_directories(job.folder);
  return (fs::path(job.folder) / module_name(job.model)).string();
}

void write_untuned(const std::string& path, const TuneJob& job, const Target& target,
                   const relay::Module& fused) {
  runtime::ModuleImage image = tuner::final_build(fused, target, tuner::default_schedules(target));
  image.plan.model = job.model;
  runtime::write_module(path, image);
}

/// Returns how far the outputs are off, where constants are kept in half precision.
double write_tuned(const std::string& path, const TuneJob& job, const Target& target,
                   const relay::Module& fused) {
  BestBuild build = best_build(fused, target,
                               {job.records ? job.records : records_of(job.database),
                                static_cast<int>(job.threads), job.max_relative_error});
  build.image.plan.model = job.model;
  runtime::write_module(path, build.image);
  return build.difference;
}

}  // namespace

RaceFiles race_here(int threads) {
  return [threads](const std::string& untuned, const std::string& tuned, double seconds) {
    InterruptScope interrupt;
    runtime::ModulePair pair(runtime::Module::open(untuned), runtime::Module::open(tuned), threads);
    return RaceOutcome{.result =
                           race(pair, {.seconds = seconds, .stop = [&] { return interrupt.interrupted(); }})};
  };
}

Shipment ship_unraced(const TuneJob& job, const Target& target, const relay::Module& fused, bool favoured) {
  Shipment shipment{.module = stem_of(job) + ".lathe", .tuned = favoured, .raced = false};
  if (favoured)
    shipment.rounding_error = write_tuned(shipment.module, job, target, fused);
  else
    write_untuned(shipment.module, job, target, fused);
  return shipment;
}

Shipment ship(const RaceFiles& race, const TuneJob& job, const Target& target, const relay::Module& fused,
              bool favoured) {
  const std::string stem = stem_of(job);
  Shipment shipment{.module = stem + ".lathe"};
  // Both are files while they race: constants of a file are mapped, and may lie in smaller pages.
  const DiscardedFile untuned{stem + ".untuned.lathe"}, tuned{stem + ".tuned.lathe"};
  write_untuned(untuned.path, job, target, fused);
  shipment.rounding_error = write_tuned(tuned.path, job, target, fused);
  shipment.same = same_bytes(untuned.path, tuned.path);
  if (!job.json && !shipment.same) say("racing the tuned build against the untuned one");
  // Two equal builds take the fewest turns, for the report.
  const double seconds = shipment.same ? 0 : job.decide ? kDecideSeconds : kRaceSeconds;
  const RaceOutcome outcome = race(untuned.path, tuned.path, seconds);
  shipment.raced = outcome.result.has_value();
  shipment.why_not_raced = outcome.why_not;
  shipment.crashed = outcome.crashed;
  if (shipment.raced) shipment.race = *outcome.result;
  if (shipment.same) shipment.race.verdict = RaceVerdict::kEqual;
  shipment.tuned =
      !shipment.crashed && (shipment.same || prefers_challenger(shipment.race.verdict, favoured));
  // The very file that won, not one that is built again. Whoever opens the module meanwhile finds the old one
  // or the new one, whole (rename(2)).
  fs::rename((shipment.tuned ? tuned : untuned).path, shipment.module);
  if (!shipment.tuned) shipment.rounding_error = 0;
  return shipment;
}

std::string shipment_text(const Shipment& shipment) {
  const RaceResult& race = shipment.race;
  const char* ours = shipment.tuned ? "tuned" : "untuned";
  if (!shipment.raced)
    return (shipment.why_not_raced.empty() ? "" : fmt::format("not raced: {}\n", shipment.why_not_raced)) +
           fmt::format("shipped: the {} build, {}\n", ours,
                       shipment.crashed ? "for one that crashes in its race is not to be trusted"
                                        : "for which the kernels' times speak");
  const std::string times =
      fmt::format("{} untuned, {} tuned", duration_text(race.incumbent), duration_text(race.challenger));
  if (shipment.same) return fmt::format("model: {}: the two builds are the same\n", times);
  if (race.turns == 0) return "model: the race of the tuned build against the untuned one was interrupted\n";
  const std::string ratio = fmt::format("ratio {:.2f} ({:.2f} .. {:.2f}), {} turns of each", race.ratio,
                                        race.low, race.high, race.turns);
  switch (race.verdict) {
    case RaceVerdict::kFaster:
    case RaceVerdict::kSlower:
      return fmt::format("model: {}, {}\nshipped: the {} build, which is the faster\n", times, ratio, ours);
    case RaceVerdict::kEqual:
      return fmt::format(
          "model: {}, {}: equal within 1%\nshipped: the {} build, for which the kernels' times speak\n",
          times, ratio, ours);
    case RaceVerdict::kUndecided:
      break;
  }
  return fmt::format("model: {}, undecided, {}\nshipped: the {} build, for which the kernels' times speak\n",
                     times, ratio, ours);
}

}  // namespace lathe::cli
