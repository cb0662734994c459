#!/usr/bin/env bash
# A test of check.sh: after one byte of a recorded output has changed it must fail with 1 and name the case.
#   mismatch.sh CASES CHECK...
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r "$1" "$folder/cases"
shift
last=$(($(stat -c %s "$folder/cases/case1/out0.npy") - 1)) # sign and exponent of the last value
printf '\xc2' | dd of="$folder/cases/case1/out0.npy" bs=1 seek="$last" conv=notrunc status=none
code=0
"$@" "$folder/cases" "$folder/bundle.mrcb" >"$folder/log" 2>&1 || code=$?
cat "$folder/log"
[[ $code == 1 ]] && grep -q "^FAIL case1" "$folder/log" && grep -q "^ok   case0" "$folder/log"
