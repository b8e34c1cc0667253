#include "tracker/refusal_log.h"

#include <utility>

namespace lathe::tracker {

bool RefusalLog::is_news(const std::string& text) {
  if (said_.contains(text)) return false;
  // Not remembered: it is news still, when it comes again.
  if (in_minute_ >= kAMinute) return ++left_out_, false;
  ++in_minute_;
  order_.push_back(said_.insert(text).first);
  if (order_.size() <= kRemembered) return true;
  said_.erase(order_.front());
  order_.pop_front();
  return true;
}

size_t RefusalLog::left_out(Time now) {
  if (now - begin_ < std::chrono::minutes(1)) return 0;
  begin_ = now;
  in_minute_ = 0;
  return std::exchange(left_out_, 0);
}

}  // namespace lathe::tracker
