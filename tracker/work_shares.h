// What of the one thread that answers over HTTP each user may have: who asks for much, however it is asked,
// waits, and not those beside them.
#pragma once

#include <map>
#include <string>

namespace lathe::tracker {

/// Seconds of work that come to each user with time, saved up to a bound (a token bucket). A question is
/// answered while anything is left, and what it took is known only then: so a long one is paid for
/// afterwards.
class WorkShares {
 public:
  /// `rate`: seconds a second. `most`: what may be saved up.
  WorkShares(double rate, double most) : rate_(rate), most_(most) {}

  /// How long until the user has something left; 0: now. Times are seconds from any fixed start.
  double wait(const std::string& user, double now);
  void charge(const std::string& user, double seconds, double now);

 private:
  struct Account {
    double left, at;
  };
  Account& account(const std::string& user, double now);

  const double rate_, most_;
  std::map<std::string, Account> accounts_;  // of users that a file lists
};

}  // namespace lathe::tracker
