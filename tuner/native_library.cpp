#include "tuner/native_library.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <set>

#include "core/codegen/host_target.h"
#include "core/codegen/library.h"
#include "core/runtime/plan_dims.h"
#include "core/support/file.h"
#include "core/support/printable.h"

namespace lathe::tuner {
namespace {

namespace fs = std::filesystem;

/// What a C identifier can have of a name; behind a prefix, so that it may begin with a digit.
std::string identifier(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

/// One for each name, all different, and other than those made of them: the count ("inputs") and what comes
/// with each ("input_x_shape").
std::vector<std::string> identifiers(const std::string& kind, const std::vector<std::string>& names,
                                     const std::string& with_each) {
  std::set<std::string> taken{kind + "s"};
  std::vector<std::string> found;
  for (const std::string& each : names) {
    std::string plain = identifier(each);
    if (!plain.starts_with(kind)) plain = fmt::format("{}_{}", kind, plain);
    std::string name = plain;
    for (int next = 1; taken.count(name) || taken.count(name + with_each); ++next)
      name = fmt::format("{}_{}", plain, next);
    taken.insert({name, name + with_each});
    found.push_back(name);
  }
  return found;
}

std::vector<std::string> port_identifiers(const std::string& kind, const std::vector<runtime::Port>& ports) {
  std::vector<std::string> names;
  for (const runtime::Port& port : ports) names.push_back(port.name);
  return identifiers(kind, names, "_shape");
}

/// A C string of any bytes.
std::string c_string(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text)
    quoted += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'
                  ? std::string(1, c)
                  : fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  return quoted + "\"";
}

/// One call that sets all library functions, so that the C compiler finds which ones are missing.
std::string set_functions(const std::string& name, const std::vector<std::string>& functions) {
  if (functions.empty()) return "";
  const std::vector<std::string> params = identifiers("function", functions, "_data");
  std::string list, body;
  for (size_t i = 0; i < functions.size(); ++i) {
    list += fmt::format(", lathe_function {0}, void* {0}_data", params[i]);
    body += fmt::format(
        "  if (status == LATHE_OK)\n    status = lathe_executor_set_function(executor, {0}, {1}, {1}_data, "
        "error);\n",
        c_string(functions[i]), params[i]);
  }
  return fmt::format(
      "/* Gives the library functions that the model calls, each with what it is handed, before a run. */\n"
      "static inline lathe_status {0}_set_functions(lathe_executor* executor{1}, lathe_error* error) {{\n"
      "  lathe_status status = LATHE_OK;\n{2}  return status;\n}}\n\n",
      name, list, body);
}

/// What a model's author wrote, as a part of a comment of one line that it must neither end nor begin.
std::string in_comment(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (!safe.empty() && (safe.back() == '*' || safe.back() == '/') && (c == '*' || c == '/')) safe += ' ';
    safe += c == '\n' ? ' ' : c;
  }
  return printable(safe);
}

const char* c_type(DataType dtype) {
  if (dtype == kFloat32) return "float";
  if (dtype == kFloat64) return "double";
  const bool is_signed = dtype.code == TypeCode::kInt;
  switch (dtype.bytes()) {
    case 1:
      return is_signed ? "int8_t" : "uint8_t";  // booleans, too
    case 2:
      return is_signed ? "int16_t" : "uint16_t";  // floats of 16 bits, too
    case 4:
      return is_signed ? "int32_t" : "uint32_t";
    default:
      return is_signed ? "int64_t" : "uint64_t";
  }
}

const runtime::Value& value_of(const runtime::Plan& plan, const runtime::Port& port) {
  return plan.values[static_cast<size_t>(port.value)];
}

bool is_open(const runtime::Value& value) {
  return std::any_of(value.shape.begin(), value.shape.end(), runtime::is_open);
}

}  // namespace

std::string native_header(const std::string& name, const runtime::Plan& plan,
                          const std::vector<std::string>& functions) {
  std::string guard = name;
  for (char& c : guard) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string text = fmt::format(
      "/* {0}.h: the model `{1}` in lib{0}.so, compiled for {2}.\n"
      " * Link with -l{0} -llathe-runtime -lm. lathe.h says what the functions do. */\n"
      "#ifndef {3}_H\n#define {3}_H\n\n#include <lathe.h>\n\n"
      "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n"
      "extern const lathe_library {0}_library;\n\n",
      name, in_comment(plan.model), in_comment(plan.target), guard);
  const std::vector<std::string> inputs = port_identifiers("input", plan.inputs),
                                 outputs = port_identifiers("output", plan.outputs);
  auto ports = [&](std::string_view kind, const std::vector<runtime::Port>& of,
                   const std::vector<std::string>& names) {
    text += fmt::format("/* The {}s by number, and how many there are. */\nenum {{\n", kind);
    for (size_t i = 0; i < of.size(); ++i) {
      const runtime::Value& value = value_of(plan, of[i]);
      text += fmt::format("  {}_{} = {}, /* {} {} */\n", name, names[i], i, to_string(value.dtype),
                          in_comment(open_shape_text(plan, value.shape)));
    }
    text += fmt::format("  {}_{}s = {}\n}};\n\n", name, kind, of.size());
  };
  ports("input", plan.inputs, inputs);
  ports("output", plan.outputs, outputs);
  text += fmt::format(
      "/* The module, for executors; lathe_module_close gives it up. */\n"
      "static inline lathe_status {0}_open(lathe_module** module, lathe_error* error) {{\n"
      "  return lathe_module_link(&{0}_library, module, error);\n}}\n\n",
      name);
  text += set_functions(name, functions);

  // One call for a run. Outputs of open sizes stay in the executor's memory.
  std::string params, body;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const runtime::Value& value = value_of(plan, plan.inputs[i]);
    const std::string& data = inputs[i];
    params += fmt::format(", const {}* {}", c_type(value.dtype), data);
    if (is_open(value)) {
      params += fmt::format(", const int64_t {}_shape[{}]", data, value.shape.size());
      body += fmt::format(
          "  if (status == LATHE_OK)\n    status = lathe_executor_set_shaped_input(executor, {0}, {1}, "
          "{1}_shape, "
          "{2}, error);\n",
          i, data, value.shape.size());
    } else {
      body += fmt::format(
          "  if (status == LATHE_OK) status = lathe_executor_set_input(executor, {}, {}, {}, error);\n", i,
          data, value.bytes());
    }
  }
  bool all_known = true;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const runtime::Value& value = value_of(plan, plan.outputs[i]);
    if (is_open(value)) {
      all_known = false;
      continue;
    }
    const std::string& data = outputs[i];
    params += fmt::format(", {}* {}", c_type(value.dtype), data);
    body += fmt::format(
        "  if (status == LATHE_OK) status = lathe_executor_set_output(executor, {}, {}, {}, error);\n", i,
        data, value.bytes());
  }
  text += fmt::format(
      "/* Binds the caller's memory and runs.{} Memory at multiples of LATHE_ALIGNMENT is used in place. */\n"
      "static inline lathe_status {}_run(lathe_executor* executor{}, lathe_error* error) {{\n"
      "  lathe_status status = LATHE_OK;\n{}"
      "  return status == LATHE_OK ? lathe_executor_run(executor, error) : status;\n}}\n\n"
      "#ifdef __cplusplus\n}}\n#endif\n\n#endif\n",
      all_known ? "" : " lathe_executor_output gives the outputs of open sizes.", name, params, body);
  return text;
}

std::string write_native_library(const std::string& path, const runtime::ModuleImage& image) {
  const fs::path file(path);
  std::string stem = file.stem().string();
  if (file.extension() != ".so" || stem.empty()) fail("a shared library is called FILE.so, not {}", path);
  if (stem.starts_with("lib") && stem.size() > 3) stem = stem.substr(3);
  std::string name = identifier(stem);
  if (std::isdigit(static_cast<unsigned char>(name[0]))) name = "model_" + name;

  codegen::LibraryParts parts{.plan = runtime::plan_text(image.plan)};
  std::set<std::string> symbols;
  auto add_kernels = [&](const runtime::Plan& plan) {
    for (const runtime::Step& step : plan.steps) symbols.insert(step.kernel);
  };
  add_kernels(image.plan);
  if (image.program) {
    parts.program = runtime::program_json(*image.program);
    for (const runtime::Plan& plan : image.program->plans) add_kernels(plan);
    symbols.insert(runtime::kNativeSymbol);
  }
  parts.symbols.assign(symbols.begin(), symbols.end());
  parts.constants.resize(static_cast<size_t>(image.plan.constant_bytes));
  for (const runtime::ModuleImage::Constant& constant : image.constants)
    if (constant.data.bytes() > 0)
      std::memcpy(parts.constants.data() + constant.at, constant.data.data(),
                  static_cast<size_t>(constant.data.bytes()));
  for (const auto& object : image.objects) parts.objects.emplace_back(*object);
  write_file(path, codegen::link_library(name + "_library", file.filename().string(), parts,
                                         codegen::resolve_target(image.plan.target)));
  const std::string header = (file.parent_path() / (stem + ".h")).string();
  write_file(header,
             native_header(name, image.plan,
                           image.program ? image.program->library_functions : std::vector<std::string>()));
  return header;
}

}  // namespace lathe::tuner
