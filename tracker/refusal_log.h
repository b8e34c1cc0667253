// What a tracker's log says of those whom it refuses.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <set>
#include <string>

namespace lathe::tracker {

/// Each text once for as long as it is among the last so many, for whoever is refused comes again. And so
/// many a minute: strangers make as many as they like, which neither fill the log, nor leave it blind for
/// what comes later.
class RefusalLog {
 public:
  static constexpr size_t kRemembered = 1000, kAMinute = 30;
  using Time = std::chrono::milliseconds;

  /// Whether to say it.
  bool is_news(const std::string& text);
  /// How many were not said for their number, when a minute has ended with some; else 0. To be asked often.
  size_t left_out(Time now);

 private:
  std::set<std::string> said_;
  std::deque<std::set<std::string>::const_iterator> order_;  // the oldest first
  Time begin_{0};                                            // of the minute
  size_t in_minute_ = 0, left_out_ = 0;
};

}  // namespace lathe::tracker
