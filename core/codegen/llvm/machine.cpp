#include "core/codegen/llvm/machine.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <mutex>
#include <vector>

#include "core/codegen/llvm/instruction_order.h"
#include "core/support/error.h"

namespace lathe::codegen {
void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
    // The emitter advances one pointer for all unrolled copies of an access. Loop strength reduction takes
    // this apart again, and ends with a spilled pointer for each copy: a sixth of a convolution's time.
    register_schedulers();
    const char* arguments[] = {"lathe", "-disable-lsr", "-misched=lathe"};
    llvm::cl::ParseCommandLineOptions(3, arguments);
    // LLVM's frames have unwind tables, so an exception may pass through them; what they hold leaks.
    llvm::install_fatal_error_handler(
        [](void*, const char* reason, bool) { throw Error(fmt::format("llvm: {}", reason)); });
  });
}

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  initialize_llvm();
  std::string error;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (!llvm_target) fail("target: LLVM does not know the triple `{}`: {}", target.triple, error);
  llvm::TargetOptions options;
  // Only where the instructions carry the flag `contract`, which the emitter sets.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.TrapUnreachable = false;
  options.UseInitArray = true;  // not the older .ctors, which not every linker takes
  std::unique_ptr<llvm::TargetMachine> machine(
      llvm_target->createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                       std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine) fail("target: LLVM has no code generator for the triple `{}`", target.triple);
  return machine;
}

namespace {
/// The program is explicit about loops, vectors and unrolling; what is left is registers, common addresses,
/// and code that does not belong in its loop.
llvm::ModulePassManager clean_up_pipeline() {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  // Once more: InstCombine makes equal what was written differently.
  passes.addPass(llvm::EarlyCSEPass());
  llvm::ModulePassManager module_passes;
  module_passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  return module_passes;
}

/// An element of memory in all lanes, used once: a broadcast's register is free behind that use.
bool is_broadcast_once(llvm::Value* v) {
  auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(v);
  return shuffle && shuffle->hasOneUse() && shuffle->isZeroEltSplat();
}

/// The operand of `sum` that is broadcast * vector and that nobody else reads; null for others.
llvm::BinaryOperator* product_in(llvm::Instruction& sum, unsigned operand) {
  auto* product = llvm::dyn_cast<llvm::BinaryOperator>(sum.getOperand(operand));
  const bool fuses = product && product->getOpcode() == llvm::Instruction::FMul && product->hasOneUse() &&
                     product->hasAllowContract() && product->getParent() == sum.getParent();
  return fuses && (is_broadcast_once(product->getOperand(0)) != is_broadcast_once(product->getOperand(1)))
             ? product
             : nullptr;
}

/// Of an instruction with two sources and a sum, LLVM overwrites a source that is not needed any more: here
/// the broadcast, so that the sum lies in another register after each step, and of twelve sums some are
/// spilled. The form that overwrites the sum is therefore named.
void add_in_place(llvm::Module& module) {
  struct Sum {
    llvm::Instruction* sum;
    llvm::BinaryOperator* product;
    unsigned acc;  // which operand
  };
  std::vector<Sum> sums;
  for (llvm::Function& function : module)
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& i : block) {
        auto* type = llvm::dyn_cast<llvm::FixedVectorType>(i.getType());
        if (i.getOpcode() != llvm::Instruction::FAdd || !type || !type->getElementType()->isFloatTy() ||
            (type->getNumElements() != 4 && type->getNumElements() != 8) || !i.hasAllowContract())
          continue;
        for (unsigned operand : {0u, 1u})
          if (llvm::BinaryOperator* product = product_in(i, operand)) {
            sums.push_back({&i, product, 1 - operand});
            break;
          }
      }
  for (const auto& [sum, product, acc] : sums) {
    llvm::Type* type = sum->getType();
    auto* signature = llvm::FunctionType::get(type, {type, type, type}, false);
    auto* add = llvm::CallInst::Create(
        signature, llvm::InlineAsm::get(signature, "vfmadd231ps $3, $2, $0", "=x,0,x,x", false),
        {sum->getOperand(acc), product->getOperand(0), product->getOperand(1)}, "", sum->getIterator());
    sum->replaceAllUsesWith(add);
    sum->eraseFromParent();
    product->eraseFromParent();
  }
}
}  // namespace

void optimize(llvm::Module& module, llvm::TargetMachine& machine, Effort effort) {
  if (effort == Effort::kHasty) return machine.setOptLevel(llvm::CodeGenOptLevel::None);
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager call_graph;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(call_graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, call_graph, modules);
  llvm::ModulePassManager passes = effort == Effort::kCleanUp
                                       ? clean_up_pipeline()
                                       : builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2);
  passes.run(module, modules);
  const llvm::MCSubtargetInfo& features = *machine.getMCSubtargetInfo();
  if (machine.getTargetTriple().isX86() && features.checkFeatures("+fma") &&
      !features.checkFeatures("+avx512vl"))
    add_in_place(module);
}

std::string emit_code(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true))
    fail("target: LLVM cannot write object files for `{}`", machine.getTargetTriple().str());
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

}  // namespace lathe::codegen
