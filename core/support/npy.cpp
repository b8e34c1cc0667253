// The NumPy .npy format, versions 1 to 3: magic, header length, a Python dict literal, the raw data.
#include <cstring>
#include <regex>

#include "core/support/tensor.h"
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

Tensor load_npy(const std::string& path) {
  std::string bytes = read_file(path);
  auto malformed = [&](const char* why) { fail("{}: not a .npy file: {}", path, why); };
  // numpy.lib.format: six bytes of magic, two of version, then the header's length, little-endian.
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY") != 0) malformed("no magic number");
  // Version 1 has two bytes for the length of the header, later ones four.
  size_t length_size = bytes[6] == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, length_size);
  size_t begin = 8 + length_size + length;
  // Far beyond any header; std::regex takes a stack frame for each character of it.
  constexpr uint32_t kMostHeader = 4096;
  if (length > kMostHeader) malformed("the header is too long");
  if (begin > bytes.size()) malformed("the header is cut off");
  std::string header = bytes.substr(8 + length_size, length);
  std::smatch match;
  // A literal of Python's with three fixed keys, in any order; what NumPy writes is all that is read.
  if (!std::regex_search(header, match, std::regex("'descr': *'([^']*)'"))) malformed("no descr");
  std::string descr = match[1];
  if (!std::regex_search(header, match, std::regex("'fortran_order': *False")))
    malformed("column-major order");
  if (!std::regex_search(header, match, std::regex("'shape': *\\(([0-9, ]*)\\)"))) malformed("no shape");
  std::vector<int64_t> shape;
  int64_t size = 1;
  for (const std::string& item : split_text(match[1].str(), ',')) {
    if (item.find_first_not_of(' ') == std::string::npos) continue;
    // As many digits as std::stoll surely takes.
    if (item.size() > 18) malformed("a dimension too large");
    shape.push_back(std::stoll(item));
    // Before any memory is asked for: the header is a stranger's word.
    if (__builtin_mul_overflow(size, shape.back(), &size) || size > (int64_t{1} << 48))
      malformed("a dimension too large");
  }
  for (const Descr& known : kDescrs) {
    if (descr != known.text) continue;
    // Exactly: trailing bytes mean that the header was misread.
    if (static_cast<size_t>(size * known.dtype.bytes()) != bytes.size() - begin)
      malformed("the data has another size than the shape");
    Tensor tensor(shape, known.dtype);
    std::memcpy(tensor.data(), bytes.data() + begin, static_cast<size_t>(tensor.bytes()));
    return tensor;
  }
  fail("{}: element type {} is not supported", path, descr);
}

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
