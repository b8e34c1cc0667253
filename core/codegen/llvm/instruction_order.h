// The order of a function's instructions before registers are given out.
#pragma once

namespace lathe::codegen {

/// Attribute of a function whose instructions stay in the order of the program. Others are scheduled as LLVM
/// does it for their target.
inline constexpr const char* kKeepsOrder = "lathe-keeps-order";
/// The same but for loops of one block, which are scheduled.
inline constexpr const char* kKeepsOrderOutsideLoops = "lathe-keeps-order-outside-loops";

/// Makes `-misched=lathe`, which is that, known to LLVM.
void register_schedulers();

}  // namespace lathe::codegen
