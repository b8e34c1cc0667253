// What the handlers of the API say no with, and how they read a request and write an answer.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tracker/http_server.h"
#include "tracker/work_shares.h"

namespace lathe::tracker {

/// A refusal with its status. Thrown by whoever looks at a request, caught in Api::handle and Api::admit.
struct Refused {
  int status;
  std::string text;
  std::map<std::string, std::string> headers;
};

http::Response json_response(const nlohmann::json& value, int status = 200);
http::Response refusal(const Refused& refused);

/// All of `text`, in decimal.
std::optional<int64_t> whole_number(const std::string& text);
/// Of the query. Throws Refused for what is no number in the range.
int64_t number(const http::Request& request, const std::string& key, int64_t otherwise, int64_t least,
               int64_t most);
/// Of the query; "" where it has none.
std::string word(const http::Request& request, const std::string& key);

/// A service without users trusts whoever is on this machine, and a browser here is: with pages of strangers
/// in it, which name this address by a name of theirs, or send it forms. Throws Refused.
void require_own_page(const http::Request& request);

/// On its way through a scope, charges a user with the processor time of this thread.
class Worked {
 public:
  Worked(WorkShares& shares, std::string user) : shares_(shares), user_(std::move(user)) {}
  ~Worked() { shares_.charge(user_, seconds(CLOCK_THREAD_CPUTIME_ID) - begun_, seconds(CLOCK_MONOTONIC)); }
  Worked(const Worked&) = delete;
  Worked& operator=(const Worked&) = delete;

  static double seconds(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

 private:
  WorkShares& shares_;
  const std::string user_;
  const double begun_ = seconds(CLOCK_THREAD_CPUTIME_ID);
};

}  // namespace lathe::tracker
