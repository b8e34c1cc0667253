#include "tracker/wire/socket.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "core/support/error.h"
#include "core/support/loopback.h"
#include "tracker/defaults.h"
#include "tracker/wire/addresses.h"
#include "tracker/wire/connections.h"
#include "tracker/wire/gatekeeper.h"

namespace lathe::wire {
namespace {

constexpr const char* kTooMuch = "it sends more than is taken, or a message without end";

// Per peer; beyond it, frames to that peer are dropped. To a worker go as many leases as it may hold, and to
// the tracker pieces of what was built for it, a quarter of a mebibyte each, which nobody may ever read.
constexpr int kQueuedFrames = 10000;
constexpr int kQueuedDown = 1100, kQueuedUp = 256;
constexpr int kPutAsideAtOnce = 4096;

/// What both ends have in common: no waiting at the end, bounded frames, and dead connections noticed.
void set_common_options(zmq::socket_t& socket, size_t frame_limit, int queued) {
  // Whatever matters is said again until it is acknowledged: nothing unsent is worth waiting for.
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, queued);
  socket.set(zmq::sockopt::rcvhwm, kQueuedFrames);
  // Of a longer frame ZeroMQ ends the connection at its head, before there is memory for the rest (S3).
  socket.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(frame_limit));
  // Who connects and does not come to the end of a handshake holds a descriptor of ours no longer.
  socket.set(zmq::sockopt::handshake_ivl, static_cast<int>(defaults::kSilence.count()));
  // For a host that vanished without a word; a worker's silence is noticed long before by heartbeats.
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::ipv6, true);
}

std::optional<HeldLimits> limits_over(const std::string& endpoint, HeldLimits limits) {
  return endpoint.starts_with("tcp://") ? std::optional(limits) : std::nullopt;
}

/// False when the queue is full.
bool try_send(zmq::socket_t& socket, const std::string& bytes, zmq::send_flags flags) {
  for (;;) {
    try {
      // Never waiting: the tracker's one thread serves all, and one peer whose queue is full must
      // not stop it.
      return socket.send(zmq::buffer(bytes), flags | zmq::send_flags::dontwait).has_value();
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) continue;
      throw Error(fmt::format("socket: {}", error.what()));
    }
  }
}

constexpr std::string_view kIpc = "ipc://";

/// Of a port ZeroMQ takes the lowest 16 bits, whatever it is.
bool is_endpoint(const std::string& endpoint) {
  if (endpoint.starts_with(kIpc)) return true;
  if (!endpoint.starts_with(kTcp)) return false;
  const size_t colon = endpoint.rfind(':');
  const std::string host = host_of(endpoint), port = endpoint.substr(colon + 1);
  if (colon < kTcp.size() || host.empty()) return false;
  if (port == "*") return true;
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  return error == std::errc() && end == port.data() + port.size();
}

}  // namespace

KeyPair make_keys() {
  char public_key[41], secret_key[41];
  CHECK(zmq_curve_keypair(public_key, secret_key) == 0, "libzmq was built without CURVE");
  return {public_key, secret_key};
}

void check_key(const std::string& key, const std::string& what) {
  uint8_t raw[32];
  if (key.size() != 40 || !zmq_z85_decode(raw, key.c_str()))
    fail("{} is no key: 40 characters of Z85, as `tune keygen` makes them", what);
}

std::string random_peer() {
  // 96 bits by the kernel's generator: whoever could guess a peer's name could take its connection over
  // (see router_handover).
  unsigned char bytes[12];
  CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
  std::string peer;
  for (unsigned char byte : bytes) peer += fmt::format("{:02x}", byte);  // never begins with a zero byte
  return peer;
}

bool is_local(const std::string& endpoint) {
  // Who may connect is for the file system to say.
  if (endpoint.starts_with(kIpc)) return true;
  if (!endpoint.starts_with(kTcp)) return false;
  const std::string host = host_of(endpoint);
  return is_loopback(host) || host == "lo";  // ZeroMQ takes an interface's name too
}

// --- the tracker's end

/// Whoever may write to a socket's file may connect, and over ipc:// nothing is bounded but by that. From the
/// beginning: who is in stays in. What other threads create meanwhile is their user's own, too, and folders
/// among it can be entered.
class OwnerOnly {
 public:
  OwnerOnly() : before_(umask(0077)) {}
  ~OwnerOnly() { umask(before_); }
  OwnerOnly(const OwnerOnly&) = delete;
  OwnerOnly& operator=(const OwnerOnly&) = delete;

 private:
  const mode_t before_;
};

/// ZeroMQ removes whatever has the name of its socket: another tracker's, whose workers would wait for ever,
/// or a file of the user's.
void require_free(const std::string& endpoint) {
  const std::string path = endpoint.substr(kIpc.size());
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0) return;
  if (!S_ISSOCK(there.st_mode))
    fail("cannot listen on {}: there is a file of that name, which is no socket", endpoint);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) return;  // which ZeroMQ says
  path.copy(address.sun_path, path.size());
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(probe >= 0, "socket: {}", strerror(errno));
  // Of a process that has ended a socket may be left, and refuses.
  const bool answers = connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(probe);
  if (answers) fail("cannot listen on {}: Address already in use", endpoint);
}

/// Frames that came while nobody had time for them. A peer that says more than its share has said it in vain,
/// and so has everybody when there is no room at all.
class Aside {
 public:
  void put(Frame frame) {
    const size_t bytes = cost(frame);
    size_t& of_peer = by_peer_[frame.peer];
    if (of_peer + bytes > defaults::kHeldOfOne || all_ + bytes > defaults::kHeldAside) return;
    of_peer += bytes;
    all_ += bytes;
    frames_.push_back(std::move(frame));
  }
  std::optional<Frame> take() {
    if (frames_.empty()) return std::nullopt;
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    all_ -= cost(frame);
    if (frames_.empty())
      by_peer_.clear();
    else
      by_peer_[frame.peer] -= cost(frame);
    return frame;
  }
  bool empty() const { return frames_.empty(); }

 private:
  static size_t cost(const Frame& frame) { return sizeof frame + frame.peer.size() + frame.bytes.size(); }

  std::deque<Frame> frames_;
  std::map<std::string, size_t> by_peer_;  // bytes
  size_t all_ = 0;
};

struct Server::Sockets {  // the last one ends first
  Aside aside;
  zmq::context_t context;
  std::unique_ptr<Gatekeeper> gatekeeper;
  std::unique_ptr<zmq::socket_t> router;
  std::unique_ptr<Connections> connections;
};

Server::Server(const std::string& endpoint, const std::optional<ServerKeys>& keys)
    : endpoint_(endpoint), keys_(keys) {
  if (!is_endpoint(endpoint))
    fail("cannot listen on {}: an endpoint is tcp://HOST:PORT or ipc://PATH", endpoint);
  if (endpoint.starts_with("ipc://@"))
    fail("cannot listen on {}: a socket without a file lets in every user of this machine; name a path",
         endpoint);
  if (!keys && !is_local(endpoint))
    fail(
        "refusing to listen on {} without keys: anyone who can reach it could run code on the workers\n"
        "  hint: make keys with `tune keygen` and give them with --key and --allow, or listen on 127.0.0.1",
        endpoint);
  if (endpoint.starts_with(kIpc)) require_free(endpoint);
  // To listen it knows addresses and network interfaces, and no names.
  if (endpoint.starts_with(kTcp) && host_of(endpoint) == "localhost")
    endpoint_ = fmt::format("{}127.0.0.1{}", kTcp, endpoint.substr(endpoint.rfind(':')));
  listen();
}

/// Anew: the end of the former context closes its connections and frees the endpoint.
/// The farm knows workers by the names of their peers, which they keep: they come back as who they were.
void Server::listen() {
  sockets_.reset();
  sockets_ = std::make_unique<Sockets>();
  // Before there is a socket to connect to: where nobody answers ZAP, ZeroMQ lets every key in.
  if (keys_) sockets_->gatekeeper = std::make_unique<Gatekeeper>(sockets_->context, keys_->allowed);
  sockets_->router = std::make_unique<zmq::socket_t>(sockets_->context, zmq::socket_type::router);
  zmq::socket_t& router = *sockets_->router;
  set_common_options(router, defaults::kUpFrameLimit, kQueuedDown);
  // Without it, a worker whose old connection is not yet known to be dead would be turned away. With keys,
  // the farm holds against it that the key is another's (Farm::receive).
  router.set(zmq::sockopt::router_handover, true);  // a worker that reconnects is the same peer
  if (keys_) {
    router.set(zmq::sockopt::curve_server, true);
    router.set(zmq::sockopt::curve_secretkey, keys_->secret_key);
  }
  sockets_->connections = std::make_unique<Connections>(
      sockets_->context, router, keys_.has_value(),
      limits_over(endpoint_, {defaults::kHeldOfOne, keys_ ? defaults::kHeldWithKeys : defaults::kHeldOfAll}),
      [this] { return put_aside(); });
  try {
    std::optional<OwnerOnly> mode;
    if (endpoint_.starts_with(kIpc)) mode.emplace();
    router.bind(endpoint_);
  } catch (const zmq::error_t& error) {
    fail("cannot listen on {}: {}", endpoint_, error.what());
  }
  // With the number of the port where * asked for any.
  endpoint_ = router.get(zmq::sockopt::last_endpoint);
}

void Server::admit(std::vector<std::string> keys) {
  keys_->allowed = std::move(keys);
  // ZeroMQ closes no single connection.
  // Listening anew cuts everybody off for a moment, so only when somebody must go.
  if (!sockets_->gatekeeper->allow(keys_->allowed)) listen();
}

Server::~Server() = default;

std::vector<std::string> Server::refusals() {
  std::set<std::string> refused;
  if (sockets_->gatekeeper) refused = sockets_->gatekeeper->take_refused();
  for (const std::string& address : sockets_->connections->take_cut_off())
    refused.insert(fmt::format("{}: {}", address, kTooMuch));
  for (const Connections::Failure& failure : sockets_->connections->take_failures()) {
    if (failure.event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) continue;  // the gatekeeper's own
    // Whoever notices first that one side has keys and the other none hangs up.
    const bool hung_up = failure.event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL ||
                         failure.value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
    // ZeroMQ says that a handshake failed, seldom why: what it is most likely to have been.
    refused.insert(!hung_up ? "a peer that has another key for this tracker, or does not speak its protocol"
                   : sockets_->gatekeeper
                       ? "a peer without keys, or that hung up"
                       : "a peer with keys, of which this tracker has none, or that hung up");
  }
  return {refused.begin(), refused.end()};
}

void Server::send(const Frame& frame) {
  // To a peer that has gone the router drops it. What it was owed it asks for again when it is back.
  // Two parts, or none: the router would take the next frame's head for the rest of this one.
  if (try_send(*sockets_->router, frame.peer, zmq::send_flags::sndmore))
    try_send(*sockets_->router, frame.bytes, zmq::send_flags::none);
}

std::optional<Frame> Server::receive(std::chrono::milliseconds timeout, int descriptor) {
  // Both in one poll: a command from another thread wakes it as a frame does.
  zmq::pollitem_t items[] = {{sockets_->router->handle(), 0, ZMQ_POLLIN, 0},
                             {nullptr, descriptor, ZMQ_POLLIN, 0}};
  try {
    // ZeroMQ's own descriptors are edge-triggered, so nothing but its poll() may be asked
    // whether there is a frame.
    // The descriptor is for waking up; its owner reads it.
    if (sockets_->aside.empty()) zmq::poll(items, descriptor >= 0 ? 2 : 1, timeout);
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return std::nullopt;
    throw Error(fmt::format("tracker socket: {}", error.what()));
  }
  // All of it: what is left there counts as held, and five hundred honest workers may say several megabytes
  // at once.
  for (int i = 0; i < kPutAsideAtOnce && put_aside(); ++i) continue;
  return sockets_->aside.take();
}

/// Without waiting. Throws zmq::error_t.
std::optional<Frame> Server::read() {
  zmq::message_t part;
  std::vector<std::string> parts;
  std::string key;
  do {
    if (!sockets_->router->recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
    if (!parts.empty())
      sockets_->connections->taken(part);  // the first is the peer's name, which did not travel
    parts.push_back(part.to_string());
    // Set by the gatekeeper for the connection: no peer can say it itself.
    if (const char* id = zmq_msg_gets(part.handle(), "User-Id")) key = id;
  } while (part.more());
  if (parts.size() != 2) return Frame{parts[0], "", key};  // malformed; the decoder says so
  return Frame{std::move(parts[0]), std::move(parts[1]), std::move(key)};
}

/// One message, if there is any. Also on the thread of the connections, while the socket is theirs.
bool Server::put_aside() {
  try {
    std::optional<Frame> frame = read();
    if (!frame) return false;
    sockets_->aside.put(std::move(*frame));
    return true;
  } catch (const zmq::error_t&) {
    return false;  // an interruption; whatever else it is, poll() meets it too
  }
}

Server::Absence::Absence(Server& server) : server_(server) { server_.sockets_->connections->lend(); }
Server::Absence::~Absence() { server_.sockets_->connections->take_back(); }

// --- a worker's end

struct Client::Sockets {     // the last one ends first
  size_t tries = 0;          // of addresses of the endpoint's name
  bool is_answered = false;  // by the one that is tried now
  zmq::context_t context;
  std::unique_ptr<zmq::socket_t> dealer;
  std::unique_ptr<Connections> connections;
};

Client::Client(std::string endpoint, std::string peer, std::optional<ClientKeys> keys)
    : sockets_(std::make_unique<Sockets>()),
      endpoint_(std::move(endpoint)),
      peer_(std::move(peer)),
      keys_(std::move(keys)) {
  if (!is_endpoint(endpoint_))
    fail("cannot connect to {}: a tracker's address is tcp://HOST:PORT or ipc://PATH", endpoint_);
  reconnect();
}

Client::~Client() = default;

std::optional<std::string> Client::refusal() {
  if (!sockets_->connections->take_cut_off().empty()) return kTooMuch;
  const std::vector<Connections::Failure> failures = sockets_->connections->take_failures();
  if (failures.empty()) return std::nullopt;
  // ZeroMQ tries again and again: the newest failure is what stands in the way now.
  const Connections::Failure* last = &failures.back();
  if (last->event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
    return fmt::format("it does not list the key {}", keys_ ? keys_->own.public_key : "");
  if (!keys_) return "it wants keys (--key and --tracker-key), or is no tracker";
  const bool plain = last->event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
                     last->value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
  return plain ? "it has no keys: leave --key and --tracker-key out"
               : "its key is not the one that --tracker-key says";
}

void Client::reconnect() {
  // Where nobody has answered the next address has its turn. The first is ZeroMQ's own choice, and asks
  // nobody for names while all is well.
  if (!std::exchange(sockets_->is_answered, false)) ++sockets_->tries;
  std::string address = endpoint_;
  if (sockets_->tries > 1) {
    const std::vector<std::string> all = addresses_of(endpoint_);
    address = all[(sockets_->tries - 1) % all.size()];
  }
  sockets_->connections.reset();
  sockets_->dealer = std::make_unique<zmq::socket_t>(sockets_->context, zmq::socket_type::dealer);
  zmq::socket_t& dealer = *sockets_->dealer;
  set_common_options(dealer, defaults::kFrameLimit, kQueuedUp);
  // The same over all reconnections, so that the tracker knows the worker again.
  dealer.set(zmq::sockopt::routing_id, peer_);
  dealer.set(zmq::sockopt::reconnect_ivl, static_cast<int>(defaults::kReconnectFirst.count()));
  dealer.set(zmq::sockopt::reconnect_ivl_max, static_cast<int>(defaults::kReconnectLongest.count()));
  if (keys_) {
    dealer.set(zmq::sockopt::curve_serverkey, keys_->server_key);
    dealer.set(zmq::sockopt::curve_publickey, keys_->own.public_key);
    dealer.set(zmq::sockopt::curve_secretkey, keys_->own.secret_key);
  }
  sockets_->connections = std::make_unique<Connections>(
      sockets_->context, dealer, keys_.has_value(),
      limits_over(endpoint_, {defaults::kHeldFromTracker, defaults::kHeldFromTracker}));
  try {
    dealer.connect(address);
  } catch (const zmq::error_t& error) {
    fail("cannot connect to {}: {}; a tracker's address is tcp://HOST:PORT or ipc://PATH", endpoint_,
         error.what());
  }
}

void Client::send(const std::string& bytes) {
  // When the queue is full the tracker has been away for long: whatever matters is said again.
  // zmq's queue of kQueuedUp, which is memory of ours.
  try_send(*sockets_->dealer, bytes, zmq::send_flags::none);
}

std::optional<std::string> Client::receive() {
  try {
    zmq::message_t message;
    if (!sockets_->dealer->recv(message, zmq::recv_flags::dontwait)) return std::nullopt;
    sockets_->connections->taken(message);
    sockets_->is_answered = true;
    return message.to_string();
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return std::nullopt;
    throw Error(fmt::format("worker socket: {}", error.what()));
  }
}

int Client::descriptor() const { return sockets_->dealer->get(zmq::sockopt::fd); }

// There is no call to wait for a queue; ending the context with a linger time is what ZeroMQ offers.
void Client::flush(std::chrono::milliseconds timeout) {
  sockets_->dealer->set(zmq::sockopt::linger, static_cast<int>(timeout.count()));
  sockets_->connections.reset();
  sockets_->dealer.reset();
  sockets_ =
      std::make_unique<Sockets>();  // ending the old context waits for the queue, at most the linger time
  reconnect();
}

}  // namespace lathe::wire
