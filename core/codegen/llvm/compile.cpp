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
#include "core/codegen/llvm/program_emitter.h"
#include "core/codegen/program.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/spawn.h"

namespace lathe::codegen {
namespace {
/// Whether a schedule made vectors: then the auto-vectorizers have nothing to add, and could undo its tiles.
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

/// Named by LLVM for the target, not asked of this machine: code may be for another one.
MachineFeatures features_of(const llvm::TargetMachine& machine, const Target& target) {
  const llvm::MCSubtargetInfo& info = *machine.getMCSubtargetInfo();
  auto has = [&](const char* features) { return info.checkFeatures(features); };
  if (machine.getTargetTriple().isAArch64()) return {.fma = true, .neon_dot = has("+dotprod")};
  if (!machine.getTargetTriple().isX86()) return {};
  const bool vnni = has("+avx512vnni,+avx512vl");
  return {.avx512_lanes = has("+avx512f,+avx512vl") ? static_cast<unsigned>(target.lanes()) : 0,
          .fma = has("+fma"),
          .vector_masks = has("+avx2") && !has("+avx512f,+avx512vl"),
          .vnni = vnni,
          .pairs = !vnni,
          .byte_pairs = has(target.lanes() >= 16 ? "+avx512bw" : "+avx2"),
          .bfloat16 = has("+avx512bf16,+avx512vl"),
          .converts_longs = has("+avx512dq,+avx512vl"),
          .divides_integers = false,
          .bfloat16_tiles = has("+amx-tile,+amx-bf16"),
          .int8_tiles = has("+amx-tile,+amx-int8")};
}

/// LLVM takes half a millisecond for an instruction of a program, and more where functions are long: beyond
/// so many the code is made hastily, which is four to eight times quicker done and slower to run.
constexpr size_t kMostOptimized = 3000;

/// A module of one program, or of none, and the code made of it.
class Compilation {
 public:
  explicit Compilation(const Target& target) : machine_(make_machine(target)), module_("lathe", context_) {
    // Names of values are for people who read LLVM's text.
    context_.setDiscardValueNames(true);
    context_.setDiagnosticHandlerCallBack(keep_error, &error_);
    module_.setTargetTriple(target.triple);
    module_.setDataLayout(machine_->createDataLayout());
  }
  Compilation(const tir::Func& func, const Target& target) : Compilation(target) {
    effort_ = is_vectorized(func) ? Effort::kCleanUp : Effort::kAutoVectorize;
    KernelState state{module_, target, func, plan_registers(func->body), features_of(*machine_, target)};
    Emitter::emit_kernel(state);
    kernel_ = {func->name, state.workspace_bytes, state.open_workspace};
  }

  Compilation(const runtime::Program& program, std::span<const void* const> constants, const Target& target)
      : Compilation(target) {
    ProgramState state{module_, program, constants};
    ProgramEmitter::emit(state, target);
    size_t instructions = 0;
    for (const runtime::CodeFunction& function : program.functions) instructions += function.code.size();
    if (instructions > kMostOptimized) effort_ = Effort::kHasty;
    kernel_.name = runtime::kNativeSymbol;
  }

  const Kernel& kernel() const { return kernel_; }

  std::string code(llvm::CodeGenFileType type) {
    std::string fault;
    llvm::raw_string_ostream stream(fault);
    // LLVM crashes on invalid code, or compiles it to something: neither names the fault.
    CHECK(!llvm::verifyModule(module_, &stream), "code generation made invalid LLVM IR: {}", fault);
    optimize(module_, *machine_, effort_);
    std::string result = emit_code(module_, *machine_, type);
    if (!error_.empty()) fail("llvm: {}", error_);
    return result;
  }

 private:
  std::string error_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::Module module_;
  Effort effort_ = Effort::kCleanUp;
  Kernel kernel_;
};

constexpr const char* kCrossLinker = "ld.lld-19";

std::string architecture_of(const Target& target) { return target.triple.substr(0, target.triple.find('-')); }

}  // namespace

std::string linker_for(const Target& target) {
  return architecture_of(target) == architecture_of(host_target()) ? "ld" : kCrossLinker;
}

std::vector<std::string> architectures() {
  std::vector<std::string> result = {architecture_of(host_target())};
  if (!has_program(kCrossLinker)) return result;
  for (const char* other : {"aarch64", "riscv64", "x86_64"})
    if (other != result[0]) result.emplace_back(other);
  return result;
}

Object compile_object(const tir::Func& lowered, const Target& target) {
  Compilation compilation(lowered, target);
  return {compilation.code(llvm::CodeGenFileType::ObjectFile), compilation.kernel()};
}

Object compile_program(const runtime::Program& program, std::span<const void* const> constants,
                       const Target& target) {
  Compilation compilation(program, constants, target);
  return {compilation.code(llvm::CodeGenFileType::ObjectFile), compilation.kernel()};
}

Artifact link(std::span<const Object> objects, const Target& target) {
  Artifact artifact;
  std::set<std::string> names;
  std::vector<std::string_view> bytes;
  for (const Object& object : objects) {
    CHECK(names.insert(object.kernel.name).second, "two kernels are called {}", object.kernel.name);
    artifact.kernels.push_back(object.kernel);
    bytes.push_back(object.bytes);
  }
  std::string nothing;  // of a model that only renames and reshapes: the linker wants one object
  if (objects.empty()) bytes.push_back(nothing = Compilation(target).code(llvm::CodeGenFileType::ObjectFile));
  artifact.bytes = link_shared_object(bytes, linker_for(target));
  artifact.sha256 = sha256(artifact.bytes);
  return artifact;
}

Artifact compile(std::span<const tir::Func> lowered, const Target& target) {
  std::vector<Object> objects;
  for (const tir::Func& func : lowered) objects.push_back(compile_object(func, target));
  return link(objects, target);
}

std::string compile_to_assembly(std::span<const tir::Func> lowered, const Target& target) {
  std::string text;
  for (const tir::Func& func : lowered)
    text += Compilation(func, target).code(llvm::CodeGenFileType::AssemblyFile);
  return text;
}

}  // namespace lathe::codegen
