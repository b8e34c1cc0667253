// LLVM's library is built without its assertions, and its schedulers have another layout with them.
#ifndef NDEBUG
#define NDEBUG
#endif

#include "core/codegen/llvm/instruction_order.h"

#include <llvm/CodeGen/MachineScheduler.h>
#include <llvm/CodeGen/TargetPassConfig.h>

namespace lathe::codegen {
namespace {
class KeptOrder final : public llvm::ScheduleDAGInstrs {
 public:
  explicit KeptOrder(const llvm::MachineSchedContext& context)
      : ScheduleDAGInstrs(*context.MF, context.MLI) {}
  void schedule() override {}
};

llvm::ScheduleDAGInstrs* make_scheduler(llvm::MachineSchedContext* context) {
  if (context->MF->getFunction().hasFnAttribute(kKeepsOrder)) return new KeptOrder(*context);
  llvm::ScheduleDAGInstrs* of_target = context->PassConfig->createMachineScheduler(context);
  return of_target ? of_target : llvm::createGenericSchedLive(context);
}
}  // namespace

void register_schedulers() {
  static const llvm::MachineSchedRegistry registry("lathe", "as written where a function says so",
                                                   make_scheduler);
}

}  // namespace lathe::codegen
