// Where this user's files live. The folders need not exist. Both throw Error when the system knows no home.
#pragma once

#include <string>

namespace lathe {

/// What can be made again: $LATHE_CACHE, else $XDG_CACHE_HOME/lathe, else ~/.cache/lathe.
std::string cache_folder();

/// What cannot: $XDG_DATA_HOME/lathe, else ~/.local/share/lathe.
std::string data_folder();

}  // namespace lathe
