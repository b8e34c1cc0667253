// The only place that knows ZeroMQ: frames between named peers, over tcp:// or ipc://.
//
// Encryption is CURVE. A tracker with keys accepts the public keys it is given and nobody else: a message
// from another key never gets past the handshake. Without keys a tracker listens on this machine only.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lathe::wire {

/// A CURVE key pair in Z85 text, 40 characters each.
struct KeyPair {
  std::string public_key, secret_key;
};

KeyPair make_keys();
/// Throws Error unless `key` is 40 characters of Z85. `what` names it in the message.
void check_key(const std::string& key, const std::string& what);

struct ServerKeys {
  std::string secret_key;
  std::vector<std::string> allowed;  // public keys of workers
};

struct ClientKeys {
  std::string server_key;  // the tracker's public key
  KeyPair own;
};

struct Frame {
  std::string peer;  // the sender's routing id
  std::string bytes;
  std::string key;  // of what was received: the sender's public key; "" without keys
};

/// The tracker's end (ROUTER). One thread.
class Server {
 public:
  /// Throws Error when the endpoint cannot be bound, or is not of this machine and there are no keys.
  Server(const std::string& endpoint, const std::optional<ServerKeys>& keys);
  ~Server();

  /// Accepts these public keys from now on and no others. When somebody was let in by another one, all
  /// connections are closed: whose key is listed comes back by itself, and is the same peer. What was on its
  /// way is lost. Throws Error when it cannot listen again. REQUIRES: it has keys.
  void admit(std::vector<std::string> keys);
  /// Where it listens, with the port that * stood for.
  const std::string& endpoint() const { return endpoint_; }
  /// To a peer that is gone or too slow to read, nothing is sent.
  void send(const Frame& frame);
  /// Waits for a frame, for `descriptor` to be readable, or for the time to pass.
  std::optional<Frame> receive(std::chrono::milliseconds timeout, int descriptor = -1);
  /// While the thread does something that may take seconds: what comes meanwhile is put aside for receive(),
  /// where else it would look as if peers said too much. Beyond bounds it is dropped; peers say it again.
  /// REQUIRES: nothing else is asked of the server until it is gone.
  class Absence {
   public:
    explicit Absence(Server& server);
    ~Absence();
    Absence(const Absence&) = delete;
    Absence& operator=(const Absence&) = delete;

   private:
    Server& server_;
  };
  /// What peers were refused at the handshake since the last call, and why, in words; repeated ones once.
  std::vector<std::string> refusals();

 private:
  struct Sockets;
  void listen();
  std::optional<Frame> read();
  bool put_aside();

  std::string endpoint_;
  std::optional<ServerKeys> keys_;
  std::unique_ptr<Sockets> sockets_;
};

/// A worker's end (DEALER). It connects in the background, again and again. One thread.
class Client {
 public:
  /// `peer`: a routing id, random for each process. Throws Error on a malformed endpoint.
  Client(std::string endpoint, std::string peer, std::optional<ClientKeys> keys);
  ~Client();

  void send(const std::string& bytes);
  std::optional<std::string> receive();  // without waiting
  /// Why the tracker refused the handshake, in words, when it has since the last call.
  std::optional<std::string> refusal();
  /// Readable when receive() may have something; call receive() until it has nothing, then poll again.
  int descriptor() const;
  /// Drops the connection, and what was not sent, and begins a new one.
  void reconnect();
  /// Waits until what was sent has left, at most this long.
  void flush(std::chrono::milliseconds timeout);

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
  std::string endpoint_, peer_;
  std::optional<ClientKeys> keys_;
};

/// A routing id that nobody else has.
std::string random_peer();

/// Whether an endpoint can be reached from this machine only: ipc://, and tcp:// on a loopback address.
bool is_local(const std::string& endpoint);

}  // namespace lathe::wire
