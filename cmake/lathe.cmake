# The build's vocabulary: lathe_room, lathe_library, lathe_binary, lathe_test.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
find_program(CCACHE ccache)
if(CCACHE)
  # The compiler says what a file includes; to preprocess it for that as well makes a first build a tenth slower.
  # A precompiled header hides its macros and times from ccache, which must be told that this is known.
  # Paths are kept from the tree's root on, so that a second clone or worktree finds what the first one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_DEPEND=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # A source file's trees fit in memory: to collect garbage among them is a fifteenth of the time to compile it.
  add_compile_options(--param=ggc-min-heapsize=1048576)
endif()
# The linker that modules are linked with links Lathe, too: in a fifth of binutils' time, for a hundred programs.
find_program(LLD ld.lld PATHS /usr/lib/llvm-19/bin)
if(LLD AND NOT CMAKE_CROSSCOMPILING)
  get_filename_component(lld_folder ${LLD} DIRECTORY)
  add_link_options(-B${lld_folder} -fuse-ld=lld)
endif()
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -Wno-restrict -fno-semantic-interposition)
if(LATHE_SANITIZE)
  add_compile_options(-fsanitize=${LATHE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LATHE_SANITIZE})
endif()

if(LATHE_FUZZ)
  add_compile_options(-fsanitize-coverage=trace-pc)
endif()

include(GNUInstallDirs)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
set(LATHE_FMT fmt::fmt)
find_package(nlohmann_json 3.11 REQUIRED)

# A room is a folder with a CMakeLists.txt; rooms not written yet are skipped.
function(lathe_room folder)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    add_subdirectory(${folder})
  endif()
endfunction()

# lathe_precompile(target HEADER ...): read once for all files of the target. Sources include what they use all the same:
# sanitizer builds, boards and clang-tidy (tests/house/check.sh) compile them without.
function(lathe_precompile target)
  if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT LATHE_BOARD)
    list(TRANSFORM ARGN REPLACE "^[^<].*$" "\"\\0\"")
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# lathe_library(name SOURCES a.cpp ... DEPS lib ... [PRIVATE_DEPS lib ...] [PRECOMPILE header ...])
function(lathe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS;PRECOMPILE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  lathe_precompile(${name} ${ARG_PRECOMPILE})
endfunction()

# lathe_binary(name SOURCES a.cpp ... DEPS lib ... [PRECOMPILE header ... | PRECOMPILED_BY other binary])
function(lathe_binary name)
  cmake_parse_arguments(ARG "" "PRECOMPILED_BY" "SOURCES;DEPS;PRECOMPILE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  lathe_precompile(${name} ${ARG_PRECOMPILE})
  if(ARG_PRECOMPILED_BY AND CMAKE_BUILD_TYPE STREQUAL Release)
    target_precompile_headers(${name} REUSE_FROM ${ARG_PRECOMPILED_BY})
  endif()
endfunction()

# lathe_test(name SOURCES a_test.cpp ... DEPS lib ... [TIMEOUT seconds]): one gtest binary, one ctest entry;
# a sanitizer gets four times as long.
function(lathe_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  # A test spends its time in what it tests; compiling it is what its build spends.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  if(name STREQUAL support_test)
    lathe_precompile(support_test <algorithm> <gtest/gtest.h> <gmock/gmock.h> core/support/tensor.h core/support/error.h)
  elseif(CMAKE_BUILD_TYPE STREQUAL Release AND NOT "${ARG_SOURCES}" MATCHES "[.]c(;|$)")
    target_precompile_headers(${name} REUSE_FROM support_test)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(LATHE_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
