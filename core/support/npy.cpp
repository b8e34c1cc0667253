// The NumPy .npy format, versions 1 to 3: magic, header length, a Python dict literal, the raw data.
#include "core/support/npy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>

#include "core/support/file.h"
#include "core/support/text.h"

namespace lathe {
namespace {
struct Descr {
  const char* text;
  DataType dtype;
};
constexpr Descr kDescrs[] = {{"<f4", kFloat32}, {"<f8", kFloat64}, {"<f2", kFloat16}, {"|i1", kInt8},
                             {"<i2", kInt16},   {"<i4", kInt32},   {"<i8", kInt64},   {"|u1", kUInt8},
                             {"<u2", kUInt16},  {"<u4", kUInt32},  {"<u8", kUInt64},  {"|b1", kBool}};
}  // namespace

NpyFile::NpyFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const auto status = std::filesystem::status(path_, error);
  if (error) fail("cannot read {}: {}", path_, error.message());
  // A device has no end, and of a pipe nobody may write to the other one.
  if (!std::filesystem::is_regular_file(status)) fail("cannot read {}: it is not a regular file", path_);
  std::ifstream file(path_, std::ios::binary);
  if (!file) fail("cannot read {}: {}", path_, std::strerror(errno));
  auto malformed = [&](const char* why) { fail("{}: not a .npy file: {}", path_, why); };
  // numpy.lib.format: six bytes of magic, two of version, then the header's length, little-endian.
  std::string start(12, '\0');
  if (!file.read(start.data(), 12) || start.compare(0, 6, "\x93NUMPY") != 0) malformed("no magic number");
  // Version 1 has two bytes for the length of the header, later ones four.
  size_t length_size = start[6] == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, start.data() + 8, length_size);
  data_begin_ = static_cast<int64_t>(8 + length_size + length);
  // Far beyond any header; std::regex takes a stack frame for each character of it.
  constexpr uint32_t kMostHeader = 4096;
  if (length > kMostHeader) malformed("the header is too long");
  std::string header(length, '\0');
  file.seekg(static_cast<std::streamoff>(8 + length_size));
  if (!file.read(header.data(), length)) malformed("the header is cut off");
  std::smatch match;
  // A literal of Python's with three fixed keys, in any order; what NumPy writes is all that is read.
  if (!std::regex_search(header, match, std::regex("'descr': *'([^']*)'"))) malformed("no descr");
  std::string descr = match[1];
  if (!std::regex_search(header, match, std::regex("'fortran_order': *False")))
    malformed("column-major order");
  if (!std::regex_search(header, match, std::regex("'shape': *\\(([0-9, ]*)\\)"))) malformed("no shape");
  int64_t size = 1;
  for (const std::string& item : split_text(match[1].str(), ',')) {
    if (item.find_first_not_of(' ') == std::string::npos) continue;
    // As many digits as std::stoll surely takes.
    if (item.size() > 18) malformed("a dimension too large");
    shape_.push_back(std::stoll(item));
    // Before any memory is asked for: the header is a stranger's word.
    if (__builtin_mul_overflow(size, shape_.back(), &size) || size > (int64_t{1} << 48))
      malformed("a dimension too large");
  }
  const auto* known = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                                   [&](const Descr& each) { return descr == each.text; });
  if (known == std::end(kDescrs)) fail("{}: element type {} is not supported", path_, descr);
  dtype_ = known->dtype;
  // Exactly: trailing bytes mean that the header was misread.
  const int64_t wanted = size * dtype_.bytes();
  const auto there = static_cast<int64_t>(std::filesystem::file_size(path_, error)) - data_begin_;
  if (error) fail("cannot read {}: {}", path_, error.message());
  if (there != wanted)
    fail("{}: not a .npy file: {} bytes of data, {} {} has {}", path_, there, to_string(dtype_),
         shape_text(shape_), wanted);
}

Tensor NpyFile::read() const {
  Tensor tensor(shape_, dtype_);
  std::ifstream file(path_, std::ios::binary);
  file.seekg(data_begin_);
  // Of another length than a moment ago.
  if (!file.read(static_cast<char*>(tensor.data()), tensor.bytes())) fail("{}: it is being written", path_);
  return tensor;
}

Tensor load_npy(const std::string& path) { return NpyFile(path).read(); }

void save_npy(const std::string& path, const Tensor& tensor) {
  const char* descr = nullptr;
  for (const Descr& known : kDescrs)
    if (known.dtype == tensor.dtype()) descr = known.text;
  if (!descr) fail("{}: NumPy has no element type for {}", path, to_string(tensor.dtype()));
  std::string shape = shape_text(tensor.shape());
  // Python's tuple of one.
  if (tensor.shape().size() == 1) shape.insert(shape.size() - 1, ",");
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  // The data begins at a multiple of 64 bytes: 10 bytes before the header, and a line feed at its end.
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes()));
  write_file(path, bytes);
}

}  // namespace lathe
