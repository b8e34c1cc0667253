// The client's side of a tracker's HTTP API (docs/jobs.md). libcurl is behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/flags.h"

namespace lathe::cli {

/// Where the service is, as flags say.
struct ServicePlace {
  std::string url;         // http://HOST:PORT or https://...
  std::string token_file;  // "": LATHE_TOKEN, or none
  std::string authority;   // file, PEM: who vouches for an https tracker; "": those of the system

  void add_to(Flags& flags, Flags::Need need);
};

/// Calls throw ServiceError when the service cannot be reached, refuses the caller or fails, and Error with
/// its words when it refuses what was asked.
class ServiceClient {
 public:
  /// Throws Error for a token file that cannot be read or that others can, or a URL of another kind.
  explicit ServiceClient(const ServicePlace& place);
  ~ServiceClient();

  nlohmann::json get(const std::string& path);
  std::string get_text(const std::string& path);
  nlohmann::json post(const std::string& path, const std::string& body);
  bool exists(const std::string& path);
  void upload(const std::string& path, const std::string& file);
  /// Into a file beside `file`, then renamed. `bytes`: what it has by another answer, more and less than
  /// which is refused; 0: not known, and this answer must say.
  void download(const std::string& path, const std::string& file, uint64_t bytes);

  struct Event {
    std::string name, data;
  };
  /// Calls `on_event` for each, connecting anew where the stream was cut, until that returns false or the
  /// service ends the stream. `stop` is asked often. Throws when the service is gone for half a minute.
  void follow(const std::string& path, const std::function<bool(const Event&)>& on_event,
              const std::function<bool()>& stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a tracker has said, a discarded value where that is no JSON. Throws ServiceError for JSON that
/// unfolds to more than any honest one.
nlohmann::json parse_said(const std::string& text, const char* what);

/// Text as one part of a path, or as a value in a query (RFC 3986, 2.1).
std::string url_part(const std::string& text);

/// What `body` returns. Throws ServiceError also where an answer is JSON of another shape than this version
/// expects.
int with_service(const ServicePlace& place, const std::function<int(ServiceClient&)>& body);

}  // namespace lathe::cli
