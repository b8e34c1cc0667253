#include "cli/service_client.h"

#include <curl/curl.h>
#include <openssl/x509_vfy.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/keys.h"
#include "cli/messages.h"
#include "core/support/bounded_json.h"
#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/loopback.h"
#include "core/support/service_error.h"
#include "core/support/unfinished.h"
#include "tracker/defaults.h"

namespace lathe::cli {
namespace {

using nlohmann::json;
constexpr auto kPatience = std::chrono::seconds(30);  // with a service that restarts

struct FileCloser {
  void operator()(FILE* file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, FileCloser>;

std::string read_token(const std::string& file) {
  // A token that others can read is theirs too.
  if (!file.empty()) require_private(file);
  const char* given = getenv("LATHE_TOKEN");
  std::string token = !file.empty() ? read_file(file) : given ? given : "";
  // Editors end a file with a new line.
  while (!token.empty() && isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  // In the header below, what follows a line's end would be a header of its own.
  if (token.find_first_of("\r\n") != std::string::npos)
    fail("{} must hold one token, on one line", file.empty() ? "LATHE_TOKEN" : file);
  return token;
}

// A tracker that is none, or has become hostile, is to fill neither memory nor disk. The longest honest
// answer is a page of trials, the longest event a schedule.
constexpr size_t kAnswerBytes = 256 << 20, kEventBytes = 32 << 20;
constexpr size_t kReasonBytes = 64 << 10;  // of a refusal

/// Of http://HOST:PORT/...; an address of IPv6 with its brackets.
std::string_view host_of(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  const size_t in_brackets = url.starts_with('[') ? url.find(']') : 0;
  return url.substr(0, url.find_first_of(":/", in_brackets));
}

bool is_success(long status) { return status >= 200 && status < 300; }

/// Of an answer that is no success, and so the reason why. False when there is more of it than of any.
bool add_reason(std::string& reason, std::string_view bytes) {
  reason += bytes.substr(0, kReasonBytes - reason.size());
  return reason.size() < kReasonBytes;
}

long status_of(CURL* curl) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

/// As its head says; -1: it does not.
curl_off_t length_of(CURL* curl) {
  curl_off_t length = -1;
  curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  return length;
}

/// What a tracker sends, up to a limit, for curl, to which a byte is an element of size 1
/// (CURLOPT_WRITEFUNCTION).
struct Received {
  uint64_t limit;
  bool is_sized = false;  // it must say how long it is
  FILE* file = nullptr;   // where it goes; null: into `body`, as does what is no success
  CURL* curl = nullptr;   // of the request
  std::string body = {};
  uint64_t bytes = 0;
  bool too_long = false;
  bool unsized = false;  // though it should not be
  bool refused = false;  // at such length that the rest was not waited for
  int unwritten = 0;     // an errno: why the file takes no more

  static size_t take(char* bytes, size_t, size_t count, void* received) {
    auto& self = *static_cast<Received*>(received);
    if (!is_success(status_of(self.curl))) {
      self.refused = !add_reason(self.body, {bytes, count});
      return self.refused ? 0 : count;
    }
    self.bytes += count;
    self.too_long = self.bytes > self.limit;
    self.unsized = self.is_sized && length_of(self.curl) < 0;
    // Any other number than `count` has curl end the request.
    if (self.too_long || self.unsized) return 0;
    if (self.file) {
      const size_t written = fwrite(bytes, 1, count, self.file);
      if (written < count) self.unwritten = errno;
      return written;
    }
    self.body.append(bytes, count);
    return count;
  }
};

}  // namespace

void ServicePlace::add_to(Flags& flags, Flags::Need need) {
  flags.add("--tracker URL", url, "the tracker's HTTP address: http://HOST:9191 or https://...", need);
  flags.add("--token-file FILE", token_file,
            "file with your token, from `tune token`; else LATHE_TOKEN holds the token");
  flags.add("--ca FILE", authority, "file with the certificate that vouches for an https tracker");
}

struct ServiceClient::Impl {
  std::string url, token, authority;

  /// One request. Destroys its handle with it.
  struct Call {
    CURL* curl = curl_easy_init();
    curl_slist* headers = nullptr;
    char error[CURL_ERROR_SIZE] = {};
    Call() { CHECK(curl); }
    ~Call() {
      curl_slist_free_all(headers);
      curl_easy_cleanup(curl);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    void header(const std::string& line) { headers = curl_slist_append(headers, line.c_str()); }
    template <typename Value>
    void set(CURLoption option, Value value) {
      CHECK(curl_easy_setopt(curl, option, value) == CURLE_OK);
    }
  };

  void prepare(Call& call, const std::string& path) const {
    call.set(CURLOPT_URL, (url + path).c_str());
    call.set(CURLOPT_PATH_AS_IS, 1L);  // a worker may be called ".."
    // An address of a file or of FTP is no tracker.
    call.set(CURLOPT_PROTOCOLS_STR, "http,https");
    call.set(CURLOPT_ERRORBUFFER, call.error);
    // Names are looked up without alarms: Ctrl-C is the only signal that is handled here.
    call.set(CURLOPT_NOSIGNAL, 1L);
    call.set(CURLOPT_CONNECTTIMEOUT, 10L);
    // A silent tracker is given up; event streams have a beat every 15 s.
    call.set(CURLOPT_LOW_SPEED_LIMIT, 1L);  // bytes a second
    call.set(CURLOPT_LOW_SPEED_TIME, 60L);
    // What http_proxy names is another machine, to which this one's addresses are its own, and which would
    // see the token.
    if (is_loopback(host_of(url))) call.set(CURLOPT_NOPROXY, "*");
    if (!authority.empty()) call.set(CURLOPT_CAINFO, authority.c_str());
    // In the header: addresses are logged on their way.
    if (!token.empty()) call.header("Authorization: Bearer " + token);
    call.header("Expect:");
  }

  /// What curl says of it, and what may be wrong.
  std::string problem_of(const Call& call, CURLcode code) const {
    std::string text = fmt::format("{}: {}", url, *call.error ? call.error : curl_easy_strerror(code));
    long verdict = X509_V_OK;
    curl_easy_getinfo(call.curl, CURLINFO_SSL_VERIFYRESULT, &verdict);
    const bool unknown_issuer = verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
                                verdict == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
                                verdict == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
                                verdict == X509_V_ERR_CERT_SIGNATURE_FAILURE;
    if (code == CURLE_PEER_FAILED_VERIFICATION && unknown_issuer)
      text += "\n  hint: name the certificate that vouches for this tracker with --ca FILE";
    else if (code == CURLE_SSL_CONNECT_ERROR)
      text += "\n  hint: if it serves without TLS, its address begins with http://";
    else if ((code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR) && url.starts_with("http://"))
      text += "\n  hint: if it serves with TLS, its address begins with https://";
    return text;
  }

  ServiceError too_long(uint64_t limit) const {
    constexpr uint64_t kMiB = 1 << 20;
    return ServiceError(limit < kMiB
                            ? fmt::format("{}: its answer is longer than {} bytes", url, limit)
                            : fmt::format("{}: its answer is longer than {} MiB", url, limit / kMiB));
  }

  /// Returns the status. Throws ServiceError when there is no answer, or too long a one.
  /// Where the file takes no more, returns 0: it is the caller's, who knows its name.
  long perform(Call& call, Received* received = nullptr) const {
    call.set(CURLOPT_HTTPHEADER, call.headers);
    if (received) {
      received->curl = call.curl;
      call.set(CURLOPT_WRITEFUNCTION, Received::take);
      call.set(CURLOPT_WRITEDATA, received);
      // One that says so itself is refused before the disk is full of it.
      call.set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(received->limit));
    }
    const CURLcode code = curl_easy_perform(call.curl);
    if (received && (received->too_long || code == CURLE_FILESIZE_EXCEEDED)) throw too_long(received->limit);
    if (received && received->unsized)
      throw ServiceError(fmt::format("{}: its answer does not say how long it is", url));
    if (received && received->unwritten) return 0;
    if (code != CURLE_OK && !(received && received->refused)) throw ServiceError(problem_of(call, code));
    return status_of(call.curl);
  }

  void require_success(long status, const std::string& body) const {
    if (is_success(status)) return;
    // A proxy in front of the tracker may answer with a page of its own: then the status alone is told.
    const json answer = parse_said(body, "an answer");
    const std::string text = answer.is_object() && answer.contains("error") && answer["error"].is_string()
                                 ? answer["error"].get<std::string>()
                                 : fmt::format("HTTP status {}", status);
    // The asker's mistakes end with 2; everything else is the service's, 5.
    // A bad token (401, 403) or a full disk (507) is for the service's people to mend, not
    // for the command line.
    const bool asked_badly = status == 400 || status == 404 || status == 409 || status == 413;
    if (asked_badly) throw Error(text);
    throw ServiceError(fmt::format("{}: {}", url, text));
  }

  std::string request(Call& call, const std::string& path) const {
    prepare(call, path);
    Received received{.limit = kAnswerBytes};
    const long status = perform(call, &received);
    require_success(status, received.body);
    return std::move(received.body);
  }
};

ServiceClient::ServiceClient(const ServicePlace& place) : impl_(std::make_unique<Impl>()) {
  // Once, and before there are threads: it may not be safe beside any (curl_global_init(3)).
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  CHECK(started == CURLE_OK);
  const size_t host = place.url.find("://") + 3;
  const bool is_http = place.url.starts_with("http://") || place.url.starts_with("https://");
  // It would be in every message, and in the list of processes; and it is not quoted here.
  if (is_http && place.url.find('@') != std::string::npos)
    fail("--tracker: an address names no user; tokens are given with --token-file or LATHE_TOKEN");
  if (!is_http || host == place.url.size() || place.url[host] == ':' || place.url[host] == '/')
    fail("--tracker {}: must be http://HOST:PORT or https://HOST:PORT", place.url);
  impl_->url = place.url;
  while (impl_->url.ends_with('/')) impl_->url.pop_back();
  impl_->token = read_token(place.token_file);
  impl_->authority = place.authority;
  if (!place.authority.empty() &&
      read_file(place.authority).find("-----BEGIN CERTIFICATE") == std::string::npos)
    fail("--ca {}: holds no certificate (PEM)", place.authority);
}
ServiceClient::~ServiceClient() = default;

std::string ServiceClient::get_text(const std::string& path) {
  Impl::Call call;
  return impl_->request(call, path);
}

namespace {
json parse_answer(const std::string& body, const std::string& url) {
  json answer = parse_said(body, "an answer");
  if (!answer.is_object())
    throw ServiceError(fmt::format("{}: its answer is no JSON: is it a tracker?", url));
  return answer;
}
}  // namespace

json ServiceClient::get(const std::string& path) { return parse_answer(get_text(path), impl_->url); }

json ServiceClient::post(const std::string& path, const std::string& body) {
  Impl::Call call;
  call.set(CURLOPT_POST, 1L);
  call.set(CURLOPT_POSTFIELDS, body.c_str());
  call.set(CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
  call.header("Content-Type: application/json");
  return parse_answer(impl_->request(call, path), impl_->url);
}

bool ServiceClient::exists(const std::string& path) {
  Impl::Call call;
  impl_->prepare(call, path);
  call.set(CURLOPT_NOBODY, 1L);
  // An answer to HEAD has no body, and so no reason that could be told.
  const long status = impl_->perform(call);
  if (status == 404) return false;
  impl_->require_success(status, "");
  return true;
}

void ServiceClient::upload(const std::string& path, const std::string& file) {
  const File bytes(fopen(file.c_str(), "rb"));
  if (!bytes) fail("cannot read {}: {}", file, strerror(errno));
  Impl::Call call;
  call.set(CURLOPT_UPLOAD, 1L);
  // Without a CURLOPT_READFUNCTION curl reads the FILE itself, so a model never lies in memory.
  call.set(CURLOPT_READDATA, bytes.get());
  call.set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(std::filesystem::file_size(file)));
  impl_->request(call, path);
}

void ServiceClient::download(const std::string& path, const std::string& file, uint64_t bytes) {
  if (bytes > defaults::kFetchedLimit) throw impl_->too_long(defaults::kFetchedLimit);
  // Two that fetch the same do not write into one file.
  File into(nullptr);
  Unfinished partial([&] {
    std::string name = fmt::format("{}.{}.partial", file, getpid());
    into.reset(fopen(name.c_str(), "wb"));
    if (!into) fail_to_write(file, errno);
    return name;
  });
  // Said before the disk is full, for others write to it too.
  std::error_code unknown;
  if (const auto room = std::filesystem::space(partial.path(), unknown).available; !unknown && room < bytes)
    fail_to_write(file, ENOSPC);
  Impl::Call call;
  impl_->prepare(call, path);
  Received received{.limit = bytes > 0 ? bytes : defaults::kFetchedLimit,
                    // A tracker of an older release says it here alone.
                    .is_sized = bytes == 0,
                    .file = into.get()};
  const long status = impl_->perform(call, &received);
  if (received.unwritten) fail_to_write(file, received.unwritten);
  impl_->require_success(status, received.body);
  // An answer without a length ends with its connection, whatever ended that.
  if (received.bytes < bytes)
    throw ServiceError(fmt::format("{}: its answer has {} of {} bytes", impl_->url, received.bytes, bytes));
  if (fflush(into.get()) != 0) fail_to_write(file, errno);
  // Whoever opens the file meanwhile finds the old one or the new one, whole (rename(2)).
  partial.finish([&] { std::filesystem::rename(partial.path(), file); });
}

namespace {

/// Lines of an event stream (WHATWG HTML, 9.2) become events. An id counts once its event is whole: a
/// connection that breaks in the midst of an event is to give that event again.
struct EventReader {
  const std::function<bool(const ServiceClient::Event&)>& on_event;
  const std::function<bool()>& stop;
  CURL* curl = nullptr;  // of the request under way
  std::string rest, id, last_id, refusal;
  ServiceClient::Event event;
  bool over = false, heard = false;
  bool refused = false;        // as Received::refused
  std::exception_ptr failure;  // on_event's

  void take(std::string_view bytes) {
    if (status_of(curl) >= 400) {  // no stream: JSON that says why
      refused = !add_reason(refusal, bytes);
      return;
    }
    rest += bytes;
    if (rest.size() + event.data.size() > kEventBytes)
      throw ServiceError(fmt::format("an event of the tracker is longer than {} MiB", kEventBytes >> 20));
    for (size_t end; !over && (end = rest.find('\n')) != std::string::npos;) {
      take_line(rest.substr(0, end));
      rest.erase(0, end + 1);
    }
  }
  void take_line(const std::string& line) {
    heard = true;
    if (line.empty()) {
      if (!event.name.empty() && !on_event(event)) over = true;
      event = {};
      last_id = id;
    } else if (line.starts_with("id: ")) {
      id = line.substr(4);
    } else if (line.starts_with("event: ")) {
      event.name = line.substr(7);
    } else if (line.starts_with("data: ")) {
      event.data = line.substr(6);
    }
  }
};

size_t read_events(char* bytes, size_t, size_t count, void* reader) {
  auto& self = *static_cast<EventReader*>(reader);
  try {
    self.take({bytes, count});
  } catch (...) {  // not through curl, which is C
    self.failure = std::current_exception();
  }
  // Any other number than `count` has curl end the request with a write error (CURLOPT_WRITEFUNCTION(3)).
  return self.over || self.refused || self.failure ? 0 : count;
}

/// curl asks about once a second even where nothing arrives: so Ctrl-C ends a silent stream too.
int ask_to_stop(void* reader, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<EventReader*>(reader)->stop() ? 1 : 0;
}

/// What a proxy says of a tracker that is away (RFC 9110, 15.6.3 to 15.6.5): as good as no answer.
bool is_of_a_gateway(long status) { return status >= 502 && status <= 504; }

}  // namespace

void ServiceClient::follow(const std::string& path, const std::function<bool(const Event&)>& on_event,
                           const std::function<bool()>& stop) {
  using Clock = std::chrono::steady_clock;
  EventReader reader{.on_event = on_event, .stop = stop};
  bool said = false;  // that it does not answer
  for (auto heard = Clock::now();;) {
    Impl::Call call;
    impl_->prepare(call, path);
    if (!reader.last_id.empty()) call.header("Last-Event-ID: " + reader.last_id);
    call.set(CURLOPT_WRITEFUNCTION, read_events);
    call.set(CURLOPT_WRITEDATA, &reader);
    call.set(CURLOPT_NOPROGRESS, 0L);
    call.set(CURLOPT_XFERINFOFUNCTION, ask_to_stop);
    call.set(CURLOPT_XFERINFODATA, &reader);
    call.set(CURLOPT_HTTPHEADER, call.headers);
    reader.curl = call.curl;
    // The connection before may have broken off inside an event: the service gives that again
    // from its beginning.
    reader.rest.clear();
    reader.refusal.clear();
    reader.event = {};
    reader.id = reader.last_id;
    reader.heard = reader.refused = false;
    const CURLcode code = curl_easy_perform(call.curl);
    // Before curl's code, which would call it a failed write.
    if (reader.failure) std::rethrow_exception(reader.failure);
    if (reader.over || stop()) return;
    const long status = status_of(call.curl);
    const bool away = is_of_a_gateway(status);
    if (status >= 400 && !away) impl_->require_success(status, reader.refusal);
    // It has told all there is. One that goes away ends its stream the same way, so whoever was told
    // something asks for what comes after it.
    if (code == CURLE_OK && status == 200 && !reader.heard) return;
    // A service that restarts is asked again from the last event on; one that is gone, not for ever.
    if (reader.heard) {
      heard = Clock::now();
      said = false;
    } else {
      const std::string problem =
          away ? fmt::format("{}: HTTP status {}", impl_->url, status) : impl_->problem_of(call, code);
      if (Clock::now() - heard > kPatience) throw ServiceError(problem);
      if (!std::exchange(said, true)) say("{}; asking again for {} s", problem, kPatience.count());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

json parse_said(const std::string& text, const char* what) {
  constexpr int kDepth = 64;
  try {
    return parse_bounded_json(text, kDepth, what);
  } catch (const Error& error) {
    throw ServiceError(fmt::format("the tracker's words: {}", error.what()));
  }
}

std::string url_part(const std::string& text) {
  const std::unique_ptr<char, decltype(&curl_free)> escaped(
      curl_easy_escape(nullptr, text.c_str(), static_cast<int>(text.size())), curl_free);
  CHECK(escaped);
  return escaped.get();
}

int with_service(const ServicePlace& place, const std::function<int(ServiceClient&)>& body) {
  ServiceClient service(place);
  try {
    return body(service);
  } catch (const json::exception& error) {
    throw ServiceError(fmt::format("{}: answers in words of another version: {}", place.url, error.what()));
  }
}

}  // namespace lathe::cli
