// Runs an ONNX conformance suite (folders of model.onnx and test_data_set_<i> with input_<i>.pb,
// output_<i>.pb):
//   lathe-conformance [--suite DIR] [--only SUBSTRING] [--json] [--list] [--open] [--interpret]
//                     [--at-least N]
// With --open the sizes of all inputs stay open; with --interpret the interpreter of the language runs the
// models.
// Each case compiles and runs in a child process of its own with a time limit, so that one case can neither
// stop nor poison another. Passed: all outputs within rtol 1e-3, atol 1e-5 of the expected ones; bfloat16
// within one step, since the suite's values are cut off where ONNX has since said "nearest even". Exit code 0
// when none failed, and at least N passed.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/codegen/host_target.h"
#include "core/frontends/onnx.h"
#include "core/relay/interpret/interpreter.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tuner/final_build.h"
#include "tuner/optimize.h"

namespace lathe {
namespace {
namespace fs = std::filesystem;

constexpr const char* kDebianSuite = "/usr/share/libonnx-testdata/data";
constexpr unsigned kSecondsACase = 60;

enum class Verdict { kPassed, kFailed, kUnsupported };
constexpr const char* kVerdicts[] = {"passed", "failed", "unsupported"};

struct Result {
  Verdict verdict = Verdict::kFailed;
  std::string detail;
};

struct Options {
  std::string suite = kDebianSuite, only;
  bool json = false, list = false;
  bool open = false, interpret = false;
  int at_least = 0;
};

/// Nothing when every element is within tolerance, else what differs first.
std::string difference(const Tensor& ours, const Tensor& expected) {
  if (ours.shape() != expected.shape())
    return fmt::format("shape {}, expected {}", shape_text(ours.shape()), shape_text(expected.shape()));
  if (ours.dtype() != expected.dtype())
    return fmt::format("{}, expected {}", to_string(ours.dtype()), to_string(expected.dtype()));
  double relative = expected.dtype() == kBFloat16 ? 1.0 / 128 : 1e-3;
  for (int64_t i = 0; i < ours.size(); ++i) {
    double x = ours.value(i), y = expected.value(i);
    // Equal first: that covers infinities, whose difference is no number.
    bool same = x == y || (std::isnan(x) && std::isnan(y)) ||
                (std::isfinite(y) && std::fabs(x - y) <= 1e-5 + relative * std::fabs(y));
    if (!same) return fmt::format("element {} is {}, expected {}", i, x, y);
  }
  return "";
}

/// The suite stores bfloat16 as the bits, in uint16.
Tensor as_declared(const Tensor& tensor, DataType dtype) {
  if (dtype != kBFloat16 || tensor.dtype() != kUInt16) return tensor;
  Tensor bits(tensor.shape(), kBFloat16);
  std::copy_n(static_cast<const char*>(tensor.data()), tensor.bytes(), static_cast<char*>(bits.data()));
  return bits;
}

/// What a model is given: of a sequence each item, by its own name.
struct Inputs {
  std::vector<onnx::ValueInfo> declared;
  std::vector<Tensor> tensors;
  std::set<std::string> empty;  // sequences and optionals that hold nothing
};

Inputs load_inputs(const fs::path& model, const fs::path& data) {
  Inputs inputs;
  std::vector<onnx::ValueInfo> declared = onnx::declared_inputs(model.string());
  for (size_t i = 0; i < declared.size(); ++i) {
    const fs::path path = data / fmt::format("input_{}.pb", i);
    if (!fs::exists(path)) break;
    std::vector<Tensor> items = onnx::load_value(path.string(), declared[i]);
    if (items.empty()) inputs.empty.insert(declared[i].name);
    for (size_t k = 0; k < items.size(); ++k) {
      onnx::ValueInfo item = declared[i];
      if (item.sequence) item.name += fmt::format(".{}", k), item.shape = items[k].shape();
      inputs.declared.push_back(item);
      inputs.tensors.push_back(as_declared(items[k], item.dtype));
    }
  }
  return inputs;
}

/// The items of a sequence side by side along a new first axis, as is where a run tells how many there are.
Tensor stacked(const std::vector<Tensor>& items) {
  std::vector<int64_t> shape = items[0].shape();
  shape.insert(shape.begin(), static_cast<int64_t>(items.size()));
  Tensor all(shape, items[0].dtype());
  auto* next = static_cast<char*>(all.data());
  for (const Tensor& item : items)
    next = std::copy_n(static_cast<const char*>(item.data()), item.bytes(), next);
  return all;
}

/// By output: what is expected, of a sequence each item.
std::vector<std::vector<Tensor>> load_outputs(const fs::path& model, const fs::path& data) {
  std::vector<std::vector<Tensor>> outputs;
  std::vector<onnx::ValueInfo> declared = onnx::declared_outputs(model.string());
  for (size_t i = 0; i < declared.size(); ++i) {
    const fs::path path = data / fmt::format("output_{}.pb", i);
    if (!fs::exists(path)) break;
    outputs.push_back(onnx::load_value(path.string(), declared[i]));
  }
  return outputs;
}

/// How many of the inputs a model is specialised to: those that only state shapes or indices, where it cannot
/// be compiled otherwise, or all.
enum class Known : uint8_t { kNone, kAllButTheFirst, kAll };

onnx::ImportedModel import_case(const std::string& path, const Inputs& given, bool open, Known known) {
  const auto& [declared, inputs, empty] = given;
  onnx::ImportOptions options{.empty = empty, .forget_sizes = open};
  if (open) options.keeps_open = [](const std::string&) { return true; };
  for (size_t i = 0; i < declared.size() && i < inputs.size(); ++i) {
    // Some cases give a tensor of another rank than they declare, where its type alone matters.
    if (declared[i].shape.size() != inputs[i].shape().size() && !declared[i].sequence)
      options.constants[declared[i].name] = inputs[i];
    else if (!open || declared[i].sequence)
      options.shapes[declared[i].name] = inputs[i].shape();
    if (known == Known::kAll || (known == Known::kAllButTheFirst && i > 0))
      options.constants[declared[i].name] = inputs[i];
  }
  return onnx::import_file(path, options);
}

std::vector<Tensor> run_compiled(const onnx::ImportedModel& model, const Inputs& given) {
  static const Target target = codegen::resolve_target("cpu");
  auto module = runtime::Module::from_image(
      tuner::final_build(tuner::optimize(model.module, target), target, tuner::default_schedules(target)));
  runtime::Executor executor(module, runtime::serial_parallel());
  for (size_t i = 0; i < given.declared.size(); ++i)
    for (size_t port = 0; port < model.inputs.size(); ++port)
      if (model.inputs[port].name == given.declared[i].name) executor.set_input(port, given.tensors[i]);
  executor.run();
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < executor.plan().outputs.size(); ++i) outputs.push_back(executor.output(i));
  return outputs;
}

/// Tuples, as sequences are, taken apart.
void append_tensors(const relay::Value& value, std::vector<Tensor>& tensors) {
  if (const auto* tensor = value.as<relay::TensorValue>()) return tensors.push_back(tensor->tensor);
  for (const relay::Value& item : value.as<relay::TupleValue>()->items) append_tensors(item, tensors);
}

std::vector<Tensor> run_interpreted(const onnx::ImportedModel& model, const Inputs& given) {
  std::vector<relay::Value> args;
  for (const onnx::ValueInfo& input : model.inputs)
    for (size_t i = 0; i < given.declared.size(); ++i)
      if (input.name == given.declared[i].name) args.push_back(relay::tensor_value(given.tensors[i]));
  std::vector<Tensor> outputs;
  append_tensors(relay::Interpreter(model.module).call("main", args), outputs);
  return outputs;
}

std::string run_data_set(const fs::path& model, const fs::path& data, const Options& how, Known known) {
  const Inputs given = load_inputs(model, data);
  const onnx::ImportedModel imported = import_case(model.string(), given, how.open, known);
  const std::vector<Tensor> outputs =
      how.interpret ? run_interpreted(imported, given) : run_compiled(imported, given);
  size_t i = 0;
  for (std::vector<Tensor> expected : load_outputs(model, data)) {
    if (i < outputs.size() && !expected.empty() &&
        outputs[i].shape().size() == expected[0].shape().size() + 1)
      expected = {stacked(expected)};
    for (const Tensor& each : expected) {
      if (i >= outputs.size()) return fmt::format("output {} is missing", i);
      std::string wrong = difference(outputs[i], as_declared(each, outputs[i].dtype()));
      if (!wrong.empty()) return fmt::format("output {}: {}", i, wrong);
      ++i;
    }
  }
  return "";
}

bool gives_sequences(const fs::path& model) {
  const std::vector<onnx::ValueInfo> outputs = onnx::declared_outputs(model.string());
  return std::any_of(outputs.begin(), outputs.end(), [](const auto& output) { return output.sequence; });
}

/// Inputs become constants where the model asks for that.
std::string run_data_set(const fs::path& model, const fs::path& data, const Options& how) {
  for (Known known : {Known::kNone, Known::kAllButTheFirst}) try {
      return run_data_set(model, data, how, known);
    } catch (const Error& e) {
      const std::string text = e.what();
      const bool asks = text.find("must be known when the model is compiled") != std::string::npos ||
                        text.find("known only at run time") != std::string::npos ||
                        // Items of a sequence whose length a run tells have one shape.
                        (gives_sequences(model) && text.find("which does not hold for") != std::string::npos);
      if (!asks && known == Known::kNone) throw;
    }
  return run_data_set(model, data, how, Known::kAll);
}

Result run_case(const fs::path& folder, const Options& how) {
  try {
    for (int set = 0; fs::exists(folder / fmt::format("test_data_set_{}", set)); ++set) {
      std::string wrong =
          run_data_set(folder / "model.onnx", folder / fmt::format("test_data_set_{}", set), how);
      if (!wrong.empty()) return {Verdict::kFailed, wrong};
    }
    return {Verdict::kPassed, ""};
  } catch (const Error& e) {
    std::string text = e.what();
    // What Lathe says it cannot do, by the words it says it with; any other error is a failure.
    for (const char* sign : {"unsupported", "not supported", "must be known when", "is not a tensor",
                             "not a tensor file", "only the last two", "not take yet", "stay open",
                             "cannot tell", "no input tells", "has no meaning as"})
      if (text.find(sign) != std::string::npos) return {Verdict::kUnsupported, text};
    return {Verdict::kFailed, text};
  }
}

/// run_case in a child; a crash or a time-out is a failure of the case alone.
Result run_isolated(const fs::path& folder, const Options& how) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    // Its signal ends the child, which the parent sees as a failure.
    alarm(kSecondsACase);
    Result result = run_case(folder, how);
    std::string text = fmt::format("{}{}", static_cast<int>(result.verdict), result.detail);
    [[maybe_unused]] ssize_t written = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  // Or reading would never end: this end is the child's.
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    return {Verdict::kFailed, fmt::format("ended by signal {}", strsignal(WTERMSIG(status)))};
  if (text.empty()) return {Verdict::kFailed, fmt::format("exit code {}", WEXITSTATUS(status))};
  return {static_cast<Verdict>(text[0] - '0'), text.substr(1)};
}

/// The operator a case is about: that of its model's last node, which the suites name the folder after.
std::string family_of(const std::string& name) {
  std::string rest = name.starts_with("test_") ? name.substr(5) : name;
  return rest.substr(0, rest.find('_'));
}

std::vector<fs::path> find_cases(const Options& options) {
  std::vector<fs::path> cases;
  if (!fs::is_directory(options.suite))
    fail("no conformance suite at {}; give one with --suite", options.suite);
  for (const auto& entry : fs::recursive_directory_iterator(options.suite))
    if (entry.path().filename() == "model.onnx" &&
        fs::exists(entry.path().parent_path() / "test_data_set_0") &&
        entry.path().string().find(options.only) != std::string::npos)
      cases.push_back(entry.path().parent_path());
  std::sort(cases.begin(), cases.end());
  if (cases.empty()) fail("no case in {} matches `{}`", options.suite, options.only);
  return cases;
}

int count(std::string_view text) {
  int number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size() || number < 0)
    fail("--at-least {}: must be a number of cases", text);
  return number;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--json")
      options.json = true;
    else if (flag == "--list")
      options.list = true;
    else if (flag == "--open")
      options.open = true;
    else if (flag == "--interpret")
      options.interpret = true;
    else if (flag == "--suite" && i + 1 < argc)
      options.suite = argv[++i];
    else if (flag == "--only" && i + 1 < argc)
      options.only = argv[++i];
    else if (flag == "--at-least" && i + 1 < argc)
      options.at_least = count(argv[++i]);
    else
      fail(
          "unknown option {}; usage: conformance [--suite DIR] [--only SUBSTRING] [--json] [--list] [--open] "
          "[--interpret] [--at-least N]",
          flag);
  }
  return options;
}

int conformance(const Options& options) {
  std::vector<fs::path> cases = find_cases(options);
  std::map<std::string, std::array<int, 3>> by_operator;
  std::array<int, 3> totals{};
  bool terminal = isatty(STDERR_FILENO);
  for (size_t i = 0; i < cases.size(); ++i) {
    std::string name = cases[i].filename().string();
    Result result = run_isolated(cases[i], options);
    ++totals[static_cast<size_t>(result.verdict)];
    ++by_operator[family_of(name)][static_cast<size_t>(result.verdict)];
    if (options.list || (result.verdict == Verdict::kFailed && !options.json))
      std::cerr << fmt::format("{} {}: {}\n", kVerdicts[static_cast<int>(result.verdict)], name,
                               result.detail);
    if (terminal)
      std::cerr << fmt::format("\r{}/{} passed {} failed {} unsupported {}  ", i + 1, cases.size(), totals[0],
                               totals[1], totals[2]);
  }
  if (terminal) std::cerr << "\r\n";
  if (options.json) {
    nlohmann::json json = {
        {"passed", totals[0]}, {"failed", totals[1]}, {"unsupported", totals[2]}, {"total", cases.size()}};
    for (const auto& [name, counts] : by_operator)
      json["by_operator"][name] = {{"passed", counts[0]}, {"failed", counts[1]}, {"unsupported", counts[2]}};
    std::cout << json.dump() << "\n";
  } else {
    std::cout << fmt::format("{:<28} {:>7} {:>7} {:>12}\n", "operator", "passed", "failed", "unsupported");
    for (const auto& [name, counts] : by_operator)
      std::cout << fmt::format("{:<28} {:>7} {:>7} {:>12}\n", name, counts[0], counts[1], counts[2]);
    std::cout << fmt::format("{:<28} {:>7} {:>7} {:>12}\n", "all", totals[0], totals[1], totals[2]);
  }
  if (totals[0] < options.at_least)
    std::cerr << fmt::format("{} cases passed, fewer than {}\n", totals[0], options.at_least);
  return totals[1] == 0 && totals[0] >= options.at_least ? 0 : 1;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  try {
    return lathe::conformance(lathe::parse(argc, argv));
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << "\n";
    return 2;
  }
}
