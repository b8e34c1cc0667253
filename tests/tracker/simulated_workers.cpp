#include "tests/tracker/simulated_workers.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <queue>
#include <random>
#include <zmq.hpp>

#include "core/support/error.h"
#include "tracker/defaults.h"
#include "workers/agent.h"

namespace lathe::tracker::testing {
namespace {

using Clock = std::chrono::steady_clock;
using worker::Time;

Time monotonic_now() { return std::chrono::duration_cast<Time>(Clock::now().time_since_epoch()); }

constexpr const char* kDevice =
    R"({"host":"simulated","model":"simulated","architecture":"x86_64","cores":1,"revision":"simulated"})";

}  // namespace

float simulated_seconds(uint64_t trial) { return 1e-3F * static_cast<float>(1 + trial % 1000); }

class SimulatedWorkers::Crowd {
 public:
  explicit Crowd(SimulatedSettings settings) : settings_(std::move(settings)), poller_(epoll_create1(0)) {
    CHECK(poller_ >= 0, "epoll");
    for (int i = 0; i < settings_.count; ++i) begin_life(people_.emplace_back(), i);
  }
  ~Crowd() { close(poller_); }

  void serve(const std::stop_token& stop) {
    for (size_t i = 0; i < people_.size(); ++i) step(i, worker::Tick{});
    while (!stop.stop_requested()) {
      wait();
      for (; !due_.empty() && due_.top().when <= Clock::now(); due_.pop()) measured(due_.top());
      tick();
    }
  }

  SimulatedReport report() const {
    SimulatedReport report = report_;
    report.grants_ms.erase(report.grants_ms.begin(), report.grants_ms.begin() + report.grants_ms.size() / 5);
    std::sort(report.grants_ms.begin(), report.grants_ms.end());
    return report;
  }

 private:
  struct Person {
    std::optional<worker::Agent> agent;
    std::string peer;
    int life = 0;
    zmq::socket_t socket;
    std::deque<Clock::time_point> freed;  // places
  };
  /// A measurement that ends.
  struct Due {
    Clock::time_point when;
    size_t person;
    int life;
    wire::Lease lease;
    bool operator<(const Due& other) const { return when > other.when; }  // the soonest on top
  };

  void begin_life(Person& person, int number) {
    person.life++;
    person.freed.clear();
    person.peer = fmt::format("{:08x}{:08x}", random_(), random_());
    person.agent.emplace(worker::AgentSettings{.name = fmt::format("{}/{}", settings_.name, number),
                                               .device = kDevice,
                                               .backends = {"cpu"},
                                               .canaries = false,
                                               .builders = settings_.builders},
                         monotonic_now());
    connect(person, number);
  }

  void connect(Person& person, int number) {
    person.socket = zmq::socket_t(context_, zmq::socket_type::dealer);
    zmq::socket_t& socket = person.socket;
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::routing_id, person.peer);
    socket.set(zmq::sockopt::reconnect_ivl, static_cast<int>(defaults::kReconnectFirst.count()));
    socket.set(zmq::sockopt::handshake_ivl, static_cast<int>(defaults::kSilence.count()));
    if (settings_.keys) {
      socket.set(zmq::sockopt::curve_serverkey, settings_.keys->server_key);
      socket.set(zmq::sockopt::curve_publickey, settings_.keys->own.public_key);
      socket.set(zmq::sockopt::curve_secretkey, settings_.keys->own.secret_key);
    }
    try {
      socket.connect(settings_.tracker);
    } catch (const zmq::error_t& error) {
      fail("cannot connect to {}: {}", settings_.tracker, error.what());
    }
    // The descriptor tells of something new once: whoever is told reads until there is nothing.
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u32 = static_cast<uint32_t>(number)}};
    CHECK(epoll_ctl(poller_, EPOLL_CTL_ADD, socket.get(zmq::sockopt::fd), &event) == 0, "epoll");
  }

  void wait() {
    epoll_event events[64];
    const auto until = due_.empty() ? next_tick_ : std::min(next_tick_, due_.top().when);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    const int count =
        epoll_wait(poller_, events, std::size(events), static_cast<int>(std::max<int64_t>(0, left)));
    for (int i = 0; i < count; ++i) listen(events[i].data.u32);
  }

  void listen(size_t person) {
    zmq::message_t frame;
    while (people_[person].socket.recv(frame, zmq::recv_flags::dontwait))
      step(person, wire::decode(frame.to_string_view()), /*listens=*/true);
  }

  void step(size_t number, const worker::Event& event, bool listens = false) {
    Person& person = people_[number];
    worker::Actions actions = person.agent->step(event, monotonic_now());
    if (actions.reconnect) connect(person, static_cast<int>(number));
    for (const wire::Message& message : actions.send)
      person.socket.send(zmq::buffer(wire::encode(message)), zmq::send_flags::dontwait);
    for (const wire::Lease& lease : actions.build) {
      if (!person.freed.empty()) {
        report_.grants_ms.push_back(
            std::chrono::duration<float, std::milli>(Clock::now() - person.freed.front()).count());
        person.freed.pop_front();
      }
      step(number, worker::Built{.lease = lease.lease}, listens);
    }
    for (const worker::Run& run : actions.run)
      due_.push({Clock::now() + some_trial(), number, person.life, run.lease});
    if (actions.exit) fail("{}: {}", settings_.name, actions.refused);
    if (!listens) listen(number);  // sending may have taken notice of what came
  }

  /// Not all the same, or workers that began together would go on in step.
  std::chrono::microseconds some_trial() {
    return settings_.trial / 2 + std::chrono::microseconds(random_() % (1 + 1000 * settings_.trial.count()));
  }

  void measured(const Due& due) {
    Person& person = people_[due.person];
    if (person.life != due.life) return;
    report_.measured++;
    person.freed.push_back(Clock::now());
    step(due.person, worker::Measured{due.lease.lease,
                                      {.samples = std::vector<float>(settings_.samples,
                                                                     simulated_seconds(due.lease.trial))}});
  }

  void tick() {
    if (Clock::now() < next_tick_) return;
    next_tick_ = Clock::now() + defaults::kTick;
    for (size_t i = 0; i < people_.size(); ++i) step(i, worker::Tick{});
    if (settings_.crash_every.count() == 0 || Clock::now() < next_crash_) return;
    next_crash_ = Clock::now() + settings_.crash_every;
    const size_t victim = random_() % people_.size();
    report_.crashes++;
    begin_life(people_[victim], static_cast<int>(victim));
    step(victim, worker::Tick{});
  }

  const SimulatedSettings settings_;
  const int poller_;
  std::mt19937 random_{std::random_device()()};
  zmq::context_t context_;
  std::deque<Person> people_;
  std::priority_queue<Due> due_;
  Clock::time_point next_tick_{}, next_crash_ = Clock::now() + settings_.crash_every;
  SimulatedReport report_;
};

SimulatedWorkers::SimulatedWorkers(SimulatedSettings settings)
    : crowd_(std::make_unique<Crowd>(std::move(settings))) {}
SimulatedWorkers::~SimulatedWorkers() = default;

void SimulatedWorkers::serve(const std::stop_token& stop) { crowd_->serve(stop); }
SimulatedReport SimulatedWorkers::report() const { return crowd_->report(); }

}  // namespace lathe::tracker::testing
