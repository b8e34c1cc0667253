// Where this user's files live. The folders need not exist. All throw Error when the system knows no home.
#pragma once

#include <string>

namespace lathe {

/// What can be made again: $LATHE_CACHE, else $XDG_CACHE_HOME/lathe, else ~/.cache/lathe.
std::string cache_folder();

/// What cannot: $XDG_DATA_HOME/lathe, else ~/.local/share/lathe.
std::string data_folder();

/// What the user writes: $XDG_CONFIG_HOME/lathe, else ~/.config/lathe.
std::string config_folder();

}  // namespace lathe
