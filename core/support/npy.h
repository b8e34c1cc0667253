// NumPy .npy files whose data is read when it is known to be wanted; core/support/tensor.h has the others.
#pragma once

#include <string>
#include <vector>

#include "core/support/tensor.h"

namespace lathe {

/// Of which the header alone has been read. Throws Error with the path for a malformed file, for one that is
/// longer or shorter than its header says, and for what is no regular file.
class NpyFile {
 public:
  explicit NpyFile(std::string path);
  const std::vector<int64_t>& shape() const { return shape_; }
  DataType dtype() const { return dtype_; }
  Tensor read() const;

 private:
  std::string path_;
  std::vector<int64_t> shape_;
  DataType dtype_;
  int64_t data_begin_ = 0;
};

}  // namespace lathe
