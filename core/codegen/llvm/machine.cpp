#include "core/codegen/llvm/machine.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/IR/LegacyPassManager.h>
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

#include "core/support/error.h"

namespace lathe::codegen {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    // The emitter advances one pointer for all unrolled copies of an access. Loop strength reduction takes
    // this apart again, and ends with a spilled pointer for each copy: a sixth of a convolution's time.
    const char* arguments[] = {"lathe", "-disable-lsr"};
    llvm::cl::ParseCommandLineOptions(2, arguments);
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
