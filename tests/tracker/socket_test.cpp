#include "tracker/wire/socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/thrown_by.h"

namespace lathe::wire {
namespace {

using namespace std::chrono_literals;

std::string message_of(const std::string& endpoint) {
  return thrown_by([&] { Server server(endpoint, std::nullopt); });
}

std::optional<Frame> wait_for(Server& server, std::chrono::milliseconds limit = 2000ms) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end)
    if (auto frame = server.receive(20ms)) return frame;
  return std::nullopt;
}

std::optional<std::string> wait_for(Client& client) {
  for (int i = 0; i < 200; ++i) {
    if (auto frame = client.receive()) return frame;
    std::this_thread::sleep_for(10ms);
  }
  return std::nullopt;
}

TEST(Socket, KnowsWhatIsLocal) {
  for (const char* endpoint :
       {"ipc:///tmp/x", "tcp://127.0.0.1:9190", "tcp://[::1]:9190", "tcp://localhost:*"})
    EXPECT_TRUE(is_local(endpoint)) << endpoint;
  for (const char* endpoint :
       {"tcp://*:9190", "tcp://0.0.0.0:9190", "tcp://10.0.0.1:9190", "tcp://[::]:9190", "x"})
    EXPECT_FALSE(is_local(endpoint)) << endpoint;
}

/// ZeroMQ would listen on port 34463, and connect to it.
TEST(Socket, APortIsOne) {
  for (const char* endpoint : {"tcp://127.0.0.1:99999", "tcp://127.0.0.1:65536", "tcp://127.0.0.1:-1",
                               "tcp://127.0.0.1:", "tcp://127.0.0.1", "tcp://127.0.0.1:9x", "tcp://:9190"}) {
    EXPECT_EQ(message_of(endpoint), fmt::format("cannot listen on {}: an endpoint is tcp://HOST:PORT or "
                                                "ipc://PATH",
                                                endpoint));
    EXPECT_NE(thrown_by([&] { Client client(endpoint, "c", std::nullopt); }), "no error") << endpoint;
  }
  EXPECT_EQ(message_of("tcp://localhost:*"), "no error") << "to listen it knows no names";
  EXPECT_FALSE(is_local("tcp://127.example.com:9190"));
}

/// ZeroMQ would remove either.
TEST(Socket, TakesNobodysFile) {
  const TemporaryFolder folder;
  write_file(folder / "file", "mine");
  EXPECT_EQ(message_of("ipc://" + folder / "file"),
            "cannot listen on ipc://" + folder / "file: there is a file of that name, which is no socket");
  EXPECT_EQ(read_file(folder / "file"), "mine");
  const std::string endpoint = "ipc://" + folder / "socket";
  Server first(endpoint, std::nullopt);
  EXPECT_EQ(message_of(endpoint), "cannot listen on " + endpoint + ": Address already in use");
  Client client(endpoint, "c", std::nullopt);
  client.send("x");
  EXPECT_TRUE(wait_for(first)) << "it is still there";
}

TEST(Socket, TakesWhatADeadProcessHasLeft) {
  const TemporaryFolder folder;
  const std::string path = folder / "socket";
  const int left = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(left);
  EXPECT_EQ(message_of("ipc://" + path), "no error");
}

/// Over ipc:// nothing bounds what a peer says without end: only who could end the tracker as well may
/// connect.
TEST(Socket, AFileIsForItsOwnerAlone) {
  const mode_t before = umask(0);
  const std::string path = "/tmp/lathe-socket-test" + random_peer();
  {
    Server server("ipc://" + path, std::nullopt);
    struct stat found {};
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700u);
    EXPECT_EQ(umask(0), 0u) << "it is as it was";
  }
  umask(before);
  EXPECT_EQ(message_of("ipc://@lathe"),
            "cannot listen on ipc://@lathe: a socket without a file lets in every user of this machine; name "
            "a path");
}

/// The mode of what a process creates is one for all its threads.
TEST(Socket, FoldersThatAreMadeMeanwhileCanBeEntered) {
  const TemporaryFolder folder;
  std::atomic<bool> stop = false;
  std::jthread makes([&] {
    for (const std::string path = folder / "folder"; !stop;) {
      struct stat made {};
      ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
      ASSERT_EQ(stat(path.c_str(), &made), 0);
      ASSERT_EQ(rmdir(path.c_str()), 0);
      ASSERT_EQ(made.st_mode & 0700, 0700u);
    }
  });
  for (int i = 0; i < 300; ++i) Server(fmt::format("ipc://{}/{}", folder.path(), i), std::nullopt);
  stop = true;
}

/// What comes while nobody reads it waits its turn, and of one that says too much only so much does.
TEST(Socket, PutsAsideWhatComesInAnAbsence) {
  Server server("tcp://127.0.0.1:*", std::nullopt);
  Client client(server.endpoint(), "w", std::nullopt), loud(server.endpoint(), "loud", std::nullopt);
  client.send("hello");
  ASSERT_TRUE(wait_for(server));
  {
    const Server::Absence absence(server);
    for (int i = 0; i < 40; ++i) {
      loud.send(std::string(100'000, 'x'));  // 4 MB, of which 2 MiB may be held
      client.send(std::string(50'000, 'y'));
      std::this_thread::sleep_for(20ms);
    }
    std::this_thread::sleep_for(500ms);
  }
  client.send("bye");
  int quiet = 0, shouted = 0;
  while (const auto frame = wait_for(server)) {
    frame->peer == "loud" ? ++shouted : ++quiet;
    if (frame->bytes == "bye") break;
  }
  EXPECT_EQ(quiet, 41);
  EXPECT_EQ(shouted, 20);
  EXPECT_TRUE(server.refusals().empty()) << "and nobody is cut off";
}

TEST(Socket, RefusesTheNetworkWithoutKeys) {
  EXPECT_EQ(
      message_of("tcp://0.0.0.0:0"),
      "refusing to listen on tcp://0.0.0.0:0 without keys: anyone who can reach it could run code on the "
      "workers\n"
      "  hint: make keys with `tune keygen` and give them with --key and --allow, or listen on 127.0.0.1");
  EXPECT_EQ(message_of("udp://x"), "cannot listen on udp://x: an endpoint is tcp://HOST:PORT or ipc://PATH");
  EXPECT_EQ(message_of("ipc:///no/such/folder/x"),
            "cannot listen on ipc:///no/such/folder/x: No such file or directory");
  EXPECT_EQ(message_of("tcp://127.0.0.1:*"), "no error");
}

TEST(Socket, CarriesFramesBothWays) {
  Server server("tcp://127.0.0.1:*", std::nullopt);
  Client client(server.endpoint(), "me", std::nullopt);
  client.send("hello");
  const auto frame = wait_for(server);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->peer, "me");
  EXPECT_EQ(frame->bytes, "hello");
  server.send({"me", "welcome"});
  server.send({"nobody", "dropped"});
  EXPECT_EQ(wait_for(client), "welcome");
  client.reconnect();
  client.send("again");
  EXPECT_EQ(wait_for(server)->bytes, "again");
}

/// Ctrl-C in a job that listens may be handled on any of its threads.
TEST(Socket, AdmitsListedKeysAfterASignal) {
  const KeyPair tracker = make_keys(), friendly = make_keys();
  Server server("tcp://127.0.0.1:*", ServerKeys{tracker.secret_key, {friendly.public_key}});
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task"))
    syscall(SYS_tgkill, getpid(), std::stoi(thread.path().filename()), SIGUSR1);
  std::this_thread::sleep_for(50ms);
  Client client(server.endpoint(), "me", ClientKeys{tracker.public_key, friendly});
  client.send("hello");
  EXPECT_TRUE(wait_for(server));
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(Socket, AdmitsOnlyListedKeys) {
  const KeyPair tracker = make_keys(), friendly = make_keys(), stranger = make_keys();
  Server server("tcp://127.0.0.1:*", ServerKeys{tracker.secret_key, {friendly.public_key}});
  Client bare(server.endpoint(), "bare", std::nullopt);
  bare.send("x");
  Client unknown(server.endpoint(), "unknown", ClientKeys{tracker.public_key, stranger});
  unknown.send("x");
  Client known(server.endpoint(), "known", ClientKeys{tracker.public_key, friendly});
  known.send("y");
  const auto frame = wait_for(server);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->peer, "known");
  EXPECT_EQ(frame->key, friendly.public_key);
  EXPECT_FALSE(wait_for(server, 300ms));
}

/// Within a second: its connection is gone, and it does not come back until it is listed again.
TEST(Socket, CutsOffWhoIsListedNoMore) {
  for (const std::string endpoint : {"tcp://127.0.0.1:*", "ipc:///tmp/lathe-socket-test"}) {
    const KeyPair tracker = make_keys(), loyal = make_keys(), revoked = make_keys();
    Server server(endpoint + (endpoint.starts_with("ipc") ? random_peer() : ""),
                  ServerKeys{tracker.secret_key, {loyal.public_key, revoked.public_key}});
    const std::string place = server.endpoint();
    Client stays(place, "stays", ClientKeys{tracker.public_key, loyal});
    Client goes(place, "goes", ClientKeys{tracker.public_key, revoked});
    stays.send("x"), goes.send("x");
    ASSERT_TRUE(wait_for(server) && wait_for(server));
    server.admit({loyal.public_key});
    EXPECT_EQ(server.endpoint(), place);
    goes.send("a result");
    stays.send("y");
    const auto frame = wait_for(server);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->peer, "stays");
    EXPECT_EQ(frame->key, loyal.public_key);
    EXPECT_FALSE(wait_for(server, 500ms));
    EXPECT_EQ(goes.refusal(), "it does not list the key " + revoked.public_key);
    server.admit({loyal.public_key, revoked.public_key});
    goes.reconnect();  // it would by itself, a little later
    goes.send("back");
    EXPECT_TRUE(wait_for(server)) << "listed again";
    server.send({"stays", "still here"});
    EXPECT_EQ(wait_for(stays), "still here") << "nobody was cut off when a key was added";
  }
}

/// Both sides say why they do not come together.
TEST(Socket, SaysWhatIsRefused) {
  const KeyPair tracker = make_keys(), friendly = make_keys(), stranger = make_keys();
  Server server("tcp://127.0.0.1:*", ServerKeys{tracker.secret_key, {friendly.public_key}});
  const auto refused = [&](const std::optional<ClientKeys>& keys) {
    Client client(server.endpoint(), "me", keys);
    std::pair<std::string, std::vector<std::string>> said;
    for (int i = 0; i < 200 && (said.first.empty() || said.second.empty()); ++i) {
      server.receive(10ms);
      if (const auto refusal = client.refusal()) said.first = *refusal;
      for (std::string& refusal : server.refusals()) said.second.push_back(std::move(refusal));
    }
    return said;
  };
  const auto unlisted = refused(ClientKeys{tracker.public_key, stranger});
  EXPECT_EQ(unlisted.first, "it does not list the key " + stranger.public_key);
  EXPECT_THAT(unlisted.second,
              testing::Contains(testing::EndsWith("the key " + stranger.public_key + " is not listed")));
  EXPECT_EQ(refused(ClientKeys{stranger.public_key, friendly}).first,
            "its key is not the one that --tracker-key says");
  const auto bare = refused(std::nullopt);
  EXPECT_EQ(bare.first, "it wants keys (--key and --tracker-key), or is no tracker");
  EXPECT_THAT(bare.second, testing::Contains("a peer without keys, or that hung up"));
}

TEST(Socket, ChecksKeys) {
  EXPECT_NO_THROW(check_key(make_keys().public_key, "--key"));
  try {
    check_key("short", "--key");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--key is no key: 40 characters of Z85, as `tune keygen` makes them");
  }
}

}  // namespace
}  // namespace lathe::wire
