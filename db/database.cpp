#include "db/database.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>
#include <utility>

#include "core/support/error.h"

namespace lathe::db {

// A database may move between machines; no big-endian one is a target of ours.
static_assert(std::endian::native == std::endian::little, "blobs of samples are little-endian");

bool is_server(const std::string& name) {
  return name.starts_with("postgresql://") || name.starts_with("postgres://");
}

bool Query::step() {
  column_ = 0;
  return rows_->step();
}

int Query::next_column() {
  CHECK(column_ < rows_->columns(), "past the last column of: {}", rows_->sql());
  return column_++;
}

int64_t Query::integer() { return rows_->integer(next_column()); }
double Query::real() { return rows_->real(next_column()); }
std::string Query::text() { return rows_->bytes(next_column()); }

std::vector<float> Query::floats() {
  std::string bytes = text();
  // Bytes beyond the last whole float are dropped; whoever ranks by samples checks them (are_latencies).
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::optional<int64_t> Query::maybe_integer() {
  const int column = next_column();
  return rows_->is_null(column) ? std::nullopt : std::optional(rows_->integer(column));
}

std::optional<double> Query::maybe_real() {
  const int column = next_column();
  return rows_->is_null(column) ? std::nullopt : std::optional(rows_->real(column));
}

std::optional<int64_t> Database::insert(std::string_view sql, std::span<const Value> values) {
  Query row = query(sql, values);
  std::optional<int64_t> id;
  // To its end: by itself it is committed only there, and that may fail.
  while (row.step()) id = row.integer();
  return id;
}

Transaction::Transaction(Database& database, Kind kind)
    : database_(&database), depth_(database.transaction_depth_) {
  if (depth_ == 0)
    database.begin(kind == Kind::kWriting);
  else
    // A connection has one transaction; what is inside is a savepoint of it.
    database.run_script(fmt::format("SAVEPOINT level{}", depth_));
  ++database.transaction_depth_;
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)), depth_(other.depth_) {}

void Transaction::commit() {
  CHECK(database_, "committed twice");
  CHECK(database_->transaction_depth_ == depth_ + 1, "an inner transaction is still open");
  if (depth_ == 0)
    database_->commit();
  else
    database_->run_script(fmt::format("RELEASE SAVEPOINT level{}", depth_));
  --database_->transaction_depth_;
  database_ = nullptr;
}

Transaction::~Transaction() {
  if (!database_) return;
  // Also where an inner one was left by an exception.
  database_->transaction_depth_ = depth_;
  if (!database_->in_transaction()) return;
  // ROLLBACK TO undoes a savepoint but leaves it open, hence RELEASE. A destructor has nobody to tell of a
  // failure, and what is left of the transaction ends with the connection.
  database_->roll_back(
      depth_ == 0 ? "ROLLBACK"
                  : fmt::format("ROLLBACK TO SAVEPOINT level{0}; RELEASE SAVEPOINT level{0}", depth_));
}

std::span<const std::byte> as_blob(std::span<const float> samples) { return std::as_bytes(samples); }
std::span<const std::byte> as_blob(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

}  // namespace lathe::db
