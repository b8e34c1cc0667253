#include "core/codegen/compile.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>

#include <set>

#include "core/codegen/host_target.h"
#include "core/codegen/link.h"
#include "core/codegen/llvm/emitter.h"
#include "core/codegen/llvm/machine.h"
#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::codegen {
namespace {
bool is_vectorized(const tir::Func& func) {
  bool found = false;
  post_order(func->body, [&](const NodeRef& node) {
    const tir::Store* store = node.as<tir::Store>();
    found |= store && store->value.dtype().lanes > 1;
  });
  return found;
}

/// Keeps the first error: the others mostly repeat it.
void keep_error(const llvm::DiagnosticInfo* diagnostic, void* error) {
  std::string& text = *static_cast<std::string*>(error);
  if (diagnostic->getSeverity() != llvm::DS_Error || !text.empty()) return;
  llvm::raw_string_ostream stream(text);
  llvm::DiagnosticPrinterRawOStream printer(stream);
  diagnostic->print(printer);
}

MachineFeatures features_of(const llvm::TargetMachine& machine) {
  const llvm::MCSubtargetInfo& info = *machine.getMCSubtargetInfo();
  if (!machine.getTargetTriple().isX86()) return {};
  auto has = [&](const char* features) { return info.checkFeatures(features); };
  return {.vnni = has("+avx512vnni,+avx512vl"), .bfloat16 = has("+avx512bf16,+avx512vl")};
}

/// A module of one program and the code made of it. Functions with and without vectors are optimized apart.
class Compilation {
 public:
  explicit Compilation(const Target& target)
      : target_(target), machine_(make_machine(target)), module_("lathe", context_) {
    context_.setDiscardValueNames(true);
    context_.setDiagnosticHandlerCallBack(keep_error, &error_);
    module_.setTargetTriple(target.triple);
    module_.setDataLayout(machine_->createDataLayout());
  }

  Kernel add(const tir::Func& func) {
    KernelState state{module_, target_, func, plan_registers(func->body), features_of(*machine_)};
    Emitter::emit_kernel(state);
    vectorized_ |= is_vectorized(func);
    return {func->name, state.workspace_bytes};
  }

  std::string code(llvm::CodeGenFileType type) {
    std::string fault;
    llvm::raw_string_ostream stream(fault);
    CHECK(!llvm::verifyModule(module_, &stream), "code generation made invalid LLVM IR: {}", fault);
    optimize(module_, *machine_, vectorized_ ? Effort::kCleanUp : Effort::kAutoVectorize);
    std::string result = emit_code(module_, *machine_, type);
    if (!error_.empty()) fail("llvm: {}", error_);
    return result;
  }

 private:
  const Target& target_;
  std::string error_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::Module module_;
  bool vectorized_ = false;
};

/// The system's own linker links for its own architecture only.
std::string linker_for(const Target& target) {
  std::string architecture = target.triple.substr(0, target.triple.find('-'));
  return host_target().triple.starts_with(architecture + "-") ? "ld" : architecture + "-linux-gnu-ld";
}

std::vector<Kernel> add_all(Compilation& compilation, std::span<const tir::Func> lowered) {
  std::vector<Kernel> kernels;
  std::set<std::string> names;
  for (const tir::Func& func : lowered) {
    CHECK(names.insert(func->name).second, "two kernels are called {}", func->name);
    kernels.push_back(compilation.add(func));
  }
  return kernels;
}
}  // namespace

Artifact compile(std::span<const tir::Func> lowered, const Target& target) {
  Compilation compilation(target);
  Artifact artifact;
  artifact.kernels = add_all(compilation, lowered);
  artifact.bytes =
      link_shared_object(compilation.code(llvm::CodeGenFileType::ObjectFile), linker_for(target));
  artifact.sha256 = sha256(artifact.bytes);
  return artifact;
}

std::string compile_to_assembly(std::span<const tir::Func> lowered, const Target& target) {
  Compilation compilation(target);
  add_all(compilation, lowered);
  return compilation.code(llvm::CodeGenFileType::AssemblyFile);
}

}  // namespace lathe::codegen
