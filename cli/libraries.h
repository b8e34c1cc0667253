// Shared libraries given on the command line, for what models call in them: --library FILE.so.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "core/runtime/executor.h"

namespace lathe::cli {

/// Declares --library, which may be given once for each library.
void add_library_flag(Flags& flags, std::vector<std::string>& files);

/// By name.
using LibraryFunctions = std::map<std::string, runtime::LibraryFunction>;

/// Loads the libraries, which stay until the process ends, and reads the tables that they export as
/// `lathe_functions` (lathe.h): nothing else of them can be called. Throws Error for a file that the system
/// loader refuses or that has no such table, and for a name that is given twice.
LibraryFunctions load_libraries(const std::vector<std::string>& files);

/// The function of the name. Throws Error that says how to give it.
runtime::LibraryFunction function_of(const LibraryFunctions& functions, const std::string& name);

/// Gives an executor what its module calls. Throws as function_of().
void give_functions(runtime::Executor& executor, const LibraryFunctions& functions);

}  // namespace lathe::cli
