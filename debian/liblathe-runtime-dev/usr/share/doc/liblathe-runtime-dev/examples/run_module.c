/* Runs a module once:   run_module MODULE.lathe FOLDER [NAME=FILE ...]
 *
 * Each FILE holds the bytes of an input, dense and row-major; each output is written to FOLDER/output_<i>.bin
 * in the same form.
 *
 *   cc run_module.c -o run_module $(pkg-config --cflags --libs lathe-runtime)
 *
 * One file, one thread, one executor: docs/runtime-api.md says how to have more. */
#include <lathe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lathe_error error;

static void fail(const char* message) {
  fprintf(stderr, "error: %s\n", message);
  exit(2);
}

static void check(lathe_status status) {
  if (status != LATHE_OK) fail(error.message);
}

/* Memory that the runtime works in directly. */
static void* allocate(size_t bytes) {
  size_t rounded = (bytes / LATHE_ALIGNMENT + 1) * LATHE_ALIGNMENT;
  void* memory = aligned_alloc(LATHE_ALIGNMENT, rounded);
  if (!memory) fail("out of memory");
  return memory;
}

static void print_tensor(const lathe_tensor_info* info) {
  printf("%s: %zu bytes, shape (", info->name, info->bytes);
  for (size_t d = 0; d < info->rank; ++d) printf(d ? ", %lld" : "%lld", (long long)info->shape[d]);
  printf(")\n");
}

/* Binds the input of `binding`, NAME=FILE, to the file's bytes. */
static void* read_input(const lathe_module* module, lathe_executor* executor, char* binding) {
  char* file_name = strchr(binding, '=');
  if (!file_name) fail("an input is NAME=FILE");
  *file_name++ = '\0';
  size_t index = 0;
  lathe_tensor_info info;
  check(lathe_module_find_input(module, binding, &index, &error));
  check(lathe_module_input(module, index, &info, &error));
  void* data = allocate(info.bytes);
  FILE* file = fopen(file_name, "rb");
  if (!file || fread(data, 1, info.bytes, file) != info.bytes || fgetc(file) != EOF) {
    print_tensor(&info);
    fail("a file cannot be read, or has another size than its input");
  }
  fclose(file);
  check(lathe_executor_set_input(executor, index, data, info.bytes, &error));
  return data;
}

static void write_output(const char* folder, size_t index, const void* data, size_t bytes) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/output_%zu.bin", folder, index) >= (int)sizeof path)
    fail("path too long");
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) fail("cannot write an output");
}

int main(int argc, char** argv) {
  if (argc < 3) fail("usage: run_module MODULE.lathe FOLDER [NAME=FILE ...]");
  lathe_module* module = NULL;
  lathe_executor* executor = NULL;
  lathe_module_info model;
  check(lathe_module_open(argv[1], 0, &module, &error));
  check(lathe_module_describe(module, &model, &error));
  check(lathe_executor_create(module, 1, &executor, &error));

  void** inputs = calloc((size_t)argc, sizeof *inputs);
  void** outputs = calloc(model.outputs + 1, sizeof *outputs);
  if (!inputs || !outputs) fail("out of memory");
  for (int i = 3; i < argc; ++i) inputs[i] = read_input(module, executor, argv[i]);
  for (size_t i = 0; i < model.outputs; ++i) {
    lathe_tensor_info info;
    check(lathe_module_output(module, i, &info, &error));
    outputs[i] = allocate(info.bytes);
    check(lathe_executor_set_output(executor, i, outputs[i], info.bytes, &error));
  }
  check(lathe_executor_run(executor, &error));

  for (size_t i = 0; i < model.outputs; ++i) {
    lathe_tensor_info info;
    check(lathe_module_output(module, i, &info, &error));
    print_tensor(&info);
    write_output(argv[2], i, outputs[i], info.bytes);
  }
  lathe_executor_destroy(executor);
  lathe_module_close(module);
  for (int i = 3; i < argc; ++i) free(inputs[i]);
  for (size_t i = 0; i < model.outputs; ++i) free(outputs[i]);
  free(inputs);
  free(outputs);
  return 0;
}
