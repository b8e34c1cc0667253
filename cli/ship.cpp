#include "cli/ship.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "cli/best_build.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/target.h"
#include "tuner/final_build.h"
#include "tuner/model_race.h"

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

bool same_bytes(const std::string& a, const std::string& b) {
  if (fs::file_size(a) != fs::file_size(b)) return false;
  std::ifstream files[] = {std::ifstream(a, std::ios::binary), std::ifstream(b, std::ios::binary)};
  std::vector<char> chunks[] = {std::vector<char>(1 << 20), std::vector<char>(1 << 20)};
  while (files[0] && files[1]) {
    for (int i : {0, 1}) files[i].read(chunks[i].data(), static_cast<std::streamsize>(chunks[i].size()));
    if (files[0].gcount() != files[1].gcount()) return false;
    if (!std::equal(chunks[0].begin(), chunks[0].begin() + files[0].gcount(), chunks[1].begin()))
      return false;
  }
  return true;
}

tuner::RaceResult race_files(const std::string& untuned, const std::string& tuned, int threads,
                             double seconds) {
  InterruptScope interrupt;
  tuner::ModulePair pair(runtime::Module::open(untuned), runtime::Module::open(tuned), threads);
  return tuner::race(pair, {.seconds = seconds, .stop = [&] { return interrupt.interrupted(); }});
}

}  // namespace

Shipment ship(const TuneJob& job, const Target& target, const relay::Module& fused,
              const std::optional<ChoicePlace>& place, bool favoured) {
  const int threads = static_cast<int>(job.threads);
  fs::create_directories(job.folder);
  const std::string stem = (fs::path(job.folder) / fs::path(job.model).stem()).string();
  Shipment shipment{.module = stem + ".lathe"};
  // Both are files while they race: constants of a file are mapped, and may lie in smaller pages.
  const DiscardedFile untuned{stem + ".untuned.lathe"}, tuned{stem + ".tuned.lathe"};
  {
    runtime::ModuleImage image = tuner::final_build(fused, target, tuner::default_schedules(target));
    image.plan.model = job.model;
    runtime::write_module(untuned.path, image);
  }
  {
    BestBuild build = best_build(fused, target, {job.database, threads, job.max_relative_error});
    build.image.plan.model = job.model;
    shipment.rounding_error = build.difference;
    runtime::write_module(tuned.path, build.image);
  }
  shipment.same = same_bytes(untuned.path, tuned.path);
  shipment.elsewhere = !runs_here(target);
  if (shipment.elsewhere) {
    shipment.tuned = favoured;
    fs::rename((favoured ? tuned : untuned).path, shipment.module);
    return shipment;
  }
  if (!job.json && !shipment.same) fmt::print(stderr, "racing the tuned build against the untuned one\n");
  const double seconds = shipment.same ? 0 : job.decide ? kDecideSeconds : kRaceSeconds;
  shipment.race = race_files(untuned.path, tuned.path, threads, seconds);
  if (shipment.same) shipment.race.verdict = tuner::Verdict::kEqual;
  shipment.tuned = shipment.same || tuner::prefers_challenger(shipment.race.verdict, favoured);
  fs::rename((shipment.tuned ? tuned : untuned).path, shipment.module);
  if (shipment.tuned) return shipment;
  shipment.rounding_error = 0;
  if (place) {
    db::Store store(job.database);
    tuner::choose_defaults(place->defaults, store, place->key, shipment.race);
  }
  return shipment;
}

std::string shipment_text(const Shipment& shipment) {
  if (shipment.elsewhere)
    return fmt::format("shipped: the {} build, for which the kernels' times speak: it is for another CPU\n",
                       shipment.tuned ? "tuned" : "untuned");
  const tuner::RaceResult& race = shipment.race;
  const std::string times =
      fmt::format("{} untuned, {} tuned", duration_text(race.incumbent), duration_text(race.challenger));
  if (shipment.same) return fmt::format("model: {}: the two builds are the same\n", times);
  if (race.turns == 0) return "model: the race of the tuned build against the untuned one was interrupted\n";
  const std::string ratio = fmt::format("ratio {:.2f} ({:.2f} .. {:.2f}), {} turns of each", race.ratio,
                                        race.low, race.high, race.turns);
  const char* ours = shipment.tuned ? "tuned" : "untuned";
  switch (race.verdict) {
    case tuner::Verdict::kFaster:
    case tuner::Verdict::kSlower:
      return fmt::format("model: {}, {}\nshipped: the {} build, which is the faster\n", times, ratio, ours);
    case tuner::Verdict::kEqual:
      return fmt::format(
          "model: {}, {}: equal within 1%\nshipped: the {} build, for which the kernels' times speak\n",
          times, ratio, ours);
    case tuner::Verdict::kUndecided:
      break;
  }
  return fmt::format("model: {}, undecided, {}\nshipped: the {} build, for which the kernels' times speak\n",
                     times, ratio, ours);
}

}  // namespace lathe::cli
