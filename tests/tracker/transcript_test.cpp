// What workers of older versions said, and what their tracker told them, byte by byte: this tracker hears the
// same, has to understand it, and has to tell them the same.
#include <deque>
#include <map>
#include <sstream>

#include "core/support/file.h"
#include "core/support/text.h"
#include "tests/tracker/farm_bench.h"

namespace lathe::tracker {
namespace {

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// Replays a file that transcripts/record.py wrote.
class Replay {
 public:
  explicit Replay(const std::string& file) {
    int number = 0;
    for (const std::string& line : split_text(read_file(file), '\n')) {
      ++number;
      if (line.empty() || line.starts_with('#')) continue;
      SCOPED_TRACE(fmt::format("{}:{}: {}", file, number, line.substr(0, 40)));
      take(line);
      if (testing::Test::HasFailure()) return;  // what follows would differ too
    }
    EXPECT_TRUE(told_.empty());
  }

  const Bench& bench() const { return bench_; }
  size_t heard() const { return heard_; }

 private:
  void take(const std::string& line) {
    std::istringstream words(line);
    int64_t at = 0;
    std::string who, what;
    words >> at >> who >> what;
    while (bench_.now < Time(at)) {
      bench_.pass(defaults::kTick);
      listen();
    }
    if (what == "<") return expect(words, who);
    EXPECT_TRUE(told_.empty()) << "it says " << name_of(told_.front().message) << " to "
                               << told_.front().peer;
    if (who == "submit") {
      int count = 0;
      words >> count;
      bench_.submit(count, what);
    } else if (who == "restart") {
      bench_.restart();
      return;
    } else {
      std::string name, hex;
      words >> name >> hex;
      const wire::Message message = wire::decode(bytes_of(hex));
      EXPECT_EQ(name_of(message), name);
      bench_.say(who, message);
      ++heard_;
    }
    listen();
  }

  void listen() {
    for (Outgoing& out : bench_.last.messages) told_.push_back(std::move(out));
    for (const StoreChange& change : bench_.last.stored)
      if (change.bytes) store_[change.digest] = *change.bytes;
    for (const Wanted& wanted : bench_.last.wanted)
      told_.push_back({wanted.peer, wire::chunk_of(store_.at(wanted.get.digest), wanted.get)});
    bench_.last = {};
  }

  void expect(std::istringstream& words, const std::string& who) {
    std::string name, hex;
    words >> name >> hex;
    ASSERT_FALSE(told_.empty()) << "it says nothing";
    const Outgoing out = std::move(told_.front());
    told_.pop_front();
    EXPECT_EQ(out.peer, who);
    EXPECT_EQ(name_of(out.message), name);
    EXPECT_TRUE(out.message == wire::decode(bytes_of(hex))) << "it says something else";
  }

  Bench bench_;
  std::deque<Outgoing> told_;
  std::map<std::string, std::string> store_;  // bytes by digest
  size_t heard_ = 0;
};

struct Recorded {
  const char* file;
  size_t heard, ok, failed;
};
void PrintTo(const Recorded& recorded, std::ostream* out) { *out << recorded.file; }

class Transcript : public testing::TestWithParam<Recorded> {};

TEST_P(Transcript, IsUnderstoodAndAnswered) {
  const Recorded& recorded = GetParam();
  const Replay replay(fmt::format("{}/{}", TRANSCRIPTS, recorded.file));
  size_t ok = 0, failed = 0;
  for (const MemoryJournal::Entry& entry : replay.bench().journal.entries()) {
    EXPECT_LE(entry.terminal, 1);
    if (entry.terminal == 0) continue;  // handed back at the end
    const wire::Result& result = entry.finished.result;
    ++(result.outcome == Outcome::kOk ? ok : failed);
    if (result.outcome == Outcome::kOk)
      EXPECT_EQ(result.samples, (std::vector{0.001f, 0.002f}));
    else
      EXPECT_EQ(result.message, "no such register");
  }
  EXPECT_EQ(replay.heard(), recorded.heard);
  EXPECT_EQ(ok, recorded.ok);
  EXPECT_EQ(failed, recorded.failed);
}

INSTANTIATE_TEST_SUITE_P(OfVersions, Transcript,
                         testing::Values(Recorded{"version1.txt", 28, 6, 3},
                                         Recorded{"version2.txt", 69, 8, 4}));

}  // namespace
}  // namespace lathe::tracker
