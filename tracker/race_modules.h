// Two builds of a model on the tracker's disk, which workers get in pieces to race them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tracker/wire/wire.h"

namespace lathe::tracker {

/// A file, open for as long as this lives, whatever becomes of its name.
class ModuleFile {
 public:
  /// Throws Error for what is no regular file (a link, a pipe), is empty or larger than
  /// defaults::kModuleLimit, or cannot be read.
  explicit ModuleFile(const std::string& path);
  ~ModuleFile();
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;

  /// What it was when it was opened.
  const wire::Blob& blob() const { return blob_; }
  /// At most `length` bytes; none where it has none, or cannot be read.
  std::string read(uint64_t offset, size_t length) const;

 private:
  int descriptor_ = -1;
  wire::Blob blob_;
};

struct RaceModules {
  std::shared_ptr<const ModuleFile> incumbent, challenger;
  wire::Evaluation evaluation;
};

}  // namespace lathe::tracker
