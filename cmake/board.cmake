# For boards everything is linked in but the C library, which loads what is measured (dlopen).
set(LATHE_FMT fmt::fmt-header-only)
add_compile_options(-ffunction-sections -fdata-sections)
add_link_options(-static-libstdc++ -static-libgcc -Wl,--gc-sections -s)

if(LATHE_BOARD STREQUAL "runtime")
  set(LATHE_BOARD_ROOMS core/support core/runtime)
  add_executable(run_module ${CMAKE_SOURCE_DIR}/docs/examples/run_module.c)
  target_link_libraries(run_module PRIVATE lathe_runtime_shared)
  return()
endif()

set(LATHE_BOARD_ROOMS core/support core/runtime tracker/wire workers cli)
set(Protobuf_USE_STATIC_LIBS ON)
set(Protobuf_PROTOC_EXECUTABLE /usr/bin/protoc)

function(static_library name)
  find_library(${name}_archive NAMES lib${name}.a REQUIRED)
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${${name}_archive})
endfunction()
foreach(name crypto sodium pgm norm protokit bsd md zmq)
  static_library(${name})
endforeach()
# Debian's ZeroMQ also speaks GSSAPI, which Debian has no archive of.
add_library(no_gssapi STATIC ${CMAKE_SOURCE_DIR}/cmake/no_gssapi.c)
set_target_properties(zmq PROPERTIES INTERFACE_LINK_LIBRARIES "sodium;pgm;norm;protokit;bsd;md;no_gssapi")
