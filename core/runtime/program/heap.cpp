#include "core/runtime/program/heap.h"

#include <cstdlib>
#include <cstring>
#include <unordered_set>

#include "core/runtime/kernel.h"
#include "core/support/error.h"

namespace lathe::runtime {
namespace {

constexpr int64_t kSlab = 256 << 10;
constexpr int64_t kSmall = 4096;  // the largest that is cut from a slab
constexpr size_t kClasses = 256;

int64_t bytes_of_class(uint8_t number) {
  if (number <= 4) return number * kAlignment;
  const int shift = (number - 5) / 4;
  return static_cast<int64_t>(static_cast<uint64_t>(number - 4 * shift) << shift) * kAlignment;
}

void*& next_free(void* block) { return *static_cast<void**>(block); }

}  // namespace

/// Four sizes an octave from 64 bytes on, all multiples of kAlignment.
SizeClass size_class_of(int64_t bytes) {
  const auto units = static_cast<uint64_t>(std::max<int64_t>(1, (bytes + kAlignment - 1) / kAlignment));
  if (units <= 4) return {static_cast<uint8_t>(units), static_cast<int64_t>(units) * kAlignment};
  // units in (4 * 2^shift, 8 * 2^shift], in quarters of the octave.
  const int shift = std::bit_width(units - 1) - 3;
  const uint64_t quarters = ((units - 1) >> shift) + 1;  // 5 to 8
  return {static_cast<uint8_t>(4 * shift + static_cast<int>(quarters)),
          static_cast<int64_t>(quarters << shift) * kAlignment};
}

Heap::Heap() : free_(kClasses) {}

Heap::~Heap() = default;

void* Heap::fresh(int64_t bytes) {
  if (bytes <= kSmall && slab_end_ - slab_ >= bytes) {
    void* block = slab_;
    slab_ += bytes;
    return block;
  }
  const int64_t size = bytes <= kSmall ? kSlab : bytes;
  void* memory = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
  if (!memory) fail("out of memory: a value takes {} bytes", bytes);
  memory_.emplace_back(memory);
  held_ += size;
  if (bytes <= kSmall) {
    slab_ = static_cast<char*>(memory) + bytes;
    slab_end_ = static_cast<char*>(memory) + kSlab;
  }
  return memory;
}

void* Heap::take(int64_t bytes, uint8_t& size_class) {
  const SizeClass size = size_class_of(bytes);
  size_class = size.number;
  void*& first = free_[size.number];
  void* block = first ? std::exchange(first, next_free(first)) : fresh(size.bytes);
  used_ += size.bytes;
  return block;
}

Object* Heap::make(Kind kind, size_t parts) {
  uint8_t size_class = 0;
  void* memory = take(static_cast<int64_t>(sizeof(Object) + parts * sizeof(Datum)), size_class);
  return new (memory) Object{1, 0, kind, size_class, static_cast<uint32_t>(parts)};
}

TensorObject* Heap::make_tensor(int64_t bytes) {
  uint8_t size_class = 0;
  void* memory = take(kAlignment + bytes, size_class);
  return new (memory)
      TensorObject{{1, 0, Kind::kTensor, size_class, 0}, static_cast<char*>(memory) + kAlignment, nullptr};
}

TensorObject* Heap::make_view(void* data, Object* base) {
  uint8_t size_class = 0;
  void* memory = take(sizeof(TensorObject), size_class);
  if (base) ++base->references;
  return new (memory) TensorObject{{1, 0, Kind::kTensor, size_class, 0}, data, base};
}

ReferenceObject* Heap::make_reference(const Datum& value) {
  uint8_t size_class = 0;
  void* memory = take(sizeof(ReferenceObject), size_class);
  auto* reference =
      new (memory) ReferenceObject{{1, 0, Kind::kReference, size_class, 0}, value, nullptr, first_reference_};
  if (first_reference_) first_reference_->before = reference;
  first_reference_ = reference;
  ++references_;
  return reference;
}

/// What waits to be freed is a list through its blocks' first bytes, the counts, which nobody needs any more.
void Heap::destroy(Object* first) {
  static_assert(offsetof(Object, kind) >= sizeof(void*));
  Object* waiting = first;
  next_free(waiting) = nullptr;
  auto drop = [&](Object* object) {
    if (--object->references > 0) return;
    next_free(object) = waiting;
    waiting = object;
  };
  while (waiting) {
    Object* object = waiting;
    waiting = static_cast<Object*>(next_free(object));
    if (object->kind == Kind::kTensor) {
      if (Object* base = reinterpret_cast<TensorObject*>(object)->base) drop(base);
    } else if (object->kind == Kind::kReference) {
      auto* reference = reinterpret_cast<ReferenceObject*>(object);
      if (reference->value.owns()) drop(reference->value.object);
      (reference->before ? reference->before->after : first_reference_) = reference->after;
      if (reference->after) reference->after->before = reference->before;
      --references_;
    } else {
      for (uint32_t i = 0; i < object->count; ++i)
        if (object->parts()[i].owns()) drop(object->parts()[i].object);
    }
    used_ -= bytes_of_class(object->size_class);
    next_free(object) = std::exchange(free_[object->size_class], object);
  }
}

/// The objects that `object` holds, each as often as it does.
void Heap::append_inner(Object* object, std::vector<Object*>& inner) const {
  if (object->kind == Kind::kTensor) {
    if (Object* base = reinterpret_cast<TensorObject*>(object)->base) inner.push_back(base);
  } else if (object->kind == Kind::kReference) {
    const Datum& value = reinterpret_cast<ReferenceObject*>(object)->value;
    if (value.owns()) inner.push_back(value.object);
  } else {
    for (uint32_t i = 0; i < object->count; ++i)
      if (object->parts()[i].owns()) inner.push_back(object->parts()[i].object);
  }
}

void Heap::free_cycles() {
  if (!first_reference_) return;
  // All that references reach, each once, with how often they hold it among themselves.
  std::vector<Object*> reached, inner;
  std::unordered_set<Object*> seen;
  for (ReferenceObject* each = first_reference_; each; each = each->after) {
    each->head.inner = 0;
    seen.insert(&each->head);
    reached.push_back(&each->head);
  }
  for (size_t i = 0; i < reached.size(); ++i) {
    inner.clear();
    append_inner(reached[i], inner);
    for (Object* object : inner) {
      if (seen.insert(object).second) {
        object->inner = 0;
        reached.push_back(object);
      }
      ++object->inner;
    }
  }
  // What somebody else holds lives, and all that hangs on it.
  std::vector<Object*> live;
  for (Object* object : reached)
    if (object->references > object->inner && seen.erase(object)) live.push_back(object);
  for (size_t i = 0; i < live.size(); ++i) {
    inner.clear();
    append_inner(live[i], inner);
    for (Object* object : inner)
      if (seen.erase(object)) live.push_back(object);
  }
  // The others are in cycles, or hang on them. Emptied references have none. They are held meanwhile, so that
  // none is freed before its turn.
  std::vector<ReferenceObject*> dead;
  for (ReferenceObject* each = first_reference_; each; each = each->after)
    if (seen.count(&each->head)) dead.push_back(each);
  for (ReferenceObject* each : dead) ++each->head.references;
  for (ReferenceObject* each : dead) release(std::exchange(each->value, Datum()));
  for (ReferenceObject* each : dead) release(Datum::of(Kind::kReference, 0, &each->head));
  limit_ = 2 * references_ + 1000;
}

}  // namespace lathe::runtime
