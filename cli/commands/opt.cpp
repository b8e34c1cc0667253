// `tune opt`: passes over text of either language, which its first word tells apart; what is printed can be
// read again. For tests and for whoever develops a pass.
#include <fmt/core.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "core/relay/pass.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/text.h"
#include "core/tir/pass.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "schedules/space.h"

namespace lathe::cli {
namespace {

struct OptOptions {
  std::string file, names, disabled;
  std::optional<Target> target;
  int64_t opt_level = 3;
  bool pipeline = false, schedule = false, types = false, no_metadata = false;
  bool before = false, after = false, timing = false;
};

/// The instruments that were asked for, over programs of either language.
template <typename Pass, typename Program>
class Instruments {
 public:
  Instruments(const OptOptions& options, const char* comment,
              const std::function<std::string(const Program&)>& print)
      : before_(Printer::When::kBefore, comment, print), after_(Printer::When::kAfter, comment, print) {
    if (options.before) list_.push_back(&before_);
    if (options.after) list_.push_back(&after_);
    if (options.timing) list_.push_back(&times_);
  }
  const std::vector<PassInstrument<Pass, Program>*>& list() const { return list_; }
  void report() const {
    if (std::find(list_.begin(), list_.end(), &times_) != list_.end())
      fmt::print(stderr, "{}", times_.report());
  }

 private:
  using Printer = PassPrinter<Pass, Program>;
  Printer before_, after_;
  PassTimes<Pass, Program> times_;
  std::vector<PassInstrument<Pass, Program>*> list_;
};

/// The rows named in a list with commas.
template <typename Find>
auto passes_named(const std::string& names, Find find) {
  std::vector<decltype(find(names).id)> ids;
  for (const std::string& name : split_text(names, ',')) ids.push_back(find(name).id);
  return ids;
}

void list_passes() {
  size_t width = 0;
  for (const relay::Pass& pass : relay::passes()) width = std::max(width, std::string_view(pass.name).size());
  fmt::print("on Relay:\n");
  for (const relay::Pass& pass : relay::passes()) fmt::print("  {:{}}  {}\n", pass.name, width, pass.doc);
  fmt::print("on tensor programs:\n");
  for (const tir::Pass& pass : tir::passes()) fmt::print("  {:{}}  {}\n", pass.name, width, pass.doc);
}

/// Whether the first word is the one that tensor programs begin with. Lines of comments of either language
/// stand before it.
bool is_tensor_program(std::string_view text) {
  while (!text.empty()) {
    size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    text.remove_prefix(start);
    if (!text.starts_with("#") && !text.starts_with("//")) break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  return text.starts_with("func ");
}

void opt_relay(const std::string& text, const OptOptions& options) {
  if (options.schedule) fail("tune opt: --schedule is for tensor programs; {} is Relay", options.file);
  relay::PrintOptions printing{.types = options.types, .metadata = !options.no_metadata};
  Instruments<relay::Pass, relay::Module> instruments(options, "//", [&](const relay::Module& module) {
    return relay::print(module, {.types = options.types, .metadata = false});
  });
  relay::PassContext context{.opt_level = static_cast<int>(options.opt_level),
                             .disabled = passes_named(options.disabled, relay::find_pass),
                             .instruments = instruments.list()};
  if (options.target) context.target = *options.target;
  std::vector<relay::PassId> named = passes_named(options.names, relay::find_pass);
  relay::Module module = relay::parse_module(text, options.file);
  try {
    module = relay::run_passes(module, options.pipeline ? relay::inference_pipeline() : named, context);
  } catch (const PlacedError& e) {
    // A place in an import has no line in this text.
    throw Error(e.span().source == options.file ? caret_message(e.span(), text, e.message()) : e.what());
  }
  fmt::print("{}", relay::print(module, printing));
  instruments.report();
}

void opt_tensor_programs(const std::string& text, const OptOptions& options) {
  for (auto [flag, given] : {std::pair("--types", options.types), {"--no-metadata", options.no_metadata}})
    if (given) fail("tune opt: {} is for Relay; {} is a tensor program", flag, options.file);
  Instruments<tir::Pass, tir::Func> instruments(options, "#",
                                                [](const tir::Func& func) { return tir::print(func); });
  tir::PassContext context{.instruments = instruments.list()};
  if (options.target) context.target = *options.target;
  std::vector<tir::PassId> disabled = passes_named(options.disabled, tir::find_pass),
                           sequence = passes_named(options.names, tir::find_pass);
  if (options.pipeline) sequence.assign(tir::lowering_pipeline().begin(), tir::lowering_pipeline().end());
  // Relay's passes know what is disabled by their context; those of tensor programs have no such list.
  std::erase_if(sequence, [&](tir::PassId id) {
    return std::find(disabled.begin(), disabled.end(), id) != disabled.end();
  });
  for (tir::Func func : tir::parse_funcs(text, options.file)) {
    // The text is a person's: it is checked before passes that count on it.
    tir::verify(func, tir::level_of(func));
    if (options.schedule) {
      tir::verify(func);
      func = schedule::replay(schedule::default_trace(func, context.target), func);
    }
    fmt::print("{}", tir::print(tir::run_passes(func, sequence, context)));
  }
  instruments.report();
}

}  // namespace

int opt_command(Flags& flags) {
  OptOptions options;
  std::string target;
  bool list = false;
  flags.add("FILE", options.file, "Relay or tensor programs, as text; /dev/stdin for the standard input");
  flags.add("--passes LIST", options.names, "names of passes, with commas between, in order");
  flags.add("--pipeline", options.pipeline,
            "run the passes of an inference build; of tensor programs, those to vectors");
  flags.add("--schedule", options.schedule, "tensor programs: by the default schedule for the target first");
  flags.add("--list", list, "list the passes and exit");
  flags.add("--disable LIST", options.disabled, "names of passes to leave out");
  flags.add("--opt-level", options.opt_level, 0, 4, "leave out passes of a higher level");
  flags.add("--target TARGET", target, "target text, for layouts and schedules, as in cpu:vector=512");
  flags.add("--types", options.types, "print the type of every expression");
  flags.add("--no-metadata", options.no_metadata, "leave out the values of large constants");
  flags.add("--print-before-all", options.before, "print the program before each pass, to stderr");
  flags.add("--print-after-all", options.after, "print the program after each pass, to stderr");
  flags.add("--timing", options.timing, "print the time each pass took, to stderr");
  flags.exclude("--passes", "--pipeline");
  if (!flags.parse()) return kSuccess;
  if (list) {
    list_passes();
    return kSuccess;
  }
  if (options.file.empty()) fail("tune opt: give a FILE of Relay or tensor programs; see tune opt --help");
  if (!target.empty()) options.target = parse_target_text(target);
  std::string text = read_file(options.file);
  is_tensor_program(text) ? opt_tensor_programs(text, options) : opt_relay(text, options);
  return kSuccess;
}

}  // namespace lathe::cli
