#include "core/support/working_folder.h"

#include <filesystem>
#include <system_error>

#include "core/support/error.h"

namespace lathe {

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (error)
    fail("cannot find {}: the folder that this was started in cannot be told ({}); it may have been removed",
         path, error.message());
  return whole.string();
}

}  // namespace lathe
