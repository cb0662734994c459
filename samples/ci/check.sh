#!/usr/bin/env bash
# For a CI job: compile a model for a list of shapes, verify the bundle, run each shape and compare with recorded outputs.
# Tries all cases, then fails (1) if one of them mismatched; a model or shape that does not compile fails at once.
#
#   check.sh MODEL.onnx CASES BUNDLE [option of `mrcc compile` ...]
#
# CASES holds a folder for each case (record.py writes them): `shape`, a line as --shape takes it, and `args`, the arguments
# of `mrcc run`, a line each, with paths relative to the folder. MRCC names the tool, RTOL and ATOL the tolerances.
set -euo pipefail
(($# >= 3)) || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
model=$1 cases=$2 bundle=$(realpath -m "$3")
shift 3
mrcc=${MRCC:-mrcc}
[[ $mrcc != */* ]] || mrcc=$(realpath "$mrcc")

shapes=$(mktemp)
trap 'rm -f "$shapes"' EXIT
cat "$cases"/*/shape >"$shapes"

"$mrcc" compile --quiet "$model" --shapes-file "$shapes" -o "$bundle" "$@"
"$mrcc" verify --quiet "$bundle"

failed=()
for case in "$cases"/*/; do
  name=$(basename "$case")
  mapfile -t arguments <"$case/args"
  if (cd "$case" && "$mrcc" run --quiet "$bundle" "${arguments[@]}" --rtol "${RTOL:-1e-3}" --atol "${ATOL:-1e-4}"); then
    echo "ok   $name"
  else
    echo "FAIL $name"
    failed+=("$name")
  fi
done
if ((${#failed[@]})); then
  echo "check: ${#failed[@]} of $(cat "$shapes" | wc -l) cases differ: ${failed[*]}" >&2
  exit 1
fi
