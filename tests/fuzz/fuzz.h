// What a fuzz target gives to the engine (engine.cpp): two functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::fuzz {

/// Well-formed inputs to start from.
std::vector<std::string> seeds();

/// Feeds any bytes to the code under test. May throw Error; must not crash, hang or run into a sanitizer.
void run_one(std::string_view bytes);

}  // namespace lathe::fuzz
