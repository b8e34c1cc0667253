// The definitions that come with the language, in its own text: function, option, list, nat, tree.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::relay {

/// The text of `import "name"`, or nothing.
std::optional<std::string_view> prelude_text(std::string_view name);
std::vector<std::string> prelude_names();

}  // namespace lathe::relay
