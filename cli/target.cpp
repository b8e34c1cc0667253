#include "cli/target.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <optional>

#include "cli/messages.h"
#include "core/codegen/host_target.h"
#include "core/support/cpu.h"
#include "core/support/error.h"
#include "db/store.h"
#include "workers/machine_at_hand.h"

namespace lathe::cli {
namespace {

std::string describe(const worker::KnownMachine& known) {
  return fmt::format("measured here {} UTC in {:.1f} s, {:.0f}% of the samples disturbed", known.when,
                     known.reading.seconds, 100 * known.reading.disturbed);
}

void learn(TargetKnowledge& knowledge, const worker::KnownMachine& known) {
  knowledge.measured = known.reading.numbers;
  knowledge.unsettled = known.reading.unsettled;
  knowledge.source = describe(known);
}

/// Without a place to keep it, or a linker, the table's row has to do.
void learn_at_hand(TargetKnowledge& knowledge) {
  try {
    auto known = worker::recall_machine(knowledge.target);
    if (!known) {
      known = worker::recall_or_measure(knowledge.target);
      if (isatty(STDERR_FILENO)) say("machine {}; `tune device` shows it", describe(*known));
    }
    learn(knowledge, *known);
  } catch (const Error& error) {
    say("this machine's numbers are those of its kind: {}", error.what());
  }
}

void learn_from_worker(TargetKnowledge& knowledge, const std::string& database) {
  db::Store store(database, {.read_only = true});
  auto known = store.find_machine(to_text(knowledge.target));
  if (!known) return;
  try {
    knowledge.measured = parse_machine_numbers(known->numbers);
  } catch (const Error&) {
    return;  // of a worker of another version, say
  }
  knowledge.source = fmt::format("told by {} {:%Y-%m-%d %H:%M} UTC", store.device(known->device).host,
                                 fmt::gmtime(static_cast<time_t>(known->measured_ms / 1000)));
}

}  // namespace

TargetKnowledge know_target(const std::string& text, const std::string& database, Measure measure) {
  TargetKnowledge knowledge{.target = codegen::resolve_target(text), .given = given_numbers(text)};
  const bool at_hand = worker::is_at_hand(knowledge.target);
  if (measure == Measure::kAgain) {
    if (!at_hand) fail("only this machine can be measured, and {} is another", text);
    learn(knowledge, worker::measure_and_keep(knowledge.target));
  } else if (at_hand) {
    learn_at_hand(knowledge);
  } else if (!database.empty()) {
    // A machine that is not at hand may have told its numbers as a worker.
    learn_from_worker(knowledge, database);
  }
  if (!knowledge.measured.empty() || !knowledge.given.empty())
    set_machine(knowledge.target, knowledge.measured, knowledge.given);
  return knowledge;
}

bool runs_here(const Target& target) {
  const std::string host = codegen::host_target().triple;
  // The architecture alone: vendor and system of a triple are spelt in several ways.
  return target.triple.starts_with(host.substr(0, host.find('-') + 1)) &&
         missing_cpu_features(codegen::cpu_features(target)).empty();
}

Target target_of(const std::string& text, const std::string& database) {
  return know_target(text, database, Measure::kIfNeeded).target;
}

}  // namespace lathe::cli
