// TensorProto -> Tensor: raw, typed, external or sparse data. Sizes are checked before anything is allocated,
// so that a hostile shape costs nothing.
#include <onnx/onnx-data_pb.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/frontends/onnx_converter.h"
#include "core/support/file.h"

namespace lathe::onnx {
namespace {
using Proto = ::onnx::TensorProto;

/// The bytes of external data, confined to the model's folder.
std::string external_bytes(const Proto& proto, const std::string& folder, int64_t wanted) {
  std::string location;
  int64_t offset = 0;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      const std::string& text = entry.value();
      const char* end = text.data() + text.size();
      if (const auto read = std::from_chars(text.data(), end, offset);
          read.ptr != end || read.ec != std::errc())
        fail("tensor `{}`: the offset `{}` of its external data is no number", proto.name(), text);
    }
  }
  // A model from elsewhere must not name the user's other files as its weights. Links are followed: they are
  // of whoever made the folder, as the caches are that keep large files elsewhere.
  const std::filesystem::path relative = std::filesystem::path(location).lexically_normal(),
                              path = std::filesystem::path(folder.empty() ? "." : folder) / relative;
  if (relative.empty() || relative.is_absolute() || *relative.begin() == "..")
    fail("tensor `{}`: external data `{}` lies outside the model's folder", proto.name(), location);
  std::error_code error;
  // Compared with what the shape needs before that much memory is asked for.
  auto size = std::filesystem::file_size(path, error);
  if (error || offset < 0 || wanted > static_cast<int64_t>(size) - offset)
    fail("tensor `{}`: cannot read {} bytes of external data `{}` at {}", proto.name(), wanted, location,
         offset);
  std::ifstream file(path, std::ios::binary);
  std::string bytes(static_cast<size_t>(wanted), '\0');
  if (!file.seekg(offset) || !file.read(bytes.data(), wanted)) fail("cannot read {}", path.string());
  return bytes;
}

template <typename Source>
void copy_values(const Source& source, Tensor& tensor) {
  for (int i = 0; i < source.size(); ++i) {
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(source.Get(0))>>)
      tensor.set(i, source.Get(i));
    else
      tensor.set_integer(i, static_cast<int64_t>(source.Get(i)));
  }
}

/// Copies from the typed field that `proto.data_type()` uses; gives the number of values there.
int64_t typed_values(const Proto& proto, Tensor* tensor) {
  auto from = [&](const auto& source) -> int64_t {
    if (tensor) copy_values(source, *tensor);
    return source.size();
  };
  switch (proto.data_type()) {
    case Proto::FLOAT:
      return from(proto.float_data());
    case Proto::DOUBLE:
      return from(proto.double_data());
    case Proto::INT64:
      return from(proto.int64_data());
    case Proto::UINT32:
    case Proto::UINT64:
      return from(proto.uint64_data());
    case Proto::FLOAT16:
    case Proto::BFLOAT16:  // the bits, in int32
      for (int i = 0; tensor && i < proto.int32_data_size(); ++i)
        static_cast<uint16_t*>(tensor->data())[i] = static_cast<uint16_t>(proto.int32_data(i));
      return proto.int32_data_size();
    // INT32 and all smaller types share one field.
    default:
      return from(proto.int32_data());
  }
}

/// The numbers of 8 bits, of which `exponent` are that: a sign, the exponent, and the rest of the number.
/// With `infinities` the largest exponent stands for these and NaN, else the largest number alone is NaN.
template <int exponent, bool infinities>
double from_float8(uint8_t bits) {
  constexpr int kMantissa = 7 - exponent, kBias = (1 << (exponent - 1)) - 1;
  const int power = bits >> kMantissa & ((1 << exponent) - 1), rest = bits & ((1 << kMantissa) - 1);
  double value = std::ldexp(power ? rest + (1 << kMantissa) : rest, std::max(power, 1) - kBias - kMantissa);
  if (infinities && power == (1 << exponent) - 1) value = rest ? NAN : INFINITY;
  if (!infinities && (bits & 0x7f) == 0x7f) value = NAN;
  return bits & 0x80 ? -value : value;
}

/// Types that tensors here do not have, whose numbers a wider one holds: those of constants. (Their names are
/// younger than this release of ONNX.)
struct Small {
  int32_t type;
  const char* name;
  int bits;
  DataType held;
  double (*number)(uint8_t bits);
};
constexpr Small kSmall[] = {
    {17, "FLOAT8E4M3FN", 8, kFloat32, from_float8<4, false>},
    {19, "FLOAT8E5M2", 8, kFloat32, from_float8<5, true>},
    {21, "UINT4", 4, kUInt8, [](uint8_t bits) -> double { return bits; }},
    {22, "INT4", 4, kInt8, [](uint8_t bits) -> double { return bits < 8 ? bits : bits - 16; }},
};

const Small* small_of(int32_t type) {
  for (const Small& row : kSmall)
    if (row.type == type) return &row;
  return nullptr;
}

/// Throws Error where the shape is out of range for elements of the type.
int64_t bytes_of(const std::string& name, const std::vector<int64_t>& shape, DataType dtype) {
  int64_t bytes = dtype.bytes();
  // Up to a terabyte, so that the product stays far from overflow.
  for (int64_t dim : shape)
    if (dim < 0 || dim > Node::kLargest || __builtin_mul_overflow(bytes, dim, &bytes) ||
        bytes > (int64_t{1} << 40))
      fail("tensor `{}`: shape {} is out of range", name, shape_text(shape));
  return bytes;
}

/// Of numbers of 4 bits the first of two is the low half of a byte.
Tensor unpacked(const Proto& proto, const Small& small, const std::string& folder) {
  std::vector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  const int64_t count = bytes_of(proto.name(), shape, small.held) / small.held.bytes(),
                bytes = (count * small.bits + 7) / 8;
  std::string packed = proto.raw_data();
  if (proto.data_location() == Proto::EXTERNAL)
    packed = external_bytes(proto, folder, bytes);
  else if (!proto.has_raw_data())
    packed.assign(proto.int32_data().begin(), proto.int32_data().end());
  if (static_cast<int64_t>(packed.size()) != bytes)
    fail("tensor `{}`: shape {} of {} needs {} bytes, the data has {}", proto.name(), shape_text(shape),
         small.name, bytes, packed.size());
  Tensor tensor(std::move(shape), small.held);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bit = i * small.bits;
    const auto byte = static_cast<uint8_t>(packed[static_cast<size_t>(bit / 8)]);
    tensor.set(i, small.number(small.bits == 8 ? byte : byte >> bit % 8 & 15));
  }
  return tensor;
}

}  // namespace

const char* small_type(int32_t onnx_type) {
  const Small* small = small_of(onnx_type);
  return small ? small->name : nullptr;
}

DataType dtype_from(int32_t onnx_type) {
  switch (onnx_type) {
    case Proto::FLOAT:
      return kFloat32;
    case Proto::DOUBLE:
      return kFloat64;
    case Proto::FLOAT16:
      return kFloat16;
    case Proto::BFLOAT16:
      return kBFloat16;
    case Proto::INT8:
      return kInt8;
    case Proto::INT16:
      return kInt16;
    case Proto::INT32:
      return kInt32;
    case Proto::INT64:
      return kInt64;
    case Proto::UINT8:
      return kUInt8;
    case Proto::UINT16:
      return kUInt16;
    case Proto::UINT32:
      return kUInt32;
    case Proto::UINT64:
      return kUInt64;
    case Proto::BOOL:
      return kBool;
    default:
      if (const Small* small = small_of(onnx_type)) fail("element type {} is not supported", small->name);
      fail("element type {} is not supported",
           ::onnx::TensorProto_DataType_IsValid(onnx_type)
               ? ::onnx::TensorProto_DataType_Name(static_cast<::onnx::TensorProto_DataType>(onnx_type))
               : std::to_string(onnx_type));
  }
}

Tensor tensor_from(const Proto& proto, const std::string& folder) {
  if (const Small* small = small_of(proto.data_type())) return unpacked(proto, *small, folder);
  DataType dtype = dtype_from(proto.data_type());
  std::vector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  const int64_t bytes = bytes_of(proto.name(), shape, dtype);
  bool external = proto.data_location() == Proto::EXTERNAL;
  if (external || proto.has_raw_data()) {
    std::string outside = external ? external_bytes(proto, folder, bytes) : "";
    const std::string& raw = external ? outside : proto.raw_data();
    if (static_cast<int64_t>(raw.size()) != bytes)
      fail("tensor `{}`: shape {} of {} needs {} bytes, the data has {}", proto.name(), shape_text(shape),
           to_string(dtype), bytes, raw.size());
    Tensor tensor(std::move(shape), dtype);
    std::memcpy(tensor.data(), raw.data(), raw.size());
    return tensor;
  }
  // Counted first: the tensor is allocated when there is as much data.
  if (int64_t given = typed_values(proto, nullptr); given != bytes / dtype.bytes())
    fail("tensor `{}`: shape {} has {} elements, the data {}", proto.name(), shape_text(shape),
         bytes / dtype.bytes(), given);
  Tensor tensor(std::move(shape), dtype);
  typed_values(proto, &tensor);
  return tensor;
}

Tensor tensor_from(const ::onnx::SparseTensorProto& proto, const std::string& folder) {
  const std::string& name = proto.values().name();
  const Tensor values = tensor_from(proto.values(), folder), places = tensor_from(proto.indices(), folder);
  std::vector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  int64_t elements = 1;
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements) || elements > Node::kMostConstant)
      fail("sparse tensor `{}`: shape {} is out of range", name, shape_text(shape));
  const auto rank = static_cast<int64_t>(shape.size()), count = values.size();
  const bool by_axes = places.shape() == std::vector<int64_t>{count, rank};
  if (places.dtype() != kInt64 || values.shape().size() != 1 ||
      (!by_axes && places.shape() != std::vector<int64_t>{count}))
    fail("sparse tensor `{}`: values of shape {} at places of shape {}", name, shape_text(values.shape()),
         shape_text(places.shape()));
  Tensor tensor = zeros(shape, values.dtype());
  const auto size = static_cast<size_t>(values.dtype().bytes());
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = by_axes ? 0 : places.integer(i);
    for (int64_t d = 0; by_axes && d < rank; ++d) {
      const int64_t along = places.integer(i * rank + d), extent = shape[static_cast<size_t>(d)];
      if (along < 0 || along >= extent)
        fail("sparse tensor `{}`: place {} along axis {} of a tensor of shape {}", name, along, d,
             shape_text(shape));
      place = place * extent + along;
    }
    if (place < 0 || place >= elements)
      fail("sparse tensor `{}`: place {} of a tensor of shape {}", name, place, shape_text(shape));
    std::memcpy(static_cast<char*>(tensor.data()) + static_cast<size_t>(place) * size,
                static_cast<const char*>(values.data()) + static_cast<size_t>(i) * size, size);
  }
  return tensor;
}

Tensor load_tensor(const std::string& path) {
  ::onnx::TensorProto proto;
  if (!proto.ParseFromString(read_file(path))) fail("{}: not a tensor file", path);
  return tensor_from(proto, std::filesystem::path(path).parent_path().string());
}

std::vector<Tensor> load_value(const std::string& path, const ValueInfo& declared) {
  const std::string bytes = read_file(path), folder = std::filesystem::path(path).parent_path().string();
  ::onnx::SequenceProto sequence;
  ::onnx::OptionalProto optional;
  if (!declared.sequence && !declared.optional) return {load_tensor(path)};
  if (declared.optional) {
    if (!optional.ParseFromString(bytes)) fail("{}: not an optional", path);
    if (optional.has_tensor_value()) return {tensor_from(optional.tensor_value(), folder)};
    if (!optional.has_sequence_value()) return {};
    sequence = optional.sequence_value();
  } else if (!sequence.ParseFromString(bytes)) {
    fail("{}: not a sequence", path);
  }
  std::vector<Tensor> items;
  for (const auto& tensor : sequence.tensor_values()) items.push_back(tensor_from(tensor, folder));
  return items;
}

}  // namespace lathe::onnx
