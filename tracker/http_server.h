// The only place that knows HTTP's wire: requests in, responses and event streams out, over TCP or TLS.
// Boost.Asio and Beast are behind it and stay there (one file of them takes half a minute to compile).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>  // for Boost 1.74, whose awaitable.hpp forgets it
#include <vector>

#include "core/support/error.h"

namespace lathe::http {

/// A body is more than whoever sends it may send.
class TooLarge : public Error {
 public:
  using Error::Error;
};

/// Takes a body as it comes, on the server's thread.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Throws Error when there is no room for more, TooLarge when there would be for others.
  virtual void add(std::string_view bytes) = 0;
  /// All has come. On another thread, for it may wait for the disk; the server's does not touch the sink
  /// meanwhile. Throws Error when there is no room.
  virtual void complete() {}
};

struct Request {
  std::string method, path;  // path: without the query, percent-decoded
  std::map<std::string, std::string> query;
  std::string host, origin;    // Host and Origin; "": none
  std::string fetch_site;      // Sec-Fetch-Site; "": none
  std::string token;           // of "Authorization: Bearer ..."; "": none
  std::string last_event_id;   // Last-Event-ID
  std::string body;            // of what is no upload
  std::shared_ptr<Sink> sink;  // that has taken an upload
};

struct Event {
  int64_t id = 0;
  std::string name, data;  // one line each
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::string file;                            // sent instead of the body, if not ""
  std::map<std::string, std::string> headers;  // beyond those of every response
  /// For an event stream (text/event-stream) instead of a body: those that came since, oldest first; asked
  /// again and again, on the server's thread, until the client leaves. `last` becomes true on the final call.
  std::function<std::vector<Event>(int64_t after, bool& last)> events;
  int64_t first_event = 0;  // those after this one
};

struct Settings {
  std::string host = "127.0.0.1";
  uint16_t port = 0;             // 0: any free one
  std::string certificate, key;  // files, PEM; "": without TLS
  /// Called with method, path and token when the head has come, before any body is read: a response refuses
  /// it. Then `handle` with all of it. Both on the server's thread.
  std::function<std::optional<Response>(const Request&)> admit;
  std::function<Response(const Request&)> handle;
  /// What takes the request's body, of kUploadBytes at most; null: Request::body. Throws Error when there is
  /// no room.
  std::function<std::shared_ptr<Sink>(const Request&)> sink;
  /// For each piece of a body, of a file or of an answer: a client may be slow, but not silent.
  std::chrono::milliseconds idle_time{30'000};
};

/// Limits of what strangers may use up. Of more connections, those go whose next request is waited for
/// longest; where none waits, whose body or answer is slowest. They are fewer where the process may have few
/// descriptors.
inline constexpr size_t kConnections = 1024, kHeadBytes = 16 << 10, kBodyBytes = 1 << 20;
inline constexpr uint64_t kUploadBytes = uint64_t{8} << 30;
/// Of all bodies that are no uploads, and of answers until they are taken, together: of more, the slowest go.
inline constexpr uint64_t kHeldBytes = uint64_t{256} << 20;
inline constexpr std::chrono::seconds kHeadTime{10};

class Server {
 public:
  /// Serves on a thread of its own. Throws Error when it cannot listen, or cannot read the certificate.
  explicit Server(Settings settings);
  /// Closes all connections.
  ~Server();

  uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::http
