#include "tracker/http_server.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <fstream>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/file.h"

namespace lathe::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::use_awaitable;
using asio::ip::tcp;
using beast::error_code;

constexpr auto kEventPause = std::chrono::milliseconds(200);
constexpr auto kStreamBeat =
    std::chrono::seconds(15);  // a comment, so that proxies keep a silent stream open
// A head has at most kHeadBytes, but a map of thousands of one-letter names costs more than its text.
constexpr size_t kMostQueries = 32;
constexpr size_t kPieceBytes = 256 << 10;     // of an upload: hashed in a fraction of a millisecond
constexpr size_t kBodyPieceBytes = 16 << 10;  // of another body
constexpr double kPaceAtFirst = 64 << 10;     // as if so many bytes had passed when a transfer begins

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// What is no valid escape stays as it is. `plus`: what + stands for.
std::string percent_decoded(std::string_view text, char plus) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      result += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      result += text[i] == '+' ? plus : text[i];
    }
  }
  return result;
}

Request read_head(const bhttp::request_header<>& head) {
  Request request;
  request.method = std::string(head.method_string());
  const std::string target(head.target());
  // Divided before it is decoded: %3F and %26 are part of a value.
  const size_t question = target.find('?');
  request.path = percent_decoded(target.substr(0, question), '+');
  if (question != std::string::npos) {
    std::string_view rest = std::string_view(target).substr(question + 1);
    // No route has as many: what comes after is left out.
    while (!rest.empty() && request.query.size() < kMostQueries) {
      const std::string_view pair = rest.substr(0, rest.find('&'));
      rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
      const size_t equals = std::min(pair.find('='), pair.size());
      request.query[percent_decoded(pair.substr(0, equals), ' ')] =
          equals < pair.size() ? percent_decoded(pair.substr(equals + 1), ' ') : "";
    }
  }
  constexpr beast::string_view kBearer = "Bearer ";
  // In whatever letters (RFC 9110, 11.1): proxies and clients spell the scheme in small ones, too.
  if (const std::string value(head[bhttp::field::authorization]);
      beast::iequals(value.substr(0, kBearer.size()), kBearer))
    request.token = value.substr(kBearer.size());
  request.host = std::string(head[bhttp::field::host]);
  // Empty where none is sent: by what is no browser, and by browsers for a page's own GETs.
  request.origin = std::string(head[bhttp::field::origin]);
  request.fetch_site = std::string(head["Sec-Fetch-Site"]);
  request.last_event_id = std::string(head["Last-Event-ID"]);
  return request;
}

/// Whether a proxy before this service could take the request for another one, or for two (RFC 9112, 3.2, 6.1
/// and 11.2). What else is doubtful Beast refuses.
bool is_ambiguous(const bhttp::request_header<>& head) {
  for (const bhttp::field once : {bhttp::field::host, bhttp::field::authorization, bhttp::field::origin})
    if (head.count(once) > 1) return true;
  return head.count(bhttp::field::transfer_encoding) > 0 &&
         (head.version() < 11 || !beast::iequals(head[bhttp::field::transfer_encoding], "chunked"));
}

/// What comes before the body of a response. `bytes`: of the body; nothing for one that ends with its
/// connection.
std::string head_text(const Response& response, bool keep_alive, std::optional<uint64_t> bytes) {
  bhttp::response<bhttp::empty_body> message{static_cast<bhttp::status>(response.status), 11};
  message.set(bhttp::field::server, "lathe");
  // Response::headers may override any of these.
  message.set(bhttp::field::content_type, response.events ? "text/event-stream" : response.type);
  // Answers hold names and errors of strangers: no browser is to find a page or a script in them.
  message.set("X-Content-Type-Options", "nosniff");
  message.set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'");
  message.set("Referrer-Policy", "no-referrer");
  // They are of one moment, and of one token.
  message.set(bhttp::field::cache_control, "no-store");
  for (const auto& [name, value] : response.headers) message.set(name, value);
  message.keep_alive(keep_alive);
  if (bytes) message.content_length(*bytes);
  std::ostringstream text;
  text << message.base();
  return std::move(text).str();
}

/// A connection, with TLS or without. One type for both, as what reads and writes HTTP is compiled for each
/// type of stream: a model of Asio's AsyncReadStream and AsyncWriteStream.
class Stream {
 public:
  using executor_type = beast::tcp_stream::executor_type;

  explicit Stream(tcp::socket socket) : plain_(std::in_place, std::move(socket)) {}
  void secure(asio::ssl::context& context) {
    tls_.emplace(std::move(*plain_), context);
    plain_.reset();
  }

  /// What time limits are set on: under TLS it lies beneath the stream.
  beast::tcp_stream& clock() { return tls_ ? beast::get_lowest_layer(*tls_) : *plain_; }
  executor_type get_executor() { return clock().get_executor(); }
  beast::ssl_stream<beast::tcp_stream>& tls() { return *tls_; }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return tls_ ? tls_->async_read_some(buffers, std::forward<Token>(token))
                : plain_->async_read_some(buffers, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return tls_ ? tls_->async_write_some(buffers, std::forward<Token>(token))
                : plain_->async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  std::optional<beast::tcp_stream> plain_;
  std::optional<beast::ssl_stream<beast::tcp_stream>> tls_;
};

Response error_response(int status, const std::string& text) {
  // The text may name a user or a file, and so hold quotes, or bytes that are no UTF-8.
  return {.status = status, .body = json_line({{"error", text}}) + "\n"};
}

/// Of the descriptors that this process may have at most half: workers, searches and files need theirs, and
/// where there is none left nobody is let in who could make another one go.
size_t most_connections() {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return kConnections;
  return std::min<size_t>(kConnections, descriptors.rlim_cur / 2);
}

std::string event_text(const Event& event) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.id, event.name, event.data);
}

}  // namespace

// One thread runs everything here: coroutines take turns at each co_await, so nothing needs a lock, and
// nothing may block. What waits for the disk goes to `disk`.
struct Server::Impl {
  Settings settings;
  const size_t most = most_connections();
  size_t connections = 0;
  uint64_t waits = 0;                              // for a request's head, ever
  std::map<uint64_t, beast::tcp_stream*> waiting;  // for one now, the longest first
  struct Transfer;
  std::list<Transfer*> transfers;  // bodies and answers on their way
  uint64_t held = 0;               // bytes of these, uploads and files aside
  // Connections end with the context, at the latest, and use what stands before it.
  asio::io_context context{1};
  asio::thread_pool disk{1};  // that uploads wait for
  std::optional<asio::ssl::context> tls;
  tcp::acceptor acceptor{context};
  std::thread thread;

  explicit Impl(Settings s) : settings(std::move(s)) {
    if (!settings.certificate.empty()) load_certificate();
    try {
      // The star of ZeroMQ's endpoints, so that both addresses of a tracker are written alike.
      const std::string host = settings.host == "*" ? "0.0.0.0" : settings.host;
      const tcp::endpoint endpoint =
          *tcp::resolver(context).resolve(host, std::to_string(settings.port)).begin();
      acceptor.open(endpoint.protocol());
      // A tracker that is started again need not wait for the connections of its last life to time out.
      acceptor.set_option(asio::socket_base::reuse_address(true));
      acceptor.bind(endpoint);
      acceptor.listen();
    } catch (const boost::system::system_error& error) {
      fail("cannot serve HTTP on {}:{}: {}", settings.host, settings.port, error.what());
    }
    asio::co_spawn(context, accept(), asio::detached);
    thread = std::thread([this] { context.run(); });
  }

  void load_certificate() {
    const std::string chain = read_file(settings.certificate), key = read_file(settings.key);
    tls.emplace(asio::ssl::context::tls_server);
    // From TLS 1.2 on: tokens are all that stands between users. RFC 8996 retires the older ones.
    tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                     asio::ssl::context::no_tlsv1_1);
    error_code error;
    tls->use_private_key(asio::buffer(key), asio::ssl::context::pem, error);
    if (error) fail("{} holds no private key that can be read (PEM, without a password)", settings.key);
    tls->use_certificate_chain(asio::buffer(chain), error);
    if (error) fail("{} holds no certificate that can be read (PEM)", settings.certificate);
    // Else the first handshake would tell, to a client, in OpenSSL's words.
    if (SSL_CTX_check_private_key(tls->native_handle()) != 1)
      fail("the key in {} does not belong to the certificate in {}", settings.key, settings.certificate);
  }

  ~Impl() {
    // Coroutines are left where they stand; their frames, and with them sockets and streams,
    // go with the context.
    context.stop();
    thread.join();
  }

  asio::awaitable<void> accept() {
    for (;;) {
      error_code error;
      // redirect_error: accept() must not end by an exception, for then nobody would get in any more.
      tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(use_awaitable, error));
      if (error) {  // out of descriptors, say: later there may be some
        asio::steady_timer pause(context, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(use_awaitable, error));
        continue;
      }
      // Whoever opens connections and says nothing (slowloris), or hardly anything, only pushes out others
      // that do.
      if (connections >= most && !show_out()) continue;  // closed at once
      ++connections;
      asio::co_spawn(context, connection(std::move(socket)), [this](const std::exception_ptr&) {
        --connections;  // whatever ended it: a reset, a time that ran out
      });
    }
  }

  /// Closes the connection that has waited longest without asking anything; where none waits, the one whose
  /// body or answer is slowest. False when all listen to events.
  bool show_out() {
    beast::tcp_stream* out = nullptr;
    if (!waiting.empty()) {
      out = waiting.begin()->second;
      waiting.erase(waiting.begin());
    } else if (const Transfer* slowest = find_slowest([](const Transfer&) { return true; })) {
      out = &slowest->stream;
    }
    if (out) out->close();
    return out != nullptr;
  }

  /// Of those that `may_go`, and were not shown out; null: none.
  template <typename MayGo>
  Transfer* find_slowest(MayGo may_go) {
    const auto now = std::chrono::steady_clock::now();
    Transfer* slowest = nullptr;
    double least = 0;
    for (Transfer* transfer : transfers) {
      // Shown out, and has not noticed yet.
      if (!transfer->stream.socket().is_open() || !may_go(*transfer)) continue;
      const double pace = transfer->pace(now);
      if (!slowest || pace < least) slowest = transfer, least = pace;
    }
    return slowest;
  }

  /// A body or an answer has so many bytes more, until it has passed. Where all have too many, the slowest
  /// go: an answer costs who asks little, and could be left here for hours.
  void hold(Transfer& transfer, uint64_t bytes) {
    transfer.held += bytes;
    held += bytes;
    while (held > kHeldBytes) {
      Transfer* slowest = find_slowest([&](const Transfer& t) { return &t != &transfer && t.held > 0; });
      if (!slowest) return;
      slowest->stream.close();
      // It goes with its coroutine, which this ends.
      held -= std::exchange(slowest->held, 0);
    }
  }

  /// A body or an answer on its way, as long as it lives: among those of which the slowest makes room.
  struct Transfer {
    Transfer(Impl& s, beast::tcp_stream& t)
        : stream(t), server(s), place(server.transfers.insert(server.transfers.end(), this)) {}
    ~Transfer() {
      server.held -= held;
      server.transfers.erase(place);
    }
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    double pace(std::chrono::steady_clock::time_point now) const {
      return (kPaceAtFirst + static_cast<double>(bytes)) / std::chrono::duration<double>(now - begun).count();
    }

    beast::tcp_stream& stream;
    const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
    uint64_t bytes = 0;  // that have passed
    uint64_t held = 0;   // in memory

   private:
    Impl& server;
    const std::list<Transfer*>::iterator place;
  };

  /// Among those who wait, as long as it lives.
  /// By number and not by stream, so that the first of the map is whoever came to wait first.
  class Wait {
   public:
    Wait(Impl& server, beast::tcp_stream& stream) : server_(server), number_(++server.waits) {
      server_.waiting.emplace(number_, &stream);
    }
    ~Wait() { server_.waiting.erase(number_); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Impl& server_;
    const uint64_t number_;
  };

  // Whatever throws in it (a reset, a time-out, a failed handshake) ends this connection alone: see accept().
  asio::awaitable<void> connection(tcp::socket socket) {
    // Answers and events are short, and nothing follows that would fill a packet.
    socket.set_option(tcp::no_delay(true));
    Stream stream(std::move(socket));
    if (tls) {
      stream.secure(*tls);
      stream.clock().expires_after(kHeadTime);
      // A handshake has asked nothing yet either.
      const Wait wait(*this, stream.clock());
      co_await stream.tls().async_handshake(asio::ssl::stream_base::server, use_awaitable);
    }
    co_await converse(stream);
    error_code ignored;
    if (!tls) {
      stream.clock().socket().shutdown(tcp::socket::shutdown_send, ignored);
      co_return;
    }
    // It waits for the client's own, which may never come: of a stream there is no limit of time left.
    stream.clock().expires_after(kHeadTime);
    const Wait wait(*this, stream.clock());
    // close_notify (RFC 8446, 6.1): without it a client cannot tell an answer's end from one cut short.
    co_await stream.tls().async_shutdown(asio::redirect_error(use_awaitable, ignored));
  }

  /// Requests and responses, one after the other, until the client has had enough.
  asio::awaitable<void> converse(Stream& stream) {
    beast::tcp_stream& clock = stream.clock();
    // Of the connection and not of a request: what a client sends ahead (pipelining) is read
    // with the request before.
    beast::flat_buffer buffer;
    for (bool keep_alive = true; keep_alive;) {
      clock.expires_after(kHeadTime);
      // Only the head is read with this one; whose body may follow, and how it is kept, is
      // settled by what it says.
      bhttp::request_parser<bhttp::empty_body> head;
      head.header_limit(kHeadBytes);
      // Which of the two limits holds is known by the route, when the head has come: see read_body.
      head.body_limit(kUploadBytes);
      error_code error;
      {
        const Wait wait(*this, clock);
        co_await bhttp::async_read_header(stream, buffer, head, asio::redirect_error(use_awaitable, error));
      }
      // It has closed the connection between two requests, as it may.
      if (error == bhttp::error::end_of_stream) co_return;
      if (error) {
        // To one that says nothing nothing is said.
        if (error != beast::error::timeout && clock.socket().is_open())
          co_await respond(stream, error_response(400, error.message()), false, false);
        co_return;
      }
      if (is_ambiguous(head.get())) {
        co_await respond(stream, error_response(400, "the request's head is ambiguous"), false, false);
        co_return;
      }
      const bool head_only = head.get().method() == bhttp::verb::head;
      Request request = read_head(head.get());
      // Routes need not know the difference; respond() does.
      if (head_only) request.method = "GET";
      keep_alive = head.get().keep_alive();
      Response response;
      // By the head alone: who may not ask may not send us a body either.
      // The bytes of a body that is refused are never read, so the connection cannot go on,
      // unless there are none.
      if (std::optional<Response> refused = settings.admit(request)) {
        response = std::move(*refused);
        keep_alive = keep_alive && head.is_done();  // its body was not read
      } else {
        // Who asks (curl, with long bodies) waits for it; who is refused has sent nothing in vain.
        if (head.get()[bhttp::field::expect] == "100-continue")
          co_await send(stream, "HTTP/1.1 100 Continue\r\n\r\n");
        std::optional<Response> too_much = co_await read_body(stream, buffer, head, request);
        if (too_much) {
          // The rest of the body may be gigabytes: closing is the only way to be spared them.
          response = std::move(*too_much);
          keep_alive = false;
        } else {
          response = settings.handle(request);
        }
      }
      // A stream ends with its connection: there is no length after which another answer could begin.
      if (response.events) {
        co_await stream_events(stream, response, head_only);
        co_return;
      }
      co_await respond(stream, std::move(response), keep_alive, head_only);
    }
  }

  /// A response when the body is no good.
  asio::awaitable<std::optional<Response>> read_body(Stream& stream, beast::flat_buffer& buffer,
                                                     bhttp::request_parser<bhttp::empty_body>& head,
                                                     Request& request) {
    // The sink is made before the first byte is read: it opens the file and asks for the user's share.
    std::optional<Response> no_room = refused_by([&] { request.sink = settings.sink(request); });
    if (no_room) co_return no_room;
    // A length was compared with the limit when the head was read, which was that of uploads.
    if (const auto length = head.content_length(); !request.sink && length && *length > kBodyBytes)
      co_return error_response(413, "the body is too long");
    bhttp::request_parser<bhttp::buffer_body> parser(std::move(head));
    parser.body_limit(request.sink ? kUploadBytes : kBodyBytes);
    error_code error;
    if (!parser.is_done()) {
      Transfer transfer(*this, stream.clock());
      std::vector<char> piece(request.sink ? kPieceBytes : kBodyPieceBytes);
      // An upload may take long, if it goes on; another body has this time in all.
      stream.clock().expires_after(settings.idle_time);
      // Others are answered between two pieces, on the same thread.
      while (!parser.is_done() && !error && !no_room) {
        parser.get().body().data = piece.data();
        parser.get().body().size = piece.size();
        if (request.sink) stream.clock().expires_after(settings.idle_time);
        co_await bhttp::async_read_some(stream, buffer, parser, asio::redirect_error(use_awaitable, error));
        // The piece is full, which is no mistake.
        // buffer_body's way to say that the piece must be taken away before it goes on.
        if (error == bhttp::error::need_buffer) error = {};
        const std::string_view bytes(piece.data(), piece.size() - parser.get().body().size);
        transfer.bytes += bytes.size();
        if (request.sink) {
          no_room = refused_by([&] { request.sink->add(bytes); });
        } else {
          hold(transfer, bytes.size());
          request.body += bytes;
        }
      }
    }
    if (request.sink && !error && !no_room) no_room = co_await complete(*request.sink);
    if (no_room) co_return no_room;
    if (error == bhttp::error::body_limit) co_return error_response(413, "the body is too long");
    if (error) co_return error_response(400, error.message());
    co_return std::nullopt;
  }

  /// The answer where there is no room for what `step` takes. 413: this user has too much; 507: this machine
  /// has too little.
  template <typename Step>
  static std::optional<Response> refused_by(Step step) {
    try {
      step();
      return std::nullopt;
    } catch (const TooLarge& full) {
      return error_response(413, full.what());
    } catch (const Error& full) {
      return error_response(507, full.what());
    }
  }

  // Runs on `disk`, and comes back to this thread with its result; the sink outlives it,
  // since its request does.
  asio::awaitable<std::optional<Response>> complete(Sink& sink) {
    // Others are answered meanwhile.
    co_return co_await asio::co_spawn(
        disk,
        [&sink]() -> asio::awaitable<std::optional<Response>> {
          co_return refused_by([&] { sink.complete(); });
        },
        use_awaitable);
  }

  /// The response lives as long as this does.
  asio::awaitable<void> respond(Stream& stream, Response&& response, bool keep_alive, bool head_only) {
    Transfer transfer(*this, stream.clock());
    if (response.file.empty()) {
      std::string text = head_text(response, keep_alive, response.body.size());
      if (!head_only) text += response.body;
      // Not twice, for as long as the client takes.
      std::string().swap(response.body);
      hold(transfer, text.size());
      co_await send(stream, text, &transfer);
      co_return;
    }
    std::ifstream file(response.file, std::ios::binary | std::ios::ate);
    if (!file) {
      co_await respond(stream, error_response(404, "the file is gone"), keep_alive, head_only);
      co_return;
    }
    auto left = static_cast<uint64_t>(file.tellg());
    file.seekg(0);
    co_await send(stream, head_text(response, keep_alive, left), &transfer);
    // As it is sent, piece by piece: a module may have a gigabyte.
    std::vector<char> piece(head_only ? 0 : kPieceBytes);
    while (!head_only && left > 0) {
      file.read(piece.data(), static_cast<std::streamsize>(std::min<uint64_t>(piece.size(), left)));
      const auto bytes = static_cast<size_t>(file.gcount());
      if (bytes == 0) fail("{} became shorter while it was sent", response.file);
      co_await send(stream, {piece.data(), bytes}, &transfer);
      left -= bytes;
    }
  }

  /// One write at a time, each with its own limit: a client that reads slowly may take long, one that does
  /// not read is cut off, by an exception.
  asio::awaitable<void> send(Stream& stream, std::string_view bytes, Transfer* transfer = nullptr) {
    while (!bytes.empty()) {
      stream.clock().expires_after(settings.idle_time);
      const size_t sent = co_await stream.async_write_some(asio::buffer(bytes), use_awaitable);
      if (transfer) transfer->bytes += sent;
      bytes.remove_prefix(sent);
    }
  }

  asio::awaitable<void> stream_events(Stream& stream, const Response& response, bool head_only) {
    co_await send(stream, head_text(response, false, {}));
    // A proxy would take events for the next answer (RFC 9112, 6.3).
    if (head_only) co_return;
    int64_t after = response.first_event;
    auto spoke = std::chrono::steady_clock::now();
    // `last` comes from events(): the job is over, or the token void. What was told before
    // that is sent first.
    for (bool last = false; !last;) {
      std::string text;
      for (const Event& event : response.events(after, last)) {
        text += event_text(event);
        after = std::max(after, event.id);
      }
      // It also finds out whether the client is still there, which a silent stream never would.
      if (text.empty() && std::chrono::steady_clock::now() - spoke > kStreamBeat) text = ": still here\n\n";
      if (!text.empty()) {
        Transfer transfer(*this, stream.clock());
        hold(transfer, text.size());
        co_await send(stream, text, &transfer);
        spoke = std::chrono::steady_clock::now();
        last = false;  // there may be more
        continue;
      }
      if (last) break;
      // Between two looks nothing is awaited of the client.
      stream.clock().expires_never();
      // Looked at five times a second and not woken: the tracker, its searches and this server write to one
      // database, and none needs to know who listens.
      asio::steady_timer pause(context, kEventPause);
      co_await pause.async_wait(use_awaitable);
    }
  }
};

Server::Server(Settings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
Server::~Server() = default;
uint16_t Server::port() const { return impl_->acceptor.local_endpoint().port(); }

}  // namespace lathe::http
