// lathe.h over Module and Executor: arguments are checked, exceptions become values.
#include <algorithm>
#include <cstring>
#include <new>
#include <span>

#include "core/runtime/cores.h"
#include "core/runtime/executor.h"
#include "core/runtime/lathe.h"
#include "core/runtime/linked_library.h"
#include "core/runtime/pages.h"
#include "core/runtime/plan_dims.h"
#include "core/runtime/thread_pool.h"
#include "core/support/most_threads.h"
#include "core/support/unfit.h"

using lathe::Error;
using lathe::Tensor;
using namespace lathe::runtime;

static_assert(LATHE_ALIGNMENT == kAlignment);
static_assert(sizeof(lathe_error) == 1024);

struct lathe_module {
  explicit lathe_module(std::shared_ptr<const Module> loaded) : module(std::move(loaded)) {
    for (const Value& value : module->plan().values) {
      shapes.push_back(value.shape);
      for (int64_t& dim : shapes.back()) dim = std::max<int64_t>(dim, LATHE_OPEN);
    }
  }

  std::shared_ptr<const Module> module;
  std::vector<std::vector<int64_t>> shapes;  // of the values, LATHE_OPEN for what is open
};

struct lathe_executor {
  lathe_executor(std::shared_ptr<const Module> module, int threads)
      : pool(threads), executor(std::move(module), pool.parallel()) {}

  ThreadPool pool;
  Executor executor;
  bool ran = false;  // since the bindings changed
};

namespace {

/// A mistake of the caller's.
class Misuse : public Error {
 public:
  using Error::Error;
};

template <typename... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Misuse(fmt::format(format, std::forward<Args>(args)...));
}

/// Fills in `error`, where the caller wants one, and gives the status back.
lathe_status report(lathe_error* error, lathe_status status, std::string_view message) {
  if (!error) return status;
  error->status = status;
  size_t length = std::min(message.size(), sizeof error->message - 1);
  // Not in the midst of a character.
  while (length < message.size() && length > 0 && (message[length] & 0xc0) == 0x80) --length;
  std::memcpy(error->message, message.data(), length);
  error->message[length] = '\0';
  return status;
}

/// Runs the action; `on_error` is what an Error means there that says no more of itself. noexcept: an
/// exception that crossed into C would end the caller's program.
template <typename Action>
lathe_status guarded(lathe_error* error, lathe_status on_error, Action action) noexcept {
  try {
    action();
    return report(error, LATHE_OK, "");
  } catch (const Misuse& mistake) {
    return report(error, LATHE_INVALID_ARGUMENT, mistake.what());
  } catch (const lathe::OutOfResources& failure) {
    return report(error, LATHE_OUT_OF_RESOURCES, failure.what());
  } catch (const lathe::Unfit& unfit) {
    return report(error, LATHE_UNFIT, unfit.what());
  } catch (const Error& failure) {
    return report(error, on_error, failure.what());
  } catch (const std::bad_alloc&) {
    return report(error, LATHE_OUT_OF_RESOURCES, "out of memory");
  } catch (const std::exception& unexpected) {
    return report(error, LATHE_INTERNAL, unexpected.what());
  } catch (...) {
    return report(error, LATHE_INTERNAL, "an exception of an unknown type");
  }
}

template <typename T>
T& require(T* argument, const char* name) {
  if (!argument) misuse("{} is NULL", name);
  return *argument;
}

/// The place for a result, emptied, so that a caller who forgets the status finds nothing and not garbage.
template <typename T>
T& require_place(T* place, const char* name) {
  return require(place, name) = T{};
}

void require_flags(uint32_t flags, uint32_t known) {
  if (flags & ~known) misuse("flags are {:#x}, those known here {:#x}", flags, known);
}

const Port& require_port(const char* kind, const std::vector<Port>& ports, size_t index) {
  if (index >= ports.size()) misuse("{} {} of {}", kind, index, ports.size());
  return ports[index];
}

const Value& value_of(const Plan& plan, const Port& port) { return plan.values[port.value]; }

/// The caller owns the result.
lathe_module* load(const ModuleBytes& file, uint32_t flags) {
  if (flags & LATHE_VERIFY) verify_module(file);
  return new lathe_module{Module::load(file)};
}

ModuleBytes borrowed(const void* bytes, size_t size) {
  if (reinterpret_cast<uintptr_t>(bytes) % kAlignment != 0)
    misuse("LATHE_BORROW: {} is not a multiple of {}", bytes, kAlignment);
  return {.name = "the module in memory", .bytes = {static_cast<const char*>(bytes), size}};
}

/// The copy is aligned, whatever the caller's memory is.
ModuleBytes copied(const void* bytes, size_t size) {
  ModuleBytes copy = {.name = "the module in memory", .owner = allocate_pages(size)};
  std::memcpy(copy.owner.get(), bytes, size);
  copy.bytes = {static_cast<const char*>(copy.owner.get()), size};
  return copy;
}

bool is_known(const std::vector<int64_t>& shape) { return std::none_of(shape.begin(), shape.end(), is_open); }

/// `shape`: the value's, LATHE_OPEN for what is open.
lathe_tensor_info describe(const Plan& plan, const Port& port, const std::vector<int64_t>& shape) {
  const Value& value = value_of(plan, port);
  return {.name = port.name.c_str(),
          .type = c_type(value.dtype),
          .bits = value.dtype.bits,
          .rank = shape.size(),
          .shape = shape.data(),
          .bytes = is_known(shape) ? static_cast<size_t>(value.bytes()) : 0};
}

/// The caller's memory. Of an empty tensor there need be none, but for a pointer that is not null: kernels
/// never touch it.
void* require_data(void* data, bool empty) {
  alignas(kAlignment) static char nothing[kAlignment];
  if (empty && !data) return nothing;
  require(static_cast<char*>(data), "data");
  return data;
}

/// The caller's memory as the tensor of an input or an output.
Tensor wrap(const Plan& plan, const char* kind, const Port& port, void* data, size_t bytes) {
  const Value& value = value_of(plan, port);
  if (!is_known(value.shape))
    misuse("{} `{}` has dimensions that are open: set all inputs by lathe_executor_set_shaped_input first",
           kind, port.name);
  if (bytes != static_cast<size_t>(value.bytes()))
    misuse("{} `{}` takes {} bytes, {} were given", kind, port.name, value.bytes(), bytes);
  data = require_data(data, bytes == 0);
  // Without an owner: the caller keeps the memory, as lathe.h says.
  return Tensor(value.shape, value.dtype, nullptr, data);
}

}  // namespace

extern "C" {

uint32_t lathe_version(void) { return LATHE_VERSION; }

lathe_status lathe_module_open(const char* path, uint32_t flags, lathe_module** module, lathe_error* error) {
  ModuleBytes file;
  // Two steps, because what an Error means differs: first a file that cannot be read, then one that is no
  // module.
  const lathe_status status = guarded(error, LATHE_CANNOT_READ, [&] {
    require_place(module, "module");
    require(path, "path");
    require_flags(flags, LATHE_VERIFY);
    file = map_module(path);
  });
  if (status != LATHE_OK) return status;
  return guarded(error, LATHE_BAD_MODULE, [&] { *module = load(file, flags); });
}

lathe_status lathe_module_load(const void* bytes, size_t size, uint32_t flags, lathe_module** module,
                               lathe_error* error) {
  ModuleBytes file;
  const lathe_status status = guarded(error, LATHE_OUT_OF_RESOURCES, [&] {
    require_place(module, "module");
    require(static_cast<const char*>(bytes), "bytes");
    require_flags(flags, LATHE_VERIFY | LATHE_BORROW);
    file = flags & LATHE_BORROW ? borrowed(bytes, size) : copied(bytes, size);
  });
  if (status != LATHE_OK) return status;
  return guarded(error, LATHE_BAD_MODULE, [&] { *module = load(file, flags); });
}

lathe_status lathe_module_link(const lathe_library* library, lathe_module** module, lathe_error* error) {
  return guarded(error, LATHE_BAD_MODULE, [&] {
    require_place(module, "module");
    *module = new lathe_module{Module::link(require(library, "library"))};
  });
}

void lathe_module_close(lathe_module* module) { delete module; }

lathe_status lathe_module_describe(const lathe_module* module, lathe_module_info* info, lathe_error* error) {
  return guarded(error, LATHE_INTERNAL, [&] {
    lathe_module_info& answer = require_place(info, "info");
    const Plan& plan = require(module, "module").module->plan();
    answer = {.model = plan.model.c_str(),
              .target = plan.target.c_str(),
              .inputs = plan.inputs.size(),
              .outputs = plan.outputs.size(),
              .constant_bytes = static_cast<size_t>(plan.constant_bytes),
              .executor_bytes = static_cast<size_t>(bounded_arena(plan))};
  });
}

lathe_status lathe_module_input(const lathe_module* module, size_t index, lathe_tensor_info* info,
                                lathe_error* error) {
  return guarded(error, LATHE_INTERNAL, [&] {
    lathe_tensor_info& answer = require_place(info, "info");
    const Plan& plan = require(module, "module").module->plan();
    const Port& port = require_port("input", plan.inputs, index);
    answer = describe(plan, port, module->shapes[static_cast<size_t>(port.value)]);
  });
}

lathe_status lathe_module_output(const lathe_module* module, size_t index, lathe_tensor_info* info,
                                 lathe_error* error) {
  return guarded(error, LATHE_INTERNAL, [&] {
    lathe_tensor_info& answer = require_place(info, "info");
    const Plan& plan = require(module, "module").module->plan();
    const Port& port = require_port("output", plan.outputs, index);
    answer = describe(plan, port, module->shapes[static_cast<size_t>(port.value)]);
  });
}

lathe_status lathe_module_find_input(const lathe_module* module, const char* name, size_t* index,
                                     lathe_error* error) {
  return guarded(error, LATHE_INVALID_ARGUMENT, [&] {
    size_t& answer = require_place(index, "index");
    answer = find_input(require(module, "module").module->plan(), &require(name, "name"));
  });
}

lathe_status lathe_module_find_output(const lathe_module* module, const char* name, size_t* index,
                                      lathe_error* error) {
  return guarded(error, LATHE_INVALID_ARGUMENT, [&] {
    size_t& answer = require_place(index, "index");
    answer = find_output(require(module, "module").module->plan(), &require(name, "name"));
  });
}

lathe_status lathe_module_function_count(const lathe_module* module, size_t* count, lathe_error* error) {
  return guarded(error, LATHE_INTERNAL, [&] {
    size_t& answer = require_place(count, "count");
    answer = require(module, "module").module->library_functions().size();
  });
}

lathe_status lathe_module_function(const lathe_module* module, size_t index, const char** name,
                                   lathe_error* error) {
  return guarded(error, LATHE_INTERNAL, [&] {
    const char*& answer = require_place(name, "name");
    const std::span<const std::string> names = require(module, "module").module->library_functions();
    if (index >= names.size()) misuse("function {} of {}", index, names.size());
    answer = names[index].c_str();
  });
}

lathe_status lathe_executor_create(const lathe_module* module, uint32_t threads, lathe_executor** executor,
                                   lathe_error* error) {
  return guarded(error, LATHE_OUT_OF_RESOURCES, [&] {
    lathe_executor*& answer = require_place(executor, "executor");
    require(module, "module");
    // Each is a stack and a thread of the system.
    if (threads > uint32_t{lathe::kMostThreads})
      misuse("{} threads, must be 0 to {}", threads, lathe::kMostThreads);
    answer = new lathe_executor(module->module, threads == 0 ? available_cores() : static_cast<int>(threads));
  });
}

void lathe_executor_destroy(lathe_executor* executor) { delete executor; }

lathe_status lathe_executor_set_input(lathe_executor* executor, size_t index, const void* data, size_t bytes,
                                      lathe_error* error) {
  return guarded(error, LATHE_INTERNAL, [&] {
    Executor& runs = require(executor, "executor").executor;
    const Port& port = require_port("input", runs.plan().inputs, index);
    runs.set_input(index, wrap(runs.plan(), "input", port, const_cast<void*>(data), bytes));
    executor->ran = false;
  });
}

lathe_status lathe_executor_set_shaped_input(lathe_executor* executor, size_t index, const void* data,
                                             const int64_t* shape, size_t rank, lathe_error* error) {
  return guarded(error, LATHE_INVALID_ARGUMENT, [&] {
    Executor& runs = require(executor, "executor").executor;
    const Port& port = require_port("input", runs.plan().inputs, index);
    const Value& value = value_of(runs.plan(), port);
    // Before any of them is read: as many as it says need not be there.
    if (rank != value.shape.size())
      misuse("input `{}` is of rank {}, must be of rank {}", port.name, rank, value.shape.size());
    if (rank > 0) require(shape, "shape");
    std::vector<int64_t> dims(shape, shape + rank);
    int64_t elements = 1;
    for (int64_t dim : dims)
      if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements) || elements > kMostBytes)
        misuse("input `{}` cannot be of shape {}", port.name, lathe::shape_text(dims));
    void* memory = require_data(const_cast<void*>(data), elements == 0);
    runs.set_input(index, Tensor(std::move(dims), value.dtype, nullptr, memory));
    executor->ran = false;
  });
}

lathe_status lathe_executor_set_function(lathe_executor* executor, const char* name, lathe_function function,
                                         void* user_data, lathe_error* error) {
  return guarded(error, LATHE_INVALID_ARGUMENT, [&] {
    Executor& runs = require(executor, "executor").executor;
    require(name, "name");
    if (!function) misuse("function is NULL");
    runs.set_function(name, {function, user_data});
  });
}

lathe_status lathe_executor_describe_output(const lathe_executor* executor, size_t index,
                                            lathe_tensor_info* info, lathe_error* error) {
  return guarded(error, LATHE_NOT_READY, [&] {
    lathe_tensor_info& answer = require_place(info, "info");
    const Plan& plan = require(executor, "executor").executor.plan();
    const Port& port = require_port("output", plan.outputs, index);
    if (!executor->ran) lathe::fail("nothing has been run since the bindings changed");
    answer = describe(plan, port, value_of(plan, port).shape);
  });
}

lathe_status lathe_executor_set_output(lathe_executor* executor, size_t index, void* data, size_t bytes,
                                       lathe_error* error) {
  return guarded(error, LATHE_INTERNAL, [&] {
    Executor& runs = require(executor, "executor").executor;
    const Port& port = require_port("output", runs.plan().outputs, index);
    const bool take_back = !data && bytes == 0;
    runs.set_output(index, take_back ? Tensor() : wrap(runs.plan(), "output", port, data, bytes));
    executor->ran = false;
  });
}

lathe_status lathe_executor_run(lathe_executor* executor, lathe_error* error) {
  const lathe_status status = guarded(error, LATHE_NOT_READY, [&] {
    // Until this run is through there is no output to ask for.
    require(executor, "executor").ran = false;
    executor->executor.check_bindings();
  });
  if (status != LATHE_OK) return status;
  return guarded(error, LATHE_RUN_FAILED, [&] {
    executor->executor.run();
    executor->ran = true;
  });
}

lathe_status lathe_executor_output(const lathe_executor* executor, size_t index, const void** data,
                                   lathe_error* error) {
  return guarded(error, LATHE_NOT_READY, [&] {
    const void*& answer = require_place(data, "data");
    const Executor& ran = require(executor, "executor").executor;
    require_port("output", ran.plan().outputs, index);
    if (!executor->ran) lathe::fail("nothing has been run since the bindings changed");
    answer = ran.output(index).data();
  });
}

}  // extern "C"
