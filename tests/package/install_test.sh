#!/bin/sh
# install_test.sh BUILD SOURCE: installs a build into a fresh prefix, moves it, and builds and runs the examples there.
set -eu
build=$1
source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/first" > "$folder/log" || { cat "$folder/log"; exit 1; }
mv "$folder/first" "$folder/prefix" # an installed tree knows no absolute path
cd "$folder/prefix"
libraries=$(dirname "$(find lib* -name liblathe-runtime.so)")
for file in bin/tune bin/lathe-runner include/lathe.h "$libraries/liblathe-runtime.so.0" "$libraries/pkgconfig/lathe-runtime.pc" \
  "$libraries/cmake/Lathe/LatheConfig.cmake" "$libraries/cmake/Lathe/LatheConfigVersion.cmake"; do
  [ -e "$file" ] || { echo "not installed: $file"; exit 1; }
done
if grep -rIl -e "$build" -e "$source" -e "$folder/first" include "$libraries"; then
  echo "which name folders of the build"
  exit 1
fi

export PKG_CONFIG_PATH="$folder/prefix/$libraries/pkgconfig"
export CMAKE_PREFIX_PATH="$folder/prefix"
export LD_LIBRARY_PATH="$folder/prefix/$libraries"
python3 "$source/tests/package/examples_agree.py" "$source/docs/examples" "$folder/prefix/bin/tune"

# A component that there is not is refused by CMake, with its name.
mkdir "$folder/project"
printf 'cmake_minimum_required(VERSION 3.16)\nproject(p C)\nfind_package(Lathe 0.1 REQUIRED COMPONENTS compiler)\n' \
  > "$folder/project/CMakeLists.txt"
if cmake -S "$folder/project" -B "$folder/project/build" > "$folder/log" 2>&1 || ! grep -q compiler "$folder/log"; then
  cat "$folder/log"
  exit 1
fi
