#include "tracker/http_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace lathe::http {
namespace {

int connect_to(uint16_t port) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return client;
}

/// The head of an answer that has no body, over a connection that stays.
std::string answer_to(int client, std::string_view question) {
  EXPECT_EQ(send(client, question.data(), question.size(), 0), static_cast<ssize_t>(question.size()));
  std::string answer;
  char byte = 0;
  while (!answer.ends_with("\r\n\r\n") && recv(client, &byte, 1, 0) == 1) answer += byte;
  return answer;
}

/// A slow client of a long answer gets all of it; one that takes nothing is cut off.
TEST(HttpServer, WaitsForClientsThatTakeTheirTime) {
  using namespace std::chrono_literals;
  constexpr auto kIdle = 700ms;
  const std::string body(24 << 20, 'x');
  Server server({.admit = [](const Request&) { return std::nullopt; },
                 .handle = [&](const Request&) { return Response{.body = body}; },
                 .sink = [](const Request&) { return nullptr; },
                 .idle_time = kIdle});
  const int slow = connect_to(server.port()), silent = connect_to(server.port());
  const char ask[] = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  for (const int client : {slow, silent})
    ASSERT_EQ(send(client, ask, sizeof ask - 1, 0), static_cast<ssize_t>(sizeof ask - 1));
  // To the end of the connection.
  const auto take = [](int client, std::chrono::milliseconds pause) {
    std::vector<char> piece(512 << 10);
    size_t taken = 0;
    for (ssize_t n = 0; (n = recv(client, piece.data(), piece.size(), MSG_WAITALL)) > 0;) {
      taken += static_cast<size_t>(n);
      std::this_thread::sleep_for(pause);
    }
    return taken;
  };
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_GT(take(slow, 30ms), body.size()) << "its head comes too";
  EXPECT_GT(std::chrono::steady_clock::now() - begin, kIdle) << "else this shows nothing";
  EXPECT_LT(take(silent, 0ms), body.size());
  close(slow);
  close(silent);
}

/// Answers that nobody takes are held up to a bound, and then the slowest go.
TEST(HttpServer, HoldsSoMuchForWhoTakesNothing) {
  const size_t bytes = kHeldBytes / 4;
  constexpr int kClients = 8;
  std::atomic<int> asked = 0;
  Server server({.admit = [](const Request&) { return std::nullopt; },
                 .handle =
                     [&](const Request&) {
                       ++asked;
                       return Response{.body = std::string(bytes, 'x')};
                     },
                 .sink = [](const Request&) { return nullptr; }});
  const char ask[] = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  std::vector<int> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(connect_to(server.port()));
    ASSERT_EQ(send(clients.back(), ask, sizeof ask - 1, 0), static_cast<ssize_t>(sizeof ask - 1));
    while (asked <= i) std::this_thread::yield();
  }
  int whole = 0;
  for (const int client : clients) {
    std::vector<char> piece(1 << 20);
    size_t taken = 0;
    for (ssize_t n = 0; (n = recv(client, piece.data(), piece.size(), 0)) > 0;)
      taken += static_cast<size_t>(n);
    whole += taken > bytes;
    close(client);
  }
  EXPECT_EQ(whole, 3) << "each has a head besides, which is a fourth too much";
}

/// As are bodies that do not end.
TEST(HttpServer, HoldsSoMuchOfBodies) {
  // However long it takes: none is cut off for its time.
  Server server({.admit = [](const Request&) { return std::nullopt; },
                 .handle = [](const Request&) { return Response{}; },
                 .sink = [](const Request&) { return nullptr; },
                 .idle_time = std::chrono::hours(1)});
  constexpr size_t kTooMany = 16;
  const std::string ask =
      fmt::format("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", kBodyBytes);
  const std::string body(kBodyBytes - 1, 'x');
  std::vector<int> clients;
  for (size_t i = 0; i < kHeldBytes / kBodyBytes + kTooMany; ++i) {
    clients.push_back(connect_to(server.port()));
    for (const std::string* part : {&ask, &body})
      send(clients.back(), part->data(), part->size(), MSG_NOSIGNAL);
  }
  const auto is_closed = [](int client) {
    char byte = 0;
    const ssize_t n = recv(client, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
  };
  // All is on its way. A body is read in 64 pieces, each connection's in its turn, and an answer has its turn
  // among them: so many turns are more than enough, on a busy machine as on an idle one.
  constexpr int kTurns = 10'000;
  const int asker = connect_to(server.port());
  int64_t closed = 0;
  for (int turn = 0; turn < kTurns && closed < static_cast<int64_t>(kTooMany) - 1; ++turn) {
    answer_to(asker, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if (turn % 100 == 0 || turn == kTurns - 1)
      closed = std::count_if(clients.begin(), clients.end(), is_closed);
  }
  close(asker);
  EXPECT_GE(closed, static_cast<int64_t>(kTooMany) - 1);
  EXPECT_LE(closed, static_cast<int64_t>(kTooMany) + 1);
  for (const int client : clients) close(client);
}

struct Recorder final : Sink {
  void add(std::string_view bytes) override { size += bytes.size(); }
  void complete() override {
    completed_on = std::this_thread::get_id();
    if (size > 3) throw Error("no room for more than 3");
  }
  size_t size = 0;
  std::thread::id completed_on;
};

TEST(HttpServer, CompletesUploadsBesideItsThread) {
  Server server({.admit = [](const Request&) { return std::nullopt; },
                 .handle =
                     [](const Request& request) {
                       const auto& sink = static_cast<const Recorder&>(*request.sink);
                       EXPECT_NE(sink.completed_on, std::thread::id()) << "answered before it was complete";
                       EXPECT_NE(sink.completed_on, std::this_thread::get_id());
                       return Response{.status = 201};
                     },
                 .sink = [](const Request&) { return std::make_shared<Recorder>(); }});
  for (const auto& [body, status] : {std::pair("abc", "201"), std::pair("abcd", "507")}) {
    const int client = connect_to(server.port());
    const std::string ask = std::string("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ") +
                            std::to_string(strlen(body)) + "\r\n\r\n" + body;
    EXPECT_EQ(send(client, ask.data(), ask.size(), 0), static_cast<ssize_t>(ask.size()));
    char answer[4096] = {};
    EXPECT_GT(recv(client, answer, sizeof answer - 1, 0), 0);
    EXPECT_NE(std::string(answer).find(status), std::string::npos) << answer;
    close(client);
  }
}

/// An upload has as long as it goes on coming; another body has so long in all.
TEST(HttpServer, WaitsForUploadsAloneThatComeByAndBy) {
  using namespace std::chrono_literals;
  constexpr int kBytes = 20;
  std::atomic<int> uploads = 0, others = 0;
  Server server({.admit = [](const Request&) { return std::nullopt; },
                 .handle =
                     [&](const Request& request) {
                       ++(request.sink ? uploads : others);
                       return Response{};
                     },
                 .sink = [](const Request& request) -> std::unique_ptr<Sink> {
                   if (request.method != "PUT") return nullptr;
                   struct Any final : Sink {
                     void add(std::string_view) override {}
                     void complete() override {}
                   };
                   return std::make_unique<Any>();
                 },
                 .idle_time = 1s});
  const int upload = connect_to(server.port()), other = connect_to(server.port());
  const auto write = [](int client, const std::string& text) {
    send(client, text.data(), text.size(), MSG_NOSIGNAL);  // one is cut off on the way
  };
  const std::string rest =
      fmt::format(" / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", kBytes);
  write(upload, "PUT" + rest);
  write(other, "POST" + rest);
  for (int i = 0; i < kBytes; ++i) {
    std::this_thread::sleep_for(100ms);
    for (const int client : {upload, other}) write(client, "x");
  }
  char answer = 0;
  EXPECT_EQ(recv(upload, &answer, 1, 0), 1);
  EXPECT_EQ(uploads, 1);
  EXPECT_EQ(others, 0);
  close(upload);
  close(other);
}

TEST(HttpServer, TakesTheSchemeOfATokenInAnyLetters) {
  Server server({.admit = [](const Request&) { return std::nullopt; },
                 .handle = [](const Request& request) { return Response{.body = "<" + request.token + ">"}; },
                 .sink = [](const Request&) { return nullptr; }});
  for (const auto& [given, token] :
       {std::pair("Bearer aB", "<aB>"), {"bearer aB", "<aB>"}, {"BEARER aB", "<aB>"}, {"Basic aB", "<>"}}) {
    const int client = connect_to(server.port());
    const std::string ask =
        fmt::format("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n\r\n", given);
    EXPECT_EQ(send(client, ask.data(), ask.size(), 0), static_cast<ssize_t>(ask.size()));
    char answer[4096] = {};
    EXPECT_GT(recv(client, answer, sizeof answer - 1, 0), 0);
    EXPECT_TRUE(std::string(answer).ends_with(token)) << answer;
    close(client);
  }
}

/// Whoever is refused before a route has seen the request reads JSON, too, whatever the reason names.
TEST(HttpServer, RefusesInJson) {
  const std::string reason = "the models of \"the lab\" in C:\\models: no room\xff";
  Server server({.admit = [](const Request&) { return std::nullopt; },
                 .handle = [](const Request&) { return Response{}; },
                 .sink = [&](const Request&) -> std::shared_ptr<Sink> { throw TooLarge(reason); }});
  const int client = connect_to(server.port());
  const char ask[] = "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";
  EXPECT_EQ(send(client, ask, sizeof ask - 1, 0), static_cast<ssize_t>(sizeof ask - 1));
  std::string answer(4096, '\0');
  const ssize_t size = recv(client, answer.data(), answer.size(), 0);
  ASSERT_GT(size, 0);
  answer.resize(static_cast<size_t>(size));
  EXPECT_NE(answer.find(" 413 "), std::string::npos) << answer;
  const auto body = nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n")), nullptr, false);
  ASSERT_TRUE(body.is_object()) << answer;
  EXPECT_EQ(body["error"], "the models of \"the lab\" in C:\\models: no room\xef\xbf\xbd");
  close(client);
}

/// What follows the head of an answer to HEAD is the next answer to whoever stands between, a proxy say.
TEST(HttpServer, TellsNoEventsToWhoAsksForTheHead) {
  Server server({.admit = [](const Request&) { return std::nullopt; },
                 .handle =
                     [](const Request&) {
                       return Response{.events = [](int64_t, bool& last) {
                         last = true;
                         return std::vector<Event>{{1, "state", "{}"}};
                       }};
                     },
                 .sink = [](const Request&) { return nullptr; }});
  const int client = connect_to(server.port());
  const char ask[] = "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(send(client, ask, sizeof ask - 1, 0), static_cast<ssize_t>(sizeof ask - 1));
  std::string answer(1 << 16, '\0');
  answer.resize(static_cast<size_t>(recv(client, answer.data(), answer.size(), MSG_WAITALL)));
  EXPECT_NE(answer.find("text/event-stream"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
  close(client);
}

/// As browsers keep connections whose next request may come. What they hold of the server is there until they
/// have gone.
TEST(HttpServer, EndsWithConnectionsThatAskNothing) {
  std::vector<int> clients;
  {
    Server server({.admit = [](const Request&) { return std::nullopt; },
                   .handle = [](const Request&) { return Response{}; },
                   .sink = [](const Request&) { return nullptr; }});
    for (int i = 0; i < 64; ++i) clients.push_back(connect_to(server.port()));
    const char ask[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (const int client : clients) {
      EXPECT_EQ(send(client, ask, sizeof ask - 1, 0), static_cast<ssize_t>(sizeof ask - 1));
      char answer[4096];
      EXPECT_GT(recv(client, answer, sizeof answer, 0), 0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // they wait for a second request
  }
  for (const int client : clients) {
    char byte = 0;
    EXPECT_LE(recv(client, &byte, 1, 0), 0) << "the connection is open";
    close(client);
  }
}

}  // namespace
}  // namespace lathe::http
