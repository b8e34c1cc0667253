// LLVM's library is built without its assertions, and its schedulers have another layout with them.
#ifndef NDEBUG
#define NDEBUG
#endif

#include "core/codegen/llvm/instruction_order.h"

#include <llvm/CodeGen/MachineScheduler.h>
#include <llvm/CodeGen/TargetPassConfig.h>

#include <memory>

namespace lathe::codegen {
namespace {
class KeptOrder final : public llvm::ScheduleDAGInstrs {
 public:
  /// `in_loops` schedules blocks that are loops; may be null.
  KeptOrder(const llvm::MachineSchedContext& context, std::unique_ptr<llvm::ScheduleDAGInstrs> in_loops)
      : ScheduleDAGInstrs(*context.MF, context.MLI), in_loops_(std::move(in_loops)) {}

  void startBlock(llvm::MachineBasicBlock* block) override {
    ScheduleDAGInstrs::startBlock(block);
    if (in_loops_) in_loops_->startBlock(block);
  }
  void finishBlock() override {
    if (in_loops_) in_loops_->finishBlock();
    ScheduleDAGInstrs::finishBlock();
  }
  void enterRegion(llvm::MachineBasicBlock* block, llvm::MachineBasicBlock::iterator begin,
                   llvm::MachineBasicBlock::iterator end, unsigned instructions) override {
    ScheduleDAGInstrs::enterRegion(block, begin, end, instructions);
    if (in_loops_) in_loops_->enterRegion(block, begin, end, instructions);
  }
  void schedule() override {
    if (in_loops_ && BB->isSuccessor(BB)) in_loops_->schedule();
  }
  void exitRegion() override {
    if (in_loops_) in_loops_->exitRegion();
    ScheduleDAGInstrs::exitRegion();
  }
  void finalizeSchedule() override {
    if (in_loops_) in_loops_->finalizeSchedule();
  }

 private:
  std::unique_ptr<llvm::ScheduleDAGInstrs> in_loops_;
};

llvm::ScheduleDAGInstrs* make_scheduler(llvm::MachineSchedContext* context) {
  const llvm::Function& function = context->MF->getFunction();
  if (function.hasFnAttribute(kKeepsOrder)) return new KeptOrder(*context, nullptr);
  llvm::ScheduleDAGInstrs* usual = context->PassConfig->createMachineScheduler(context);
  if (!usual) usual = llvm::createGenericSchedLive(context);
  if (!function.hasFnAttribute(kKeepsOrderOutsideLoops)) return usual;
  return new KeptOrder(*context, std::unique_ptr<llvm::ScheduleDAGInstrs>(usual));
}
}  // namespace

void register_schedulers() {
  static const llvm::MachineSchedRegistry registry("lathe", "as written where a function says so",
                                                   make_scheduler);
}

}  // namespace lathe::codegen
