#include "core/codegen/library.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "core/codegen/link.h"
#include "core/codegen/llvm/machine.h"
#include "core/runtime/kernel.h"
#include "core/runtime/linked_library.h"

namespace lathe::codegen {
namespace {

/// The object file that holds the lathe_library, and all that is no code.
std::string data_object(const std::string& name, const LibraryParts& parts, const Target& target) {
  std::unique_ptr<llvm::TargetMachine> machine = make_machine(target);
  llvm::LLVMContext context;
  llvm::Module module("lathe", context);
  module.setTargetTriple(target.triple);
  module.setDataLayout(machine->createDataLayout());
  llvm::IRBuilder<> b(context);
  auto global = [&](llvm::Constant* value, llvm::GlobalValue::LinkageTypes linkage,
                    const std::string& called) {
    return new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true, linkage, value, called);
  };
  auto bytes = [&](std::string_view text, bool ended) {
    llvm::GlobalVariable* data =
        global(llvm::ConstantDataArray::getString(context, {text.data(), text.size()}, /*AddNull=*/ended),
               llvm::GlobalValue::PrivateLinkage, "");
    data->setAlignment(llvm::Align(runtime::kAlignment));
    return data;
  };
  auto number = [&](size_t value) { return b.getInt64(value); };

  llvm::StructType* row_type = llvm::StructType::get(context, {b.getPtrTy(), b.getPtrTy()});
  std::vector<llvm::Constant*> rows;
  for (const std::string& symbol : parts.symbols)
    rows.push_back(llvm::ConstantStruct::get(
        row_type, {bytes(symbol, true), module.getOrInsertGlobal(symbol, b.getInt8Ty())}));
  llvm::GlobalVariable* symbols =
      global(llvm::ConstantArray::get(llvm::ArrayType::get(row_type, rows.size()), rows),
             llvm::GlobalValue::PrivateLinkage, "");
  global(llvm::ConstantStruct::getAnon({number(runtime::kLibraryVersion), bytes(parts.plan, false),
                                        number(parts.plan.size()), bytes(parts.program, false),
                                        number(parts.program.size()), bytes(parts.constants, false),
                                        number(parts.constants.size()), symbols, number(rows.size())}),
         llvm::GlobalValue::ExternalLinkage, name);
  return emit_code(module, *machine, llvm::CodeGenFileType::ObjectFile);
}

}  // namespace

std::string link_library(const std::string& name, const std::string& soname, const LibraryParts& parts,
                         const Target& target) {
  const std::string data = data_object(name, parts, target);
  std::vector<std::string_view> objects{data};
  objects.insert(objects.end(), parts.objects.begin(), parts.objects.end());
  return link_shared_object(objects, linker_for(target), {.soname = soname, .exports = name});
}

}  // namespace lathe::codegen
