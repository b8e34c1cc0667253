#include "cli/libraries.h"

#include <dlfcn.h>

#include "core/support/error.h"

namespace lathe::cli {
namespace {

/// Of a library that stays loaded.
const lathe_named_function* table_of(const std::string& file) {
  // Without a folder the loader would look where the system's libraries are.
  const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail("--library {}: {}", file, dlerror());
  const void* table = dlsym(library, "lathe_functions");
  if (!table) fail("--library {}: it exports no table `lathe_functions`, as lathe.h has it", file);
  return static_cast<const lathe_named_function*>(table);
}

}  // namespace

void add_library_flag(Flags& flags, std::vector<std::string>& files) {
  flags.add("--library FILE", files,
            "a shared library with functions that the model calls, in its table lathe_functions");
  // Loading it runs its code.
  flags.keep_to_command_line("--library");
}

LibraryFunctions load_libraries(const std::vector<std::string>& files) {
  LibraryFunctions functions;
  for (const std::string& file : files)
    for (const lathe_named_function* row = table_of(file); row->name; ++row) {
      if (!row->function) fail("--library {}: its function `{}` is NULL", file, row->name);
      if (!functions.try_emplace(row->name, runtime::LibraryFunction{row->function, row->user_data}).second)
        fail("--library {}: function `{}` is given twice", file, row->name);
    }
  return functions;
}

runtime::LibraryFunction function_of(const LibraryFunctions& functions, const std::string& name) {
  const auto found = functions.find(name);
  if (found != functions.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, function] : functions) names.push_back(known);
  fail("the model calls library function `{}`; give the shared library that has it by --library FILE{}", name,
       did_you_mean(name, names));
}

void give_functions(runtime::Executor& executor, const LibraryFunctions& functions) {
  for (const std::string& name : executor.library_functions())
    executor.set_function(name, function_of(functions, name));
}

}  // namespace lathe::cli
