#!/usr/bin/env python3
"""Runs a module once, by ctypes alone:   run_module.py MODULE.lathe FOLDER [NAME=FILE ...]

Each FILE holds the bytes of an input, dense and row-major; each output is written to FOLDER/output_<i>.bin in the
same form. The class Module takes and gives anything with the buffer protocol: bytes, array.array, NumPy arrays.
"""
import ctypes
import math
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p


class Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("message", c_char * 1020)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("bits", c_uint32), ("rank", c_size_t),
                ("shape", POINTER(c_int64)), ("bytes", c_size_t)]


class ModuleInfo(ctypes.Structure):
    _fields_ = [("model", c_char_p), ("target", c_char_p), ("inputs", c_size_t), ("outputs", c_size_t),
                ("constant_bytes", c_size_t), ("executor_bytes", c_size_t)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("type", c_int), ("bits", c_uint32), ("rank", c_size_t),
                ("shape", POINTER(c_int64))]

    def memory(self):
        """Its bytes, to be read of an input and written of an output while the call lasts."""
        elements = math.prod(self.shape[:self.rank])
        return memoryview((c_char * (elements * ((self.bits + 7) // 8))).from_address(self.data)).cast("B")


Function = ctypes.CFUNCTYPE(c_int, POINTER(Tensor), c_size_t, POINTER(Tensor), c_size_t, c_void_p, POINTER(Error))

lathe = ctypes.CDLL("liblathe-runtime.so.0")
for name, arguments in {
        "lathe_module_open": [c_char_p, c_uint32, POINTER(c_void_p)],
        "lathe_module_describe": [c_void_p, POINTER(ModuleInfo)],
        "lathe_module_input": [c_void_p, c_size_t, POINTER(TensorInfo)],
        "lathe_module_output": [c_void_p, c_size_t, POINTER(TensorInfo)],
        "lathe_module_find_input": [c_void_p, c_char_p, POINTER(c_size_t)],
        "lathe_executor_create": [c_void_p, c_uint32, POINTER(c_void_p)],
        "lathe_executor_set_input": [c_void_p, c_size_t, c_void_p, c_size_t],
        "lathe_executor_set_output": [c_void_p, c_size_t, c_void_p, c_size_t],
        "lathe_executor_set_function": [c_void_p, c_char_p, Function, c_void_p],
        "lathe_executor_run": [c_void_p],
}.items():
    getattr(lathe, name).argtypes = [*arguments, POINTER(Error)]
for name in ("lathe_module_close", "lathe_executor_destroy"):
    getattr(lathe, name).argtypes = [c_void_p]
    getattr(lathe, name).restype = None


def call(function, *arguments):
    error = Error()
    if function(*arguments, byref(error)) != 0:
        raise ValueError(error.message.decode())


class Module:
    """A compiled model and one executor of it."""

    def __init__(self, path, threads=1):
        self._module, self._executor, self._functions = c_void_p(), c_void_p(), {}
        call(lathe.lathe_module_open, path.encode(), 0, byref(self._module))
        call(lathe.lathe_executor_create, self._module, threads, byref(self._executor))
        model = ModuleInfo()
        call(lathe.lathe_module_describe, self._module, byref(model))
        self.inputs = [self._info(lathe.lathe_module_input, i) for i in range(model.inputs)]
        self.outputs = [self._info(lathe.lathe_module_output, i) for i in range(model.outputs)]

    def __del__(self):
        lathe.lathe_executor_destroy(self._executor)
        lathe.lathe_module_close(self._module)

    def _info(self, function, index):
        info = TensorInfo()
        call(function, self._module, index, byref(info))
        return info

    def set_function(self, name, function):
        """What the model calls by this name: function(inputs, outputs), lists of Tensor. It fails by raising."""
        def called(inputs, input_count, outputs, output_count, _, error):
            try:
                function(inputs[:input_count], outputs[:output_count])
                return 0
            except Exception as problem:  # none may pass through C
                error[0].message = str(problem).encode()[:1019]
                return 7  # LATHE_RUN_FAILED

        self._functions[name] = Function(called)  # has to stay as long as the executor
        call(lathe.lathe_executor_set_function, self._executor, name.encode(), self._functions[name], None)

    def run(self, inputs):
        """The outputs, as bytearrays in the model's order. `inputs`: one buffer for each name."""
        bound = []  # memory has to stay until the run is over
        for name, buffer in inputs.items():
            index, data = c_size_t(), memoryview(buffer).cast("B")
            call(lathe.lathe_module_find_input, self._module, name.encode(), byref(index))
            bound.append((c_char * len(data)).from_buffer_copy(data))
            call(lathe.lathe_executor_set_input, self._executor, index, bound[-1], len(data))
        outputs = [bytearray(info.bytes) for info in self.outputs]
        for i, output in enumerate(outputs):
            bound.append((c_char * len(output)).from_buffer(output))
            call(lathe.lathe_executor_set_output, self._executor, i, bound[-1], len(output))
        call(lathe.lathe_executor_run, self._executor)
        return outputs


def main(path, folder, *bindings):
    module = Module(path)
    inputs = {}
    for binding in bindings:
        name, _, file_name = binding.partition("=")
        with open(file_name, "rb") as file:
            inputs[name] = file.read()
    for i, output in enumerate(module.run(inputs)):
        info = module.outputs[i]
        print(f"{info.name.decode()}: {info.bytes} bytes, shape ({', '.join(map(str, info.shape[:info.rank]))})")
        with open(f"{folder}/output_{i}.bin", "wb") as file:
            file.write(output)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: run_module.py MODULE.lathe FOLDER [NAME=FILE ...]")
    try:
        main(*sys.argv[1:])
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
