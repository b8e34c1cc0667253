#include "tracker/wire/connections.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/support/error.h"

namespace lathe::wire {
namespace {

// Of empty frames, each of which takes 32 times its two bytes, some megabytes come in between.
constexpr std::chrono::milliseconds kLookEvery{50};
constexpr int kLooksUntold = 200;
constexpr size_t kMostFailures = 1000;
constexpr int kTakenAtOnce = 64;

/// Unlike a descriptor, never another's; none of what is no socket.
std::optional<uint64_t> id_of(int descriptor) {
  uint64_t id = 0;
  socklen_t size = sizeof id;
  if (getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &id, &size) != 0) return std::nullopt;
  return id;
}

/// What has come over a TCP connection since it began.
std::optional<uint64_t> bytes_received(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return info.tcpi_bytes_received;
}

/// Of that, what the kernel still has: it bounds that itself, and a process that has no processor reads
/// nothing.
uint64_t bytes_unread(int descriptor) {
  int bytes = 0;
  return ioctl(descriptor, SIOCINQ, &bytes) == 0 ? static_cast<uint64_t>(bytes) : 0;
}

std::string address_of(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST] = "";
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "an unknown address";
  return host;
}

/// Of the end that an event's address names: another socket may have the descriptor by now.
std::string port_of(int descriptor, bool accepted) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char port[NI_MAXSERV] = "";
  if ((accepted ? getsockname : getpeername)(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, nullptr, 0, port, sizeof port,
                NI_NUMERICSERV);
  return port;
}

/// Of a frame of so many bytes, what travels (ZMTP 3.1; CurveZMQ, RFC 26).
uint64_t bytes_sent(uint64_t bytes, bool encrypted) {
  constexpr uint64_t kCommand = 8, kNonce = 8, kTag = 16, kFlags = 1;
  if (encrypted) bytes += kCommand + kNonce + kTag + kFlags;
  return bytes + (bytes > 255 ? 9 : 2);
}

}  // namespace

Connections::Connections(zmq::context_t& context, zmq::socket_t& socket, bool encrypted,
                         std::optional<HeldLimits> limits, std::function<bool()> take)
    : watched_(socket),
      encrypted_(encrypted),
      limits_(limits),
      take_(std::move(take)),
      events_(context, ZMQ_PAIR) {
  // Client::reconnect makes one after the other in one context: each has an address of its own.
  static std::atomic<uint64_t> count{0};
  const std::string address = fmt::format("inproc://connections-{}", count++);
  // That a handshake succeeds is not asked for: HELLO tells it.
  CHECK(zmq_socket_monitor(watched_.handle(), address.c_str(),
                           ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                               ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_ACCEPTED |
                               ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_MONITOR_STOPPED) ==
        0);
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(address);
  // Its own: while the tracker's waits for a commit, strangers go on.
  thread_ = std::thread([this] { watch(); });
}

Connections::~Connections() {
  // A null address ends the monitor, which says so to the thread.
  zmq_socket_monitor(watched_.handle(), nullptr, 0);
  thread_.join();
}

void Connections::watch() {
  for (bool idle = true;;) {
    zmq::pollitem_t item{events_.handle(), 0, ZMQ_POLLIN, 0};
    try {
      zmq::poll(&item, 1, idle ? std::chrono::milliseconds(-1) : kLookEvery);
      while (item.revents & ZMQ_POLLIN) {
        if (!hear()) return;
        zmq::poll(&item, 1, std::chrono::milliseconds(0));
      }
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) return;  // the context is gone
    }
    // First: what is taken is held no more.
    take_for_another();
    std::lock_guard lock(mutex_);
    look();
    idle = connections_.empty();
  }
}

void Connections::lend() {
  if (!take_) return;
  std::lock_guard lock(lending_);
  lent_ = true;
}

void Connections::take_back() {
  if (!take_) return;
  std::unique_lock lock(lending_);
  lent_ = false;
  returned_.wait(lock, [this] { return !taking_; });
}

/// A socket may go from one thread to another with a full fence between (zmq_socket(3)): the lock.
void Connections::take_for_another() {
  if (!take_) return;
  for (bool more = true; more;) {
    {
      std::lock_guard lock(lending_);
      if (!lent_) return;
      taking_ = true;
    }
    // A few at a time, for somebody may wait for it.
    for (int i = 0; more && i < kTakenAtOnce; ++i) more = take_();
    std::lock_guard lock(lending_);
    taking_ = false;
    returned_.notify_all();
  }
}

/// One event. False when it is the last.
bool Connections::hear() {
  zmq::message_t part;
  std::vector<std::string> parts;
  do {
    if (!events_.recv(part, zmq::recv_flags::dontwait)) return true;
    parts.push_back(part.to_string());
  } while (part.more());
  // The first part is the event and its value, packed; the second is an address.
  const std::string& head = parts.front();
  // A layout of libzmq's own: 16 bits of event and 32 of value, unpadded (zmq_socket_monitor(3)).
  Failure event{};
  if (head.size() != sizeof event.event + sizeof event.value) return true;
  memcpy(&event.event, head.data(), sizeof event.event);
  memcpy(&event.value, head.data() + sizeof event.event, sizeof event.value);
  if (event.event == ZMQ_EVENT_MONITOR_STOPPED) return false;
  const int descriptor = static_cast<int>(event.value);
  const bool accepted = event.event == ZMQ_EVENT_ACCEPTED;
  std::lock_guard lock(mutex_);
  switch (event.event) {
    case ZMQ_EVENT_ACCEPTED:
    case ZMQ_EVENT_CONNECTED:
      if (const auto id = id_of(descriptor);
          limits_ && id && parts.back().ends_with(":" + port_of(descriptor, accepted)))
        connections_[*id].descriptor = descriptor;
      break;
    case ZMQ_EVENT_DISCONNECTED:
      std::erase_if(connections_, [&](const auto& entry) { return entry.second.descriptor == descriptor; });
      break;
    default:
      if (failures_.size() >= kMostFailures) failures_.erase(failures_.begin());
      failures_.push_back(event);
  }
  return true;
}

/// REQUIRES: mutex_.
void Connections::look() {
  uint64_t all = 0;
  std::multimap<uint64_t, uint64_t> holders;  // bytes and connections
  for (auto it = connections_.begin(); it != connections_.end();) {
    auto& [id, connection] = *it;
    if (connection.descriptor < 0) {
      it = ++connection.looks > kLooksUntold ? connections_.erase(it) : std::next(it);
      continue;
    }
    // Closed meanwhile, and perhaps somebody else's.
    const auto received = bytes_received(connection.descriptor);
    if (!received || id_of(connection.descriptor) != id) {
      it = connections_.erase(it);
      continue;
    }
    // What an earlier connection had sent over the same descriptor is no credit for more.
    connection.taken = std::min(connection.taken, *received);
    const uint64_t unread = bytes_unread(connection.descriptor), most = *received - connection.taken;
    const uint64_t held = most - std::min(most, unread);
    all += held;
    holders.emplace(held, id);
    ++it;
  }
  for (auto it = holders.rbegin(); it != holders.rend(); ++it) {
    const auto [held, id] = *it;
    if (held <= limits_->of_one && all <= limits_->of_all) break;
    all -= held;
    if (cut_off(id, connections_.at(id))) connections_.erase(id);
  }
}

/// False when the connection is not there any more.
bool Connections::cut_off(uint64_t id, const Connection& connection) {
  // ZeroMQ may close its descriptor at any time, and the number be another's: this one stays.
  const int mine = fcntl(connection.descriptor, F_DUPFD_CLOEXEC, 0);
  if (mine < 0) return false;
  const bool same = id_of(mine) == id;
  if (same) {
    if (cut_off_.size() < kMostFailures) cut_off_.insert(address_of(mine));
    // Ends a TCP connection at once, with what the kernel still has of it: ZeroMQ would go on reading that
    // after a shutdown(2).
    const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
    connect(mine, &none, sizeof none);
  }
  close(mine);
  return same;
}

std::vector<Connections::Failure> Connections::take_failures() {
  std::lock_guard lock(mutex_);
  return std::exchange(failures_, {});
}

std::set<std::string> Connections::take_cut_off() {
  std::lock_guard lock(mutex_);
  return std::exchange(cut_off_, {});
}

void Connections::taken(zmq::message_t& frame) {
  if (!limits_) return;
  const int descriptor = zmq_msg_get(frame.handle(), ZMQ_SRCFD);
  const auto id = descriptor < 0 ? std::nullopt : id_of(descriptor);
  if (!id) return;
  std::lock_guard lock(mutex_);
  connections_[*id].taken += bytes_sent(frame.size(), encrypted_);
}

}  // namespace lathe::wire
