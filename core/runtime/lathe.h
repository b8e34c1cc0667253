/* lathe.h: runs compiled models (.lathe files, as `tune` makes them) with no compiler in the process.
 *
 * Link with -llathe-runtime (pkg-config lathe-runtime; CMake find_package(Lathe COMPONENTS runtime) and
 * Lathe::runtime). C99 or later, and C++. docs/runtime-api.md has a tour, docs/examples/ programs.
 *
 * Errors are values. Every function that can fail returns a lathe_status and takes, last, a lathe_error that
 * it fills in, with a message for people; it may be NULL. Nothing is thrown, printed or kept between calls. A
 * NULL handle or a NULL place for a result is LATHE_INVALID_ARGUMENT. After a failure the place for a result
 * holds NULL or 0, and whatever was there before goes on as it was.
 *
 * Threads. A module never changes: any number of threads may use one at once. An executor is one running
 * instance, for one thread at a time; give each thread its own, of the same module: they share its weights.
 * After fork() the child must not use the parent's executors: their threads are the parent's.
 *
 * Trust. A module file holds machine code, which runs with the rights of the process: load only files whose
 * source you trust. Damage is found, malice is not.
 *
 * ABI. The library is liblathe-runtime.so.LATHE_ABI. Within one LATHE_ABI functions, structs and the values
 * of enumerators stay what they are; functions, flags and enumerators may be added (so expect a status or a
 * type that you do not know). A program runs with any library of its LATHE_ABI that is not older than the
 * header it was compiled with; with an older one the loader may name a missing function. */
#ifndef LATHE_H
#define LATHE_H

#include <stddef.h>
#include <stdint.h>

#define LATHE_VERSION_MAJOR 0
#define LATHE_VERSION_MINOR 1
#define LATHE_VERSION_PATCH 0
#define LATHE_VERSION (LATHE_VERSION_MAJOR * 10000 + LATHE_VERSION_MINOR * 100 + LATHE_VERSION_PATCH)
#define LATHE_ABI 0

/* What every pointer handed to a kernel is a multiple of, in bytes. Memory that starts at a multiple of it is
 * read and written in place; other memory works, too, at the price of a copy a run. */
#define LATHE_ALIGNMENT 64

#ifdef __GNUC__
#define LATHE_API __attribute__((visibility("default")))
#else
#define LATHE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lathe_status {
  LATHE_OK = 0,
  LATHE_INVALID_ARGUMENT = 1, /* NULL, or an index, size, name, flag or alignment that cannot be */
  LATHE_NOT_READY = 2,        /* an input or a function is not set, bound memory overlaps, nothing was run */
  LATHE_CANNOT_READ = 3,      /* the file: it does not exist, say */
  LATHE_BAD_MODULE = 4,       /* not a module, damaged, cut short, or of another version of the format */
  LATHE_UNFIT = 5,            /* the module was built for a CPU that can do more than this one */
  LATHE_OUT_OF_RESOURCES = 6, /* memory or threads */
  LATHE_RUN_FAILED = 7,       /* a kernel's own check (an index out of range, say), or a library function */
  LATHE_INTERNAL = 8          /* a mistake of this library's */
} lathe_status;

/* What went wrong: the caller's memory, so every thread has its own. On success the message is "". */
typedef struct lathe_error {
  lathe_status status;
  char message[1020]; /* UTF-8, one line, ends with a NUL; cut when it is longer */
} lathe_error;

/* Element types, numbered as in DLPack's DLDataTypeCode. */
typedef enum lathe_type {
  LATHE_INT = 0,
  LATHE_UINT = 1,
  LATHE_FLOAT = 2,
  LATHE_BFLOAT = 4,
  LATHE_BOOL = 6 /* a byte, 0 or 1 */
} lathe_type;

/* In the place of a dimension that the module leaves open: any size that fits the other inputs will do. */
#define LATHE_OPEN (-1)

/* An input or an output: dense, row-major, in the byte order of the machine. The pointers live as long as the
 * module. */
typedef struct lathe_tensor_info {
  const char* name;
  lathe_type type;
  uint32_t bits; /* of an element, which takes (bits + 7) / 8 bytes */
  size_t rank;
  const int64_t* shape; /* `rank` dimensions, some LATHE_OPEN perhaps; a scalar has none */
  size_t bytes;         /* of the whole tensor; 0 where a dimension is open */
} lathe_tensor_info;

/* The pointers live as long as the module. */
typedef struct lathe_module_info {
  const char* model;  /* its name */
  const char* target; /* what it was compiled for */
  size_t inputs;      /* how many */
  size_t outputs;
  size_t constant_bytes; /* weights, shared by all executors, and by all processes that open the same file */
  size_t executor_bytes; /* what each executor allocates; 0 where that depends on open dimensions without
                            bounds */
} lathe_module_info;

typedef struct lathe_library lathe_library; /* a model in a shared library */
typedef struct lathe_module lathe_module;
typedef struct lathe_executor lathe_executor;

/* Of the library that runs, as LATHE_VERSION. */
LATHE_API uint32_t lathe_version(void);

/* --- modules */

enum {
  LATHE_VERIFY = 1, /* read the weights, too, and compare them with their checksum (else all but them) */
  LATHE_BORROW = 2  /* lathe_module_load: use the bytes in place instead of a copy of them */
};

/* Loads a module file. It is mapped, not read: do not write to it while it is loaded; to replace it, rename a
 * new file over it. `flags`: 0 or LATHE_VERIFY. */
LATHE_API lathe_status lathe_module_open(const char* path, uint32_t flags, lathe_module** module,
                                         lathe_error* error);

/* Loads the bytes of a module file from memory. They are copied; with LATHE_BORROW they must start at a
 * multiple of LATHE_ALIGNMENT, and stay there unchanged until the module and all of its executors are gone.
 */
LATHE_API lathe_status lathe_module_load(const void* bytes, size_t size, uint32_t flags,
                                         lathe_module** module, lathe_error* error);

/* The module in a library that the program is linked with, of the header that `tune compile --native` writes
 * beside it. Nothing is read or copied; the library must stay loaded. */
LATHE_API lathe_status lathe_module_link(const lathe_library* library, lathe_module** module,
                                         lathe_error* error);

/* Gives up the handle, which may be NULL. Executors of the module live on. */
LATHE_API void lathe_module_close(lathe_module* module);

LATHE_API lathe_status lathe_module_describe(const lathe_module* module, lathe_module_info* info,
                                             lathe_error* error);
LATHE_API lathe_status lathe_module_input(const lathe_module* module, size_t index, lathe_tensor_info* info,
                                          lathe_error* error);
LATHE_API lathe_status lathe_module_output(const lathe_module* module, size_t index, lathe_tensor_info* info,
                                           lathe_error* error);
LATHE_API lathe_status lathe_module_find_input(const lathe_module* module, const char* name, size_t* index,
                                               lathe_error* error);
LATHE_API lathe_status lathe_module_find_output(const lathe_module* module, const char* name, size_t* index,
                                                lathe_error* error);

/* --- library functions
 *
 * A program may call functions that are not in its module (call_dps_library("NAME", ...), docs/language.md).
 * The host gives each of them to each executor, by name: nothing else of the process is ever called, whatever
 * a module file says. */

/* A tensor that a library function reads or writes: dense, row-major, at a multiple of LATHE_ALIGNMENT. */
typedef struct lathe_tensor {
  void* data; /* of an empty tensor: not to be read or written */
  lathe_type type;
  uint32_t bits; /* of an element, which takes (bits + 7) / 8 bytes */
  size_t rank;
  const int64_t* shape; /* `rank` numbers; a scalar has none */
} lathe_tensor;

/* Reads the inputs and writes all elements of the outputs; tuples are taken apart, in order. Types and shapes
 * are those of the call; which ones it takes, the function says. The pointers end with the call. Inputs must
 * not be written to: others may share their memory. The outputs must follow from the inputs alone, for calls
 * that are equal may be made once and calls that nobody needs not at all.
 * Anything but LATHE_OK ends the run with LATHE_RUN_FAILED and the message that the function has put in
 * `error`, which is never NULL. It is called on the thread that called lathe_executor_run, must return, by
 * neither an exception nor a jump, and must not touch that executor; others it may run. */
typedef lathe_status (*lathe_function)(const lathe_tensor* inputs, size_t input_count,
                                       const lathe_tensor* outputs, size_t output_count, void* user_data,
                                       lathe_error* error);

/* How many functions the module calls, and the name of each, which lives as long as the module. */
LATHE_API lathe_status lathe_module_function_count(const lathe_module* module, size_t* count,
                                                   lathe_error* error);
LATHE_API lathe_status lathe_module_function(const lathe_module* module, size_t index, const char** name,
                                             lathe_error* error);

/* What a shared library exports as `lathe_functions` for `tune run --library FILE.so`: the functions that
 * modules may call there. A row whose name is NULL ends it. */
typedef struct lathe_named_function {
  const char* name;
  lathe_function function;
  void* user_data;
} lathe_named_function;
extern LATHE_API const lathe_named_function lathe_functions[];

/* --- executors */

/* Makes an executor with memory of its own for all that is computed, and a team of `threads` threads: the one
 * that calls lathe_executor_run and threads - 1 others, at most 1024; 0: as many as there are cores that this
 * process may use. */
LATHE_API lathe_status lathe_executor_create(const lathe_module* module, uint32_t threads,
                                             lathe_executor** executor, lathe_error* error);

/* May be NULL. */
LATHE_API void lathe_executor_destroy(lathe_executor* executor);

/* Binds the caller's memory to an input: each run reads what is there then. It stays bound, and has to live,
 * until other memory is bound or the executor is destroyed. `bytes` must be what lathe_module_input says. */
LATHE_API lathe_status lathe_executor_set_input(lathe_executor* executor, size_t index, const void* data,
                                                size_t bytes, lathe_error* error);

/* The same for an input of a module with open dimensions, of this shape: `rank` numbers. What is open is what
 * the inputs say; lathe_executor_run finds out whether they agree with each other, and with the model. */
LATHE_API lathe_status lathe_executor_set_shaped_input(lathe_executor* executor, size_t index,
                                                       const void* data, const int64_t* shape, size_t rank,
                                                       lathe_error* error);

/* Gives the executor the function that its module calls by this name, and what that is handed as user_data,
 * in place of an earlier one. lathe_executor_run is LATHE_NOT_READY before all that the module calls are set,
 * whether or not this run would call them. */
LATHE_API lathe_status lathe_executor_set_function(lathe_executor* executor, const char* name,
                                                   lathe_function function, void* user_data,
                                                   lathe_error* error);

/* What the output is after a run: all dimensions are numbers. The pointers live until an input is set. Then
 * lathe_executor_set_output takes memory of that size, for runs with inputs of these shapes.
 * LATHE_NOT_READY as lathe_executor_output. */
LATHE_API lathe_status lathe_executor_describe_output(const lathe_executor* executor, size_t index,
                                                      lathe_tensor_info* info, lathe_error* error);

/* The same for an output, which each run writes there; NULL with 0 bytes takes it back. Bound outputs may not
 * overlap each other or an input: lathe_executor_run says so. */
LATHE_API lathe_status lathe_executor_set_output(lathe_executor* executor, size_t index, void* data,
                                                 size_t bytes, lathe_error* error);

/* Runs the model; returns when all outputs are written. Allocates nothing, but for the first run with open
 * dimensions that are larger than before, unless these have upper bounds. After LATHE_RUN_FAILED the outputs
 * hold anything. */
LATHE_API lathe_status lathe_executor_run(lathe_executor* executor, lathe_error* error);

/* Where the output is: the memory bound to it, else memory of the executor's, which the next run overwrites.
 * LATHE_NOT_READY before the first run, and after a binding has changed or a run has failed. */
LATHE_API lathe_status lathe_executor_output(const lathe_executor* executor, size_t index, const void** data,
                                             lathe_error* error);

#ifdef __cplusplus
}
#endif

#endif
