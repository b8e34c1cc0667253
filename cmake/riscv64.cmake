# Debian's cross compiler. Debian 12 has no libraries for riscv64; fmt and nlohmann-json are headers, found as this machine's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE riscv64-linux-gnu)
file(GLOB fmt_DIR /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake/fmt)
# Atomic bytes are functions there.
set(CMAKE_CXX_STANDARD_LIBRARIES -l:libatomic.a)
