// Which files of SQLite are trusted: those that hold no more than what this program makes of their version.
#include <set>
#include <tuple>
#include <utility>

#include "core/support/error.h"
#include "core/support/printable.h"
#include "db/schema.h"
#include "db/sqlite_database.h"

namespace lathe::db {

namespace {

/// What SQLite knows of a table, an index or a trigger: its kind, its name, and the statement that made it.
using Shape = std::tuple<std::string, std::string, std::string>;

std::vector<Shape> shapes_of(SqliteDatabase& database) {
  std::vector<Shape> shapes;
  // Indexes of UNIQUE have no statement.
  for (Query row = database.query(
           "SELECT type, name, sql FROM sqlite_schema WHERE NOT (type = 'index' AND sql IS NULL)");
       row.step();) {
    std::string type = row.text(), name = row.text();
    shapes.emplace_back(std::move(type), std::move(name), row.text());
  }
  return shapes;
}

/// Of a database that this program would make of that version.
std::set<Shape> shapes_of_version(int version) {
  SqliteDatabase database(":memory:", Access::kReadWrite, std::chrono::seconds(1));
  if (version > 0) migrate(database, database.migrations().first(static_cast<size_t>(version)));
  const std::vector<Shape> shapes = shapes_of(database);
  std::set<Shape> ours(shapes.begin(), shapes.end());
  // Those of ANALYZE, which users may run.
  ours.emplace("table", "sqlite_stat1", "CREATE TABLE sqlite_stat1(tbl,idx,stat)");
  ours.emplace("table", "sqlite_stat4", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)");
  return ours;
}

/// A table's numbers never come again, and after the largest none comes: SQLite would say that the disk is
/// full.
void refuse_used_up_numbers(SqliteDatabase& database, const std::string& table) {
  constexpr int64_t kMost = int64_t{1} << 62;
  for (const std::string& number : {fmt::format("SELECT max(id) FROM {}", table),
                                    fmt::format("SELECT seq FROM sqlite_sequence WHERE name = '{}'", table)})
    for (Query row = database.query(number); row.step();)
      if (row.integer() > kMost)
        fail(
            "database {} has used up the numbers of its table `{}`, which no version of this program does; "
            "do not "
            "trust it",
            database.name(), table);
}

}  // namespace

/// A trigger or a view runs whatever its maker wrote, with the rights of who opens the file; so do a
/// generated column, a check and an index of an expression; and a virtual table parses what its maker stored.
/// There is what we make, and nothing else. Throws Error.
void SqliteDatabase::refuse_strange_code() {
  // Before any statement touches a table: a trigger runs only when something is written, a view when it is
  // read.
  static const std::set<Shape> current = shapes_of_version(kSchemaVersion);
  // Of one moment: another process may be bringing the file up.
  const Transaction moment = snapshot();
  const int version = this->version();
  const std::set<Shape> older = version == kSchemaVersion ? std::set<Shape>() : shapes_of_version(version);
  const std::set<Shape>& ours = version == kSchemaVersion ? current : older;
  for (const Shape& shape : shapes_of(*this))
    if (!ours.contains(shape))
      fail("database {} holds a {} `{}` that no version of this program made; do not trust it", name(),
           std::get<0>(shape), printable(std::get<1>(shape)));
  for (const Shape& shape : ours)
    if (std::get<2>(shape).find("AUTOINCREMENT") != std::string::npos)
      refuse_used_up_numbers(*this, std::get<1>(shape));
}

}  // namespace lathe::db
