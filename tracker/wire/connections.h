// What ZeroMQ tells of a socket's connections, and what it does not bound: how much of a peer's messages
// waits in this process. It bounds a frame and counts whole messages, but keeps the frames of one that does
// not end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

namespace lathe::wire {

/// Bytes as they come over the network, of messages that have not been taken.
struct HeldLimits {
  uint64_t of_one, of_all;
};

/// Whoever holds more than its limit is cut off, and so is who holds most when all together hold too much.
class Connections {
 public:
  /// Before the socket binds or connects, so that no event goes unheard. `encrypted`: by CURVE. `limits`:
  /// none over ipc://, where the kernel counts nothing, and the file's mode lets nobody in but its user.
  /// `take`: reads one message of the socket, and says whether there was one; called on a thread of this
  /// while the socket is lent.
  Connections(zmq::context_t& context, zmq::socket_t& socket, bool encrypted,
              std::optional<HeldLimits> limits, std::function<bool()> take = {});
  /// It must be gone before the socket.
  ~Connections();

  struct Failure {
    uint16_t event;  // ZMQ_EVENT_HANDSHAKE_FAILED_...
    uint32_t value;  // a status of the authentication, or a protocol error
  };
  /// Handshakes that failed since the last call; of many the last.
  std::vector<Failure> take_failures();
  /// The addresses of those that were cut off since the last call.
  std::set<std::string> take_cut_off();
  /// `frame` came over one of the connections, and was taken.
  void taken(zmq::message_t& frame);

  /// Whoever reads the socket will not for a while, and touches it no more until it has taken it back: what
  /// comes meanwhile is no fault of who sends it.
  void lend();
  void take_back();

 private:
  struct Connection {
    int descriptor = -1;  // ZeroMQ's; -1: it has not told of it yet
    uint64_t taken = 0;   // bytes
    int looks = 0;        // while it had not
  };

  void watch();
  bool hear();
  void look();
  void take_for_another();
  bool cut_off(uint64_t id, const Connection& connection);

  zmq::socket_t& watched_;
  const bool encrypted_;
  const std::optional<HeldLimits> limits_;
  const std::function<bool()> take_;
  zmq::socket_t events_;  // the thread's
  std::mutex lending_;    // of the two below
  std::condition_variable returned_;
  bool lent_ = false, taking_ = false;
  std::mutex mutex_;                            // of the three below
  std::map<uint64_t, Connection> connections_;  // by the number that the kernel gives to each of its sockets
  std::vector<Failure> failures_;
  std::set<std::string> cut_off_;
  std::thread thread_;
};

}  // namespace lathe::wire
