#include "cli/family_report.h"

#include <fmt/ranges.h>

#include <limits>
#include <set>

#include "cli/progress.h"
#include "tuner/tasks.h"

namespace lathe::cli {
namespace {

constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

/// "17..64", "65.." or, where it is one value, "1".
std::string values_text(const schedule::DimValues& dim) {
  if (dim.is_number()) return fmt::format("{}", dim.min);
  return dim.max == kNoEnd ? fmt::format("{}..", dim.min) : fmt::format("{}..{}", dim.min, dim.max);
}

std::string values_text(const std::vector<schedule::DimValues>& dims) {
  std::string text;
  for (const schedule::DimValues& dim : dims) text += (text.empty() ? "" : " x ") + values_text(dim);
  return text;
}

double loss(const tuner::TunedMember::At& at) { return at.alone > 0 ? at.seconds / at.alone - 1 : 0; }

}  // namespace

std::vector<ReportedFamily> families_of(const TuneJob& job, const PreparedJob& prepared,
                                        db::Reader& records) {
  const auto target = records.find_target(to_text(prepared.target));
  if (prepared.points.none() || !target) return {};
  const tuner::OpenPrograms programs = tuner::open_programs(prepared.fused, prepared.points);
  tuner::OpenFamilies known(records, *target, static_cast<int>(job.threads), job.max_relative_error);
  std::vector<ReportedFamily> families;
  std::set<std::string> seen;
  for (const tuner::Task& task : prepared.tasks) {
    const auto program = programs.find(task.whole);
    if (program == programs.end() || !seen.insert(task.whole).second) continue;
    ReportedFamily family{.name = tuner::program_name(task),
                          .members = known.family(program->second.program, program->second)};
    if (!family.members.empty()) families.push_back(std::move(family));
  }
  return families;
}

std::string families_text(const std::vector<ReportedFamily>& families) {
  if (families.empty()) return "";
  std::string out =
      "\nkernels for open dimensions: the values that each serves and, at the sizes measured, its time and "
      "what it "
      "loses against the fastest for that size alone\n";
  for (const ReportedFamily& family : families) {
    out += fmt::format("{}\n", family.name);
    for (const tuner::TunedMember& member : family.members) {
      std::vector<std::string> sizes;
      for (const tuner::TunedMember::At& at : member.at)
        sizes.push_back(fmt::format("{}: {}{}", fmt::join(at.sizes, "x"), duration_text(at.seconds),
                                    loss(at) > 0 ? fmt::format(" (+{:.1f}%)", 100 * loss(at)) : ""));
      out += fmt::format("  {:<24} {}\n", values_text(member.member.dims),
                         sizes.empty() ? "untuned" : fmt::format("{}", fmt::join(sizes, ", ")));
    }
  }
  return out;
}

nlohmann::json families_json(const std::vector<ReportedFamily>& families) {
  nlohmann::json list = nlohmann::json::array();
  for (const ReportedFamily& family : families) {
    nlohmann::json members = nlohmann::json::array();
    for (const tuner::TunedMember& member : family.members) {
      nlohmann::json dims = nlohmann::json::array(), sizes = nlohmann::json::array();
      for (const schedule::DimValues& dim : member.member.dims)
        dims.push_back(
            {{"min", dim.min}, {"max", dim.max == kNoEnd ? nlohmann::json() : nlohmann::json(dim.max)}});
      for (const tuner::TunedMember::At& at : member.at)
        sizes.push_back(
            {{"size", at.sizes}, {"us", at.seconds * 1e6}, {"alone_us", at.alone * 1e6}, {"loss", loss(at)}});
      members.push_back({{"serves", dims}, {"measured", sizes}});
    }
    list.push_back({{"name", family.name}, {"kernels", members}});
  }
  return list;
}

}  // namespace lathe::cli
