// What nobody is to find once this process is over, whether it has come to its end or a signal has ended it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace lathe {

/// A file or folder that goes with its owner, and all that is in it, or when a signal ends the process
/// (remove_unfinished()), unless it was given the name to stay by.
class Unfinished {
 public:
  /// `make` makes it, or names what will be made, and returns its path. Throws what that throws. REQUIRES,
  /// of `make` and of `rename` below: they begin and finish nothing else.
  explicit Unfinished(const std::function<std::string()>& make);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::string& path() const { return path_; }
  /// `rename` gives it the name to stay by: no signal comes between that and this. When it throws, the thing
  /// is as unfinished as before.
  void finish(const std::function<void()>& rename);

 private:
  friend void remove_unfinished() noexcept;

  // A list without memory of its own, which a handler may walk.
  static inline Unfinished* first_ = nullptr;
  Unfinished* next_ = nullptr;
  std::string path_;
  pid_t maker_ = 0;  // 0: finished
};

/// Removes what is unfinished, of this process and not of one that it was forked from; from here on whoever
/// begins or finishes something waits for the process to end. For a handler that ends it: async-signal-safe
/// (signal-safety(7)).
void remove_unfinished() noexcept;

}  // namespace lathe
