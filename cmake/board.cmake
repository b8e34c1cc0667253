# For boards everything is linked in but the C library, which loads what is measured (dlopen).
set(Protobuf_USE_STATIC_LIBS ON)
set(Protobuf_PROTOC_EXECUTABLE /usr/bin/protoc)
set(LATHE_FMT fmt::fmt-header-only)
add_compile_options(-ffunction-sections -fdata-sections)

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
