#!/usr/bin/env bash
# Installs the runtime alone and builds and runs consumers against it, by CMake and, where there is one, by pkg-config.
#   check.sh BUILD_FOLDER BUNDLE [cmake option ...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1 bundle=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --component runtime --prefix "$work/prefix" >"$work/log"
[[ ! -e $work/prefix/bin && ! -e $work/prefix/include/mrcc/Bundle ]] # nothing of the compiler
cmake -S "$here" -B "$work/out" -DCMAKE_PREFIX_PATH="$work/prefix" "$@" >>"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/out" >>"$work/log" || { cat "$work/log"; exit 1; }
first=$("$work/out/consumer-c" "$bundle")
echo "$first"
[[ $first == "$("$work/out/consumer-cpp" "$bundle")" ]]
libraries=$(ldd "$work/out/consumer-c" "$work/out/consumer-cpp")
if grep -E "LLVM|MLIR|protobuf|not found" <<<"$libraries"; then
  exit 1 # `! grep` would not end the script
fi

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name mrcc-runtime.pc)")
  cc "$here/consumer.c" $(pkg-config --cflags --libs mrcc-runtime) -o "$work/by-pkg-config"
  [[ $first == "$(LD_LIBRARY_PATH=$(pkg-config --variable=libdir mrcc-runtime) "$work/by-pkg-config" "$bundle")" ]]
  echo "pkg-config works, too"
fi
