// Which of the bugs of protocol_bugs.txt is at work in this process; 0: none.
#pragma once

namespace lathe::tracker::testing {
inline int seeded_bug = 0;
}
