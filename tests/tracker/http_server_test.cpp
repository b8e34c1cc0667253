#include "tracker/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
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
