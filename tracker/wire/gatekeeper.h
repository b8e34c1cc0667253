// Who may connect to a socket with keys.
#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

namespace lathe::wire {

/// Answers ZeroMQ's question who may connect (ZAP, RFC 27): the keys of the list.
/// A thread of its own: the handshake of who connects waits for the answer, and the tracker's thread may
/// be busy with a commit.
class Gatekeeper {
 public:
  /// Of all sockets of the context. Before there is one to connect to: where nobody answers, ZeroMQ lets
  /// every key in.
  Gatekeeper(zmq::context_t& context, const std::vector<std::string>& allowed);
  ~Gatekeeper();
  Gatekeeper(const Gatekeeper&) = delete;
  Gatekeeper& operator=(const Gatekeeper&) = delete;

  /// Allows these keys and no others. False when somebody has been let in by a key that is not among them.
  bool allow(const std::vector<std::string>& keys);
  /// Whom it has refused since the last call and why, in words; some of very many.
  std::set<std::string> take_refused();

 private:
  void serve();
  bool is_let_in(const std::string& address, const std::string& key);

  std::mutex mutex_;                        // of the three below
  std::set<std::string> allowed_, let_in_;  // keys; those that were let in
  std::set<std::string> refused_;
  zmq::socket_t socket_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace lathe::wire
