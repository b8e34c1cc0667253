#include "tracker/wire/connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tracker/wire/socket.h"

namespace lathe::wire {
namespace {

using namespace std::chrono_literals;

/// A ROUTER that is looked after, and a DEALER that talks to it.
class Pair {
 public:
  /// `read_ahead`: so many messages, 0: all, are read before they are taken.
  Pair(bool encrypted, HeldLimits limits, int read_ahead = 0) {
    if (encrypted) {
      const KeyPair server = make_keys(), client = make_keys();
      router_.set(zmq::sockopt::curve_server, true);
      router_.set(zmq::sockopt::curve_secretkey, server.secret_key);
      dealer.set(zmq::sockopt::curve_serverkey, server.public_key);
      dealer.set(zmq::sockopt::curve_publickey, client.public_key);
      dealer.set(zmq::sockopt::curve_secretkey, client.secret_key);
    }
    for (zmq::socket_t* socket : {&router_, &dealer}) {
      socket->set(zmq::sockopt::linger, 0);
      socket->set(zmq::sockopt::sndhwm, 0);
      socket->set(zmq::sockopt::rcvhwm, read_ahead);
    }
    connections.emplace(context_, router_, encrypted, limits);
    router_.bind("tcp://127.0.0.1:*");
    dealer.connect(router_.get(zmq::sockopt::last_endpoint));
  }
  /// False when none comes.
  bool take() {
    zmq::message_t part;
    zmq::pollitem_t item{router_.handle(), 0, ZMQ_POLLIN, 0};
    if (zmq::poll(&item, 1, 5s) == 0) return false;
    for (bool first = true; first || part.more(); first = false) {
      (void)router_.recv(part);
      if (!first) connections->taken(part);
    }
    return true;
  }
  bool is_cut_off() {
    for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(10ms))
      if (connections->take_cut_off().contains("127.0.0.1")) return true;
    return false;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t router_{context_, ZMQ_ROUTER};

 public:
  zmq::socket_t dealer{context_, ZMQ_DEALER};
  std::optional<Connections> connections;
};

/// Off by a byte with each message, its sum would pass the limit.
TEST(Connections, WhatWasTakenIsHeldNoMore) {
  for (const bool encrypted : {false, true}) {
    Pair pair(encrypted, {64 << 10, 64 << 10});
    for (const size_t bytes : {0, 1, 222, 223, 255, 256, 300}) {
      for (int i = 0; i < 15000; ++i) {
        pair.dealer.send(zmq::buffer(std::string(bytes, 'x')), zmq::send_flags::none);
        if (i % 100 < 99) continue;
        for (int k = 0; k < 100; ++k) ASSERT_TRUE(pair.take()) << bytes;
      }
    }
    std::this_thread::sleep_for(200ms);
    EXPECT_TRUE(pair.connections->take_cut_off().empty()) << (encrypted ? "encrypted" : "plain");
  }
}

/// A process that is kept from reading is not to take it for its peers' doing.
TEST(Connections, WhatTheKernelHasIsNotHeld) {
  Pair pair(/*encrypted=*/false, {16 << 10, 16 << 10}, /*read_ahead=*/1);
  for (int i = 0; i < 300; ++i) pair.dealer.send(zmq::buffer(std::string(1000, 'x')), zmq::send_flags::none);
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(pair.connections->take_cut_off().empty());
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(pair.take()) << i;
}

/// One message without end: stranger_frames_test.py.
TEST(Connections, WhoSendsMoreThanIsTakenIsCutOff) {
  for (const bool encrypted : {false, true})
    for (const HeldLimits limits : {HeldLimits{64 << 10, 1 << 30}, HeldLimits{1 << 30, 64 << 10}}) {
      Pair pair(encrypted, limits);
      for (int i = 0; i < 65536; ++i) pair.dealer.send(zmq::message_t(), zmq::send_flags::sndmore);
      pair.dealer.send(zmq::message_t(), zmq::send_flags::none);
      EXPECT_TRUE(pair.is_cut_off());
    }
}

}  // namespace
}  // namespace lathe::wire
