// Values of a running program, and their memory: counted by reference, taken from a pool.
#pragma once

#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "core/runtime/kernel.h"
#include "core/runtime/program/scalar.h"

namespace lathe::runtime {

enum class Kind : uint8_t { kNone, kNumber, kTensor, kTuple, kData, kClosure, kReference };

struct Object;

/// What a register holds, without ownership: whoever copies one retains it, whoever forgets one releases it
/// (Heap). Numbers, constructors and functions without parts are here alone, and own nothing.
struct Datum {
  Kind kind = Kind::kNone;
  uint8_t unused[3] = {};  // native code compares kind and tag as one number
  // kNumber: its DataType; kTensor: the number of its type; kData: of its constructor; kClosure: of its
  // function.
  uint32_t tag = 0;
  union {
    Number number = {.integer = 0};
    Object* object;  // null where there are no parts
  };

  static Datum of(DataType dtype, Number number) {
    Datum datum = of(Kind::kNumber, std::bit_cast<uint32_t>(dtype));
    datum.number = number;
    return datum;
  }
  static Datum of(Kind kind, uint32_t tag, Object* object) {
    Datum datum = of(kind, tag);
    datum.object = object;
    return datum;
  }
  DataType dtype() const { return std::bit_cast<DataType>(tag); }
  bool is_number(DataType dtype) const {
    return kind == Kind::kNumber && tag == std::bit_cast<uint32_t>(dtype);
  }
  bool owns() const { return kind > Kind::kNumber && object; }

 private:
  /// Kind and tag in one store: a value that is copied just after it was made would wait for several.
  static Datum of(Kind kind, uint32_t tag) {
    const uint64_t head = static_cast<uint64_t>(kind) | uint64_t{tag} << 32;
    Datum datum;
    std::memcpy(static_cast<void*>(&datum), &head, sizeof head);
    return datum;
  }
};
static_assert(sizeof(Datum) == 16);

/// What an empty register holds. Copied from here it is read as it was written: at once.
inline constexpr Datum kNothing{};

/// The head of a block of the pool. Behind it stand `count` parts; of a tensor its elements, at a multiple of
/// kAlignment.
struct Object {
  uint32_t references;
  uint32_t inner = 0;  // while cycles are looked for: how many of the references are from other objects
  Kind kind;
  uint8_t size_class;
  uint32_t count;
  Datum* parts() { return reinterpret_cast<Datum*>(this + 1); }
};
static_assert(sizeof(Object) == 16);

/// A tensor that lies elsewhere: in the caller's memory, among constants, or in another tensor.
struct TensorObject {
  Object head;
  void* data;
  Object* base;  // whose memory it is, or null; a part of this object as parts() are
};

/// Who has the memory of the tensor; null: somebody outside, the caller say.
inline Object* memory_of(TensorObject* tensor) {
  const bool own = tensor->data == reinterpret_cast<char*>(tensor) + kAlignment;
  return own ? &tensor->head : tensor->base;
}

struct ReferenceObject {
  Object head;
  Datum value;
  ReferenceObject *before, *after;  // of the heap's list
};

/// Blocks are of so many sizes, each with a list of free ones.
struct SizeClass {
  uint8_t number;
  int64_t bytes;
};
/// The smallest that holds so many bytes.
SizeClass size_class_of(int64_t bytes);

/// Blocks come from free lists by size, so that a loop allocates nothing once it runs. What is released is
/// freed at once, with all that hangs on it, without recursion; but for cycles, which only references make:
/// free_cycles() finds those. For one thread.
class Heap {
 public:
  Heap();
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  static void retain(const Datum& datum) {
    if (datum.owns()) ++datum.object->references;
  }
  void release(const Datum& datum) {
    if (datum.owns() && --datum.object->references == 0) destroy(datum.object);
  }
  /// Frees an object that nobody holds any more, and what only it held.
  void destroy(Object* first);

  /// With parts that the caller fills in at once: it owns what it puts there.
  Object* make(Kind kind, size_t parts);
  /// Elements of its own, not set.
  TensorObject* make_tensor(int64_t bytes);
  /// Of memory elsewhere, of which it holds `base`.
  TensorObject* make_view(void* data, Object* base);
  ReferenceObject* make_reference(const Datum& value);

  /// Frees the cycles that nobody else holds (trial deletion: Lins 1992, from all references at once). Takes
  /// time as all that references hold.
  void free_cycles();
  /// The same when there are twice as many references as were left the last time, and a thousand more: in
  /// all the time that making them took.
  void maybe_free_cycles() {
    if (references_ > limit_) free_cycles();
  }

  /// For native code, which takes blocks itself where there are free ones: the first of each class, which
  /// begins with the address of the next; and used_bytes().
  void** free_blocks() { return free_.data(); }
  int64_t* used_counter() { return &used_; }

  /// Bytes in blocks that are in use, and in all blocks.
  int64_t used_bytes() const { return used_; }
  int64_t held_bytes() const { return held_; }

 private:
  void* take(int64_t bytes, uint8_t& size_class);
  void* fresh(int64_t bytes);
  void append_inner(Object* object, std::vector<Object*>& inner) const;

  std::vector<void*> free_;  // by size class; each block begins with the address of the next
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::vector<std::unique_ptr<void, Free>> memory_;
  char *slab_ = nullptr, *slab_end_ = nullptr;
  ReferenceObject* first_reference_ = nullptr;
  int64_t references_ = 0, limit_ = 1000;
  int64_t used_ = 0, held_ = 0;
};

}  // namespace lathe::runtime
