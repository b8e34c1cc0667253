#include "tracker/wire/gatekeeper.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/support/error.h"

namespace lathe::wire {
namespace {

/// 32 bytes as 40 characters; "" for others.
std::string text_of_key(const std::string& raw) {
  char text[41] = "";
  if (raw.size() == 32) zmq_z85_encode(text, reinterpret_cast<const uint8_t*>(raw.data()), raw.size());
  return text;
}

}  // namespace

Gatekeeper::Gatekeeper(zmq::context_t& context, const std::vector<std::string>& allowed)
    : allowed_(allowed.begin(), allowed.end()), socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  // So that the thread sees soon that it is to stop.
  socket_.set(zmq::sockopt::rcvtimeo, 100);
  // The address that ZAP prescribes: one a context.
  socket_.bind("inproc://zeromq.zap.01");
  thread_ = std::thread([this] { serve(); });
}

Gatekeeper::~Gatekeeper() {
  stop_ = true;
  thread_.join();
}

bool Gatekeeper::allow(const std::vector<std::string>& keys) {
  std::lock_guard lock(mutex_);
  allowed_ = {keys.begin(), keys.end()};
  // Both sets are in order. What is over is not forgotten: a key that was let in may still be connected.
  return std::includes(allowed_.begin(), allowed_.end(), let_in_.begin(), let_in_.end());
}

std::set<std::string> Gatekeeper::take_refused() {
  std::lock_guard lock(mutex_);
  return std::exchange(refused_, {});
}

void Gatekeeper::serve() {
  while (!stop_) {
    std::vector<std::string> request;
    zmq::message_t part;
    try {
      do {
        if (!socket_.recv(part)) break;
        request.push_back(part.to_string());
      } while (part.more());
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) continue;  // a signal, which says nothing of who may connect
      return;                              // the context is gone
    }
    // rcvtimeo is over
    if (request.empty()) continue;
    // version, request id, domain, address, identity, mechanism, credentials
    const std::string id = request.size() > 1 ? request[1] : "";
    // NULL and PLAIN prove nothing.
    const std::string key = request.size() == 7 && request[5] == "CURVE" ? text_of_key(request[6]) : "";
    const bool known = !key.empty() && is_let_in(request[3], key);
    // The user's id, which the messages that follow carry: the key.
    // ZAP 1.0's reply: version, request id, status code, status text, user id, metadata.
    const std::string reply[] = {
        "1.0", id, known ? "200" : "400", known ? "" : "key not in the allow-list", known ? key : "", ""};
    for (size_t i = 0; i < 6; ++i)
      socket_.send(zmq::buffer(reply[i]), i < 5 ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

bool Gatekeeper::is_let_in(const std::string& address, const std::string& key) {
  constexpr size_t kMost = 64;  // between two calls of take_refused
  std::lock_guard lock(mutex_);
  if (allowed_.contains(key)) {
    let_in_.insert(key);
    return true;
  }
  // Strangers try again and again, with as many keys as they like.
  if (refused_.size() < kMost) refused_.insert(fmt::format("{}: the key {} is not listed", address, key));
  return false;
}

}  // namespace lathe::wire
