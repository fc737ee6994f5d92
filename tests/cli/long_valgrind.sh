#!/usr/bin/env bash
# A small run with saving and loading under valgrind: no invalid reads or writes, no leaks.
set -euo pipefail
: "${KVSHIFT:?names the command to test}"

skip() {
    echo "skipped: $*"
    exit 77
}

command -v valgrind >/dev/null || skip "valgrind is not installed"
if ldd "$KVSHIFT" | grep -qE 'lib(asan|tsan)' || grep -qa '__[at]san_init' "$KVSHIFT"; then
    skip "the command is built with a sanitizer"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Under valgrind the command does not execute itself again, which valgrind would refuse.
(unset OMP_WAIT_POLICY GOMP_SPINCOUNT && valgrind --quiet --error-exitcode=9 "$KVSHIFT" version >/dev/null)

export OMP_WAIT_POLICY=passive # threads that spin would take long
check() {
    # Threads of the OpenMP pool live to the end: their blocks are reachable, not lost.
    valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
        --show-leak-kinds=definite,indirect "$KVSHIFT" train --dim 32 --heads 4 --kv-heads 2 \
        --layers 2 --vocab 32 --pool 20 --max-length 20 --batch 12 --steps 2 --eval-sequences 16 \
        --threads 2 --quiet "$@"
}

for level in avx2 baseline reference; do
    "$KVSHIFT" version | grep -q "$level yes" || continue
    check --shift qkv --shift-window 2 --cpu-level "$level" --out "$work/$level"
    check --init-from "$work/$level" --accumulate 3 --loss all --cpu-level "$level"
    check --body gpt2 --shift-form channel --shift-window 3 --dropout 0.1 --cpu-level "$level"
    check --shift-form data --positions alibi --head none --sliding-window 4 --sliding-layers 1 \
        --sliding-heads 2 --cpu-level "$level"
done

# A resumed run, from a complete checkpoint and with a damaged one that is skipped.
check --checkpoint-every 1 --out "$work/run"
check --checkpoint-every 1 --steps 3 --resume --out "$work/run" 2>"$work/err"
! grep -q 'checkpoint.* skipped' "$work/err" || { cat "$work/err" && exit 1; }
echo >"$work/run/ckpt/step-00000003/model.safetensors"
check --checkpoint-every 1 --steps 4 --resume --out "$work/run" 2>"$work/err"
grep -q "1 damaged checkpoint skipped" "$work/err" || { cat "$work/err" && exit 1; }

valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
    "$KVSHIFT" inspect "$work/reference" >/dev/null
echo "passed"
