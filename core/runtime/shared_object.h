// A shared object (ELF .so) loaded from memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace lathe::runtime {

/// Loads the bytes of a shared object into this process; unloads them when destroyed. Symbols stay local to
/// it. Loading runs the code's constructors: only give it bytes whose source is trusted.
class SharedObject {
 public:
  /// Throws Error when the system loader refuses the bytes (not ELF, another machine, a missing library).
  explicit SharedObject(std::string_view bytes);
  /// The same of an open file that holds them, which stays the caller's and outlives this object. Makes no
  /// file of its own.
  static SharedObject from_file(int descriptor);
  /// As SharedObject(bytes), in the caller's empty memory file, for a process that may make none.
  static SharedObject in_file(std::string_view bytes, int descriptor);
  ~SharedObject();
  SharedObject(SharedObject&& other) noexcept;
  SharedObject& operator=(SharedObject&& other) noexcept;

  /// The address of a symbol, or nullptr.
  void* find(const char* symbol) const;

 private:
  SharedObject() = default;
  void load(int descriptor);

  // The descriptor stays open as long as the library: the loader knows libraries by their path
  // (/proc/self/fd/N here), and would take another library under a reused number for this one.
  int descriptor_ = -1;
  void* handle_ = nullptr;
};

/// How many bytes of a 64-bit ELF file the loader makes executable; 0 when it is none.
int64_t executable_bytes(std::string_view elf);

}  // namespace lathe::runtime
