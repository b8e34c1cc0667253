#include <fmt/core.h>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "core/relay/instruments.h"
#include "core/relay/passes/infer_type.h"
#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::cli {
namespace {

std::vector<relay::PassId> passes_named(const std::string& names) {
  std::vector<relay::PassId> ids;
  for (const std::string& name : split_text(names, ',')) ids.push_back(relay::find_pass(name).id);
  return ids;
}

void list_passes() {
  for (const relay::Pass& pass : relay::passes()) fmt::print("{:26}{}\n", pass.name, pass.doc);
}

}  // namespace

int opt_command(Flags& flags) {
  std::string file, names, disabled, target;
  int64_t opt_level = 3;
  bool list = false, pipeline = false, types = false, before = false, after = false, timing = false,
       no_metadata = false;
  flags.add("FILE", file, "Relay text; /dev/stdin for the standard input");
  flags.add("--passes", names, "names of passes, with commas between, in order");
  flags.add("--pipeline", pipeline, "run the passes of an inference build");
  flags.add("--list", list, "list the passes and exit");
  flags.add("--disable", disabled, "names of passes to leave out");
  flags.add("--opt-level", opt_level, 0, 4, "leave out passes of a higher level");
  flags.add("--target", target, "target text, for layouts, as in cpu:vector=512");
  flags.add("--types", types, "print the type of every expression");
  flags.add("--no-metadata", no_metadata, "leave out the values of large constants");
  flags.add("--print-before-all", before, "print the module before each pass, to stderr");
  flags.add("--print-after-all", after, "print the module after each pass, to stderr");
  flags.add("--timing", timing, "print the time each pass took, to stderr");
  flags.exclude("--passes", "--pipeline");
  if (!flags.parse()) return kSuccess;
  if (list) {
    list_passes();
    return kSuccess;
  }
  if (file.empty()) fail("tune opt: give a FILE of Relay text; see tune opt --help");

  relay::PrintOptions printing{.types = types, .metadata = !no_metadata};
  relay::PrintOptions short_printing{.types = types, .metadata = false};
  relay::PassPrinter print_before(relay::PassPrinter::When::kBefore, short_printing);
  relay::PassPrinter print_after(relay::PassPrinter::When::kAfter, short_printing);
  relay::PassTimes times;
  relay::PassContext context{.opt_level = static_cast<int>(opt_level), .disabled = passes_named(disabled)};
  if (!target.empty()) context.target = parse_target_text(target);
  if (before) context.instruments.push_back(&print_before);
  if (after) context.instruments.push_back(&print_after);
  if (timing) context.instruments.push_back(&times);

  std::string text = read_file(file);
  relay::Module module = relay::parse_module(text, file);
  std::vector<relay::PassId> named = passes_named(names);
  try {
    module = relay::run_passes(module, pipeline ? relay::inference_pipeline() : named, context);
  } catch (const relay::TypeError& e) {
    throw Error(caret_message(e.span(), text, e.message()));
  }
  fmt::print("{}", relay::print(module, printing));
  if (timing) fmt::print(stderr, "{}", times.report());
  return kSuccess;
}

}  // namespace lathe::cli
