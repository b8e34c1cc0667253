#include "db/lines.h"

#include <algorithm>
#include <filesystem>

#include "core/support/error.h"
#include "core/support/printable.h"

namespace lathe::db {
namespace {

constexpr size_t kReasons = 20, kLongestReason = 400;

/// Protocols 2 to 5 begin with 0x80 and their number (pickletools); AutoTVM's "pickle" log has pickles in
/// base64, where that is "gA", between tabs.
/// pickle.load() runs what the file says; we never read one, and say why.
bool is_pickle(std::string_view head) {
  const auto byte = [&](size_t i) { return i < head.size() ? static_cast<unsigned char>(head[i]) : 0; };
  if (byte(0) == 0x80 && byte(1) >= 2 && byte(1) <= 5) return true;
  const size_t tab = head.find('\t');
  return tab != std::string_view::npos && head.find('\n') > tab && head.substr(tab + 1).starts_with("gA");
}

}  // namespace

Lines::Lines(const std::string& path) : path_(path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail("cannot read {}: there is no such file", path);
  if (!std::filesystem::is_regular_file(status)) fail("cannot read {}: it is not a regular file", path);
  file_.open(path, std::ios::binary);
  if (!file_) fail("cannot read {}: may it be read?", path);
  std::string head(4096, '\0');
  file_.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file_.gcount()));
  if (is_pickle(head))
    fail("{} is a Python pickle, which may run any program when it is read; write the log as JSON", path);
  file_.clear();
  file_.seekg(0);
}

bool Lines::next(std::string& line) {
  line.clear();
  // Byte by byte: a file without an end of line must not become one string.
  // Without the sentry of get(), which costs more than the byte.
  std::streambuf& bytes = *file_.rdbuf();
  std::string chunk;  // for the digest
  size_t length = 0;
  for (int byte; (byte = bytes.sbumpc()) != std::char_traits<char>::eof();) {
    if (++length > kNoLine)
      fail("{}:{} goes on for more than {} MiB: this is no log, nor a file of a pack", path_, number_ + 1,
           kNoLine >> 20);
    chunk += static_cast<char>(byte);
    // The digest is of the file as it is, also of what is left out of a line.
    if (chunk.size() == 1 << 16) {
      digest_.add(chunk);
      chunk.clear();
    }
    if (byte == '\n') break;
    // What was cut off is no JSON, and counts as a bad line.
    if (line.size() < kLongest) line += static_cast<char>(byte);
  }
  digest_.add(chunk);
  if (line.ends_with('\r')) line.pop_back();
  number_ += length > 0;
  return length > 0;
}

std::string Lines::place() const { return fmt::format("{}:{}", path_, number_); }

void Tolerance::bad(const std::string& place, const std::string& why, int64_t count) {
  bad_ += count;
  // Bounded: a wrong file has millions of bad lines.
  if (reasons_.size() < kReasons)
    reasons_.push_back(fmt::format("{}: {}", place, shortened(why, kLongestReason)));
}

void Tolerance::settle(const std::string& what) const {
  // One in a hundred, or one at all: the last line of a log is often half a line.
  if (bad_ <= std::max<int64_t>(1, (good_ + bad_) / 100) && (good_ > 0 || bad_ == 0)) return;
  std::string message =
      fmt::format("{}: {} of {} lines are no records of it; nothing was imported", what, bad_, good_ + bad_);
  for (size_t i = 0; i < std::min<size_t>(3, reasons_.size()); ++i) message += "\n  " + reasons_[i];
  throw Error(message);
}

}  // namespace lathe::db
