#include "cli/ship.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "cli/best_build.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/model_flags.h"
#include "cli/progress.h"
#include "core/program/stretches.h"
#include "core/runtime/module_pair.h"
#include "core/support/disk.h"
#include "core/support/unfinished.h"
#include "tuner/final_build.h"

namespace lathe::cli {
namespace {
namespace fs = std::filesystem;

constexpr double kRaceSeconds = 30, kDecideSeconds = 300;

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
  make_folder(job.folder);
  return (fs::path(job.folder) / module_name(job.model)).string();
}

void write(const std::string& path, const TuneJob& job, runtime::ModuleImage image) {
  image.plan.model = job.model;
  tuner::set_ranges(image.plan, tuner::parse_open_dims(job.open));
  runtime::write_module(path, image);
}

void write_untuned(const std::string& path, const TuneJob& job, const PreparedJob& prepared) {
  const tuner::OpenPrograms open = tuner::open_programs(prepared.fused, prepared.points);
  const auto family = [&](const tir::Func& workload) { return tuner::family_of_known(open, workload); };
  write(path, job, naming(source_of(job), [&] {
          return tuner::final_build(prepared.fused, prepared.target,
                                    {tuner::default_schedules(prepared.target), family});
        }));
}

/// Returns how far the outputs are off, where constants are kept in half precision.
double write_tuned(const std::string& path, const TuneJob& job, const PreparedJob& prepared) {
  BestBuild build = naming(source_of(job), [&] {
    return best_build(prepared.fused, prepared.target,
                      {job.records ? job.records : records_of(job.database), static_cast<int>(job.threads),
                       job.max_relative_error, tuner::parse_open_dims(job.open)});
  });
  write(path, job, std::move(build.image));
  return build.difference;
}

/// Adds to the shipment what became of the race, at one size where there are several.
void take_in(Shipment& shipment, const RaceOutcome& outcome, const PreparedJob& prepared, size_t point) {
  if (!outcome.result) {
    shipment.raced = false;
    shipment.why_not_raced = outcome.why_not;
    shipment.crashed = outcome.crashed;
    return;
  }
  shipment.race = *outcome.result;
  if (shipment.same) shipment.race.verdict = RaceVerdict::kEqual;
  if (prepared.points.none()) return;
  shipment.sizes.push_back(
      {prepared.points.name(point), prepared.points.points[point].weight, shipment.race});
  shipment.race = together(shipment.sizes);
}

/// Races the two at all sizes; what has no result ends it.
void race_all(const RaceFiles& race, const std::string& untuned, const std::string& tuned, double seconds,
              const PreparedJob& prepared, Shipment& shipment) {
  constexpr double kLeastSeconds = 4;  // at one of many sizes
  const std::vector<tuner::OpenPoint>& points = prepared.points.points;
  if (program::calls_library(prepared.fused))
    return take_in(shipment, {.why_not = "only its host can run a model that calls library functions"},
                   prepared, 0);
  if (points.empty()) return take_in(shipment, race(untuned, tuned, seconds, {}), prepared, 0);
  const double each = std::max(kLeastSeconds, seconds / static_cast<double>(points.size()));
  for (size_t i = 0; i < points.size() && shipment.raced; ++i)
    take_in(shipment, race(untuned, tuned, shipment.same ? 0 : each, points[i].values), prepared, i);
}

}  // namespace

RaceFiles race_here(int threads) {
  return [threads](const std::string& untuned, const std::string& tuned, double seconds,
                   std::span<const int64_t> dims) {
    InterruptScope interrupt;
    runtime::ModulePair pair(runtime::Module::open(untuned), runtime::Module::open(tuned), threads, dims);
    return RaceOutcome{.result =
                           race(pair, {.seconds = seconds, .stop = [&] { return interrupt.interrupted(); }})};
  };
}

RaceResult together(std::span<const SizeRace> sizes) {
  RaceResult all{.ratio = 0};
  double weight = 0;
  for (const auto& [size, share, race] : sizes) {
    weight += share;
    all.ratio += share * std::log(race.ratio);
    // Without an end, for there were too few turns, all together has none.
    all.low += share * (race.low > 0 ? std::log(race.low) : -INFINITY);
    all.high += share * (race.high > 0 ? std::log(race.high) : INFINITY);
    all.incumbent += share * race.incumbent;
    all.challenger += share * race.challenger;
    all.turns += race.turns;
  }
  for (double* logarithm : {&all.ratio, &all.low, &all.high}) *logarithm = std::exp(*logarithm / weight);
  for (double* seconds : {&all.incumbent, &all.challenger}) *seconds /= weight;
  all.verdict = race_verdict(all.low, all.high);
  return all;
}

Shipment ship_unraced(const TuneJob& job, const PreparedJob& prepared, bool favoured) {
  Shipment shipment{.module = stem_of(job) + ".lathe", .tuned = favoured, .raced = false};
  if (favoured)
    shipment.rounding_error = write_tuned(shipment.module, job, prepared);
  else
    write_untuned(shipment.module, job, prepared);
  return shipment;
}

Shipment ship(const RaceFiles& race, const TuneJob& job, const PreparedJob& prepared, bool favoured) {
  const std::string stem = stem_of(job);
  Shipment shipment{.module = stem + ".lathe"};
  // Both are files while they race: constants of a file are mapped, and may lie in smaller pages.
  // By names of this process's own: another may tune the same model into the same folder.
  const auto named = [&](const char* build) { return fmt::format("{}.{}.{}.lathe", stem, build, getpid()); };
  Unfinished untuned([&] { return named("untuned"); }), tuned([&] { return named("tuned"); });
  write_untuned(untuned.path(), job, prepared);
  shipment.rounding_error = write_tuned(tuned.path(), job, prepared);
  shipment.same = same_bytes(untuned.path(), tuned.path());
  if (!job.json && !shipment.same && !program::calls_library(prepared.fused))
    say("racing the tuned build against the untuned one");
  // Two equal builds take the fewest turns, for the report.
  const double seconds = shipment.same ? 0 : job.decide ? kDecideSeconds : kRaceSeconds;
  race_all(race, untuned.path(), tuned.path(), seconds, prepared, shipment);
  shipment.tuned =
      !shipment.crashed && (shipment.same || prefers_challenger(shipment.race.verdict, favoured));
  // The very file that won, not one that is built again. Whoever opens the module meanwhile finds the old one
  // or the new one, whole (rename(2)).
  Unfinished& shipped = shipment.tuned ? tuned : untuned;
  shipped.finish([&] { fs::rename(shipped.path(), shipment.module); });
  if (!shipment.tuned) shipment.rounding_error = 0;
  return shipment;
}

namespace {
std::string verdict_text(const Shipment& shipment) {
  const RaceResult& race = shipment.race;
  const char* ours = shipment.tuned ? "tuned" : "untuned";
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

/// A line for each, and what the line of the verdict then means.
std::string sizes_text(std::span<const SizeRace> sizes) {
  if (sizes.empty()) return "";
  std::string text = "\nraces at the sizes that it was tuned for; `model` is all of them by their weights\n";
  for (const auto& [size, weight, race] : sizes)
    text += fmt::format("  {:<32} {:>4.0f}% {:>9} untuned, {:>9} tuned, ratio {:.2f} ({:.2f} .. {:.2f})\n",
                        size, 100 * weight, duration_text(race.incumbent), duration_text(race.challenger),
                        race.ratio, race.low, race.high);
  return text;
}
}  // namespace

std::string shipment_text(const Shipment& shipment) {
  if (shipment.raced) return sizes_text(shipment.sizes) + verdict_text(shipment);
  return (shipment.why_not_raced.empty() ? "" : fmt::format("not raced: {}\n", shipment.why_not_raced)) +
         fmt::format("shipped: the {} build, {}\n", shipment.tuned ? "tuned" : "untuned",
                     shipment.crashed ? "for one that crashes in its race is not to be trusted"
                                      : "for which the kernels' times speak");
}

}  // namespace lathe::cli
