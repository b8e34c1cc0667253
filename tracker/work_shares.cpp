#include "tracker/work_shares.h"

#include <algorithm>

namespace lathe::tracker {

WorkShares::Account& WorkShares::account(const std::string& user, double now) {
  Account& account = accounts_.try_emplace(user, Account{most_, now}).first->second;
  account.left = std::min(most_, account.left + rate_ * std::max(0.0, now - account.at));
  account.at = std::max(account.at, now);
  return account;
}

double WorkShares::wait(const std::string& user, double now) {
  const double left = account(user, now).left;
  return left > 0 ? 0 : -left / rate_;
}

void WorkShares::charge(const std::string& user, double seconds, double now) {
  account(user, now).left -= seconds;
}

}  // namespace lathe::tracker
