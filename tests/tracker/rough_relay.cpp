#include "tests/tracker/rough_relay.h"

#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "core/support/error.h"

namespace lathe::tracker::testing {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class RoughRelay::Pipes {
 public:
  explicit Pipes(RelaySettings settings) : settings_(std::move(settings)) { open("tcp://127.0.0.1:*"); }

  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      wait();
      for (; !held_.empty() && held_.begin()->first <= Clock::now(); held_.erase(held_.begin()))
        held_.begin()->second();
      if (Clock::now() >= next_cut_) cut();
    }
  }

  const std::string& endpoint() const { return endpoint_; }
  const RelayReport& report() const { return report_; }

 private:
  void open(const std::string& endpoint) {
    workers_ = zmq::socket_t(context_, zmq::socket_type::router);
    workers_.set(zmq::sockopt::linger, 0);
    workers_.set(zmq::sockopt::router_handover, true);
    workers_.set(zmq::sockopt::curve_server, true);
    workers_.set(zmq::sockopt::curve_secretkey, settings_.own.secret_key);
    for (int tries = 0;; ++tries) {  // what listened there a moment ago is closed in the background
      try {
        workers_.bind(endpoint);
        break;
      } catch (const zmq::error_t& error) {
        if (tries == 100) fail("the relay cannot listen on {}: {}", endpoint, error.what());
        std::this_thread::sleep_for(10ms);
      }
    }
    endpoint_ = workers_.get(zmq::sockopt::last_endpoint);
  }

  zmq::socket_t& to_tracker(const std::string& peer) {
    const auto [found, added] = trackers_.try_emplace(peer);
    if (!added) return found->second;
    zmq::socket_t& socket = found->second = zmq::socket_t(context_, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::routing_id, peer);
    socket.set(zmq::sockopt::curve_serverkey, settings_.to_tracker.server_key);
    socket.set(zmq::sockopt::curve_publickey, settings_.to_tracker.own.public_key);
    socket.set(zmq::sockopt::curve_secretkey, settings_.to_tracker.own.secret_key);
    socket.connect(settings_.tracker);
    return socket;
  }

  /// Whatever is on its way on any connection is lost with it.
  void cut() {
    next_cut_ = Clock::now() + settings_.cut_every;
    report_.cuts++;
    trackers_.clear();
    workers_.close();
    open(endpoint_);
  }

  void wait() {
    std::vector<zmq::pollitem_t> items = {{workers_.handle(), 0, ZMQ_POLLIN, 0}};
    std::vector<std::string> peers;
    for (auto& [peer, socket] : trackers_) {
      items.push_back({socket.handle(), 0, ZMQ_POLLIN, 0});
      peers.push_back(peer);
    }
    const auto until = held_.empty() ? next_cut_ : std::min(next_cut_, held_.begin()->first);
    zmq::poll(items, std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now())));
    zmq::message_t peer, body;
    while (workers_.recv(peer, zmq::recv_flags::dontwait) && workers_.recv(body, zmq::recv_flags::dontwait))
      pass(peer.to_string(), body.to_string(), /*up=*/true);
    for (size_t i = 1; i < items.size(); ++i)
      while (items[i].revents && trackers_[peers[i - 1]].recv(body, zmq::recv_flags::dontwait))
        pass(peers[i - 1], body.to_string(), /*up=*/false);
  }

  int percent() { return static_cast<int>(random_() % 100); }

  void pass(const std::string& peer, const std::string& body, bool up) {
    if (percent() < settings_.drop) {
      report_.dropped++;
      return;
    }
    const bool twice = percent() < settings_.twice;
    report_.doubled += twice;
    for (int copy = 0; copy < (twice ? 2 : 1); ++copy) {
      report_.passed++;
      if (percent() < settings_.reorder) {  // others overtake it
        report_.reordered++;
        held_.emplace(Clock::now() + std::chrono::milliseconds(1 + random_() % 50),
                      [=, this] { deliver(peer, body, up); });
      } else {
        deliver(peer, body, up);
      }
    }
  }

  void deliver(const std::string& peer, const std::string& body, bool up) {
    if (up) {
      to_tracker(peer).send(zmq::buffer(body), zmq::send_flags::dontwait);
    } else if (workers_.send(zmq::buffer(peer), zmq::send_flags::sndmore | zmq::send_flags::dontwait)) {
      workers_.send(zmq::buffer(body), zmq::send_flags::dontwait);
    }
  }

  const RelaySettings settings_;
  zmq::context_t context_;
  zmq::socket_t workers_;
  std::map<std::string, zmq::socket_t> trackers_;  // a connection for each worker
  std::string endpoint_;
  std::mt19937 random_{1};
  std::multimap<Clock::time_point, std::function<void()>> held_;
  Clock::time_point next_cut_ = Clock::now() + settings_.cut_every;
  RelayReport report_;
};

RoughRelay::RoughRelay(RelaySettings settings) : pipes_(std::make_unique<Pipes>(std::move(settings))) {}
RoughRelay::~RoughRelay() = default;

const std::string& RoughRelay::endpoint() const { return pipes_->endpoint(); }
void RoughRelay::serve(const std::stop_token& stop) { pipes_->serve(stop); }
const RelayReport& RoughRelay::report() const { return pipes_->report(); }

}  // namespace lathe::tracker::testing
