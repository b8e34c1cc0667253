// lathe.h from C11, with all warnings: what a C program would write.
#include <lathe.h>
#include <string.h>

_Static_assert(LATHE_VERSION == LATHE_VERSION_MAJOR * 10000 + LATHE_VERSION_MINOR * 100 + LATHE_VERSION_PATCH,
               "the version in one number");

// Runs the model of test_module.h on {10, 20, 30}; the first element of its output `y`, or minus the status.
float run_from_c(const char* path, lathe_error* error) {
  static const float x[3] = {10, 20, 30};
  float y[3] = {0, 0, 0};
  lathe_module* module = NULL;
  lathe_executor* executor = NULL;
  size_t in = 0, out = 0;
  lathe_status status = lathe_module_open(path, LATHE_VERIFY, &module, error);
  if (status == LATHE_OK) status = lathe_module_find_input(module, "x", &in, error);
  if (status == LATHE_OK) status = lathe_module_find_output(module, "y", &out, error);
  if (status == LATHE_OK) status = lathe_executor_create(module, 1, &executor, error);
  if (status == LATHE_OK) status = lathe_executor_set_input(executor, in, x, sizeof x, error);
  if (status == LATHE_OK) status = lathe_executor_set_output(executor, out, y, sizeof y, error);
  if (status == LATHE_OK) status = lathe_executor_run(executor, error);
  lathe_executor_destroy(executor);
  lathe_module_close(module);
  return status == LATHE_OK ? y[0] : -(float)status;
}
