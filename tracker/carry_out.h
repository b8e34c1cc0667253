// What a step of the farm asks for, done in the one order that keeps the contract. The tracker does it on
// sockets, files and mailboxes, the simulation on none (tests/tracker/farm_simulation.cpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tracker/farm.h"
#include "tracker/journal.h"

namespace lathe::tracker {

/// Whom and what a farm reaches, its journal apart.
class Outside {
 public:
  virtual ~Outside() = default;
  virtual void store(const StoreChange& change) = 0;
  virtual void log(const std::string& line) = 0;
  virtual void send(const Outgoing& out) = 0;
  /// False when there is no such piece, nor will be: a file is not what it was.
  virtual bool send_piece(const Wanted& wanted) = 0;
  virtual void tell(std::vector<Finished> finished) = 0;
};

/// First what must be on disk, then what rests on it. Throws what the journal throws when it commits; then
/// nothing was sent and nobody told. Returns what the farm is to hear of: leases that could not be sent, or
/// not served.
std::vector<Unreadable> carry_out(Effects effects, Journal& journal, Outside& outside);

/// Adds to the leases among `messages` what is in the journal alone, so that they can be sent. Those that
/// cannot be, which keep their spec, are returned.
std::vector<Unreadable> fill_in(std::span<Outgoing> messages, Journal& journal);

}  // namespace lathe::tracker
